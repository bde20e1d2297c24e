"""Who is let in: the token and TLS at the model's door, and what is said of those who stay outside."""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio
import trustme
from model_helpers import Counter, InPlace, counting_policy

from framing.codec import json_to_numpy, numpy_to_json
from framing.errors import AuthenticationError, PeerGone
from framing.session import Reply, RequesterSession
from model_endpoint import logs, program
from model_endpoint.serving import Service
from model_endpoint.settings import ModelSettings
from robopro_eval.console.errors import UsageError, UserError
from robopro_eval.transport.addresses import Address
from robopro_eval.transport.blocking import BlockingChannel
from robopro_eval.transport.security import LinkSecurity, authenticate, secure

TOKEN = LinkSecurity.from_values(token="a long and random secret")
OTHER = LinkSecurity.from_values(token="another secret altogether")
NONE = LinkSecurity()


class Door:
    """A service with `security`, and the model behind it."""

    def __init__(self, security: LinkSecurity) -> None:
        self.model: Counter
        self.model, policy = counting_policy()
        self.said: list[str] = []
        self.service = Service(
            InPlace(policy), policy.name, policy.has_sessions, self.said.append, self.said.append, security=security
        )
        self.ended: UserError | None = None

    @property
    def port(self) -> int:
        return int(self.said[0].split(" — ")[0].rpartition(":")[2])

    async def listen(self) -> None:
        await self.service.listen(Address("localhost", 0))

    async def dial(self, address: Address) -> None:
        try:
            await self.service.dial(address, attempts=1, interval=0.001)
        except UserError as error:
            self.ended = error


@asynccontextmanager
async def listening(security: LinkSecurity) -> AsyncIterator[Door]:
    logs.set_up(0)
    door = Door(security)
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(door.listen)
            while not door.said:
                await trio.sleep(0.001)
            yield door
            nursery.cancel_scope.cancel()


async def dialed(security: LinkSecurity, simulate: Callable[[socket.socket], None]) -> Door:
    """A model that dials a simulator, which does `simulate` with each connection; after it has ended."""
    door = Door(security)
    with socket.create_server(("localhost", 0)) as listener, trio.fail_after(60):
        listener.settimeout(60)
        address = Address("localhost", listener.getsockname()[1])

        def serve() -> None:
            while True:
                try:
                    sock, _ = listener.accept()
                except OSError:
                    return
                with sock:
                    simulate(sock)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, serve)
            await door.dial(address)
            listener.shutdown(socket.SHUT_RDWR)
    return door


def act(sock: socket.socket, security: LinkSecurity, host: str | None = "localhost", listening: bool = False) -> object:
    """A simulator's connection: secured, authenticated, one episode's worth of calls, goodbye."""
    channel, wire = BlockingChannel(secure(sock, security, listening=listening, host=host)), RequesterSession()
    authenticate(channel, security, "the model")
    values = []
    for frame in (lambda: wire.request("reset_model"), lambda: wire.request("add", [1, 2]), wire.bye):
        channel.send(frame(), 60)
        reply = wire.receive(channel.receive(60))
        assert isinstance(reply, Reply)
        values.append(reply.value)
    channel.close()
    return values[1]


async def in_thread(door: Door, security: LinkSecurity) -> object:
    return await trio.to_thread.run_sync(lambda: act(socket.create_connection(("localhost", door.port)), security))


async def test_one_with_the_token_is_served(capsys: pytest.CaptureFixture[str]) -> None:
    async with listening(TOKEN) as door:
        assert await in_thread(door, TOKEN) == 3
    assert door.said[1].startswith("🔗 Simulator connected from ")
    text = capsys.readouterr().err
    assert "secret" not in text + "".join(door.said)


async def test_a_stock_simulator_is_told_in_its_words_and_costs_a_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def stock() -> dict[str, object]:
        with socket.create_connection(("localhost", door.port)) as sock, sock.makefile("rwb") as file:
            body = numpy_to_json({"cmd": "reset_model", "obs": None})
            file.write(struct.pack(">I", len(body)) + body)
            file.flush()
            reply = json_to_numpy(file.read(struct.unpack(">I", file.read(4))[0]))
            assert file.read() == b""
            assert isinstance(reply, dict)
            return reply

    async with listening(TOKEN) as door:
        reply = await trio.to_thread.run_sync(stock)
        assert "EVAL_LINK_TOKEN" in str(reply["error"])
        assert await in_thread(door, TOKEN) == 3
    text = capsys.readouterr().err
    assert text.count("level=warning") == 1
    assert 'event="a peer was not let in"' in text
    assert door.model.heard == ["reset"]
    assert len(door.said) == 2  # nobody else is said to have connected


async def test_a_wrong_token_costs_one_line_and_names_neither(capsys: pytest.CaptureFixture[str]) -> None:
    async with listening(TOKEN) as door:
        with pytest.raises(AuthenticationError):
            await in_thread(door, OTHER)
        assert await in_thread(door, TOKEN) == 3
    text = capsys.readouterr().err
    assert text.count("level=warning") == 1
    assert "EVAL_LINK_TOKEN" in text
    assert "secret" not in text
    assert door.service.tally.simulators == 1


async def test_one_that_says_nothing_keeps_nobody_outside() -> None:
    async with listening(TOKEN) as door:
        with socket.create_connection(("localhost", door.port)):
            assert await in_thread(door, TOKEN) == 3


async def test_strangers_push_out_nobody_who_has_shown_the_token() -> None:
    async with listening(TOKEN) as door:
        door.service.max_connections = 3
        sock = await trio.to_thread.run_sync(socket.create_connection, ("localhost", door.port))
        channel = BlockingChannel(sock)
        await trio.to_thread.run_sync(authenticate, channel, TOKEN, "the model")
        strangers = [socket.create_connection(("localhost", door.port)) for _ in range(5)]
        for closed in strangers[:3]:
            assert await trio.to_thread.run_sync(closed.recv, 1) == b""
        wire = RequesterSession()
        channel.send(wire.request("reset_model"), 60)
        reply = wire.receive(await trio.to_thread.run_sync(channel.receive, 60))
        assert isinstance(reply, Reply)
        for each in (channel, *strangers):
            each.close()


async def test_a_model_without_a_token_says_so_to_one_that_asks(capsys: pytest.CaptureFixture[str]) -> None:
    async with listening(NONE) as door:
        with pytest.raises(AuthenticationError, match=r"the model knows of no token \('[^']* or none'\): start"):
            await in_thread(door, TOKEN)
        assert await in_thread(door, NONE) == 3
    text = capsys.readouterr().err
    assert text.count("level=warning") == 1
    assert "the simulator asks for a token and this model has none" in text
    assert door.model.heard == ["reset"]


async def test_dialing_with_the_token_serves_until_goodbye() -> None:
    answers: list[object] = []
    door = await dialed(TOKEN, lambda sock: answers.append(act(sock, TOKEN)))
    assert door.ended is None
    assert answers == [3]


async def test_dialing_a_simulator_without_the_token_ends_with_a_line() -> None:
    def stock(sock: socket.socket) -> None:
        body = numpy_to_json({"cmd": "reset_model", "obs": None})
        sock.sendall(struct.pack(">I", len(body)) + body)
        assert b"EVAL_LINK_TOKEN" in sock.recv(4096)

    door = await dialed(TOKEN, stock)
    assert door.ended is not None
    assert str(door.ended).startswith("the simulator at localhost:")
    assert "EVAL_LINK_TOKEN" in str(door.ended)
    assert door.ended.exit_code == 1
    assert door.model.heard == []


async def test_dialing_a_simulator_that_asks_for_a_token_ends_with_a_line() -> None:
    def ask(sock: socket.socket) -> None:
        with pytest.raises(AuthenticationError):
            act(sock, TOKEN)

    door = await dialed(NONE, ask)
    assert door.ended is not None
    assert re.fullmatch(r"the simulator at \S+ cannot be served: the simulator asks for a token .*", str(door.ended))
    assert door.ended.exit_code == 1


async def test_a_dialed_simulator_that_keeps_going_away_is_given_up() -> None:
    seen: list[socket.socket] = []
    door = await dialed(TOKEN, seen.append)
    assert len(seen) == 5
    assert "5 times in a row" in str(door.ended)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> LinkSecurity:
    """For either side: a certificate for localhost, and the CA that signed it."""
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    return LinkSecurity.from_values(
        token="a long and random secret",
        cert=folder / "cert.pem",
        key=folder / "key.pem",
        ca=folder / "ca.pem",
    )


async def test_tls_and_token_while_listening(tls: LinkSecurity, capsys: pytest.CaptureFixture[str]) -> None:
    async with listening(tls) as door:
        with pytest.raises((AuthenticationError, PeerGone)):
            await in_thread(door, TOKEN)  # without TLS
        assert await in_thread(door, tls) == 3
    assert capsys.readouterr().err.count("level=warning") == 1


async def test_tls_and_token_while_dialing(tls: LinkSecurity) -> None:
    answers: list[object] = []
    door = await dialed(tls, lambda sock: answers.append(act(sock, tls, None, listening=True)))
    assert door.ended is None
    assert answers == [3]


@pytest.mark.parametrize(
    ("bind", "token", "warns"),
    [("0.0.0.0", None, True), ("0.0.0.0", "a long and random secret", False), ("localhost", None, False)],
)
def test_listening_beyond_this_machine_without_a_token_is_warned_of(
    bind: str, token: str | None, warns: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    program.find_security(ModelSettings(model_server_bind=bind, link_token=token))
    assert capsys.readouterr().err.count("EVAL_LINK_TOKEN") == warns


def test_a_token_that_can_be_guessed_is_a_wrong_command() -> None:
    with pytest.raises(UsageError, match="fewer than 16 characters") as caught:
        program.find_security(ModelSettings(link_token="short and bad"))
    assert "short and bad" not in str(caught.value)
