"""``eval-sim``: the entry point."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from robopro_eval.console.errors import run_program
from robopro_eval.console.streams import use_utf8
from sim_endpoint.fresh_process import Launch


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of ``eval-sim``; returns the exit code. Given `argv` it runs inside another program, which it will
    not replace by a fresh process when the simulator fails."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    launch = Launch(os.environ) if argv is None else None
    use_utf8()
    return run_program(lambda: _run(arguments, launch), debug="--debug" in arguments)


def _run(arguments: list[str], launch: Launch | None) -> int:
    from sim_endpoint.program import run  # takes a while: Ctrl-C meanwhile is Ctrl-C all the same

    return run(arguments, launch)
