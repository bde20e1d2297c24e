"""``eval-model`` as a real process."""

from __future__ import annotations

import os
import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Program:
    """``eval-model`` as a process, its lines as they come."""

    def __init__(self, arguments: Sequence[str], cwd: Path, script: Sequence[str] = (), **environ: str) -> None:
        command = [sys.executable, *(script or ("-m", "model_endpoint.cli")), *arguments]
        env = {key: value for key, value in os.environ.items() if not key.startswith(("MODEL_", "SIM_", "PYTHONIO"))}
        env |= {"LC_ALL": "C", "PYTHONPATH": str(ROOT), "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", **environ}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd, env=env
        )
        self.out: list[str] = []
        self.err: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()  # None at the end
        self._readers = [
            threading.Thread(target=self._read, args=(self.process.stdout, self.out, True), daemon=True),
            threading.Thread(target=self._read, args=(self.process.stderr, self.err, False), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, stream: object, into: list[str], announce: bool) -> None:
        for raw in stream:  # type: ignore[attr-defined]
            line = raw.decode("utf-8").rstrip("\n")
            into.append(line)
            if announce:
                self._lines.put(line)
        if announce:
            self._lines.put(None)

    def line(self, start: str) -> str:
        """The next line on stdout that starts so."""
        deadline = time.monotonic() + 60
        while True:
            try:
                line = self._lines.get(timeout=max(0.01, deadline - time.monotonic()))
            except queue.Empty:
                line = None
            if line is None:
                raise AssertionError(f"no line {start!r}, but {self.out} and {self.err}")
            if line.startswith(start):
                return line

    def port(self) -> int:
        match = re.fullmatch(
            r"🚀 Model server listening on localhost:(\d+) — waiting for simulator to connect\.\.\.",
            self.line("🚀"),
        )
        assert match is not None
        return int(match[1])

    def end(self, timeout: float = 60.0) -> int:
        code = self.process.wait(timeout)
        for reader in self._readers:
            reader.join(5)
        return code
