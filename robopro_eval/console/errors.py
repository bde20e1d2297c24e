"""How a program ends: one sentence for a person, an exit code for a script.

Exit codes: 0 done, 1 the work failed, 2 the command was wrong, 130 interrupted by Ctrl-C (128 + SIGINT).
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

CTRL_C = "Ctrl-C"


class UserError(Exception):
    """Something a person can act on. The message is one sentence that names the thing and the way out."""

    exit_code = EXIT_FAILURE


class UsageError(UserError):
    """The command, a setting or an input file was wrong; nothing was started."""

    exit_code = EXIT_USAGE


def run_program(main: Callable[[], int], debug: bool = False) -> int:
    """Run ``main`` and return the exit code of the program.

    A :class:`UserError` becomes ``error: <sentence>`` on stderr and its exit code. Any other exception is our own
    fault or a broken installation: it becomes one sentence too and exit code 1. With ``debug`` the traceback is
    printed before the sentence. A ``KeyboardInterrupt`` may name the signal that it stands for. ``SystemExit`` (from
    ``--help``) passes through.
    """
    try:
        return main()
    except UserError as error:
        if debug:
            traceback.print_exc()
        _complain(str(error))
        return error.exit_code
    except KeyboardInterrupt as error:
        if debug:
            traceback.print_exc()
        _complain(f"interrupted by {str(error) or CTRL_C}")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Our reader (`| head`) went away: that is not worth a sentence, and flushing at exit must not raise again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILURE
    except Exception as error:
        if debug:
            traceback.print_exc()
        hint = "" if debug else " (run again with --debug for the traceback)"
        _complain(f"{type(error).__name__}: {error}{hint}")
        return EXIT_FAILURE


def _complain(sentence: str) -> None:
    with contextlib.suppress(OSError):  # the disk that stdout goes to may be what is full
        sys.stdout.flush()
    print(f"error: {sentence}", file=sys.stderr, flush=True)
