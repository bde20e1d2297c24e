"""A policy to serve, a policy runner without a thread, and a simulator of ours to serve it to."""

from __future__ import annotations

import types
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import trio

from framing.errors import PolicyError
from framing.session import RequesterSession, Wait
from model_endpoint.loading import PolicyFace
from model_endpoint.policy import Call, Policy, Seat, answer
from robopro_eval.transport.aio import TrioChannel


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

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    async def run(self, call: Call) -> None:
        await trio.lowlevel.checkpoint()
        answer(self.policy, [call])
        if call.error is not None and not isinstance(call.error, PolicyError):
            raise call.error
        call.queue_seconds, call.infer_seconds = 0.25, 0.5

    def leave(self, seat: Seat) -> None:
        seat.leave()

    def busy(self) -> None:
        return None


class Upgraded:
    """A simulator of ours at the other end."""

    def __init__(self, channel: TrioChannel) -> None:
        self.channel = channel
        self.wire = RequesterSession()
        self.told: list[tuple[int, int | None]] = []  # places in the line, as they were told

    async def ask(self, frame: list[bytes | bytearray | memoryview]) -> object:
        await self.channel.send(frame, 5.0)
        while isinstance(reply := self.wire.receive(await self.channel.receive(None)), Wait):
            self.told.append((reply.place, reply.of))
        return reply.value

    async def call(self, cmd: str, *args: object, **kwargs: object) -> object:
        return await self.ask(self.wire.request(cmd, args, kwargs))

    async def begin(self, name: str, seed: int = 1) -> object:
        return await self.ask(self.wire.request("reset_model", episode={"id": name, "task": "t", "seed": seed}))

    async def get(self, path: str, length: bool = False) -> object:
        return await self.ask(self.wire.get(path, length=length))


def toy_policy(model: object, max_batch: int = 1) -> Policy:
    return Policy(PolicyFace("toy", Path("/toy"), types.ModuleType("toy")), model, max_batch)


def counting_policy() -> tuple[Counter, Policy]:
    model = Counter()
    return model, toy_policy(model)
