"""`eval-check` as a user runs it: real model programs in both directions, its words, its report and its exit codes."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import stock_peer
from broken_servers import GoodServer
from certificates import Certificates
from programs import BIN, NUDGE, Program, clean_environ, free_port

from policies.echo.deploy_policy import Echo
from robopro_eval.checks.catalogue import CHECKS
from robopro_eval.checks.check_cli import main
from robopro_eval.checks.report import write
from robopro_eval.checks.settings import CheckSettings, ReplaySettings, name_words
from robopro_eval.console.errors import UsageError
from robopro_eval.settings.program import parse_program

CHECK = [sys.executable, "-m", "robopro_eval.checks.check_cli"]
TOKEN = {"EVAL_LINK_TOKEN": "0123456789abcdef0123456789abcdef"}


def eval_check(*words: object, **environ: str) -> Program:
    return Program([*CHECK, *map(str, words)], env=clean_environ(**environ))


def verdicts(report: Path) -> dict[str, str]:
    return {line["name"]: line["verdict"] for line in json.loads(report.read_text("utf-8"))["lines"]}


@pytest.fixture(scope="module")
def echo_port() -> Iterator[int]:
    """`eval-model --policy_name echo`, listening; it asks for a token."""
    port = free_port()
    model = Program([BIN / "eval-model", "--policy_name", "echo", "--port", str(port)], env=clean_environ(**TOKEN))
    with model:
        model.wait_for("listening on")
        yield port


def test_our_model_program_passes_every_line(echo_port: int, tmp_path: Path) -> None:
    with eval_check(f"tcp://localhost:{echo_port}", "--report", tmp_path / "a.json", **TOKEN) as check:
        assert check.exit_code() == 0, check.output
    lines = check.output.splitlines()
    assert lines[-2].startswith(f"tcp://localhost:{echo_port} is an upgraded server of the policy 'echo': ")
    assert lines[-1] == "nothing failed"
    seen = verdicts(tmp_path / "a.json")
    assert list(seen) == [check.name for check in CHECKS]
    assert {name: verdict for name, verdict in seen.items() if verdict != "pass"} == {
        "session.wait_notice": "not offered",  # echo has new_session(): simulators are served side by side
        "access.tls": "not offered",
        "time.redial": "skipped",
    }


def test_over_tls_it_passes_every_line_too(tmp_path: Path) -> None:
    certificates, port = Certificates.make(tmp_path / "tls"), free_port()
    cert, key = certificates.issue("localhost")
    environ = clean_environ(EVAL_LINK_TLS_CERT=str(cert), EVAL_LINK_TLS_KEY=str(key))
    with Program([BIN / "eval-model", "--policy_name", "echo", "--port", str(port)], env=environ) as model:
        model.wait_for("listening on")
        words = [f"tcp://localhost:{port}", "--report", tmp_path / "a.json"]
        with eval_check(*words, EVAL_LINK_TLS_CA=str(certificates.ca)) as check:
            assert check.exit_code() == 0, check.output
        with eval_check(*words[:1]) as plain:
            assert plain.exit_code() == 1
    seen = verdicts(tmp_path / "a.json")
    assert seen["access.tls"] == seen["survival.garbage"] == seen["values.big_array"] == "pass"
    assert "fail" not in seen.values()
    assert "fix: set EVAL_LINK_TOKEN" in plain.output or "EVAL_LINK_TLS_CA" in plain.output


def test_without_the_token_nothing_is_served_and_the_fix_is_named(echo_port: int, tmp_path: Path) -> None:
    with eval_check(f"tcp://localhost:{echo_port}", "--report", tmp_path / "a.json") as check:
        assert check.exit_code() == 1
    assert "fix: set EVAL_LINK_TOKEN" in check.output
    seen = verdicts(tmp_path / "a.json")
    assert seen.pop("reply.first") == "fail"
    assert set(seen.values()) == {"skipped"}


def test_a_policy_without_sessions_tells_who_waits(tmp_path: Path) -> None:
    port = free_port()
    with Program([BIN / "eval-model", "--policy_name", NUDGE, "--port", str(port)]) as model:
        model.wait_for("listening on")
        with eval_check(f"tcp://localhost:{port}", "--report", tmp_path / "a.json") as check:
            assert check.exit_code() == 0, check.output
    seen = verdicts(tmp_path / "a.json")
    assert seen["session.wait_notice"] == "pass"
    assert seen["values.dtypes"] == "not offered"
    assert "serve --policy_name echo" in check.output


def test_a_model_that_dials_is_checked_and_told_goodbye(tmp_path: Path) -> None:
    words = ["--listen", "0", "--report", tmp_path / "a.json"]
    with eval_check(*words) as check:
        port = check.wait_for("waiting for a model to dial port").split()[-2]
        environ = clean_environ(MODEL_AS_CLIENT="1", SIM_SERVER_HOST="localhost", SIM_SERVER_PORT=port)
        dialing = [BIN / "eval-model", "--policy_name", "echo", "--model_client_retry_seconds", "0.2"]
        with Program(dialing, env=environ) as model:
            assert check.exit_code() == 0, check.output
            assert model.exit_code() == 0, model.output
    seen = verdicts(tmp_path / "a.json")
    assert seen["values.dtypes"] == seen["error.policy_survives"] == seen["time.redial"] == "pass"
    assert seen["survival.garbage"] == "skipped"
    assert "fail" not in seen.values()


def test_a_stock_model_that_dials_is_checked_until_its_first_error(tmp_path: Path) -> None:
    """A stranger has come and gone before."""
    with eval_check("--listen", "0", "--report", tmp_path / "a.json", "--method", "echo") as check:
        port = int(check.wait_for("waiting for a model to dial port").split()[-2])
        socket.create_connection(("localhost", port)).close()
        check.wait_for("still waiting for a model")
        stock_peer.model_dialing(Echo(), "localhost", port)
        assert check.exit_code() == 0, check.output
    report = json.loads((tmp_path / "a.json").read_text("utf-8"))
    assert report["peer"] == "stock"
    seen = verdicts(tmp_path / "a.json")
    assert seen["values.dtypes"] == seen["values.big_array"] == seen["error.unknown_method"] == "pass"
    assert seen["error.connection_survives"] == "skipped"


def test_a_text_that_is_no_utf8_does_not_lose_the_report(tmp_path: Path) -> None:
    """A server may name a file whose name is not: Python writes its bytes as half characters, and so does JSON."""
    write(tmp_path / "a.json", {"detail": "caf\udce9.pt"})
    assert json.loads((tmp_path / "a.json").read_text("utf-8")) == {"detail": "caf\udce9.pt"}


def test_the_report_is_what_the_page_describes(tmp_path: Path) -> None:
    class Failing(GoodServer):
        def changed(self, conn: Any, request: Any, value: object) -> object:
            return None if request.cmd == "recall" else value

    with Failing() as server, eval_check(f"tcp://localhost:{server.port}", "--report", tmp_path / "a.json") as check:
        assert check.exit_code() == 1
    report = json.loads((tmp_path / "a.json").read_text("utf-8"))
    assert report["schema"] == "robopro-eval/check/1"
    assert (report["peer"], report["policy"], report["ok"]) == ("upgraded", "echo", False)
    assert report["counts"]["fail"] == 2
    (line,) = [line for line in report["lines"] if line["name"] == "session.reset_forgets"]
    assert set(line) == {"name", "proves", "verdict", "detail", "fix", "seconds"}
    assert line["verdict"] == "fail"
    assert line["fix"]
    assert check.output.splitlines()[-1] == "failed: session.reset_forgets, session.two_interleaved"


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["tcp://localhost:1"], 1, "could not connect to localhost:1 (connection refused)"),
        ([], 2, "give one of tcp://HOST:PORT (a server that listens) and --listen PORT"),
        (["tcp://localhost:1", "--listen", "2"], 2, "give one of"),
        (["http://localhost:1"], 2, "'http://localhost:1' is not tcp://HOST:PORT"),
        (["tcp://localhost"], 2, "names no port"),
        (["tcp://localhost:99999"], 2, "'99999' is not a port"),
        (["localhost:1"], 2, "'localhost:1' is not understood; a server is written tcp://HOST:PORT"),
        (["tcp://localhost:1", "--overrides", "--a", "1"], 2, "unknown setting --overrides"),
        (["tcp://localhost:1", "--report", "/no/such/folder/a.json"], 2, "there is no folder /no/such/folder"),
        (["tcp://localhost:1", "--timeout", "0"], 2, "--timeout"),
        (["tcp://localhost:1", "--link_tls_cert", "a.pem"], 2, "EVAL_LINK_TLS_KEY"),
    ],
)
def test_what_cannot_be_checked_is_said_in_one_sentence(
    words: list[str], code: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == code
    out, err = capsys.readouterr()
    (line,) = (out + err).splitlines()
    assert line.startswith("error: ")
    assert sentence in line


def test_a_server_that_accepts_and_never_answers_ends_the_run(tmp_path: Path) -> None:
    with (
        socket.create_server(("localhost", 0)) as silent,
        eval_check(f"tcp://localhost:{silent.getsockname()[1]}", "--timeout", "0.1") as check,
    ):
        assert check.exit_code() == 1
    lines = check.output.splitlines()
    assert lines[0].startswith("fail")
    assert lines[-1] == "failed: reply.first"
    assert lines[2] == f"skipped      reply.one to {CHECKS[-1].name} ({len(CHECKS) - 1} lines): reply.first failed"


def test_ctrl_c_ends_it_at_once() -> None:
    with (
        socket.create_server(("localhost", 0)) as silent,
        eval_check(f"tcp://localhost:{silent.getsockname()[1]}", "--timeout", "600") as check,
    ):
        sock, _ = silent.accept()
        with sock:
            check.ctrl_c()
            assert check.exit_code(20) == 130
    assert check.output == "error: interrupted by Ctrl-C"


def test_a_server_that_is_still_loading_can_be_waited_for() -> None:
    port = free_port()
    with (
        eval_check(f"tcp://localhost:{port}", "--wait", "60", "--timeout", "0.1") as check,
        socket.create_server(("localhost", port)) as late,
    ):
        late.accept()[0].close()
        assert check.exit_code() == 1
    assert check.output.startswith("fail         reply.first: the peer at 127.0.0.1:")  # it came, and left


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["tcp://a:1"], {"server": "tcp://a:1"}),
        (["--timeout", "3", "tcp://a:1"], {"server": "tcp://a:1", "timeout": 3.0}),
        (["--server", "tcp://a:1"], {"server": "tcp://a:1"}),
        (["--listen=5", "--method", "f"], {"listen": "5", "method": "f"}),
    ],
)
def test_words_without_a_flag(argv: list[str], expected: Mapping[str, object]) -> None:
    settings, _ = parse_program(CheckSettings, name_words(argv), {}, has_policy=False)
    assert settings.model_dump(include=set(expected)) == expected


def test_the_recording_comes_before_the_server() -> None:
    settings, _ = parse_program(ReplaySettings, name_words(["a.recording", "tcp://a:1", "--all"], "file"), {})
    assert (settings.file, settings.server, settings.all) == ("a.recording", "tcp://a:1", True)
    with pytest.raises(UsageError, match="'b' is not understood"):
        name_words(["a", "b"], "file")
