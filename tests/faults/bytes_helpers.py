"""Peers that break the wire on purpose, byte by byte: a model for a simulator to suffer, and a simulator for a model.

Both ends of every connection are real TCP sockets on loopback, so that closing and resetting are what they are.
"""

from __future__ import annotations

import json
import logging
import socket
import ssl
import struct
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import trio

for room in ("model_endpoint", "sim_endpoint"):
    sys.path.append(str(Path(__file__).resolve().parents[1] / room))

from model_helpers import Counter, InPlace, Upgraded, counting_policy  # noqa: E402

from framing.session import Features, RequesterSession, ResponderSession  # noqa: E402
from model_endpoint import logs  # noqa: E402
from model_endpoint.serving import Service  # noqa: E402
from robopro_eval.transport.addresses import Address  # noqa: E402
from robopro_eval.transport.aio import TrioChannel  # noqa: E402
from robopro_eval.transport.blocking import BlockingChannel  # noqa: E402
from sim_endpoint.remote_model import RemoteModel  # noqa: E402
from sim_endpoint.settings import Patience  # noqa: E402

FORMATS = ["stock", "json", "binary"]
"""Who talks: a stock peer; two of ours that keep to JSON; two of ours."""

ACTION = np.arange(1, 15, dtype=np.float32)
STALE = np.full(14, 77.0, np.float32)
"""What must never be taken for an action."""


def framed(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        other, _ = listener.accept()
    for sock in (one, other):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return one, other


def close(sock: socket.socket) -> None:
    sock.close()


def reset(sock: socket.socket) -> None:
    """Close with RST, as a process that is killed with unread data does."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


DEATHS: dict[str, Callable[[socket.socket], None]] = {"closed": close, "reset": reset}


def client_hello() -> bytes:
    """What a TLS client says first."""
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    try:
        context.wrap_bio(into, out, server_hostname="localhost").do_handshake()
    except ssl.SSLWantReadError:
        return out.read()
    raise AssertionError("a handshake needs two")


STRANGERS = {
    "HTTP request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "HTTP answer": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "TLS": client_hello(),
    "SSH": b"SSH-2.0-OpenSSH_9.2\r\n",
    "4 GiB": b"\xff\xff\xff\xff" + b"x" * 100,
    "empty frame": bytes(8),
    "garbage": framed(b"\x80\x81\x82 no text"),
    "binary garbage": framed(b"\xff\xfe\xfd\xfc and so on"),
    "no object": framed(b"[1, 2]"),
}
"""What other programs say first on a port that is not theirs."""


def in_stock_words(body: bytes) -> bytes:
    """What a stock server makes of a request: it reads two keys."""
    message = json.loads(body)
    return json.dumps({"cmd": message["cmd"], "obs": message.get("obs")}).encode()


def read_frame(sock: socket.socket) -> bytes:
    """The body of the next frame; empty at the end of the stream."""
    sock.settimeout(10.0)
    header = sock.recv(4, socket.MSG_WAITALL)
    return sock.recv(struct.unpack(">I", header)[0], socket.MSG_WAITALL) if len(header) == 4 else b""


# ---------------------------------------------------------------- for the simulator to suffer
Fault = Callable[["FaultyModel", bytes], None]
"""What happens instead of sending a reply, given its frame."""


class FaultyModel:
    """A model at the other end of a socket, as the channel of a `RemoteModel`; all in one thread.

    Each request is answered as soon as it has been sent. `faults[command]` is done in place of that command's replies,
    the first `after` of them apart.
    """

    def __init__(
        self,
        form: str,
        faults: dict[str, Fault] | None = None,
        *,
        after: int = 0,
        seconds: float = 5.0,
        pipeline: bool = False,
    ) -> None:
        here, self.there = tcp_pair()
        self.channel = BlockingChannel(here)
        self.session = ResponderSession(Features("toy", frozenset({"reset_model", "get_action", "update_obs"})))
        self.asked: list[str] = []
        self._stock = form == "stock"
        self._faults, self._after = faults or {}, after
        self.source = RemoteModel(
            self,
            RequesterSession("json" if form == "json" else "auto"),
            patience=Patience(seconds, seconds),
            peer="node-b:29761",
            pipeline=pipeline,
        )

    @property
    def has_unread(self) -> bool:
        return self.channel.has_unread

    def send(self, buffers: Sequence[bytes | bytearray | memoryview], timeout: float | None = None) -> None:
        self.channel.send(buffers, timeout)
        if self.there.fileno() < 0:  # it has died
            return
        body = read_frame(self.there)
        request = self.session.receive(bytearray(in_stock_words(body) if self._stock else body))
        self.asked.append(request.cmd)
        frame = self.session.skipped() or self.session.result(ACTION if request.cmd == "get_action" else None)
        reply = b"".join(frame)
        fault = self._faults.get(request.cmd)
        if fault is None or self.asked.count(request.cmd) <= self._after:
            self.there.sendall(reply)
        else:
            fault(self, reply)

    def receive(self, timeout: float | None = None) -> memoryview:
        return self.channel.receive(timeout)

    def close(self) -> None:
        self.channel.close()

    def __enter__(self) -> FaultyModel:
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.close()
        self.there.close()


# ---------------------------------------------------------------- for the model to suffer
class Served:
    """A model's service with a policy that counts, and connections to it."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.policy: Counter
        self.policy, policy = counting_policy()
        self.service = Service(
            InPlace(policy), policy.name, policy.has_sessions, self._ignore, self._ignore, max_frame=32 << 20
        )
        self.log: list[str] = []
        self._nursery = nursery
        self._last = trio.Event()

    def connect(self) -> socket.socket:
        """The simulator's end, in blocking mode, of a connection that is being met."""
        ours, theirs = tcp_pair()
        self._last = ended = trio.Event()

        async def meet() -> None:
            await self.service.meet(trio.socket.from_stdlib_socket(theirs), Address("127.0.0.1", 1))
            ended.set()

        self._nursery.start_soon(meet)
        return ours

    async def ended_last(self) -> None:
        """Wait until the last connection has come to its end at the model."""
        with trio.fail_after(10):
            await self._last.wait()

    async def still_serves(self) -> None:
        """The next simulator is served, and by the policy."""
        with trio.fail_after(10):
            channel = TrioChannel(trio.socket.from_stdlib_socket(self.connect()))
            simulator = Upgraded(channel)
            await simulator.call("reset_model")
            assert await simulator.call("add", 1, 2) == 3
            await simulator.ask(simulator.wire.bye())
            await channel.aclose()
        await self.ended_last()

    @staticmethod
    def _ignore(_text: str) -> None: ...


class _Lines(logging.Handler):
    """What the program writes to its log, from warnings on."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__(logging.WARNING)
        self.setFormatter(logs.KeyValueFormatter())
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(self.format(record))


@asynccontextmanager
async def served() -> AsyncIterator[Served]:
    logger = logging.getLogger(logs.LOGGER_NAME)
    async with trio.open_nursery() as nursery:
        model = Served(nursery)
        handler = _Lines(model.log)
        logger.addHandler(handler)
        try:
            yield model
        finally:
            logger.removeHandler(handler)
        nursery.cancel_scope.cancel()


class RawSimulator:
    """A simulator that gives its bytes out of hand. `form` is one of `FORMATS`."""

    def __init__(self, form: str, sock: socket.socket | trio.socket.SocketType) -> None:
        self._heard = b""
        self.sock = trio.socket.from_stdlib_socket(sock) if isinstance(sock, socket.socket) else sock
        self.wire = RequesterSession({"stock": "stock", "json": "json", "binary": "auto"}[form])  # type: ignore[arg-type]

    def ask(self, cmd: str, *args: Any) -> bytes:
        """The frame of a request."""
        return b"".join(self.wire.request(cmd, args))

    async def begin(self) -> int:
        """Be served a first request; how long its frame is."""
        frame = self.ask("reset_model")
        await self.say(frame)
        self.wire.receive(await self.hear())
        return len(frame)

    async def say(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[await self.sock.send(view) :]

    async def hear(self) -> bytes:
        """The body of the next frame; empty at the end of the stream."""
        with trio.fail_after(10):
            while len(self._heard) < 4 or len(self._heard) < 4 + struct.unpack_from(">I", self._heard)[0]:
                try:
                    piece = await self.sock.recv(1 << 16)
                except ConnectionResetError:
                    return b""
                if not piece:
                    return b""
                self._heard += piece
        end = 4 + struct.unpack_from(">I", self._heard)[0]
        body, self._heard = self._heard[4:end], self._heard[end:]
        return body

    def die(self, how: str) -> None:
        if how == "reset":
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


def silent(model: FaultyModel, reply: bytes) -> None:
    """The fault of never answering."""
