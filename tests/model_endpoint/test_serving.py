"""Listening and dialing over loopback, with the policy in place of its thread."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from model_helpers import Counter, InPlace, Upgraded, counting_policy
from trio import socket as trio_socket

from framing.codec import numpy_to_json
from framing.errors import PeerGone
from model_endpoint.serving import Service
from robopro_eval.console.errors import UserError
from robopro_eval.transport import aio
from robopro_eval.transport.addresses import Address


class Host:
    """A service, what it said, and its policy."""

    def __init__(self, max_connections: int = 8, status_seconds: float = 30.0) -> None:
        self.model: Counter
        self.model, policy = counting_policy()
        self.said: list[str] = []
        self.noted: list[str] = []
        self.service = Service(
            InPlace(policy),
            policy.name,
            policy.has_sessions,
            self.said.append,
            self.noted.append,
            max_frame=1 << 20,
            max_connections=max_connections,
            status_seconds=status_seconds,
        )

    @property
    def port(self) -> int:
        return int(self.said[0].split(" — ")[0].rpartition(":")[2])

    async def connect(self) -> trio_socket.SocketType:
        return await aio.dial(("127.0.0.1", self.port), attempts=1)

    async def simulator(self) -> Upgraded:
        return Upgraded(aio.TrioChannel(await self.connect()))


@asynccontextmanager
async def listening(max_connections: int = 8, status_seconds: float = 30.0) -> AsyncIterator[Host]:
    host = Host(max_connections, status_seconds)

    async def listen() -> None:
        await host.service.listen(Address("localhost", 0))

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen)
            while not host.said:
                await trio.sleep(0.001)
            yield host
            nursery.cancel_scope.cancel()


async def eof(sock: trio_socket.SocketType) -> bool:
    try:
        while await sock.recv(1000):
            pass
    except ConnectionResetError:
        pass
    return True


async def test_the_line_names_the_port_really_bound() -> None:
    async with listening() as host:
        assert host.said == [
            f"🚀 Model server listening on localhost:{host.port} — waiting for simulator to connect..."
        ]
        assert host.port > 0


async def test_one_simulator_after_another_is_served() -> None:
    async with listening() as host:
        for _ in range(2):
            sim = await host.simulator()
            await sim.call("reset_model")
            assert await sim.call("add", 1, 2) == 3
            await sim.ask(sim.wire.bye())
            with pytest.raises(PeerGone):
                await sim.channel.receive(5.0)
    assert [line.partition(" from ")[0] for line in host.said[1:]] == ["🔗 Simulator connected"] * 2
    assert host.said[1].startswith("🔗 Simulator connected from ('127.0.0.1', ")
    assert str(host.service.tally) == "2 simulators, 0 episodes, 4 calls"


async def test_the_second_waits_until_the_first_has_gone() -> None:
    async with listening() as host:
        first, second = await host.simulator(), await host.simulator()
        await first.call("reset_model")
        answered = trio.Event()

        async def ask_second() -> None:
            await second.call("reset_model")
            answered.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_second)
            await trio.sleep(0.05)
            await first.call("get_action")
            assert not answered.is_set()
            assert host.model.heard == ["reset"]
            await first.channel.aclose()
        assert answered.is_set()
        assert await second.call("add", 2, 2) == 4


async def test_connections_that_never_ask_or_ask_nonsense_cost_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    from model_endpoint import logs

    logs.set_up(0)
    async with listening() as host:
        silent = await host.connect()
        scan = await host.connect()
        scan.close()
        for data in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\xff\xff\xff\xff", struct.pack(">I", 5) + b"hello"):
            stranger = await host.connect()
            await stranger.send(data)
            assert await eof(stranger)
            stranger.close()
        sim = await host.simulator()
        await sim.call("reset_model")
        assert await sim.call("add", 1, 1) == 2
        silent.close()
    text = capsys.readouterr().err
    assert text.count('event="a peer closed before its first request"') == 1
    assert text.count('event="a peer is not a simulator"') == 2
    assert text.count('event="connection ended"') >= 1
    assert "Traceback" not in text


async def test_more_simulators_than_allowed_are_turned_away() -> None:
    async with listening(max_connections=2) as host:
        first, second = await host.simulator(), await host.simulator()
        await first.call("reset_model")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(second.call, "reset_model")
            while not second.told:
                await trio.sleep(0.001)
            assert await eof(await host.connect())
            await first.ask(first.wire.bye())
        await second.ask(second.wire.bye())
        third = await host.simulator()
        await third.call("reset_model")


async def test_peers_that_never_ask_make_room_for_a_simulator_the_oldest_first() -> None:
    async with listening(max_connections=2) as host:
        silent = [await host.connect() for _ in range(2)]
        while len(host.said) < 3:
            await trio.sleep(0.001)
        sim = await host.simulator()
        await sim.call("reset_model")
        assert await eof(silent[0])
        other = await host.connect()  # as silent as they, but younger
        assert await eof(silent[1])
        assert await sim.call("add", 1, 1) == 2
        other.close()


async def test_a_line_says_that_nobody_came_yet_and_stops_when_someone_did() -> None:
    async with listening(status_seconds=0.02) as host:
        while not host.noted:
            await trio.sleep(0.01)
        assert str(host.port) in host.noted[0]
        sim = await host.simulator()
        await sim.call("reset_model")
        count = len(host.noted)
        await trio.sleep(0.08)
        assert len(host.noted) == count


async def test_a_port_in_use_is_one_sentence() -> None:
    async with listening() as host:
        other = Host()
        with pytest.raises(UserError, match=str(host.port)):
            await other.service.listen(Address("localhost", host.port))
        assert other.said == []


class Simulator:
    """Listens; what it does with each connection is a list of scripts."""

    def __init__(self) -> None:
        self.listener = aio.listen("127.0.0.1", 0)
        self.address = Address("localhost", aio.bound_address(self.listener).port)

    async def accept(self) -> trio_socket.SocketType:
        return (await aio.accept(self.listener))[0]


@asynccontextmanager
async def dialing(attempts: int = 3) -> AsyncIterator[tuple[Host, Simulator, list[UserError]]]:
    host, simulator, errors = Host(), Simulator(), list[UserError]()

    async def dial() -> None:
        try:
            await host.service.dial(simulator.address, attempts=attempts, interval=0.01)
        except UserError as error:
            errors.append(error)

    with trio.fail_after(60), simulator.listener:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(dial)
            yield host, simulator, errors  # leaving waits for the model to end by itself


async def test_a_goodbye_ends_the_model() -> None:
    async with dialing() as (host, simulator, errors):
        sim = Upgraded(aio.TrioChannel(await simulator.accept()))
        await sim.call("reset_model")
        await sim.begin("c/1#1")
        await sim.ask(sim.wire.bye())
    assert errors == []
    assert host.said == [f"🔗 Model connected to SIM server at {simulator.address}"]
    assert str(host.service.tally) == "1 simulator, 1 episode, 2 calls"


async def test_a_stock_end_of_file_ends_the_model() -> None:
    async with dialing() as (host, simulator, errors):
        sock = await simulator.accept()
        body = numpy_to_json({"cmd": "reset_model", "obs": None})
        await sock.send(struct.pack(">I", len(body)) + body)
        assert await sock.recv(1000)
        sock.close()
    assert errors == []
    assert host.model.heard == ["reset"]


async def test_a_simulator_that_goes_before_asking_anything_ends_the_model() -> None:
    async with dialing() as (_, simulator, errors):
        (await simulator.accept()).close()
    assert errors == []


async def test_an_upgraded_simulator_that_vanished_is_dialed_again() -> None:
    async with dialing() as (host, simulator, errors):
        sim = Upgraded(aio.TrioChannel(await simulator.accept()))
        await sim.call("reset_model")
        await sim.channel.aclose()
        again = Upgraded(aio.TrioChannel(await simulator.accept()))
        await again.call("reset_model")
        await again.ask(again.wire.bye())
    assert errors == []
    assert host.said == [f"🔗 Model connected to SIM server at {simulator.address}"] * 2
    assert "without a goodbye" in host.noted[-1]


async def test_a_silent_simulator_is_said_to_be_silent() -> None:
    host, simulator = Host(status_seconds=0.02), Simulator()
    with trio.fail_after(60), simulator.listener:
        async with trio.open_nursery() as nursery:

            async def dial() -> None:
                await host.service.dial(simulator.address, attempts=3)

            nursery.start_soon(dial)
            sim = Upgraded(aio.TrioChannel(await simulator.accept()))
            while not host.noted:
                await trio.sleep(0.005)
            await sim.call("reset_model")
            await trio.sleep(0.05)
            count = len(host.noted)
            await trio.sleep(0.05)
            assert len(host.noted) == count
            await sim.ask(sim.wire.bye())
    assert f"connected to {simulator.address}, still waiting for its first request" in host.noted[0]


async def test_something_else_that_listens_there_is_one_sentence() -> None:
    async with dialing() as (_, simulator, errors):
        sock = await simulator.accept()
        await sock.send(b"SSH-2.0-OpenSSH_9.2\r\n")
        assert await eof(sock)
    assert len(errors) == 1
    assert f"what listens on {simulator.address} is not a simulator" in str(errors[0])


async def test_nobody_there_is_one_sentence_after_the_attempts() -> None:
    host, simulator = Host(), Simulator()
    simulator.listener.close()
    with pytest.raises(UserError, match=f"localhost:{simulator.address.port}") as caught:
        await host.service.dial(simulator.address, attempts=2, interval=0.01)
    assert caught.value.exit_code == 1


async def test_a_malformed_host_is_a_wrong_command() -> None:
    with pytest.raises(UserError, match="URL") as caught:
        await Host().service.dial(Address("http://node-a", 29761), attempts=1000)
    assert caught.value.exit_code == 2
