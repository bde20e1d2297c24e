"""The checks against servers: a correct one fails none, each broken one fails the lines that are about its defect."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
import stock_peer
from broken_servers import BROKEN, GoodServer

from policies.echo.deploy_policy import Echo
from robopro_eval.checks.bench import Bench, meet
from robopro_eval.checks.catalogue import CHECKS
from robopro_eval.checks.core import CheckFailed, Finding, Verdict
from robopro_eval.checks.link import AcceptedLink, DialedLink, ProbeChannel
from robopro_eval.checks.running import run
from robopro_eval.transport.addresses import Address
from robopro_eval.transport.security import LinkSecurity

# The threads of servers die of what is sent to them; that is what is looked at.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")

AT_ONCE = 24
"""Servers that are checked side by side: a check mostly waits, but all share one interpreter."""

Checked = dict[object, Future[list[Finding]]]


def check(port: int, patience: float = GoodServer.patience) -> list[Finding]:
    bench = Bench(DialedLink(Address("localhost", port), LinkSecurity(), wait=0.0), patience)
    return list(run(bench, CHECKS))


def check_server(kind: type[GoodServer]) -> list[Finding]:
    with kind() as server:
        return check(server.port, server.patience)


def check_stock() -> list[Finding]:
    with stock_peer.model_server(Echo()) as port:
        return check(port)


@pytest.fixture(scope="module")
def findings() -> Iterator[Checked]:
    """Of every server, worked on side by side, those first that take longest."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {
            "stock": pool.submit(check_stock),
            **{kind: pool.submit(check_server, kind) for kind in (*reversed(BROKEN), GoodServer)},
        }


def failed(findings: list[Finding]) -> dict[str, str]:
    return {finding.check.name: finding.detail for finding in findings if finding.verdict is Verdict.FAIL}


def test_a_correct_server_fails_nothing(findings: Checked) -> None:
    seen = findings[GoodServer].result()
    assert failed(seen) == {}
    assert [finding.check for finding in seen] == list(CHECKS)
    assert {finding.check.name for finding in seen if finding.verdict is not Verdict.PASS} == {
        "session.wait_notice",  # it serves side by side
        "access.token",
        "access.wrong_token",
        "access.tls",
        "time.redial",
    }


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_a_broken_server_fails_the_line_about_its_defect(kind: type[GoodServer], findings: Checked) -> None:
    seen = findings[kind].result()
    assert set(failed(seen)) == BROKEN[kind], failed(seen)
    assert all(bool(finding.fix) == (finding.verdict is Verdict.FAIL) for finding in seen)


def test_every_line_has_a_server_that_fails_it() -> None:
    covered = set().union(*BROKEN.values())
    elsewhere = {"access.token", "access.wrong_token", "access.tls", "time.redial"}  # test_access.py
    assert {check.name for check in CHECKS} - covered - elsewhere == set()


def test_the_stock_server_fails_what_it_is_known_to_get_wrong(findings: Checked) -> None:
    seen = findings["stock"].result()
    assert set(failed(seen)) == {
        "frame.split_header",
        "frame.oversized",
        "session.two_interleaved",
        "error.private_names",
    }
    assert all(finding.verdict is not Verdict.SKIPPED for finding in seen if finding.check.name != "time.redial")


def test_a_run_begins_nothing_more_after_its_time() -> None:
    with GoodServer() as server:
        seen = list(
            run(Bench(DialedLink(Address("localhost", server.port), LinkSecurity(), wait=0.0)), CHECKS, seconds=0)
        )
    assert {finding.verdict for finding in seen} == {Verdict.SKIPPED}
    assert {finding.detail for finding in seen} == {"the run has taken 0 s"}


def test_a_check_that_gets_each_reply_just_in_time_still_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock moves by nine tenths of what a reply may take, each time something is awaited."""
    now = 0.0
    bench = Bench(DialedLink(Address("localhost", 1), LinkSecurity(), wait=0.0), 10.0)
    monkeypatch.setattr("robopro_eval.checks.bench.time.monotonic", lambda: now)
    bench.begin_check()
    allowed = []
    for _ in range(4):
        allowed.append(bench.patience())
        now += 9.0
    assert allowed == [10.0, 10.0, 10.0, 10.0]
    assert bench.patience() == 4.0
    now += 4.0
    with pytest.raises(CheckFailed, match="longer than 40 s altogether"):
        bench.patience()


def test_a_server_that_ends_with_its_first_connection_is_told_to_go_on_listening() -> None:
    class ServesOnce(GoodServer):
        def serve_and_close(self, sock: socket.socket) -> None:
            super().serve_and_close(sock)
            self.end()

    with ServesOnce() as server:
        seen = check(server.port)
    assert [finding.verdict for finding in seen[:2]] == [Verdict.PASS, Verdict.FAIL]
    assert {finding.verdict for finding in seen[2:]} == {Verdict.SKIPPED}


def test_the_time_of_the_first_reply_begins_when_the_model_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the model was waited for."""
    now = 0.0

    class LateLink(DialedLink):
        def open(self, security: LinkSecurity | None = None) -> ProbeChannel:
            nonlocal now
            now += 250.0
            ours, _ = socket.socketpair()
            return ProbeChannel(ours)

    monkeypatch.setattr("robopro_eval.checks.bench.time.monotonic", lambda: now)
    talk, patience = meet(
        LateLink(Address("localhost", 1), LinkSecurity(), wait=300.0), 60.0, lambda talk: talk.patience()
    )
    talk.channel.close()
    assert patience == 60.0


def test_a_server_of_http_is_recognised(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It waits for the end of a line, and says nothing until then: neither to it nor to the user."""
    monkeypatch.setattr("robopro_eval.checks.bench.SILENT_SECONDS", 0.1)
    with ThreadingHTTPServer(("localhost", 0), SimpleHTTPRequestHandler) as server:
        server.daemon_threads = True  # one still waits for the end of that line
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            found = check(server.server_port, 0.05)
        finally:
            server.shutdown()
            serving.join()
    assert found[0].verdict is Verdict.FAIL
    assert found[0].detail.startswith("no reply within 0.3 s, but an answer to a GET: ")
    assert "it speaks HTTP" in found[0].detail
    assert {finding.verdict for finding in found[1:]} == {Verdict.SKIPPED}
    assert "no answer yet" in capsys.readouterr().err


def test_a_port_scan_or_a_browser_is_not_the_model_that_was_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    link = AcceptedLink(Address("localhost", 0), LinkSecurity(), wait=60.0)
    with contextlib.closing(link):
        for _ in range(2):
            socket.create_connection(("localhost", link.port)).close()
        browser = socket.create_connection(("localhost", link.port))
        browser.sendall(b"GET / HTTP/1.1\r\n\r\n")
        stock_peer.model_dialing(Echo(), "localhost", link.port)
        talk, _ = meet(link, 60.0, lambda talk: talk.call("reset_model"))
        assert talk.call("echo", "it is me") == "it is me"
        talk.channel.close()
        browser.close()
    assert capsys.readouterr().err.count("still waiting for a model") == 3
