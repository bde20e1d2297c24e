"""Actions of several simulators out of one inference: what goes together, whose error is whose, whose time is whose."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import numpy as np
import pytest
import trio
from model_helpers import toy_policy

from framing.errors import PolicyError
from framing.session import Request
from model_endpoint.dispatcher import Dispatcher
from model_endpoint.policy import Call, Policy, Seat
from model_endpoint.policy_thread import PolicyThread
from robopro_eval.console.errors import UsageError


class Session:
    """Its action is twice what it was asked with, and how often it acted."""

    def __init__(self) -> None:
        self.acted = 0

    def reset_model(self) -> None:
        self.acted = 0

    def note(self, text: str) -> str:
        return text

    def prepare(self, number: float, *, scale: float = 1.0) -> float:
        if number < 0:
            raise ValueError("cannot prepare")
        return number * scale

    def finish(self, output: np.ndarray) -> dict[str, object]:
        if output[0] == 26:
            raise ValueError("cannot finish")
        self.acted += 1
        return {"action": output, "acted": self.acted}


class Model:
    """Its first inference lasts until it is released. What it returns shows a buffer that the next one fills."""

    def __init__(self) -> None:
        self.entered, self.release = threading.Event(), threading.Event()
        self.batches: list[list[float]] = []
        self.seconds: list[float] = []
        self.outputs_too_few = 0
        self.fails = False
        self._buffer = np.zeros((16, 1))

    def new_session(self) -> Session:
        return Session()

    def infer(self, inputs: list[float]) -> Sequence[np.ndarray]:
        begun = time.perf_counter()
        self.batches.append(inputs)
        if not self.entered.is_set():
            self.entered.set()
            assert self.release.wait(60)
        elif self.fails:
            raise RuntimeError("out of memory")
        self._buffer[: len(inputs), 0] = 2 * np.array(inputs)
        self.seconds.append(time.perf_counter() - begun)
        return self._buffer[: len(inputs) - self.outputs_too_few]


class Queue:
    """The policy's thread, held up in an inference, and what is put into its queue meanwhile."""

    def __init__(self, model: Model, thread: PolicyThread, nursery: trio.Nursery) -> None:
        self.model = model
        self.thread = thread
        self._nursery = nursery
        self._seats: dict[str, Seat] = {}

    async def meet(self, *names: str) -> None:
        """Every one has a session before anything waits."""
        for name in names:
            self._seats[name] = Seat(name)
            await self.thread.run(Call(self._seats[name], Request("reset_model")))

    async def hold(self) -> Call:
        """One inference that lasts until `release`."""
        call = await self.put("holder", "get_action", 1.0)
        await trio.to_thread.run_sync(self.model.entered.wait)
        return call

    async def put(self, name: str, cmd: str, *args: object, **kwargs: object) -> Call:
        """A call at the end of the queue."""
        call = Call(self._seats[name], Request(cmd, args, kwargs))
        self._nursery.start_soon(self.thread.run, call)
        await trio.testing.wait_all_tasks_blocked()
        return call


@asynccontextmanager
async def queue(max_batch: int = 4, model: Model | None = None) -> AsyncIterator[Queue]:
    model = model or Model()
    thread = PolicyThread(lambda: toy_policy(model, max_batch))
    with trio.fail_after(60):
        await thread.start()
        async with trio.open_nursery() as nursery:
            yield Queue(model, thread, nursery)
    assert thread.stop(5.0)


def action(call: Call) -> float:
    assert call.error is None
    assert isinstance(call.value, dict)
    return float(call.value["action"][0])


def failure(call: Call) -> str:
    assert isinstance(call.error, PolicyError)
    assert call.error.kind == "policy_error"
    return str(call.error)


async def test_what_is_queued_goes_together_up_to_the_limit_and_nothing_is_waited_for() -> None:
    async with queue(max_batch=4) as q:
        await q.meet("holder", *"abcdef")
        first = await q.hold()
        calls = [await q.put(name, "get_action", float(number)) for number, name in enumerate("abcdef", 2)]
        q.model.release.set()
    assert q.model.batches == [[1], [2, 3, 4, 5], [6, 7]]
    assert str(q.thread.inferences) == "3 inferences (largest batch: 4)"
    assert action(first) == 2
    assert [action(call) for call in calls] == [4, 6, 8, 10, 12, 14]


async def test_without_max_batch_every_action_has_an_inference_of_its_own() -> None:
    async with queue(max_batch=1) as q:
        await q.meet("holder", *"ab")
        await q.hold()
        calls = [await q.put(name, "get_action", 3.0, scale=2.0) for name in "ab"]
        q.model.release.set()
    assert q.model.batches == [[1], [6], [6]]
    assert q.thread.inferences.count == 0  # not worth a word
    assert [action(call) for call in calls] == [12, 12]


async def test_other_calls_keep_their_order_and_an_abandoned_one_is_left_out() -> None:
    async with queue() as q:
        await q.meet("holder", *"abcd")
        await q.hold()
        leaving = trio.CancelScope()

        async def leave() -> None:
            with leaving:
                await q.thread.run(Call(q._seats["d"], Request("get_action", (9.0,))))

        note = await q.put("a", "note", "first")
        acts = [await q.put(name, "get_action", 3.0) for name in "bc"]
        q._nursery.start_soon(leave)
        await trio.testing.wait_all_tasks_blocked()
        leaving.cancel()
        await trio.testing.wait_all_tasks_blocked()
        q.model.release.set()
    assert note.value == "first"
    assert q.model.batches == [[1], [3, 3]]
    assert [action(call) for call in acts] == [6, 6]


async def test_what_prepare_and_finish_raise_is_their_sessions_own() -> None:
    async with queue() as q:
        await q.meet("holder", *"abc")
        await q.hold()
        bad = await q.put("a", "get_action", -1.0)
        good = await q.put("b", "get_action", 3.0)
        worse = await q.put("c", "get_action", 13.0)
        q.model.release.set()
    assert failure(bad) == "toy.prepare() failed: ValueError: cannot prepare"
    assert failure(worse) == "toy.finish() failed: ValueError: cannot finish"
    assert action(good) == 6
    assert q.model.batches == [[1], [3, 13]]


async def test_nobody_is_left_where_every_prepare_raises() -> None:
    async with queue() as q:
        await q.meet("holder", *"ab")
        await q.hold()
        calls = [await q.put(name, "get_action", -1.0) for name in "ab"]
        q.model.release.set()
    assert [failure(call) for call in calls] == ["toy.prepare() failed: ValueError: cannot prepare"] * 2
    assert q.model.batches == [[1]]


async def test_what_infer_raises_is_everybodys_and_costs_only_that_request() -> None:
    async with queue() as q:
        await q.meet("holder", *"abc")
        await q.hold()
        q.model.fails = True
        calls = [await q.put(name, "get_action", 3.0) for name in "abc"]
        q.model.release.set()
        for call in calls:
            while call.error is None:
                await trio.sleep(0.001)
        q.model.fails = False
        again = await q.put("b", "get_action", 5.0)
    assert [failure(call) for call in calls] == ["toy.infer() failed: RuntimeError: out of memory"] * 3
    assert all("raise RuntimeError" in str(call.error.remote_traceback) for call in calls)  # type: ignore[union-attr]
    assert action(again) == 10
    assert again.value["acted"] == 1  # type: ignore[index]


@pytest.mark.parametrize("names", ["a", "abc"])
async def test_a_wrong_number_of_outputs_is_the_policys_error(names: str) -> None:
    async with queue() as q:
        await q.meet("holder", *names)
        await q.hold()
        q.model.release.set()
        while not q.model.seconds:
            await trio.sleep(0.001)
        q.model.outputs_too_few = 1
        q.model.entered.clear()
        q.model.release.clear()
        await q.hold()
        calls = [await q.put(name, "get_action", 3.0) for name in names]
        q.model.release.set()
    expected = (
        "toy.infer() has to return one output for each input, in their order: "
        f"it returned {len(names) - 1} for {len(names)}"
    )
    assert [failure(call) for call in calls] == [expected] * len(names)


async def test_each_has_its_own_time_in_the_queue_and_the_whole_inference() -> None:
    async with queue() as q:
        await q.meet("holder", *"ab")
        holder = await q.hold()
        early = await q.put("a", "get_action", 3.0)
        between = time.perf_counter()
        late = await q.put("b", "get_action", 4.0)
        await trio.testing.wait_all_tasks_blocked()
        released = time.perf_counter()
        q.model.release.set()
    assert q.model.batches == [[1], [3, 4]]
    assert holder.infer_seconds >= q.model.seconds[0] > 0
    for call in (early, late):
        assert call.infer_seconds >= q.model.seconds[1] > 0
        assert call.queue_seconds >= released - call.asked
        assert call.queue_seconds + call.infer_seconds <= time.perf_counter() - call.asked
    assert early.asked < between <= late.asked


async def test_a_session_without_the_phases_is_simply_called() -> None:
    class Plain:
        def __init__(self) -> None:
            self.calls = 0

        def reset_model(self) -> None:
            pass

        def get_action(self) -> int:
            self.calls += 1
            return self.calls

    class Half(Model):
        """Can infer, but its sessions cannot prepare."""

        def new_session(self) -> Plain:  # type: ignore[override]
            return Plain()

    async with queue(max_batch=1, model=Half()) as q:
        await q.meet(*"ab")
        calls = [await q.put(name, "get_action") for name in "ab"]
    assert [call.value for call in calls] == [1, 1]
    assert q.model.batches == []
    with pytest.raises(UsageError, match="--max_batch 2: policy 'toy' cannot batch; it needs new_session"):
        toy_policy(Half(), max_batch=2)


def test_one_dispatcher_alone_acts_in_the_same_three_phases() -> None:
    """As `eval-sim --local` does."""
    model = Model()
    model.entered.set()
    policy: Policy = toy_policy(model)
    session: Dispatcher = policy.open_session()
    assert {"get_action", "prepare", "finish", "reset_model", "note"} == session.features().methods
    result = session.call("get_action", (4.0,), {"scale": 0.5})
    assert isinstance(result, dict)
    assert (result["action"][0], result["acted"]) == (4.0, 1)
    assert model.batches == [[2.0]]
    with pytest.raises(PolicyError, match=r"toy\.prepare\(number: .* does not take what was sent") as caught:
        session.call("get_action", ())
    assert caught.value.kind == "bad_arguments"
