"""What a connection leaves behind when it ends: nothing. Whose a result is when its simulator has gone: nobody's."""

from __future__ import annotations

import gc
import os
import struct
import threading
import tracemalloc
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest
import trio
from model_helpers import Upgraded, toy_policy

from framing.errors import PolicyError
from model_endpoint.policy_thread import PolicyThread
from model_endpoint.serving import Service
from robopro_eval.transport import aio, sockets
from robopro_eval.transport.addresses import Address

CONNECTIONS = 200
WARM_UP = 10


class Episode:
    """Waits in `get_action` when told to; every action is one more than the last."""

    def __init__(self) -> None:
        self.entered, self.release = threading.Event(), threading.Event()
        self.count = 0

    def reset_model(self) -> None:
        self.count = 0

    def update_obs(self, obs: object) -> None:
        self.obs = obs

    def get_action(self, wait: bool = False) -> int:
        if wait:
            self.entered.set()
            assert self.release.wait(60)
        self.count += 1
        return self.count

    def picture(self, size: int) -> np.ndarray:
        return np.zeros(size, np.uint8)

    def explode(self) -> None:
        raise RuntimeError("boom")


class WithSessions:
    """Keeps count of the sessions that are alive."""

    def __init__(self) -> None:
        self.alive: weakref.WeakSet[Episode] = weakref.WeakSet()

    def new_session(self) -> Episode:
        session = Episode()
        self.alive.add(session)
        return session


@asynccontextmanager
async def serving(model: object) -> AsyncIterator[tuple[int, PolicyThread]]:
    """The port of a model on its real thread."""
    thread = PolicyThread(lambda: toy_policy(model))
    said: list[str] = []
    with trio.fail_after(120):
        policy = await thread.start()
        service = Service(thread, policy.name, policy.has_sessions, said.append, said.append, max_connections=8)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(service.listen, Address("localhost", 0))
            while not said:
                await trio.sleep(0.001)
            yield int(said[0].split(" — ")[0].rpartition(":")[2]), thread
            nursery.cancel_scope.cancel()
    assert thread.stop(5.0)


async def simulator(port: int) -> Upgraded:
    return Upgraded(aio.TrioChannel(await aio.dial(("127.0.0.1", port), attempts=1)))


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("with_sessions", [True, False])
async def test_two_hundred_connections_leave_nothing_behind(with_sessions: bool) -> None:
    model = WithSessions() if with_sessions else Episode()
    async with serving(model) as (port, _):
        for number in range(CONNECTIONS):
            if number == WARM_UP:
                gc.collect()
                before = descriptors(), threading.active_count()
            sim = await simulator(port)
            if number % 4:  # the fourth only connects, as a port scan does
                await sim.call("reset_model")
                await sim.call("update_obs", {"rgb": np.zeros((64, 64, 3), np.uint8)})
                assert await sim.call("get_action") == 1
            if number % 4 == 1:
                with pytest.raises(PolicyError, match="boom"):
                    await sim.call("explode")
            if number % 4 == 2:
                await sim.ask(sim.wire.bye())
            await sim.channel.aclose()
        last = await simulator(port)
        await last.call("reset_model")  # whatever the others left has been seen to by now
        await last.channel.aclose()
        while descriptors() > before[0]:  # the last one's end is still on its way
            await trio.sleep(0.001)
        assert threading.active_count() == before[1]
        if isinstance(model, WithSessions):
            while len(model.alive) > 0:
                await trio.sleep(0.001)


async def test_a_large_first_request_is_not_kept_for_as_long_as_the_connection() -> None:
    async with serving(Episode()) as (port, _):
        sim = aio.TrioChannel(await aio.dial(("127.0.0.1", port), attempts=1))
        size = 16 << 20
        tracemalloc.start()
        for body in (b'{"cmd": "update_obs", "obs": "' + b"x" * size + b'"}', b'{"cmd": "update_obs", "obs": 1}'):
            await sim.send([struct.pack(">I", len(body)), body])
            assert bytes(await sim.receive(60.0)) == b'{"res": null}'
        del body
        kept, _peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert kept < size / 4
        await sim.aclose()


async def test_one_that_does_not_read_its_reply_does_not_hold_its_turn_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sockets, "USER_TIMEOUT", 0.5)
    async with serving(Episode()) as (port, _):
        deaf, following = await simulator(port), await simulator(port)
        await deaf.call("reset_model")
        await deaf.channel.send(deaf.wire.request("picture", (64 << 20,)))
        await following.call("reset_model")
        assert following.told == [(1, 1)]
        assert await following.call("get_action") == 1
        await deaf.channel.aclose()


async def test_the_result_for_a_simulator_that_has_gone_reaches_nobody_else() -> None:
    """One simulator at a time: the next one is served by the same object, whose call is still running."""
    model = Episode()
    async with serving(model) as (port, _):
        gone = await simulator(port)
        await gone.call("reset_model")
        await gone.channel.send(gone.wire.request("get_action", (True,)))
        await trio.to_thread.run_sync(model.entered.wait)
        await gone.channel.aclose()
        following = await simulator(port)
        async with trio.open_nursery() as nursery:
            answers: list[object] = []

            async def begin() -> None:
                answers.append(await following.call("reset_model"))
                answers.append(await following.call("get_action"))

            nursery.start_soon(begin)
            while not following.told:  # it is known to be there while the call still runs
                await trio.sleep(0.001)
            assert answers == []
            model.release.set()
        assert answers == [None, 1]


async def test_a_simulator_that_has_gone_takes_its_session_and_no_other_ones_result() -> None:
    model = WithSessions()
    async with serving(model) as (port, thread):
        gone, other = await simulator(port), await simulator(port)
        await gone.call("reset_model")
        (session,) = model.alive
        await other.call("reset_model")
        await gone.channel.send(gone.wire.request("get_action", (True,)))
        await trio.to_thread.run_sync(session.entered.wait)
        await gone.channel.aclose()
        async with trio.open_nursery() as nursery:
            answers: list[object] = []

            async def act() -> None:
                answers.append(await other.call("get_action"))
                answers.append(await other.call("get_action"))

            nursery.start_soon(act)
            await trio.testing.wait_all_tasks_blocked()
            busy = thread.busy()
            assert busy is not None
            assert busy.what.startswith("get_action of 127.0.0.1:")
            session.release.set()
        assert answers == [1, 2]
        del session
        while len(model.alive) > 1:
            await trio.sleep(0.001)


async def test_what_a_simulator_asked_that_goes_while_others_are_served_is_not_done() -> None:
    model = WithSessions()
    async with serving(model) as (port, _):
        first = await simulator(port)
        await first.call("reset_model")
        (busy,) = model.alive
        before = descriptors()
        gone = await simulator(port)
        await gone.call("reset_model")
        (queued,) = set(model.alive) - {busy}
        await first.channel.send(first.wire.request("get_action", (True,)))
        await trio.to_thread.run_sync(busy.entered.wait)
        await gone.channel.send(gone.wire.request("get_action"))
        await gone.channel.aclose()
        while descriptors() > before:  # the model has let go of it, without waiting for the policy
            await trio.sleep(0.001)
        busy.release.set()
        assert first.wire.receive(await first.channel.receive(5.0)).value == 1
        assert await first.call("get_action") == 2
        assert (busy.count, queued.count) == (2, 0)
