"""What one episode has seen never reaches another: sessions alone, interleaved and shuffled give the same actions.

Each of these tests also runs with the sessions deliberately shared, and then has to find the difference.
"""

from __future__ import annotations

import functools
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import numpy as np
import pytest
import trio
from model_helpers import InPlace, Upgraded, toy_policy
from remembering import SOURCE, script, shuffled, truth

from framing.session import RequesterSession
from model_endpoint.loading import load_face, load_model
from model_endpoint.policy import Policy
from model_endpoint.policy_thread import PolicyRunner, PolicyThread
from model_endpoint.sessions import Session, Tally
from robopro_eval.transport.aio import TrioChannel
from robopro_eval.transport.blocking import BlockingChannel

SIMULATORS = 3
SHUFFLES = 60
alone_or_shared = pytest.mark.parametrize("shared", [False, True], ids=["own sessions", "deliberately shared"])


@asynccontextmanager
async def connected(runner: PolicyRunner, sockets: bool = False) -> AsyncIterator[Upgraded]:
    """A simulator with a session, over memory or over a real socket."""
    if sockets:
        ours, theirs = (TrioChannel(trio.socket.from_stdlib_socket(end)) for end in socket.socketpair())
    else:
        ours, theirs = (TrioChannel(end) for end in trio.testing.memory_stream_pair())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Session(ours, runner, "remembering", "sim", Tally()).serve)
        yield Upgraded(theirs)
        await theirs.aclose()


async def play(runner: PolicyRunner, order: Sequence[int]) -> list[list[bytes]]:
    """The actions of each simulator when they ask in this `order`."""
    actions: list[list[bytes]] = [[] for _ in range(SIMULATORS)]
    async with AsyncExitStack() as stack:
        simulators = [await stack.enter_async_context(connected(runner)) for _ in range(SIMULATORS)]
        steps = [iter(script(number)) for number in range(SIMULATORS)]
        for number in order:
            cmd, args = next(steps[number])
            value = await simulators[number].call(cmd, *args)
            if cmd == "get_action":
                actions[number].append(np.asarray(value).tobytes())
    return actions


@pytest.fixture
def remembering(write_policy) -> Callable[..., Policy]:
    face = load_face(write_policy("remembering", SOURCE))
    return lambda shared, max_batch=1: Policy(face, load_model(face, {"shared": shared}), max_batch)


TRUTH = [truth(number) for number in range(SIMULATORS)]


@alone_or_shared
async def test_shuffled_simulators_act_as_each_does_alone(shared: bool, remembering) -> None:
    one_after_another = [number for number in range(SIMULATORS) for _ in script(number)]
    with trio.fail_after(60):
        assert await play(InPlace(remembering(shared)), one_after_another) == TRUTH
        same = [
            await play(InPlace(remembering(shared)), shuffled(SIMULATORS, seed)) == TRUTH for seed in range(SHUFFLES)
        ]
    assert same == [not shared] * SHUFFLES


@pytest.mark.parametrize("max_batch", [1, 4])
@alone_or_shared
async def test_simulators_at_the_same_time_act_as_each_does_alone(shared: bool, max_batch: int, remembering) -> None:
    """Over sockets and the real thread, in whatever order they happen to come."""
    thread = PolicyThread(functools.partial(remembering, shared, max_batch))
    actions: list[list[bytes]] = [[] for _ in range(SIMULATORS)]
    ready = [trio.Event() for _ in range(SIMULATORS)]

    async def simulate(number: int) -> None:
        async with connected(thread, sockets=True) as simulator:
            for cmd, args in script(number):
                value = await simulator.call(cmd, *args)
                if cmd == "get_action":
                    actions[number].append(np.asarray(value).tobytes())
                if cmd == "set_language":  # all of them are in the middle of an episode
                    ready[number].set()
                    for other in ready:
                        await other.wait()

    with trio.fail_after(60):
        await thread.start()
        async with trio.open_nursery() as nursery:
            for number in range(SIMULATORS):
                nursery.start_soon(simulate, number)
    assert thread.stop(5.0)
    assert (actions == TRUTH) is not shared


@alone_or_shared
def test_the_program_keeps_simulators_apart(shared: bool, write_policy, start) -> None:
    folder = write_policy("remembering", SOURCE)
    program = start("--policy_name", str(folder), "--port", "0", "--overrides", "--shared", str(shared).lower())
    port = program.port()
    lines = [BlockingChannel(socket.create_connection(("localhost", port), timeout=60)) for _ in range(SIMULATORS)]
    sessions = [RequesterSession() for _ in lines]
    steps = [iter(script(number)) for number in range(SIMULATORS)]
    actions: list[list[bytes]] = [[] for _ in lines]
    for number in shuffled(SIMULATORS, 0):
        cmd, args = next(steps[number])
        lines[number].send(sessions[number].request(cmd, args), 60)
        reply = sessions[number].receive(lines[number].receive(60))
        if cmd == "get_action":
            actions[number].append(np.asarray(reply.value).tobytes())  # type: ignore[union-attr]
    for line in lines:
        line.close()
    assert (actions == TRUTH) is not shared


async def test_a_result_that_shows_a_buffer_of_the_policy_does_not_change_while_it_is_sent() -> None:
    """One simulator does not read yet: most of its reply is still with us while another one's call fills the buffer."""

    class Showing:
        buffer = np.zeros(32 << 20, np.uint8)

        def new_session(self) -> Showing:
            return self

        def reset_model(self) -> None:
            pass

        def get_action(self, value: int) -> np.ndarray:
            self.buffer[:] = value
            return self.buffer

        def read(self) -> np.ndarray:
            return self.buffer[:1]

    runner = InPlace(toy_policy(Showing()))
    with trio.fail_after(60):
        async with connected(runner, sockets=True) as slow, connected(runner, sockets=True) as quick:
            for simulator in (slow, quick):
                await simulator.call("reset_model")
            await slow.channel.send(slow.wire.request("get_action", (1,)))
            while await quick.call("read") != 1:
                pass
            for value in (2, 3):
                assert np.all(await quick.call("get_action", value) == value)
            reply = slow.wire.receive(await slow.channel.receive(None))
            assert np.all(reply.value == 1)
