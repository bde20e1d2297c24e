"""Who may be the model: with a token and with TLS, in both directions, and what a person is told."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import stock_peer
import trustme

from framing.errors import AuthenticationError, WireError
from framing.session import BYE, Features, ResponderSession
from robopro_eval.settings.program import parse_program
from robopro_eval.transport.auth import ModelAuth, refusal
from robopro_eval.transport.blocking import BlockingChannel
from robopro_eval.transport.security import LinkSecurity, secure
from sim_endpoint.cli import main
from sim_endpoint.connection import DialingLink, ListeningLink
from sim_endpoint.faults import NoModel
from sim_endpoint.greeting import Door
from sim_endpoint.preflight import prepare
from sim_endpoint.settings import SimSettings

TOKEN = b"a long secret that only two programs hold"
OURS = LinkSecurity(token=TOKEN)


class Model:
    """A model of ours in a thread: the exchange of tokens, then None to every request until goodbye."""

    def __init__(self, security: LinkSecurity, *, dial: int | None = None) -> None:
        self.security = security
        self.log: list[str] = []
        self._listener = None if dial else socket.create_server(("localhost", 0))
        self._dial = dial
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    @property
    def port(self) -> int:
        assert self._listener is not None
        return int(self._listener.getsockname()[1])

    def _run(self) -> None:
        if self._listener is None:
            sock = socket.create_connection(("localhost", self._dial))
        else:
            sock, _ = self._listener.accept()
            self._listener.close()
        listening = self._dial is None
        with BlockingChannel(secure(sock, self.security, listening=listening, host="localhost")) as channel:
            if self.security.token is not None and not self._prove(channel):
                return
            session = ResponderSession(Features("ours"))
            while self.log[-1:] != [BYE]:
                try:
                    request = session.receive(channel.receive(10.0))
                except WireError:
                    return
                self.log.append(request.cmd)
                channel.send(session.result(None), 10.0)

    def _prove(self, channel: BlockingChannel) -> bool:
        auth = ModelAuth(self.security.token or b"")
        while not auth.done:
            try:
                reply = auth.receive(channel.receive(10.0))
            except AuthenticationError as error:
                channel.send(refusal(str(error)), 10.0)
                return False
            except WireError:
                return False
            channel.send(reply, 10.0)
        return True

    def ended(self) -> bool:
        self.thread.join(10.0)
        return not self.thread.is_alive()


class Lines:
    def __init__(self) -> None:
        self.said: list[str] = []
        self.noted: list[str] = []


def door(security: LinkSecurity, **fields: Any) -> Door:
    base = {"port": 0, "sim_server_bind": "localhost", "sim_server_recv_timeout": 5.0, "connect_interval": 0.1}
    return Door(SimSettings(**base | {"sim_as_server": True} | fields), security)


def dialing(security: LinkSecurity, port: int, lines: Lines) -> DialingLink:
    chosen = door(security, sim_as_server=False, port=port, model_server_host="localhost", connect_attempts=2)
    return DialingLink(chosen, lines.said.append, lines.noted.append)


@pytest.fixture
def lines() -> Lines:
    return Lines()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tuple[LinkSecurity, LinkSecurity]:
    """(for the side that listens, for the side that dials), with each other's trust and the token on top."""
    folder = tmp_path_factory.mktemp("tls")
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(folder / "ca.pem"))
    issued = ca.issue_cert("localhost")
    issued.private_key_pem.write_to_path(str(folder / "key.pem"))
    for index, blob in enumerate(issued.cert_chain_pems):
        blob.write_to_path(str(folder / "cert.pem"), append=index > 0)
    server = LinkSecurity(TOKEN, cert=folder / "cert.pem", key=folder / "key.pem")
    return server, LinkSecurity(TOKEN, ca=folder / "ca.pem")


@pytest.fixture(params=["token", "token and TLS"])
def ends(request: pytest.FixtureRequest, certificates: tuple[LinkSecurity, LinkSecurity]) -> Any:
    return (OURS, OURS) if request.param == "token" else certificates


def test_both_directions(lines: Lines, ends: tuple[LinkSecurity, LinkSecurity]) -> None:
    listener, dialer = ends
    link = ListeningLink(door(listener), lines.said.append, lines.noted.append)
    link.open()
    port = int(lines.said[0].split("localhost:")[1].split(" ")[0])
    dials = Model(dialer, dial=port)
    listens = Model(listener)
    for connected in (link.connect(10.0), dialing(dialer, listens.port, lines).connect(None)):
        connected.call("anything")
        connected.close(goodbye=True)
    link.close()
    for model in (dials, listens):
        assert model.ended()
        assert model.log == ["reset_model", "anything", BYE], "the exchange of tokens is no request of a session"
    assert lines.noted == []


@pytest.fixture
def listening(lines: Lines) -> Iterator[tuple[ListeningLink, int]]:
    link = ListeningLink(door(OURS), lines.said.append, lines.noted.append)
    link.open()
    yield link, int(lines.said[0].split("localhost:")[1].split(" ")[0])
    link.close()


@pytest.mark.parametrize("stranger", ["stock", "other token"])
def test_a_model_without_the_token_is_turned_away_and_the_wait_goes_on(
    listening: tuple[ListeningLink, int], lines: Lines, stranger: str
) -> None:
    link, port = listening
    heard: list[str] = []
    if stranger == "stock":
        stock_peer.model_dialing(stock_peer.EchoPolicy(), "localhost", port, heard)
    else:
        Model(LinkSecurity(token=b"another secret, of another pair of programs"), dial=port)
    with pytest.raises(NoModel):
        link.connect(1.0)
    model = Model(OURS, dial=port)
    link.connect(10.0).close(goodbye=True)
    assert model.ended()
    turned_away = [line for line in lines.noted if "is turned away" in line]
    assert len(turned_away) == len(lines.noted) == 1
    assert re.match(r"note: a model is turned away: 127\.0\.0\.1:\d+: the model", turned_away[0])
    assert turned_away[0].count("127.0.0.1") == 1
    assert turned_away[0].endswith("still waiting for a model")
    assert TOKEN.decode() not in turned_away[0]
    assert heard in ([], ["__link_auth__"]), "nothing of the run was told it"


def test_dialing_a_model_with_another_token_ends_in_one_sentence(lines: Lines) -> None:
    model = Model(LinkSecurity(token=b"another secret, of another pair of programs"))
    with pytest.raises(NoModel, match="EVAL_LINK_TOKEN") as caught:
        dialing(OURS, model.port, lines).connect(None)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)
    assert caught.value.exit_code == 1
    assert model.log == []


def test_dialing_a_model_that_asks_for_a_token_we_do_not_have(lines: Lines) -> None:
    model = Model(OURS)
    with pytest.raises(NoModel, match="set the same EVAL_LINK_TOKEN for both programs"):
        dialing(LinkSecurity(), model.port, lines).connect(None)


# ---------------------------------------------------------------- the program
@pytest.fixture
def taken() -> Iterator[int]:
    """A port that cannot be listened on: the program says all it has to say before, and ends."""
    with socket.create_server(("0.0.0.0", 0)) as sock:
        yield int(sock.getsockname()[1])


@pytest.mark.parametrize(
    ("bind", "token", "warned"),
    [("0.0.0.0", None, True), ("localhost", None, False), ("0.0.0.0", TOKEN.decode(), False)],
)
def test_listening_to_everybody_is_warned_of(
    taken: int,
    bind: str,
    token: str | None,
    warned: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SIM_AS_SERVER", "1")
    monkeypatch.setenv("SIM_SERVER_BIND", bind)
    monkeypatch.delenv("EVAL_LINK_TOKEN", raising=False)
    if token is not None:
        monkeypatch.setenv("EVAL_LINK_TOKEN", token)
    assert main(["--port", str(taken)]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert sum("can connect: set EVAL_LINK_TOKEN" in line for line in lines) == warned
    assert lines[-1].startswith("error: ")
    assert TOKEN.decode() not in "\n".join(lines)


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"EVAL_LINK_TOKEN": "short"}, "fewer than 16 characters"),
        ({"EVAL_LINK_TLS_CERT": "cert.pem"}, "EVAL_LINK_TLS_KEY"),
        ({"EVAL_LINK_TOKEN_FILE": "nowhere"}, "nowhere"),
        ({"EVAL_LINK_TLS_CA": "nowhere.pem"}, "nowhere.pem"),
    ],
)
def test_secrets_that_cannot_work_are_refused_before_anything_starts(
    variables: dict[str, str], words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert main([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err.splitlines()[-1]


def test_the_token_is_in_no_manifest(tmp_path: Path) -> None:
    environ = {"EVAL_LINK_TOKEN": TOKEN.decode(), "RUNS_ROOT": str(tmp_path)}
    settings, usr_args = parse_program(SimSettings, [], environ, prog="eval-sim")
    prepared = prepare(settings, usr_args, environ)
    assert prepared.security.token == TOKEN
    folder = prepared.new_results()
    text = (folder.path / "manifest.json").read_text()
    assert TOKEN.decode() not in text
    assert json.loads(text)["settings_from"]["link_token"] == "environment variable EVAL_LINK_TOKEN"
    assert TOKEN.decode() not in repr(prepared)
