"""The simulator's side of one arm: `python -m wire_benchmark.drive KIND PORT PAYLOAD`, told what to do on stdin.

One JSON object per line both ways: `connect`, `digest`, `run`, `bytes`. It ends when stdin does.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from wire_benchmark import linux
from wire_benchmark.observations import PAYLOADS, Chunks, Observation, digest

if TYPE_CHECKING:
    from wire_benchmark.clients import Client

TINY_STEPS = 20

OWN_KINDS = ("floor", "stock", "auto", "json", "waiting", "paired")
"""Kinds of client that need nothing but this repository."""


class WrongReply(Exception):
    """A reply was not what the policy gives for this observation."""


def connect(kind: str, port: int, observation: Observation) -> Client:
    """The simulator's side of an arm, connected."""
    if kind in OWN_KINDS:
        from wire_benchmark import clients

        return clients.connect(kind, port, observation)
    from wire_benchmark import foreign

    client: Client = foreign.CLIENTS[kind](port)
    return client


class Driver:
    """Does what stdin says."""

    def __init__(self, kind: str, port: int, payload: str) -> None:
        self._kind = kind
        self._observation = Observation(PAYLOADS[payload])
        self._connect: Callable[[], Client] = lambda: connect(kind, port, self._observation)
        self._client: Client | None = None
        self._chunks = Chunks()
        self._step = 0

    def connect(self) -> dict[str, object]:
        """Connect and greet; take a few tiny steps, so that what is made once is there. Nothing large travels yet."""
        self._client = self._connect()
        if self._kind != "floor":  # it knows one size only
            tiny = Observation(PAYLOADS["chunk"])
            for _ in range(TINY_STEPS):
                self._client.step(tiny)
        return {}

    def digest(self) -> dict[str, object]:
        """The observation's checksum at both ends."""
        assert self._client is not None
        return {"here": digest(self._observation.flat), "there": self._client.digest(self._observation)}

    def run(self, steps: int) -> dict[str, object]:
        """Take `steps` steps; the nanoseconds of each, and this process's CPU time for all. Raises WrongReply."""
        client, observation = self._client, self._observation
        assert client is not None
        times: list[int] = []
        cpu = 0
        for _ in range(steps):
            self._step += 1
            observation.number(self._step)
            cpu_begun, begun = time.process_time_ns(), time.perf_counter_ns()
            reply = client.step(observation)
            times.append(time.perf_counter_ns() - begun)
            cpu += time.process_time_ns() - cpu_begun
            if fault := self._chunks.fault(reply, self._step):
                raise WrongReply(fault)
        return {"nanoseconds": times, "cpu_nanoseconds": cpu}

    def bytes(self) -> dict[str, object]:
        """What the kernel counted on the connection so far."""
        sent, received = linux.socket_bytes()
        return {"sent": sent, "received": received}

    def serve(self) -> None:
        """Obey until stdin ends."""
        for line in sys.stdin:
            order = json.loads(line)
            answer = getattr(self, order.pop("do"))(**order)
            print(json.dumps(answer), flush=True)
        if self._client is not None:
            self._client.close()


if __name__ == "__main__":
    Driver(sys.argv[1], int(sys.argv[2]), sys.argv[3]).serve()
