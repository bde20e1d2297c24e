"""The same as `sockets` and `blocking`, under trio: for the model's program, which serves while its policy thinks.

`TrioChannel` works over `trio.socket` (bytes are read straight into their place; `trio.SocketStream` has no
`recv_into`) and over any `trio.abc.Stream`, so that tests run on `trio.testing`'s memory streams with a fake clock.
"""

from __future__ import annotations

import contextlib
import errno
import math
import socket as _socket
from collections.abc import Callable, Iterator, Sequence

import trio
from trio import socket as trio_socket

from framing.errors import DeadlineExceeded, PeerGone, ProtocolError
from framing.frames import DEFAULT_MAX_FRAME, HEADER, Buffer, FrameDecoder
from robopro_eval.transport import sockets
from robopro_eval.transport.addresses import Address, check_address
from robopro_eval.transport.blocking import IOV_MAX, acknowledge, drop_sent, gone
from robopro_eval.transport.errors import NobodyCame
from robopro_eval.transport.retry import ATTEMPTS, CONNECT_TIMEOUT, INTERVAL, NAME_ATTEMPTS, STATUS_EVERY, Retry

_STREAM_READ = 64 << 10


def listen(host: str, port: int) -> trio_socket.SocketType:
    """As `sockets.listen`."""
    return trio_socket.from_stdlib_socket(sockets.listen(host, port))


def bound_address(sock: trio_socket.SocketType) -> Address:
    """As `sockets.bound_address`."""
    name = sock.getsockname()
    return Address(str(name[0]), int(name[1]))


async def accept(
    listener: trio_socket.SocketType,
    *,
    timeout: float | None = None,
    status_every: float = STATUS_EVERY,
    on_wait: Callable[[str], None] = sockets.quiet,
) -> tuple[trio_socket.SocketType, Address]:
    """As `sockets.accept`."""
    begun = trio.current_time()
    where = bound_address(listener)
    with trio.move_on_after(math.inf if timeout is None else timeout):
        while True:
            with trio.move_on_after(status_every):
                try:
                    sock, _ = await listener.accept()
                except ConnectionAbortedError:
                    continue
                except OSError as error:
                    on_wait(sockets.cannot_accept(where, error))
                    await trio.sleep(sockets.EXHAUSTED_PAUSE)
                    continue
                return sock, _configured(sock)
            on_wait(f"⏳ still waiting on {where} for a peer to connect ({trio.current_time() - begun:.0f} s)")
    raise NobodyCame(f"nobody connected to {where} within {timeout:g} s")


async def dial(
    address: tuple[str, int],
    *,
    attempts: int = ATTEMPTS,
    interval: float = INTERVAL,
    name_attempts: int = NAME_ATTEMPTS,
    timeout: float = CONNECT_TIMEOUT,
    status_every: float = STATUS_EVERY,
    on_wait: Callable[[str], None] = sockets.quiet,
) -> trio_socket.SocketType:
    """As `sockets.dial`."""
    target = check_address(address)
    retry = Retry(
        target,
        trio.current_time(),
        attempts=attempts,
        interval=interval,
        name_attempts=name_attempts,
        status_every=status_every,
    )
    while True:
        try:
            found = await trio_socket.getaddrinfo(target.host, target.port, type=_socket.SOCK_STREAM)
        except OSError as error:
            wait = retry.failed(error, trio.current_time(), resolving=True)
        else:
            try:
                return await _connect(found, timeout)
            except OSError as error:
                wait = retry.failed(error, trio.current_time(), resolving=False)
        if retry.status is not None:
            on_wait(retry.status)
        await trio.sleep(wait)


async def _connect(
    found: Sequence[tuple[_socket.AddressFamily, _socket.SocketKind, int, str, tuple[object, ...]]], timeout: float
) -> trio_socket.SocketType:
    last: OSError = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
    for family, kind, protocol, _, target in found:
        sock = trio_socket.socket(family, kind, protocol)
        try:
            with trio.move_on_after(timeout) as scope:
                await sock.connect(target)
            if scope.cancelled_caught:
                raise TimeoutError
            if sock.getsockname() == sock.getpeername():  # see sockets.is_self_connected
                raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
            _configured(sock)
        except OSError as error:
            last = error
            sock.close()
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise last


def _configured(sock: trio_socket.SocketType) -> Address:
    for level, option, value in sockets.options():
        try:
            sock.setsockopt(level, option, value)
        except OSError:
            continue
    return _peer_address(sock)


def _peer_address(sock: trio_socket.SocketType) -> Address:
    try:
        return sockets.readable(sock.getpeername())
    except OSError:
        return sockets.UNKNOWN


class TrioChannel:
    """Frames out, frames in, one task at a time in each direction. Takes over the stream or socket.

    Deadlines are per frame. Raises only PeerGone, DeadlineExceeded and ProtocolError (and trio's cancellation); what
    `BlockingChannel` says about the state afterwards holds here too. Being cancelled while sending closes the channel,
    because half a frame may have been sent; being cancelled while receiving loses nothing.
    """

    def __init__(self, transport: trio.abc.Stream | trio_socket.SocketType, max_frame: int = DEFAULT_MAX_FRAME) -> None:
        if isinstance(transport, trio.SocketStream):
            transport = transport.socket
        self._line: _SocketLine | _StreamLine
        if isinstance(transport, trio.abc.Stream):
            self._line = _StreamLine(transport)
            self.peer = Address("stream", 0)
        else:
            self._line = _SocketLine(transport)
            self.peer = _peer_address(transport)
        self._decoder = FrameDecoder(max_frame=max_frame)
        self._failure: PeerGone | None = None
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    async def send(self, buffers: Sequence[Buffer], timeout: float | None = None) -> None:
        """Send one frame (what `framing` returned). `timeout` seconds for all of it, None waits for ever."""
        self._check_open()
        try:
            with trio.move_on_after(math.inf if timeout is None else timeout):
                await self._line.send(buffers)
                return
        except OSError as error:
            await self._failed(error, "while a message was being sent to it")
            return
        except BaseException:
            await self._close()
            raise
        await self._close()
        raise DeadlineExceeded(f"the peer at {self.peer} did not take a message within {timeout} s")

    async def receive(self, timeout: float | None = None) -> memoryview:
        """The next frame's body: fresh memory that nothing else touches. `timeout` seconds for the whole frame."""
        await trio.lowlevel.checkpoint()
        try:
            with trio.move_on_after(math.inf if timeout is None else timeout):
                while (body := self._decoder.next_frame()) is None:
                    self._check_open()
                    await self._read_some()
                return body
        except (PeerGone, ProtocolError):
            await self._close()
            raise
        await self._close()
        raise DeadlineExceeded(f"no message from the peer at {self.peer} within {timeout} s")

    async def aclose(self) -> None:
        """Close the connection. Safe to repeat; a task that is receiving gets PeerGone."""
        await self._close()
        await trio.lowlevel.checkpoint()

    async def _read_some(self) -> None:
        try:
            count = await self._line.receive_into(self._decoder)
        except OSError as error:
            await self._failed(error, "while a message was awaited")
            return
        if count == 0:
            raise gone(self.peer, self._decoder, None, "")

    async def _failed(self, error: OSError, when: str) -> None:
        """The line broke: read what had already arrived; if that completes no frame, raise."""
        if self._closed:  # by another task of ours
            self._check_open()
        with contextlib.suppress(OSError):
            while await self._line.receive_buffered(self._decoder):
                pass
        self._failure = gone(self.peer, self._decoder, error, when)
        await self._close()
        if not self._decoder.has_frame:
            raise self._failure

    def _check_open(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise PeerGone(f"the connection to {self.peer} is closed")

    async def _close(self) -> None:
        self._closed = True
        await self._line.close()


@contextlib.contextmanager
def _as_os_error() -> Iterator[None]:
    """trio's words for a line that is closed or broken, as an OSError, so that one piece of code judges them all."""
    try:
        yield
    except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
        raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer") from error


class _SocketLine:
    """A trio socket: gathering sends, reads straight into the decoder's memory."""

    def __init__(self, sock: trio_socket.SocketType) -> None:
        self._sock = sock

    async def send(self, buffers: Sequence[Buffer]) -> None:
        rest = [memoryview(buffer).cast("B") for buffer in buffers]
        with _as_os_error():
            while rest:
                rest = drop_sent(rest, await self._sock.sendmsg(rest[:IOV_MAX]))

    async def receive_into(self, decoder: FrameDecoder) -> int:
        with _as_os_error():
            count = await self._sock.recv_into(decoder.get_buffer())
        decoder.buffer_updated(count)
        if count == HEADER.size:
            acknowledge(self._sock)
        return count

    async def receive_buffered(self, decoder: FrameDecoder) -> int:
        with trio.move_on_after(0.001):
            return await self.receive_into(decoder)
        return 0

    async def close(self) -> None:
        self._sock.close()


class _StreamLine:
    """Any trio stream."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream

    async def send(self, buffers: Sequence[Buffer]) -> None:
        with _as_os_error():
            await self._stream.send_all(b"".join(buffers))

    async def receive_into(self, decoder: FrameDecoder) -> int:
        with _as_os_error():
            data = await self._stream.receive_some(_STREAM_READ)
        decoder.feed(data)
        return len(data)

    async def receive_buffered(self, decoder: FrameDecoder) -> int:
        with trio.move_on_after(0.001):
            return await self.receive_into(decoder)
        return 0

    async def close(self) -> None:
        await trio.aclose_forcefully(self._stream)
