"""Our sessions and channels against the independent stock peer: both roles, both directions, threads and processes.

The endpoints have tests of their own against it; here the wire alone is on trial, with the smallest possible requester
and responder on our side.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stock_peer
import trio

from framing.errors import PeerGone, PolicyError
from framing.session import Ending, Features, Peer, RequesterSession, ResponderSession
from robopro_eval.transport import aio, sockets
from robopro_eval.transport.blocking import BlockingChannel
from robopro_eval.transport.errors import TransportError

PROGRAM = [sys.executable, str(Path(stock_peer.__file__))]


class Proxy:
    """The smallest simulator of ours: any method by name."""

    def __init__(self, sock: socket.socket, wire: Any = "auto") -> None:
        self.channel = BlockingChannel(sock)
        self.session = RequesterSession(wire)

    def __getattr__(self, name: str) -> Any:
        def method(*args: object) -> object:
            self.channel.send(self.session.request(name, args), 10)
            return self.session.receive(self.channel.receive(10)).value

        return method


async def serve(sock: trio.socket.SocketType, policy: Any) -> ResponderSession:
    """The smallest model of ours; ends with the connection."""
    channel, session = aio.TrioChannel(sock), ResponderSession(Features("echo"))
    try:
        while session.ending is None:
            request = session.receive(await channel.receive(10))
            try:
                frame = session.result(getattr(policy, request.cmd)(*request.args))
            except Exception as error:
                frame = session.error(str(error), "Traceback")
            await channel.send(frame, 10)
    except PeerGone:
        session.received_eof()
    finally:
        await channel.aclose()
    return session


EXPECTED = stock_peer.episode(stock_peer.EchoPolicy(), 3)


def same_actions(actions: list[Any]) -> bool:
    return len(actions) == 3 and all(
        got.dtype == want.dtype and np.array_equal(got, want) for got, want in zip(actions, EXPECTED, strict=True)
    )


# ---------------------------------------------------------------- our simulator, stock model
@pytest.mark.parametrize("wire", ["auto", "stock"])
def test_our_simulator_dials_a_stock_model(wire: str) -> None:
    log: list[str] = []
    with stock_peer.model_server(stock_peer.EchoPolicy(), log) as port:
        sim = Proxy(sockets.dial(("localhost", port)), wire)
        actions = stock_peer.episode(sim, 3)
        sim.channel.close()
    assert same_actions(actions)
    assert all(action.flags.writeable for action in actions)
    assert sim.session.peer is Peer.STOCK
    assert log == ["reset_model", "set_language", *["update_observation_window", "get_action"] * 3]


def test_a_stock_model_dials_our_simulator() -> None:
    with sockets.listen("localhost", 0) as listener:
        thread = stock_peer.model_dialing(stock_peer.EchoPolicy(), "localhost", sockets.bound_address(listener).port)
        sock, _ = sockets.accept(listener, timeout=10)
    sim = Proxy(sock)
    assert same_actions(stock_peer.episode(sim, 3))
    sim.channel.close()
    thread.join(5)
    assert not thread.is_alive()


def test_the_stock_model_sees_exactly_cmd_and_obs_after_its_first_reply() -> None:
    seen: list[dict[str, Any]] = []
    with sockets.listen("localhost", 0) as listener:
        port = sockets.bound_address(listener).port

        def model() -> None:
            sock = socket.create_connection(("localhost", port))
            while (request := stock_peer.receive_message(sock)) is not None:
                seen.append(request)
                stock_peer.send_message(sock, {"res": None})

        thread = stock_peer.threading.Thread(target=model)
        thread.start()
        sock, _ = sockets.accept(listener, timeout=10)
    sim = Proxy(sock)
    sim.reset_model()
    sim.get_action()
    sim.update_obs(1, 2)
    sim.channel.close()
    thread.join(5)
    assert seen == [
        {"cmd": "reset_model", "obs": None, "id": 1, "accept": ["binary", "json", "wait"]},
        {"cmd": "get_action", "obs": None},
        {"cmd": "update_obs", "obs": {"_args": [1, 2]}},
    ]


def test_rule_10_the_reason_why_a_stock_model_closes_is_not_lost() -> None:
    with stock_peer.model_server(stock_peer.EchoPolicy()) as port:
        sim = Proxy(sockets.dial(("localhost", port)))
        sim.reset_model()
        with pytest.raises(PolicyError, match="asked to fail") as caught:
            sim.fail()
        assert "ValueError" in (caught.value.remote_traceback or "")
        assert caught.value.kind is None
        with pytest.raises(PeerGone):
            sim.echo([np.zeros(1 << 20)] * 8)


@pytest.mark.parametrize(
    "value",
    [
        np.arange(6, dtype=">i2").reshape(2, 3),
        np.array(2.5),
        np.zeros((0, 3)),
        np.array(["a", "bc"]),
        np.array([np.nan, np.inf], np.float16),
        [float("inf"), -1.5, None, True, "ü"],
        {"a": {"b": [1, {"c": np.arange(3)}]}},
        {"_args": [1, 2]},
        {"data": "QUJD" * 100},
        2**80,
    ],
)
def test_values_go_to_a_stock_model_and_back(value: Any) -> None:
    with stock_peer.model_server(stock_peer.EchoPolicy()) as port:
        sim = Proxy(sockets.dial(("localhost", port)))
        sim.reset_model()
        got = sim.echo(value)
        assert stock_peer.stock_dumps(got) == stock_peer.stock_dumps(value)
        if isinstance(value, np.ndarray):
            assert got.dtype == value.dtype
            assert got.flags.writeable


# ---------------------------------------------------------------- stock simulator, our model
async def test_a_stock_simulator_dials_our_model() -> None:
    listener = aio.listen("localhost", 0)
    port = aio.bound_address(listener).port

    def simulate() -> list[Any]:
        sim = stock_peer.SimClient.dial("localhost", port)
        actions = stock_peer.episode(sim, 3)
        with pytest.raises(RuntimeError, match="asked to fail"):
            sim.fail()
        assert sim.echo(5) == 5  # ours keeps the connection after an error
        sim.close()
        return actions

    async with trio.open_nursery() as nursery:

        async def model() -> None:
            sock, _ = await aio.accept(listener)
            session = await serve(sock, stock_peer.EchoPolicy())
            assert session.peer is Peer.STOCK
            assert session.ending is Ending.STOCK_EOF

        nursery.start_soon(model)
        assert same_actions(await trio.to_thread.run_sync(simulate))
    listener.close()


async def test_our_model_dials_a_stock_simulator() -> None:
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        listener.listen(1)

        def simulate() -> list[Any]:
            sim = stock_peer.SimClient.listen(listener)
            actions = stock_peer.episode(sim, 3)
            sim.close()
            return actions

        actions: list[Any] = []
        async with trio.open_nursery() as nursery:

            async def run() -> None:
                actions.extend(await trio.to_thread.run_sync(simulate))

            nursery.start_soon(run)
            session = await serve(await aio.dial(listener.getsockname()), stock_peer.EchoPolicy())
    assert session.ending is Ending.STOCK_EOF
    assert same_actions(actions)


# ---------------------------------------------------------------- real processes
@pytest.fixture
def stock_program() -> Iterator[Any]:
    running: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        running.append(subprocess.Popen([*PROGRAM, *arguments], stdout=subprocess.PIPE, text=True))
        return running[-1]

    yield start
    for program in running:
        program.kill()
        program.communicate()


def ready(program: subprocess.Popen[str]) -> int:
    assert program.stdout is not None
    word, port = program.stdout.readline().split()
    assert word == "READY"
    return int(port)


def finished(program: subprocess.Popen[str]) -> list[str]:
    out, _ = program.communicate(timeout=60)
    assert program.returncode == 0
    lines = out.splitlines()
    assert lines[-1] == "DONE"
    return lines[:-1]


PRINTED = [f"ACTION {float(action.sum()):.1f} (30, 20)" for action in EXPECTED]


def test_process_our_simulator_dials_a_stock_model(stock_program: Any) -> None:
    program = stock_program("model", "--listen", "0")
    sim = Proxy(sockets.dial(("localhost", ready(program))))
    assert same_actions(stock_peer.episode(sim, 3))
    sim.channel.close()
    assert finished(program) == []


def test_process_a_stock_model_dials_our_simulator(stock_program: Any) -> None:
    with sockets.listen("localhost", 0) as listener:
        program = stock_program(
            "model", "--dial", str(sockets.bound_address(listener)).replace("127.0.0.1", "localhost")
        )
        sock, _ = sockets.accept(listener, timeout=60)
    sim = Proxy(sock)
    assert same_actions(stock_peer.episode(sim, 3))
    sim.channel.close()
    assert finished(program) == []


async def test_process_our_model_dials_a_stock_simulator(stock_program: Any) -> None:
    program = stock_program("sim", "--listen", "0")
    port = await trio.to_thread.run_sync(ready, program)
    session = await serve(await aio.dial(("localhost", port)), stock_peer.EchoPolicy())
    assert session.ending is Ending.STOCK_EOF
    assert finished(program) == PRINTED


async def test_process_a_stock_simulator_dials_our_model(stock_program: Any) -> None:
    listener = aio.listen("localhost", 0)
    program = stock_program("sim", "--dial", f"localhost:{aio.bound_address(listener).port}")
    sock, _ = await aio.accept(listener, timeout=60)
    session = await serve(sock, stock_peer.EchoPolicy())
    assert session.ending is Ending.STOCK_EOF
    assert finished(program) == PRINTED
    listener.close()


def test_every_error_of_opening_is_one_sentence_and_one_type() -> None:
    for failing in (
        lambda: sockets.dial(("localhost", 1), attempts=1),
        lambda: sockets.dial(("no such host", 1)),
        lambda: sockets.listen("192.0.2.1", 0),
    ):
        with pytest.raises(TransportError) as caught:
            failing()
        assert "\n" not in str(caught.value)
