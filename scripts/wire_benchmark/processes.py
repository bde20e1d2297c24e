"""The programs of one arm: started, spoken to, and never left behind.

Every program runs under a tether: the kernel kills it when this process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

from robopro_eval.console.errors import UserError
from wire_benchmark import linux
from wire_benchmark.arms import Arm

SCRIPTS = Path(__file__).resolve().parent.parent
REPO = SCRIPTS.parent
POLICY = SCRIPTS / "wire_benchmark" / "policy"

READY_SECONDS = 60.0
"""A program that imports torch-free code and listens needs two seconds; a loaded machine ten times that."""

ORDER_SECONDS = 120.0
"""A block of steps takes well under a second; one that takes this long never ends."""

STOP_SECONDS = 5.0

_TETHER = (
    "import ctypes, os, signal, sys\n"
    "ctypes.CDLL(None).prctl(1, signal.SIGKILL)\n"  # PR_SET_PDEATHSIG
    "os.getppid() == int(sys.argv[1]) or os._exit(1)\n"
    "os.execv(sys.argv[2], sys.argv[2:])\n"
)
_READY = re.compile(r"(?:READY |listening on localhost:)([0-9]+)")


class ArmFailed(UserError):
    """A program of an arm ended, hung or complained."""


@dataclass(frozen=True)
class Environments:
    """The interpreters: ours, and the one that has the foreign packages (None where it was not set up)."""

    ours: str = sys.executable
    foreign: str | None = None

    def python(self, arm: Arm) -> str:
        if not arm.foreign:
            return self.ours
        assert self.foreign is not None
        return self.foreign


class Program:
    """One child process with piped stdin and stdout; its stderr is kept for when it fails.

    A driver ends when its stdin does; anything else is told to by SIGTERM.
    """

    def __init__(self, name: str, command: Sequence[str], *, is_driver: bool = False) -> None:
        self.name = name
        self._is_driver = is_driver
        self._complaints: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-c", _TETHER, str(os.getpid()), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            env=_environment(),
            start_new_session=True,  # Ctrl-C is for this program alone, which then stops them
        )
        self._unread = b""

    @property
    def pid(self) -> int:
        return self._process.pid

    def line(self, seconds: float) -> str:
        """The next line of its stdout. Raises ArmFailed if it ended or none comes in time."""
        assert self._process.stdout is not None
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._unread:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise ArmFailed(f"{self.name} said nothing for {seconds:g} s{self._last_words()}")
                piece = os.read(self._process.stdout.fileno(), 1 << 16)
                if not piece:
                    raise ArmFailed(f"{self.name} ended{self._last_words()}")
                self._unread += piece
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode("utf-8", "replace")

    def port(self) -> int:
        """The port that it says it listens on."""
        deadline = time.monotonic() + READY_SECONDS
        while True:
            found = _READY.search(self.line(max(0.0, deadline - time.monotonic())))
            if found:
                return int(found.group(1))

    def order(self, do: str, **rest: object) -> dict[str, object]:
        """Give a driver an order; its answer."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # then the next line tells why
            self._process.stdin.write(json.dumps({"do": do, **rest}).encode() + b"\n")
            self._process.stdin.flush()
        answer: dict[str, object] = json.loads(self.line(ORDER_SECONDS))
        return answer

    def stop(self) -> None:
        """End it, with increasing force."""
        with contextlib.suppress(BrokenPipeError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        ends = [self._process.terminate, self._process.kill]
        for end in [lambda: None, *ends] if self._is_driver else ends:
            end()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_SECONDS)
                break
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._complaints.close()

    def _last_words(self) -> str:
        self._complaints.seek(0)
        lines = self._complaints.read().decode("utf-8", "replace").split("\n")
        words = [line.strip() for line in lines if line.strip()]
        return f": {words[-1]}" if words else ""


class Pair:
    """Both programs of one arm with one payload, connected and idle.

    `notes`: run both with notes of what they pass (see `stages`), written into these files, by role.
    """

    def __init__(
        self, arm: Arm, payload: str, environments: Environments, *, notes: Mapping[str, Path] | None = None
    ) -> None:
        self.arm = arm
        self._programs: list[Program] = []
        serve, drive = ["wire_benchmark.serve", arm.server, payload], ["wire_benchmark.drive"]
        if arm.server == "eval-model":
            serve = ["model_endpoint.cli"]
        if notes is not None:
            serve = ["wire_benchmark.stages", str(notes["model"]), "model"]
            drive = ["wire_benchmark.stages", str(notes["simulator"]), "simulator"]
        if arm.server == "eval-model":
            serve += ["--port", "0", "--policy_name", str(POLICY), "--overrides", "--compute_ms", str(arm.policy_ms)]
        python = [environments.python(arm), "-m"]
        try:
            self.server = self._start("model", python + serve)
            port = str(self.server.port())
            if arm.delay_ms:
                relay = [environments.ours, "-m", "wire_benchmark.relay", port, str(arm.delay_ms)]
                port = str(self._start("network", relay).port())
            self.client = self._start("simulator", [*python, *drive, arm.client, port, payload])
            self.client.order("connect")
        except BaseException:
            self.stop()
            raise

    def _start(self, role: str, command: Sequence[str]) -> Program:
        program = Program(f"the {role} of arm {self.arm.name!r}", command, is_driver=role == "simulator")
        self._programs.append(program)
        return program

    def cpu_seconds(self) -> float:
        """CPU time of the model's side so far."""
        return linux.cpu_seconds(self.server.pid)

    def stop(self) -> None:
        for program in reversed(self._programs):
            program.stop()

    def __enter__(self) -> Pair:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _environment() -> dict[str, str]:
    """The programs import this repository's rooms, this package and the stock peer; no proxy stands on loopback."""
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    paths = [REPO, SCRIPTS, REPO / "tests"]
    return environment | {"PYTHONPATH": os.pathsep.join(map(str, paths)), "PYTHONUNBUFFERED": "1"}
