"""Waiting for a turn with a policy that serves one simulator at a time: in memory, under a clock that does not wait."""

from __future__ import annotations

import math
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
import trio
from model_helpers import Counter, InPlace, Upgraded, counting_policy

from framing.codec import numpy_to_json
from framing.errors import PolicyError, ProtocolError
from framing.frames import Buffer
from framing.messages import Wait
from model_endpoint.line import Line
from model_endpoint.sessions import Farewell, Session, Tally
from robopro_eval.transport.aio import TrioChannel

STATUS = 30.0


class Room:
    """A policy without sessions, and the line before it."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.model: Counter
        self.model, self.policy = counting_policy()
        self.runner = InPlace(self.policy)
        self.line = Line()
        self.tally = Tally()
        self.farewells: dict[str, Farewell] = {}
        self._nursery = nursery

    def enter(self, name: str) -> Waiting:
        """A simulator that has connected and said nothing yet."""
        ours, theirs = trio.testing.memory_stream_pair()
        session = Session(
            TrioChannel(ours),
            self.runner,
            "toy",
            name,
            self.tally,
            line=self.line,
            status_seconds=STATUS,
        )

        async def serve() -> None:
            self.farewells[name] = await session.serve()
            await ours.aclose()

        self._nursery.start_soon(serve)
        return Waiting(theirs, self._nursery)


class Waiting(Upgraded):
    """A simulator whose first request goes on in the background."""

    def __init__(self, stream: trio.abc.Stream, nursery: trio.Nursery) -> None:
        super().__init__(TrioChannel(stream))
        self.stream = stream
        self.answered = trio.Event()
        self._nursery = nursery

    async def ask_for_a_turn(self) -> None:
        async def ask() -> None:
            await self.call("reset_model")
            self.answered.set()

        self._nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()

    async def notices(self, count: int) -> list[tuple[int, int | None]]:
        """The next wait notices, read by hand."""
        places = []
        for _ in range(count):
            notice = self.wire.receive(await self.channel.receive(None))
            assert isinstance(notice, Wait)
            places.append((notice.place, notice.of))
        return places

    async def leave(self) -> None:
        await self.stream.aclose()
        await trio.testing.wait_all_tasks_blocked()


@asynccontextmanager
async def room() -> AsyncIterator[Room]:
    with trio.fail_after(3600):
        async with trio.open_nursery() as nursery:
            yield Room(nursery)
            nursery.cancel_scope.cancel()


async def test_who_waits_is_told_its_place_at_once_and_when_it_changes() -> None:
    async with room() as r:
        first, second, third = (r.enter(name) for name in ("first", "second", "third"))
        for simulator in (first, second, third):
            await simulator.ask_for_a_turn()
        assert first.answered.is_set()
        assert (first.told, second.told, third.told) == ([], [(1, 1)], [(2, 2)])
        await first.leave()
        assert second.answered.is_set()
        assert (second.told, third.told) == ([(1, 1)], [(2, 2), (1, 1)])
        await second.ask(second.wire.bye())
        await third.answered.wait()
        assert r.model.heard == ["reset"] * 3
        assert str(r.tally) == "3 simulators, 0 episodes, 3 calls"


async def test_the_place_is_told_again_every_status_seconds(autojump_clock: trio.testing.MockClock) -> None:
    async with room() as r:
        first, second = r.enter("first"), r.enter("second")
        await first.ask_for_a_turn()
        await second.ask_for_a_turn()
        begun = trio.current_time()
        await trio.sleep(3.5 * STATUS)
        assert second.told == [(1, 1)] * 4
        assert trio.current_time() - begun == 3.5 * STATUS


async def test_a_connection_that_asks_nothing_is_not_in_the_line() -> None:
    async with room() as r:
        r.enter("silent")
        first, second = r.enter("first"), r.enter("second")
        r.enter("silent too")
        await second.ask_for_a_turn()  # whoever asks first is served first, whoever came first
        assert second.answered.is_set()
        await first.ask_for_a_turn()
        assert first.told == [(1, 1)]


async def test_a_stock_simulator_waits_silently() -> None:
    async with room() as r:
        first, second = r.enter("first"), r.enter("second")
        await first.ask_for_a_turn()
        body = numpy_to_json({"cmd": "add", "obs": {"_args": [1, 2]}})
        await second.stream.send_all(struct.pack(">I", len(body)) + body)
        await trio.testing.wait_all_tasks_blocked()
        assert r.line.waiting == 1
        await first.leave()
        assert bytes(await second.channel.receive(None)) == b'{"res": 3}'


async def test_one_that_waits_and_leaves_makes_room_at_once() -> None:
    async with room() as r:
        first, second, third = (r.enter(name) for name in ("first", "second", "third"))
        await first.ask_for_a_turn()
        await second.channel.send(second.wire.request("reset_model"))
        assert await second.notices(1) == [(1, 1)]
        await third.ask_for_a_turn()
        await second.leave()
        assert third.told == [(2, 2), (1, 1)]
        assert (r.farewells["second"].requests, r.line.waiting) == (1, 1)
        await first.leave()
        await third.answered.wait()
        assert r.model.heard == ["reset"] * 2  # nothing was done for the one that left
        assert r.tally.simulators == 2


async def test_goodbye_instead_of_waiting_is_answered_and_costs_no_call() -> None:
    async with room() as r:
        first, second = r.enter("first"), r.enter("second")
        await first.ask_for_a_turn()
        await second.channel.send(second.wire.request("reset_model"))
        assert await second.notices(1) == [(1, 1)]
        await second.channel.send(second.wire.bye())
        with pytest.raises(PolicyError, match="gave up its place") as caught:
            second.wire.receive(await second.channel.receive(None))
        assert caught.value.kind == "skipped"
        second.wire.receive(await second.channel.receive(None))
        assert second.wire.ending is not None
        await trio.testing.wait_all_tasks_blocked()
        assert r.farewells["second"].detail == "the simulator said it is done"
        assert r.model.heard == ["reset"]
        assert r.line.waiting == 0


async def test_one_that_does_not_read_its_notices_is_given_up(autojump_clock: trio.testing.MockClock) -> None:
    async with room() as r:
        first = r.enter("first")
        await first.ask_for_a_turn()
        ours, theirs = trio.testing.lockstep_stream_pair()  # a send ends only when it is read
        session = Session(TrioChannel(ours), r.runner, "toy", "deaf", r.tally, line=r.line, status_seconds=STATUS)
        deaf = Upgraded(TrioChannel(theirs))
        async with trio.open_nursery() as nursery:

            async def serve() -> None:
                r.farewells["deaf"] = await session.serve()

            nursery.start_soon(serve)
            await deaf.channel.send(deaf.wire.request("reset_model"))
        assert "did not take a message" in r.farewells["deaf"].detail
        assert r.line.waiting == 0


async def test_nonsense_that_is_found_while_a_notice_is_sent_ends_the_connection_like_any() -> None:
    class Alerted(TrioChannel):
        async def send(self, buffers: Sequence[Buffer], timeout: float | None = None) -> None:
            raise ProtocolError("an alert instead of TLS")

    async with room() as r:
        first = r.enter("first")
        await first.ask_for_a_turn()
        ours, theirs = trio.testing.memory_stream_pair()
        session = Session(Alerted(ours), r.runner, "toy", "odd", r.tally, line=r.line)
        odd = Upgraded(TrioChannel(theirs))
        await odd.channel.send(odd.wire.request("reset_model"))
        assert await session.serve() == Farewell(None, "an alert instead of TLS", True, 1)
        assert r.line.waiting == 0


async def test_whose_turn_it_becomes_while_its_notice_goes_out_is_served_at_once() -> None:
    async with room() as r:
        first = r.enter("first")
        await first.ask_for_a_turn()
        ours, theirs = trio.testing.lockstep_stream_pair()  # a send ends only when it is read
        session = Session(TrioChannel(ours), r.runner, "toy", "next", r.tally, line=r.line, status_seconds=math.inf)
        following = Upgraded(TrioChannel(theirs))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.serve)
            await following.channel.send(following.wire.request("reset_model"))
            await trio.testing.wait_all_tasks_blocked()  # in the middle of sending the notice
            await first.leave()
            notice = following.wire.receive(await following.channel.receive(None))
            assert notice == Wait(1, 1)
            assert following.wire.receive(await following.channel.receive(None)) != notice
            assert r.model.heard == ["reset"] * 2
            await following.channel.aclose()


def test_places_move_up_from_wherever_somebody_leaves() -> None:
    line = Line()
    places = [line.join() for _ in range(4)]
    assert [place.number for place in places] == [0, 1, 2, 3]
    assert line.waiting == 3
    places[1].leave()
    places[1].leave()
    assert [place.number for place in (places[0], *places[2:])] == [0, 1, 2]
    places[0].leave()
    assert [place.number for place in places[2:]] == [0, 1]
    assert line.waiting == 1
