from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from model_helpers import Counter, counting_dispatcher

from model_endpoint.dispatcher import Dispatcher
from model_endpoint.policy_thread import PolicyThread


@asynccontextmanager
async def running() -> AsyncIterator[tuple[PolicyThread, Counter, list[int]]]:
    """A started thread, its policy, and the thread on which it was built."""
    where: list[int] = []
    model, dispatcher = counting_dispatcher()

    def build() -> Dispatcher:
        where.append(threading.get_ident())
        return dispatcher

    thread = PolicyThread(build)
    with trio.fail_after(60):
        await thread.start()
        yield thread, model, where
    assert thread.stop(5.0)


async def test_the_policy_is_built_and_called_on_one_thread_that_is_not_trios() -> None:
    async with running() as (thread, _, where):
        for _ in range(3):
            where.append((await thread.run(lambda _: threading.get_ident())).value)
        assert len(set(where)) == 1
        assert where[0] != threading.get_ident()


async def test_calls_from_many_tasks_never_overlap() -> None:
    inside: list[int] = []
    most: list[int] = []

    def work(_: Dispatcher) -> None:
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.002)
        inside.pop()

    async with running() as (thread, _, _), trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(thread.run, work)
    assert len(most) == 20
    assert max(most) == 1


async def test_what_the_work_raises_comes_back_and_the_thread_lives_on() -> None:
    def fail(_: Dispatcher) -> None:
        raise LookupError("not here")

    async with running() as (thread, _, _):
        with pytest.raises(LookupError, match="not here"):
            await thread.run(fail)
        assert (await thread.run(lambda dispatcher: dispatcher.call("add", (1, 2)))).value == 3


async def test_what_loading_raises_comes_out_of_start() -> None:
    def build() -> Dispatcher:
        raise RuntimeError("no weights")

    thread = PolicyThread(build)
    with pytest.raises(RuntimeError, match="no weights"):
        await thread.start()
    assert thread.stop(5.0)


async def test_a_cancelled_call_finishes_for_nobody_and_a_queued_one_never_starts() -> None:
    release, entered = threading.Event(), threading.Event()
    ran: list[str] = []

    def slow(_: Dispatcher) -> str:
        entered.set()
        assert release.wait(60.0)
        ran.append("slow")
        return "late"

    async with running() as (thread, _, _):
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(thread.run, slow)
                await trio.to_thread.run_sync(entered.wait)
                nursery.start_soon(thread.run, lambda _: ran.append("queued"))
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
        assert scope.cancelled_caught
        release.set()
        assert (await thread.run(lambda _: "next")).value == "next"
        assert ran == ["slow"]


async def test_times_are_measured() -> None:
    async with running() as (thread, _, _), trio.open_nursery() as nursery:
        nursery.start_soon(thread.run, lambda _: time.sleep(0.1))
        await trio.testing.wait_all_tasks_blocked()
        timed = await thread.run(lambda _: time.sleep(0.02))
        assert timed.infer_seconds >= 0.02
        assert timed.queue_seconds > 0.05


async def test_a_busy_thread_says_so_and_is_not_waited_for() -> None:
    release, entered = threading.Event(), threading.Event()

    def slow(_: Dispatcher) -> None:
        entered.set()
        release.wait(60.0)

    async with running() as (thread, _, _), trio.open_nursery() as nursery:
        assert thread.busy_seconds() == 0.0
        nursery.start_soon(thread.run, slow)
        await trio.to_thread.run_sync(entered.wait)
        await trio.sleep(0.02)
        assert thread.busy_seconds() >= 0.02
        assert thread.stop(0.0) is False
        release.set()
