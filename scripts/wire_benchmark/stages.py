"""Where the time of one step between two of ours goes: both programs note when they pass certain places.

The clock is the machine's monotonic one, the same for all processes, so the notes of both sides make one timeline. A
note costs a fifth of a microsecond.

    python -m wire_benchmark.stages FILE simulator KIND PORT PAYLOAD      # `drive`, with notes
    python -m wire_benchmark.stages FILE model ARGUMENTS...               # `eval-model`, with notes
"""

from __future__ import annotations

import functools
import inspect
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from wire_benchmark.arms import Arm
from wire_benchmark.processes import Environments, Pair

ARMS = ("binary", "json")
"""The arms that can be looked into: both programs are ours."""

BLOCKS, BLOCK_STEPS = 20, 20

BEGIN, END = "step begins", "step ends"


class Stage(NamedTuple):
    """A part of a step: it lasts from the end of the one before it to `place`, and is spent on `what`."""

    title: str
    place: str
    what: str


CODING, SOCKETS, THREADS, POLICY, REST = "writing and reading messages", "sockets", "changing threads", "policy", "rest"

STAGES = (
    Stage("simulator: encode the request", "RequesterSession.request returned", CODING),
    Stage("there: sent, the model woken, received", "TrioChannel.receive returned", SOCKETS),
    Stage("model: decode", "ResponderSession.receive returned", CODING),
    Stage("model: over to the policy's thread", "Dispatcher.call called", THREADS),
    Stage("model: the policy", "Dispatcher.call returned", POLICY),
    Stage("model: back from the policy's thread", "PolicyThread.run returned", THREADS),
    Stage("model: encode the reply", "ResponderSession.result returned", CODING),
    Stage("back: sent, the simulator woken, received", "BlockingChannel.receive returned", SOCKETS),
    Stage("simulator: decode the reply", "RequesterSession.receive returned", CODING),
    Stage("simulator: the rest", END, REST),
)


def spent_on(split: Mapping[str, float]) -> dict[str, float]:
    """The stages' seconds, added up by what they are spent on."""
    sums = dict.fromkeys((stage.what for stage in STAGES), 0.0)
    for stage in STAGES:
        sums[stage.what] += split[stage.title]
    return sums


Notes = list[tuple[str, int]]


def split(simulator: Notes, model: Notes) -> dict[str, float]:
    """Median seconds of every stage, from the notes of both sides. A place passed twice counts when last passed."""
    steps: list[dict[str, int]] = []
    for place, moment in sorted(simulator + model, key=lambda note: note[1]):
        if place == BEGIN:
            steps.append({})
        if steps and END not in steps[-1]:
            steps[-1][place] = moment
    parts: dict[str, list[int]] = {stage.title: [] for stage in STAGES}
    for step in steps:
        before = step[BEGIN]
        for stage in STAGES:
            after = step.get(stage.place, before)
            parts[stage.title].append(after - before)
            before = after
    return {title: statistics.median(values) / 1e9 for title, values in parts.items()}


def profile(arm: Arm, payload: str, environments: Environments) -> dict[str, float]:
    """Run an arm with notes; the median seconds of every stage of its steps."""
    with tempfile.TemporaryDirectory() as folder:
        files = {role: Path(folder) / role for role in ("simulator", "model")}
        with Pair(arm, payload, environments, notes=files) as pair:
            pair.client.order("digest")
            for _ in range(BLOCKS):
                pair.client.order("run", steps=BLOCK_STEPS)
        simulator, model = (json.loads(files[role].read_text()) for role in ("simulator", "model"))
    return split(simulator, model)


def _watch(notes: Notes, owner: type, method: str, called: str | None, returned: str | None) -> None:
    """Note calls and returns of a method, plain or coroutine."""
    original: Callable[..., Any] = getattr(owner, method)
    clock = time.perf_counter_ns

    @functools.wraps(original)
    def plain(*args: Any, **kwargs: Any) -> Any:
        if called:
            notes.append((called, clock()))
        result = original(*args, **kwargs)
        if returned:
            notes.append((returned, clock()))
        return result

    @functools.wraps(original)
    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        result = await original(*args, **kwargs)
        if returned:
            notes.append((returned, clock()))
        return result

    setattr(owner, method, coroutine if inspect.iscoroutinefunction(original) else plain)


def _watch_returns(notes: Notes, owner: type, *methods: str) -> None:
    for method in methods:
        _watch(notes, owner, method, None, f"{owner.__name__}.{method} returned")


def _simulator(notes: Notes, arguments: Sequence[str]) -> None:
    from framing.session import RequesterSession
    from robopro_eval.transport.blocking import BlockingChannel
    from wire_benchmark import clients, drive

    _watch_returns(notes, RequesterSession, "request", "receive")
    _watch_returns(notes, BlockingChannel, "receive")
    _watch(notes, clients.OurClient, "step", BEGIN, END)
    kind, port, payload = arguments
    drive.Driver(kind, int(port), payload).serve()


def _model(notes: Notes, arguments: Sequence[str]) -> None:
    from framing.session import ResponderSession
    from model_endpoint.cli import main
    from model_endpoint.dispatcher import Dispatcher
    from model_endpoint.policy_thread import PolicyThread
    from robopro_eval.transport.aio import TrioChannel

    _watch_returns(notes, TrioChannel, "receive")
    _watch_returns(notes, ResponderSession, "receive", "result")
    _watch_returns(notes, PolicyThread, "run")
    _watch(notes, Dispatcher, "call", "Dispatcher.call called", "Dispatcher.call returned")
    main(arguments)


if __name__ == "__main__":
    mine: Notes = []
    try:
        {"simulator": _simulator, "model": _model}[sys.argv[2]](mine, sys.argv[3:])
    finally:
        Path(sys.argv[1]).write_text(json.dumps(mine))
