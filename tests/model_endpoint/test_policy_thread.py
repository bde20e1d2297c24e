from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio
from model_helpers import toy_policy

from framing.errors import PolicyError
from framing.session import Request
from model_endpoint.policy import Call, Latch, Policy, Seat
from model_endpoint.policy_thread import PolicyThread


class Doer:
    """Does what it is told to, on the policy's thread."""

    def reset_model(self) -> None:
        pass

    def do(self, work: Callable[[], object]) -> object:
        return work()


async def do(thread: PolicyThread, work: Callable[[], object], seat: Seat | None = None) -> Call:
    call = Call(seat or Seat("sim:1"), Request("do", (work,)))
    await thread.run(call)
    return call


@asynccontextmanager
async def running(model: object = None) -> AsyncIterator[tuple[PolicyThread, list[int]]]:
    """A started thread, and the idents of the thread on which its policy was built."""
    where: list[int] = []

    def build() -> Policy:
        where.append(threading.get_ident())
        return toy_policy(model or Doer())

    thread = PolicyThread(build)
    with trio.fail_after(60):
        await thread.start()
        yield thread, where
    assert thread.stop(5.0)


async def test_the_policy_is_built_and_called_on_one_thread_that_is_not_trios() -> None:
    async with running() as (thread, where):
        for _ in range(3):
            where.append((await do(thread, threading.get_ident)).value)
        assert len(set(where)) == 1
        assert where[0] != threading.get_ident()


async def test_calls_from_many_tasks_never_overlap() -> None:
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.002)
        inside.pop()

    async with running() as (thread, _), trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(do, thread, work)
    assert len(most) == 20
    assert max(most) == 1


async def test_what_the_policy_raises_comes_back_and_the_thread_lives_on() -> None:
    def fail() -> None:
        raise LookupError("not here")

    async with running() as (thread, _):
        call = await do(thread, fail)
        assert isinstance(call.error, PolicyError)
        assert str(call.error) == "toy.do() failed: LookupError: not here"
        assert call.value is None
        assert (await do(thread, lambda: 3)).value == 3


async def test_a_keyboard_interrupt_of_the_policys_own_costs_the_request_alone() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    async with running() as (thread, _):
        call = await do(thread, interrupt)
        assert isinstance(call.error, PolicyError)
        assert str(call.error) == "do() raised KeyboardInterrupt"
        assert (await do(thread, lambda: 3)).value == 3


async def test_a_defect_of_ours_is_raised_where_the_call_is_awaited() -> None:
    class Broken(Seat):
        def session(self, policy: Policy) -> object:  # type: ignore[override]
            raise AssertionError("a defect")

    async with running() as (thread, _):
        with pytest.raises(AssertionError, match="a defect"):
            await do(thread, lambda: 3, Broken("sim:2"))
        assert (await do(thread, lambda: 3)).value == 3


async def test_what_loading_raises_comes_out_of_start() -> None:
    def build() -> Policy:
        raise RuntimeError("no weights")

    thread = PolicyThread(build)
    with pytest.raises(RuntimeError, match="no weights"):
        await thread.start()
    assert thread.stop(5.0)


def test_a_latch_tells_whoever_comes_early_and_lets_in_whoever_comes_late() -> None:
    told: list[str] = []
    early, late = Latch(), Latch()
    assert early.wait(0.0) is False
    assert early.call_when_open(lambda: told.append("early")) is True
    assert told == []
    early.open()
    assert told == ["early"]
    late.open()
    assert late.call_when_open(lambda: told.append("late")) is False
    assert told == ["early"]
    quick = Latch()
    threading.Timer(0.01, quick.open).start()
    assert quick.wait(60.0) is True


async def test_a_cancelled_call_finishes_for_nobody_and_a_queued_one_never_starts() -> None:
    release, entered = threading.Event(), threading.Event()
    ran: list[str] = []

    def slow() -> str:
        entered.set()
        assert release.wait(60.0)
        ran.append("slow")
        return "late"

    async with running() as (thread, _):
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(do, thread, slow)
                await trio.to_thread.run_sync(entered.wait)
                nursery.start_soon(do, thread, lambda: ran.append("queued"))
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
        assert scope.cancelled_caught
        release.set()
        assert (await do(thread, lambda: "next")).value == "next"
        assert ran == ["slow"]


async def test_times_are_measured() -> None:
    async with running() as (thread, _), trio.open_nursery() as nursery:
        nursery.start_soon(do, thread, lambda: time.sleep(0.1))
        await trio.testing.wait_all_tasks_blocked()
        call = await do(thread, lambda: time.sleep(0.02))
        assert call.infer_seconds >= 0.02
        assert call.queue_seconds > 0.05


async def test_a_busy_thread_says_with_what_and_is_not_waited_for() -> None:
    release, entered = threading.Event(), threading.Event()

    def slow() -> None:
        entered.set()
        release.wait(60.0)

    async with running() as (thread, _), trio.open_nursery() as nursery:
        assert thread.busy() is None
        nursery.start_soon(thread.run, Call(Seat("node-a:4711"), Request("do", (slow,)), "cell/7#1"))
        await trio.to_thread.run_sync(entered.wait)
        await trio.sleep(0.02)
        busy = thread.busy()
        assert busy is not None
        assert busy.what == "do of node-a:4711 in episode 'cell/7#1'"
        assert busy.seconds >= 0.02
        assert thread.stop(0.0) is False
        release.set()


async def test_a_session_is_made_and_dropped_on_the_policys_thread() -> None:
    where: list[tuple[str, int]] = []

    class Session(Doer):
        def __init__(self) -> None:
            where.append(("made", threading.get_ident()))

        def __del__(self) -> None:
            where.append(("dropped", threading.get_ident()))

    class Model:
        def new_session(self) -> Session:
            return Session()

    async with running(Model()) as (thread, built):
        where.clear()  # of the try at loading
        seat = Seat("sim:1")
        assert (await do(thread, lambda: 1, seat)).value == 1
        assert (await do(thread, lambda: 2, seat)).value == 2
        assert isinstance((await do(thread, lambda: 1 / 0, seat)).error, PolicyError)  # whose frames know the session
        thread.leave(seat)
        await do(thread, lambda: 3)
        assert where[:2] == [("made", built[0]), ("dropped", built[0])]
