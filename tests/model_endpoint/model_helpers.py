"""A policy to serve, a policy runner without a thread, and a simulator of ours to serve it to."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import numpy as np
import trio

from framing.session import RequesterSession
from model_endpoint.dispatcher import Dispatcher
from model_endpoint.loading import PolicyFace
from model_endpoint.policy_thread import Timed
from robopro_eval.transport.aio import TrioChannel

T = TypeVar("T")


class Counter:
    """Counts resets and calls; notes the episodes it is told of."""

    def __init__(self) -> None:
        self.observation_window: object = None
        self.obs_cache: list[object] = []
        self.heard: list[object] = []
        self.calls = 0

    def begin_episode(self, info: Mapping[str, object]) -> None:
        self.heard.append(info["id"])
        if info["seed"] == 13:
            raise ValueError("unlucky")

    def reset_model(self) -> None:
        self.obs_cache.clear()
        self.heard.append("reset")
        self.born_in_reset = True

    def update_obs(self, obs: object) -> None:
        self.obs_cache.append(obs)

    def get_action(self, scale: float = 1.0) -> np.ndarray:
        self.calls += 1
        return np.full((2, 3), self.calls * scale, np.float32)

    def add(self, a: float, b: float) -> float:
        return a + b

    def explode(self) -> None:
        raise RuntimeError("boom")

    def unsendable(self) -> object:
        return {"deep": [1, {3, 4}]}


class InPlace:
    """A policy runner without a thread."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.dispatcher = dispatcher

    async def run(self, work: Callable[[Dispatcher], T]) -> Timed[T]:
        await trio.lowlevel.checkpoint()
        return Timed(work(self.dispatcher), 0.25, 0.5)


class Upgraded:
    """A simulator of ours at the other end."""

    def __init__(self, channel: TrioChannel) -> None:
        self.channel = channel
        self.wire = RequesterSession()

    async def ask(self, frame: list[bytes | bytearray | memoryview]) -> object:
        await self.channel.send(frame, 5.0)
        return self.wire.receive(await self.channel.receive(5.0)).value

    async def call(self, cmd: str, *args: object, **kwargs: object) -> object:
        return await self.ask(self.wire.request(cmd, args, kwargs))

    async def begin(self, name: str, seed: int = 1) -> object:
        return await self.ask(self.wire.request("reset_model", episode={"id": name, "task": "t", "seed": seed}))

    async def get(self, path: str, length: bool = False) -> object:
        return await self.ask(self.wire.get(path, length=length))


def counting_dispatcher() -> tuple[Counter, Dispatcher]:
    model = Counter()
    return model, Dispatcher(PolicyFace("toy", Path("/toy"), types.ModuleType("toy")), model)
