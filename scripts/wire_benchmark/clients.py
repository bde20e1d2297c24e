"""The simulator's side of the arms that need nothing but this repository."""

from __future__ import annotations

import socket
from typing import Protocol

import numpy as np
from stock_peer import SimClient

from framing.session import RequesterSession, WireChoice
from robopro_eval.transport.blocking import BlockingChannel
from robopro_eval.transport.memory import keep_freed_memory
from robopro_eval.transport.sockets import dial
from sim_endpoint.model_source import EpisodeInfo
from sim_endpoint.remote_model import RemoteModel
from sim_endpoint.settings import Patience
from wire_benchmark.observations import CHUNK_SHAPE, PROPRIO, Observation

STEP_SECONDS = 60.0
"""No step takes that long; a benchmark that hangs is worse than one that fails."""


class Client(Protocol):
    """One connected simulator. `digest` comes before the first `step`."""

    def digest(self, observation: Observation) -> str:
        """What the other end says that it received."""

    def step(self, observation: Observation) -> object:
        """Send the observation, receive the chunk."""

    def close(self) -> None: ...


class FloorClient:
    """The least that moving these bytes can cost: one `sendall`, then `recv_into`, both on buffers that exist.

    The observation lies ready in one piece, nothing is encoded or allocated, no length travels: both ends know them.
    """

    def __init__(self, port: int, observation: Observation) -> None:
        self._request = np.empty(observation.nbytes, np.uint8)
        place = 0
        for name, array in observation.flat.items():
            piece = self._request[place : place + array.nbytes]
            piece[:] = array.reshape(-1).view(np.uint8)
            if name == PROPRIO:
                self._number = piece.view(np.float32)
            place += array.nbytes
        self._reply = np.zeros(CHUNK_SHAPE, np.float32)
        self._sock = socket.create_connection(("127.0.0.1", port), STEP_SECONDS)
        self._sock.settimeout(None)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def digest(self, observation: Observation) -> str:  # noqa: ARG002 - the protocol's signature
        self._sock.sendall(self._request.data)
        return self._sock.recv(8, socket.MSG_WAITALL).decode()

    def step(self, observation: Observation) -> object:
        self._number[0] = observation.step
        self._sock.sendall(self._request.data)
        into = self._reply.data.cast("B")
        while into:
            into = into[self._sock.recv_into(into) :]
        return self._reply

    def close(self) -> None:
        self._sock.close()


class OurClient:
    """What `eval-sim` talks through."""

    def __init__(self, port: int, wire: WireChoice, *, pipeline: bool = False) -> None:
        keep_freed_memory()  # as eval-sim does
        channel = BlockingChannel(dial(("127.0.0.1", port)))
        patience = Patience(STEP_SECONDS, STEP_SECONDS)
        session = RequesterSession(wire)
        self._model = RemoteModel(channel, session, patience=patience, peer="the model", pipeline=pipeline)
        self._model.handshake()
        self._model.begin_episode(EpisodeInfo("benchmark/0#1", "benchmark", 0))

    def digest(self, observation: Observation) -> str:
        return str(self._model.call("digest", observation.args))

    def step(self, observation: Observation) -> object:
        return self._model.call("step", observation.args)

    def close(self) -> None:
        self._model.close(goodbye=True)


class TwoCallClient(OurClient):
    """The same with the step that most policies take: the observation first, then the question."""

    def step(self, observation: Observation) -> object:
        self._model.call("update_observation_window", observation.args)
        return self._model.call("get_action")


class StockClient:
    """RoboPRO's own client, from its description."""

    def __init__(self, port: int) -> None:
        self._client = SimClient.dial("127.0.0.1", port)
        self._client.reset_model()

    def digest(self, observation: Observation) -> str:
        return str(self._client.digest(*observation.args))

    def step(self, observation: Observation) -> object:
        return self._client.step(*observation.args)

    def close(self) -> None:
        self._client.close()


def connect(kind: str, port: int, observation: Observation) -> Client:
    """A client of one of these kinds, connected."""
    if kind == "floor":
        return FloorClient(port, observation)
    if kind == "stock":
        return StockClient(port)
    if kind in ("waiting", "paired"):
        return TwoCallClient(port, "auto", pipeline=kind == "paired")
    return OurClient(port, "json" if kind == "json" else "auto")
