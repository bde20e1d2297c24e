"""The arms that need packages of their own: both halves, written as the projects' documentation describes them.

Runs in the benchmark's own environment only. Every server says its port once and then serves until it is stopped.
"""

from __future__ import annotations

import io
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from wire_benchmark.observations import PROPRIO, Chunks, Observation, digest

DIGEST = "digest"
"""The key by which an observation asks for its own checksum instead of actions."""

Announce = Callable[[int], None]


def answer(message: Mapping[str, Any], chunks: Chunks) -> dict[str, Any]:
    """What the policy does: actions, or the checksum of what arrived."""
    if DIGEST in message:
        return {DIGEST: digest({name: array for name, array in message.items() if name != DIGEST})}
    return {"actions": chunks.of(message[PROPRIO])}


class FlatClient(ABC):
    """A client whose observation is one flat dict of arrays and whose reply is a dict."""

    @abstractmethod
    def infer(self, message: dict[str, Any]) -> dict[str, Any]:
        """One request, one reply."""

    def digest(self, observation: Observation) -> str:
        return str(self.infer({**observation.flat, DIGEST: True})[DIGEST])

    def step(self, observation: Observation) -> object:
        return self.infer(observation.flat)["actions"]

    def close(self) -> None:  # noqa: B027 - most have nothing to close
        """Ends with the process."""


# ---------------------------------------------------------------- openpi: WebSocket, msgpack with raw array bytes
class OpenpiClient(FlatClient):
    """openpi-client's own client."""

    def __init__(self, port: int) -> None:
        from openpi_client.websocket_client_policy import WebsocketClientPolicy

        self._policy = WebsocketClientPolicy("127.0.0.1", port)

    def infer(self, message: dict[str, Any]) -> dict[str, Any]:
        reply: dict[str, Any] = self._policy.infer(message)
        return reply


def serve_openpi(announce: Announce) -> None:
    """A server for it: metadata first, then one reply per observation, computed on the event loop."""
    import asyncio

    from openpi_client import msgpack_numpy
    from websockets.asyncio.server import ServerConnection, serve
    from websockets.exceptions import ConnectionClosed

    chunks = Chunks()

    async def handler(connection: ServerConnection) -> None:
        packer = msgpack_numpy.Packer()
        await connection.send(packer.pack({}))
        try:
            while True:
                observation = msgpack_numpy.unpackb(await connection.recv())
                await connection.send(packer.pack(answer(observation, chunks)))
        except ConnectionClosed:
            return

    async def run() -> None:
        async with serve(handler, "127.0.0.1", 0, compression=None, max_size=None) as server:
            announce(next(iter(server.sockets)).getsockname()[1])
            await server.serve_forever()

    asyncio.run(run())


# ---------------------------------------------------------------- GR00T: ZeroMQ REQ/REP, msgpack with .npy inside
def _to_npy(value: object) -> object:
    if isinstance(value, np.ndarray):
        output = io.BytesIO()
        np.save(output, value, allow_pickle=False)
        return {"__ndarray_class__": True, "as_npy": output.getvalue()}
    return value


def _from_npy(value: dict[str, Any]) -> object:
    return np.load(io.BytesIO(value["as_npy"]), allow_pickle=False) if "__ndarray_class__" in value else value


class ZeromqClient(FlatClient):
    """As GR00T's client: the endpoint's name and its data."""

    def __init__(self, port: int) -> None:
        import msgpack
        import zmq

        self._msgpack = msgpack
        self._socket = zmq.Context().socket(zmq.REQ)
        self._socket.connect(f"tcp://127.0.0.1:{port}")

    def infer(self, message: dict[str, Any]) -> dict[str, Any]:
        self._socket.send(self._msgpack.packb({"endpoint": "get_action", "data": message}, default=_to_npy))
        reply: dict[str, Any] = self._msgpack.unpackb(self._socket.recv(), object_hook=_from_npy)
        return reply

    def close(self) -> None:
        self._socket.close(linger=0)


def serve_zeromq(announce: Announce) -> None:
    """As GR00T's server: one thread, receive, answer, send."""
    import msgpack
    import zmq

    chunks = Chunks()
    socket = zmq.Context().socket(zmq.REP)
    announce(socket.bind_to_random_port("tcp://127.0.0.1"))
    while True:
        request = msgpack.unpackb(socket.recv(), object_hook=_from_npy)
        socket.send(msgpack.packb(answer(request["data"], chunks), default=_to_npy))


# ---------------------------------------------------------------- vla-eval: WebSocket, msgpack, its own both halves
class VlaEvalClient(FlatClient):
    """vla-eval's own connection, images uncompressed (its default is PNG, which takes far longer)."""

    def __init__(self, port: int) -> None:
        import asyncio

        from vla_eval.connection import Connection

        _use_raw_images()
        self._loop = asyncio.new_event_loop()
        self._connection = Connection(f"ws://127.0.0.1:{port}")
        self._loop.run_until_complete(self._connection.connect())
        self._loop.run_until_complete(self._connection.start_episode({}))

    def infer(self, message: dict[str, Any]) -> dict[str, Any]:
        reply: dict[str, Any] = self._loop.run_until_complete(self._connection.act(message))
        return reply

    def close(self) -> None:
        self._loop.run_until_complete(self._connection.close())


def serve_vla_eval(announce: Announce) -> None:
    """vla-eval's own server around a policy that answers at once."""
    import anyio
    from vla_eval.model_servers.predict import PredictModelServer
    from vla_eval.model_servers.serve import serve_async

    class Policy(PredictModelServer):
        def __init__(self) -> None:
            super().__init__()
            self._chunks = Chunks()

        def predict(self, obs: dict[str, Any], _ctx: object) -> dict[str, Any]:
            return answer(obs, self._chunks)

        def get_action_spec(self) -> dict[str, Any]:
            return {}

        def get_observation_spec(self) -> dict[str, Any]:
            return {}

    async def run() -> None:
        async with anyio.create_task_group() as group:
            announce(await group.start(serve_async, Policy(), "127.0.0.1", 0))

    _use_raw_images()
    anyio.run(run)


def _use_raw_images() -> None:
    from vla_eval.protocol.numpy_codec import set_image_format

    set_image_format("raw")


# ---------------------------------------------------------------- pickle over gRPC, as LeRobot's asynchronous inference
_METHOD = "/benchmark.Policy/Infer"
_ANY_SIZE = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


class GrpcClient(FlatClient):
    """One unary call with pickled bytes."""

    def __init__(self, port: int) -> None:
        import grpc

        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=_ANY_SIZE)
        self._infer = self._channel.unary_unary(_METHOD, pickle.dumps, pickle.loads)

    def infer(self, message: dict[str, Any]) -> dict[str, Any]:
        reply: dict[str, Any] = self._infer(message)
        return reply

    def close(self) -> None:
        self._channel.close()


def serve_grpc(announce: Announce) -> None:
    """A server for it, with gRPC's usual pool of threads."""
    from concurrent import futures

    import grpc

    chunks = Chunks()
    method = grpc.unary_unary_rpc_method_handler(
        lambda message, _context: answer(message, chunks), pickle.loads, pickle.dumps
    )
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4), options=_ANY_SIZE)
    service, _, name = _METHOD[1:].partition("/")
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, {name: method})])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    announce(port)
    server.wait_for_termination()


CLIENTS: dict[str, Callable[[int], FlatClient]] = {
    "openpi": OpenpiClient,
    "zeromq": ZeromqClient,
    "vla-eval": VlaEvalClient,
    "grpc": GrpcClient,
}
SERVERS: dict[str, Callable[[Announce], None]] = {
    "openpi": serve_openpi,
    "zeromq": serve_zeromq,
    "vla-eval": serve_vla_eval,
    "grpc": serve_grpc,
}
