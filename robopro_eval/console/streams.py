"""The lines operators look for, whatever the locale."""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO


def use_utf8() -> None:
    """Make stdout and stderr UTF-8, also under ``LC_ALL=C`` and into a pipe, so that a rocket never ends a run."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")


def say(line: str) -> None:
    """Print one line on stdout and flush it: a log file or a waiting script sees it at once."""
    show(line, sys.stdout)


def note(line: str) -> None:
    """Print one line for the operator on stderr, flushed; stdout stays for results."""
    show(line, sys.stderr)


def show(line: str, stream: TextIO) -> None:
    """Print one line on ``stream``, flushed. What is served or evaluated goes on where nobody reads the lines any more:
    a `tee` that was ended, a terminal that was closed."""
    try:
        print(line, file=stream, flush=True)
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())  # also for the flush at the end, which would spoil the exit code
        os.close(nowhere)
