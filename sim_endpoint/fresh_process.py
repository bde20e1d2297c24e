"""Going on in a fresh process, because a simulator that has crashed or hangs leaves nothing in this one to rely on.

The results folder holds everything that is needed: what was scored, and how often each seed was tried. So this program
starts itself anew in its own place (same process id, command and environment) and is told which folder to go on with.
The connection to the model ends with the old program; the model is dialed, or dials, again.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

CONTINUE = "ROBOPRO_EVAL_CONTINUE"
"""Set by this program for itself alone: ``<attempts before>:<results folder>``."""


@dataclass(frozen=True)
class Continuation:
    """What the fresh process goes on with.

    ``attempts_before`` counts the lines of ``_attempts.jsonl`` from before the run that a person started: attempts
    after them are the ones that count against ``--max_attempts``.
    """

    folder: Path
    attempts_before: int

    @classmethod
    def take(cls, environ: MutableMapping[str, str]) -> Continuation | None:
        """Where this process is to go on; None in one that a person started. Its children do not inherit it."""
        count, _, folder = environ.pop(CONTINUE, "").partition(":")
        return cls(Path(folder), int(count)) if folder and count.isdecimal() else None

    @property
    def text(self) -> str:
        return f"{self.attempts_before}:{self.folder.absolute()}"


class FreshProcessNeeded(Exception):
    """The environment failed, and the attempt is on record: the run goes on elsewhere."""

    def __init__(self, continuation: Continuation) -> None:
        super().__init__("the simulator failed; a fresh process goes on")
        self.continuation = continuation


class Launch:
    """How this program was started, remembered before a policy or a simulator can change it."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._command = [sys.executable, *sys.orig_argv[1:]]
        self._folder = os.getcwd()
        self._environ = {name: value for name, value in environ.items() if name != CONTINUE}

    def again(self, continuation: Continuation) -> NoReturn:
        """Replace this process, from whichever thread. Returns only by raising OSError."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        _keep_no_descriptor()
        os.chdir(self._folder)
        os.execve(self._command[0], self._command, {**self._environ, CONTINUE: continuation.text})


def _keep_no_descriptor() -> None:
    """Compiled libraries open files that would outlive them: graphics devices, caches."""
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc/self/fd"):
            if int(name) > 2:
                with contextlib.suppress(OSError):  # the listing's own, closed by now
                    os.set_inheritable(int(name), False)
