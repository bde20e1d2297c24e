"""Who comes through either door, listening or dialing: strangers cost one line; the wait goes on or ends clearly."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import stock_peer
import trio
from bytes_helpers import DEATHS, FORMATS, STRANGERS, RawSimulator, Served, served

from robopro_eval.console.errors import UserError
from robopro_eval.transport import aio
from robopro_eval.transport.addresses import Address
from sim_endpoint.connection import DialingLink, ListeningLink
from sim_endpoint.faults import NoModel
from sim_endpoint.greeting import Door
from sim_endpoint.settings import SimSettings

HINTS = {"TLS": "TLS", "HTTP request": "HTTP", "HTTP answer": "HTTP", "SSH": "SSH"}


def door(**fields: Any) -> Door:
    return Door(SimSettings(sim_server_recv_timeout=5.0, **fields))


# ---------------------------------------------------------------- the simulator
@pytest.mark.parametrize("stranger", STRANGERS)
def test_the_simulator_listens_and_a_stranger_comes_first(stranger: str) -> None:
    said: list[str] = []
    noted: list[str] = []
    turned_away = threading.Event()

    def note(line: str) -> None:
        noted.append(line)
        turned_away.set()

    def a_model_comes() -> None:
        if turned_away.wait(10.0):
            stock_peer.model_dialing(stock_peer.EchoPolicy(), "127.0.0.1", port)

    link = ListeningLink(door(sim_as_server=True, sim_server_bind="127.0.0.1", port=0), said.append, note)
    link.open()
    port = int(said[0].partition("127.0.0.1:")[2].partition(" ")[0])
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.sendall(STRANGERS[stranger])
        threading.Thread(target=a_model_comes, daemon=True).start()
        source = link.connect(10.0)
    assert source.call("echo", [3]) == 3
    assert len(noted) == 1, noted
    assert "is no model of ours" in noted[0]
    assert HINTS.get(stranger, "") in noted[0]
    assert len(noted[0]) < 400
    source.close(goodbye=True)
    link.close()


def _closed(sock: socket.socket) -> None:
    """Return when the peer has hung up."""
    sock.settimeout(10.0)
    try:
        while sock.recv(1 << 16):
            pass
    except OSError:
        pass


@contextmanager
def says_first(data: bytes) -> Iterator[int]:
    """The port of a program that says `data` to whoever connects."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            sock, _ = server.accept()
            with sock:
                sock.sendall(data)
                _closed(sock)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join(10.0)


@pytest.mark.parametrize("stranger", STRANGERS)
def test_the_simulator_dials_a_stranger(stranger: str) -> None:
    with says_first(STRANGERS[stranger]) as port:
        link = DialingLink(
            door(model_server_host="127.0.0.1", port=port, connect_attempts=3, connect_interval=0.01), print, print
        )
        with pytest.raises(NoModel, match="no model of ours answers") as caught:
            link.connect(None)
        link.close()
    assert HINTS.get(stranger, "") in str(caught.value)
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------- the model
@pytest.mark.parametrize("stranger", STRANGERS)
async def test_the_model_dials_a_stranger(stranger: str) -> None:
    async with served() as model:
        with says_first(STRANGERS[stranger]) as port, trio.fail_after(10), pytest.raises(UserError) as caught:
            await model.service.dial(Address("127.0.0.1", port), attempts=3, interval=0.01)
    assert "not a simulator" in str(caught.value)
    assert HINTS.get(stranger, "") in str(caught.value)
    assert model.policy.heard == []


@pytest.mark.parametrize("how", DEATHS)
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("sent", [0, 1, 3, 4, 5, -1])
async def test_the_model_dials_a_simulator_that_dies_in_its_second_request(form: str, how: str, sent: int) -> None:
    """One of ours is dialed again; a stock one has gone for good, in order only between two requests."""
    with trio.socket.from_stdlib_socket(socket.create_server(("127.0.0.1", 0))) as listener:
        async with served() as model, trio.open_nursery() as nursery:
            outcome: list[UserError | None] = []
            nursery.start_soon(_dial, model, aio.bound_address(listener), outcome)
            simulator = await _accepted(listener, form)
            await simulator.begin()
            await simulator.say(simulator.ask("update_obs", {"state": [1.0] * 9})[: sent if sent >= 0 else -1])
            simulator.die(how)
            if form != "stock":
                again = await _accepted(listener, form)
                await again.begin()
                await again.say(b"".join(again.wire.bye()))
                again.wire.receive(await again.hear())
    assert len(outcome) == 1
    assert model.policy.obs_cache == []
    assert model.policy.heard == ["reset"] * (1 if form == "stock" else 2)
    if form == "stock" and sent != 0:
        assert "vanished" in str(outcome[0])
    else:
        assert outcome == [None]


async def _dial(model: Served, address: Address, outcome: list[UserError | None]) -> None:
    try:
        with trio.fail_after(10):
            await model.service.dial(address, attempts=3, interval=0.01)
        outcome.append(None)
    except UserError as error:
        outcome.append(error)


async def _accepted(listener: trio.socket.SocketType, form: str) -> RawSimulator:
    with trio.fail_after(10):
        sock, _ = await listener.accept()
    return RawSimulator(form, sock)
