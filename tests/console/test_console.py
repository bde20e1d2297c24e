"""How a program ends and what it shows."""

import io
import subprocess
import sys

import pytest

from robopro_eval.console.errors import UsageError, UserError, run_program
from robopro_eval.console.progress import RunProgress
from robopro_eval.console.tables import seconds, two_columns


def raising(error: BaseException) -> int:
    raise error


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (UsageError("no such task"), 2, "error: no such task\n"),
        (UserError("model gone"), 1, "error: model gone\n"),
        (KeyboardInterrupt(), 130, "error: interrupted by Ctrl-C\n"),
        (KeyboardInterrupt("SIGTERM"), 130, "error: interrupted by SIGTERM\n"),
    ],
)
def test_exit_codes(error: BaseException, code: int, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_program(lambda: raising(error)) == code
    assert capsys.readouterr().err == sentence


def test_our_own_fault_is_one_sentence_unless_debug(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_program(lambda: raising(RuntimeError("boom"))) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert run_program(lambda: raising(RuntimeError("boom")), debug=True) == 1
    assert "Traceback" in capsys.readouterr().err


def test_utf8_under_c_locale() -> None:
    code = "from robopro_eval.console.streams import say, use_utf8; use_utf8(); say('\\U0001f680 listening \\u2014 ok')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode("utf-8") == "🚀 listening — ok\n"


def test_lines_that_nobody_reads_any_more_end_no_program() -> None:
    """The reader of a pipe has gone, of both streams: `eval-model 2>&1 | tee log` and tee was killed."""
    code = """
import os, sys
from robopro_eval.console.progress import RunProgress
from robopro_eval.console.streams import note, say
progress = RunProgress("put_cup_in_box", 2)
reader, writer = os.pipe()
kept = os.dup(1)
for stream in (1, 2):
    os.dup2(writer, stream)
os.close(reader), os.close(writer)
for _ in range(2):
    say("to nobody"), note("to nobody"), progress.line("to nobody")
os.write(kept, b"still here")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert (done.returncode, done.stdout) == (0, b"still here")


def test_plain_progress_lines() -> None:
    out = io.StringIO()
    with RunProgress("put_cup_in_box", 5, stream=out) as progress:
        progress.scored(40000, True, 88)
        progress.scored(40001, False, 600, "step_limit")
    assert out.getvalue().splitlines() == [
        "[1/5] put_cup_in_box seed 40000: SUCCESS (steps=88) SR 1/1",
        "[2/5] put_cup_in_box seed 40001: FAIL (steps=600, step_limit) SR 1/2",
    ]


SHOW_CURSOR = "\x1b[?25h"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_bar_and_the_lines() -> None:
    out = Terminal()
    with RunProgress("put_cup_in_box", 2, stream=out) as progress:
        progress.status("seed 40000 step 3")
        progress.scored(40000, True, 88)
    assert "SUCCESS (steps=88)" in out.getvalue()
    assert "SR 1/1 = 100 %" in out.getvalue()


def test_the_terminal_is_given_back_before_the_end_too() -> None:
    out = Terminal()
    with RunProgress("put_cup_in_box", 2, stream=out) as progress:
        assert out.getvalue().count(SHOW_CURSOR) == 0
        progress.stop()
        assert out.getvalue().count(SHOW_CURSOR) == 1


def test_table_lines_up() -> None:
    text = two_columns("Run", [("SR", "1/2"), ("mean steps", "88")])
    assert text.splitlines()[2:4] == ["SR          1/2", "mean steps  88"]
    assert [seconds(3.21), seconds(245), seconds(7400)] == ["3.2 s", "4 min 05 s", "2 h 03 min"]
