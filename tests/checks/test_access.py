"""The lines about who is let in, against servers that let in whom they should not; and the one about dialing again."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path

import pytest
from broken_servers import Connection, GoodServer
from certificates import Certificates

from framing.errors import AuthenticationError
from framing.frames import encode_frame
from robopro_eval.checks import access, link, replies, survival
from robopro_eval.checks.bench import Bench
from robopro_eval.checks.core import Finding, Verdict
from robopro_eval.checks.link import AcceptedLink, DialedLink, Link
from robopro_eval.checks.running import run
from robopro_eval.transport.addresses import Address
from robopro_eval.transport.auth import AUTH_COMMAND, ModelAuth, refusal
from robopro_eval.transport.security import LinkSecurity

TOKEN = b"0123456789abcdef0123456789abcdef"


class AsksForToken(GoodServer):
    """Correct."""

    def serve(self, conn: Connection) -> None:
        auth = ModelAuth(TOKEN)
        while not auth.done and (body := self.read(conn)) is not None:
            try:
                self.send(conn, auth.receive(body))
            except AuthenticationError as error:
                self.send(conn, refusal(str(error)))
                return
        super().serve(conn)


class ServesWhoeverShowsNone(AsksForToken):
    def serve(self, conn: Connection) -> None:
        if AUTH_COMMAND.encode() in conn.sock.recv(4096, socket.MSG_PEEK):
            super().serve(conn)
        else:
            GoodServer.serve(self, conn)


class TakesAnyProof(GoodServer):
    def serve(self, conn: Connection) -> None:
        auth = ModelAuth(TOKEN)
        while (body := self.read(conn)) is not None:
            try:
                self.send(conn, auth.receive(body))
            except AuthenticationError as error:
                if b"proof" not in body:
                    self.send(conn, refusal(str(error)))
                    return
                self.send(conn, encode_frame(b'{"res": "ok"}'))
                break
            if auth.done:
                break
        super().serve(conn)


class SpeaksTls(GoodServer):
    """Correct. `security` says with which certificate."""

    security: LinkSecurity

    def serve(self, conn: Connection) -> None:
        context = self.security.context(listening=True)
        with contextlib.suppress(OSError), context.wrap_socket(conn.sock, server_side=True) as conn.sock:
            super().serve(conn)


class SpeaksTlsToWhomItLikes(SpeaksTls):
    def serve(self, conn: Connection) -> None:
        if conn.sock.recv(1, socket.MSG_PEEK) == b"\x16":
            super().serve(conn)
        else:
            GoodServer.serve(self, conn)


def findings(to: Link, name: str) -> dict[str, Finding]:
    """Of the lines of who is let in, and of dialing again; `name` is the one looked for."""
    checks = [replies.CHECKS[0], *access.CHECKS, *(check for check in survival.CHECKS if check.name == "time.redial")]
    seen = {finding.check.name: finding for finding in run(Bench(to, GoodServer.patience), checks)}
    assert seen["reply.first"].verdict is Verdict.PASS, seen["reply.first"]
    assert {other for other, finding in seen.items() if finding.verdict is Verdict.FAIL} <= {name}
    return seen


@pytest.mark.parametrize(
    ("kind", "line", "verdict"),
    [
        (AsksForToken, "access.token", Verdict.PASS),
        (AsksForToken, "access.wrong_token", Verdict.PASS),
        (ServesWhoeverShowsNone, "access.token", Verdict.FAIL),
        (TakesAnyProof, "access.wrong_token", Verdict.FAIL),
    ],
)
def test_who_holds_no_token_or_another(kind: type[GoodServer], line: str, verdict: Verdict) -> None:
    with kind() as server:
        to = DialedLink(Address("localhost", server.port), LinkSecurity(token=TOKEN), wait=0.0)
        assert findings(to, line)[line].verdict is verdict


@pytest.mark.parametrize(("kind", "verdict"), [(SpeaksTls, Verdict.PASS), (SpeaksTlsToWhomItLikes, Verdict.FAIL)])
def test_who_comes_without_tls(kind: type[SpeaksTls], verdict: Verdict, tmp_path: Path) -> None:
    certificates = Certificates.make(tmp_path / "tls")
    server = kind()
    server.security = certificates.security("localhost", ca=False)
    with server:
        to = DialedLink(Address("localhost", server.port), certificates.security(None, ca=True), wait=0.0)
        assert findings(to, "access.tls")["access.tls"].verdict is verdict


def test_an_upgraded_model_that_does_not_dial_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "REDIAL_SECONDS", 0.2)
    with (
        contextlib.closing(AcceptedLink(Address("localhost", 0), LinkSecurity(), wait=60.0)) as to,
        GoodServer() as model,
    ):
        sock = socket.create_connection(("localhost", to.port))
        threading.Thread(target=model.serve_and_close, args=(sock,), daemon=True).start()
        redial = findings(to, "time.redial")["time.redial"]
    assert redial.verdict is Verdict.FAIL
    assert redial.detail == "the model's connection is over, and it did not dial again"
