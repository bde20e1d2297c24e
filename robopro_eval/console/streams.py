"""The lines operators look for, whatever the locale."""

from __future__ import annotations

import io
import sys


def use_utf8() -> None:
    """Make stdout and stderr UTF-8, also under ``LC_ALL=C`` and into a pipe, so that a rocket never ends a run."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")


def say(line: str) -> None:
    """Print one line on stdout and flush it: a log file or a waiting script sees it at once."""
    print(line, flush=True)


def note(line: str) -> None:
    """Print one line for the operator on stderr, flushed; stdout stays for results."""
    print(line, file=sys.stderr, flush=True)
