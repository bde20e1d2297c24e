"""`TrioChannel`: whole frames under trio, with one deadline per frame. For the model's program.

It works over TCP sockets (bytes are read straight into their place), over TLS, and over any `trio.abc.Stream`, so that
tests run on `trio.testing`'s memory streams with a fake clock.
"""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import ssl
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import trio
from trio import socket as trio_socket

from framing.errors import DeadlineExceeded, PeerGone, ProtocolError
from framing.frames import DEFAULT_MAX_FRAME, HEADER, Buffer, FrameDecoder
from robopro_eval.transport import sockets, tls
from robopro_eval.transport.addresses import Address
from robopro_eval.transport.blocking import IOV_MAX, NOT_TAKEN, acknowledge, broken, corked, drop_sent, gone, poll_for

FAIR_SHARE = 4 << 20
"""Bytes that may pass on one channel before other tasks run: a millisecond or two."""

FAIR_FRAMES = 16
"""Likewise for frames, however small."""

_STREAM_READ = 64 << 10


class TrioChannel:
    """Frames out, frames in, one task at a time in each direction. Takes over what it is given: a trio socket, what
    `aio.secure` made of one, or any trio stream.

    Deadlines are per frame. Raises only PeerGone, DeadlineExceeded and ProtocolError (and trio's cancellation); what
    `BlockingChannel` says about the state afterwards holds here too. Being cancelled while sending closes the channel,
    because half a frame may have been sent; being cancelled while receiving loses nothing.

    Every call notices that it is cancelled. Other tasks run whenever it has to wait, and else after `FAIR_SHARE` bytes
    or `FAIR_FRAMES` frames, so that a peer that sends without end does not keep them from running: letting them run at
    every frame would cost as much as a small frame itself.
    """

    def __init__(
        self,
        transport: trio.abc.Stream | trio_socket.SocketType | ssl.SSLSocket,
        max_frame: int = DEFAULT_MAX_FRAME,
    ) -> None:
        self.peer: Address
        self._line: _Line
        if isinstance(transport, trio.abc.Stream):
            self.peer, self._line = Address("stream", 0), _StreamLine(transport)
        elif isinstance(transport, ssl.SSLSocket):
            self.peer, self._line = sockets.peer_address(transport), _TlsLine(transport)
        else:
            sock = plain(transport)
            self.peer, self._line = sockets.peer_address(sock), _SocketLine(sock)
        self._decoder = FrameDecoder(max_frame=max_frame)
        self._failure: PeerGone | ProtocolError | None = None
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def max_frame(self) -> int:
        """Largest body to receive, in bytes. May be changed between frames."""
        return self._decoder.max_frame

    @max_frame.setter
    def max_frame(self, size: int) -> None:
        self._decoder.max_frame = size

    @property
    def has_unread(self) -> bool:
        """True if more has been read than the frames that `receive` returned."""
        return self._decoder.has_frame or not self._decoder.at_boundary

    async def send(self, buffers: Sequence[Buffer], timeout: float | None = None) -> None:
        """Send one frame (what `framing` returned). `timeout` seconds for all of it, None waits for ever."""
        self._check_open()
        try:
            if timeout is None:  # a limit is not for nothing: it costs as much as sending a small frame
                return await self._line.send(buffers)
            with trio.move_on_after(timeout):
                return await self._line.send(buffers)
        except OSError as error:
            return await self._failed(error, "while a message was being sent to it")
        except BaseException:
            await self._close()
            raise
        await self._close()
        raise DeadlineExceeded(NOT_TAKEN.format(peer=self.peer, timeout=timeout))

    async def receive(self, timeout: float | None = None) -> memoryview:
        """The next frame's body: fresh memory that nothing else touches. `timeout` seconds for the whole frame."""
        try:
            if timeout is None:
                return await self._receive()
            with trio.move_on_after(timeout):
                return await self._receive()
        except (PeerGone, ProtocolError):
            await self._close()
            raise
        await self._close()
        raise DeadlineExceeded(f"no message from the peer at {self.peer} within {timeout:g} s")

    async def aclose(self) -> None:
        """Close the connection. Safe to repeat; a task that is receiving gets PeerGone."""
        await self._close()
        await trio.lowlevel.checkpoint()

    async def _receive(self) -> memoryview:
        await trio.lowlevel.checkpoint_if_cancelled()
        while (body := self._decoder.next_frame()) is None:
            self._check_open()
            try:
                count = await self._line.receive_into(self._decoder)
            except OSError as error:
                await self._failed(error, "while a message was awaited")
                continue
            if count == 0:
                raise gone(self.peer, self._decoder, None, "")
        await self._line.share_after_frame()
        return body

    async def _failed(self, error: OSError, when: str) -> None:
        """The line broke: close it, but read what had already arrived; if that completes no frame, raise."""
        if self._closed:  # by another task of ours
            self._check_open()
        try:
            while await self._line.receive_buffered(self._decoder):
                pass
        except ProtocolError as told:  # what had arrived is not of this protocol
            self._failure = told
        except OSError as told:
            if tls.tells_why(told):  # a reset has no reason, but the alert that came before it has
                error = told
        finally:
            await self._close()
        self._failure = self._failure or broken(self.peer, self._decoder, error, when)
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


class _Line(ABC):
    """What a channel sends and receives with."""

    def __init__(self) -> None:
        self._unshared = 0
        """Bytes that passed since other tasks could run, a frame counting for no less than its share."""

    @abstractmethod
    async def send(self, buffers: Sequence[Buffer]) -> None:
        """Send everything. Raises OSError."""

    @abstractmethod
    async def receive_into(self, decoder: FrameDecoder) -> int:
        """Wait for bytes and read them; how many, 0 at the end. Raises OSError."""

    @abstractmethod
    async def receive_buffered(self, decoder: FrameDecoder) -> int:
        """Without waiting for more: bytes read, 0 if there are none. Raises OSError."""

    @abstractmethod
    async def close(self) -> None: ...

    async def share_after_frame(self) -> None:
        """Let other tasks run if it is their turn. No place to be cancelled: the frame would be lost."""
        await self._share(FAIR_SHARE // FAIR_FRAMES)

    async def _share(self, cost: int) -> None:
        self._unshared += cost
        if self._unshared >= FAIR_SHARE:
            self._unshared = 0
            await trio.lowlevel.cancel_shielded_checkpoint()


class _SocketLine(_Line):
    """A TCP socket: gathering sends, reads straight into the decoder's memory.

    The system is asked first and trio only where there is something to wait for: every visit to trio's scheduler costs
    more than the call itself.
    """

    def __init__(self, sock: socket.socket) -> None:
        super().__init__()
        self._sock = sock
        sock.setblocking(False)
        self._poller = poll_for(sock, select.POLLIN)

    async def send(self, buffers: Sequence[Buffer]) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        rest = [memoryview(buffer).cast("B") for buffer in buffers]
        while True:
            try:
                sent = self._sock.sendmsg(rest[:IOV_MAX])
            except BlockingIOError:
                sent = 0
            rest = drop_sent(rest, sent)
            if not rest:
                return await self.share_after_frame()
            await self._until_writable()

    async def receive_into(self, decoder: FrameDecoder) -> int:
        if not self._has_something():
            await self._until_readable()
        while True:
            try:
                count = self._sock.recv_into(decoder.get_buffer())
            except (BlockingIOError, ssl.SSLWantReadError):
                await self._until_readable()
            except ssl.SSLWantWriteError:
                await self._until_writable()
            else:
                break
        self._arrived(decoder, count)
        await self._share(count)
        return count

    async def receive_buffered(self, decoder: FrameDecoder) -> int:
        try:
            count = self._sock.recv_into(decoder.get_buffer())
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0
        self._arrived(decoder, count)
        return count

    async def close(self) -> None:
        close(self._sock)

    def _has_something(self) -> bool:
        """A look that costs less than the exception of a read that finds nothing. True also at an end."""
        return bool(self._poller.poll(0))

    def _arrived(self, decoder: FrameDecoder, count: int) -> None:
        decoder.buffer_updated(count)
        if count == HEADER.size:
            acknowledge(self._sock)

    async def _until_readable(self) -> None:
        self._unshared = 0
        await until_readable(self._sock)

    async def _until_writable(self) -> None:
        self._unshared = 0
        await until_writable(self._sock)


class _TlsLine(_SocketLine):
    """A socket under TLS, which takes one piece after the other."""

    def __init__(self, sock: ssl.SSLSocket) -> None:
        super().__init__(sock)
        self._tls = sock

    async def send(self, buffers: Sequence[Buffer]) -> None:
        with corked(self._tls):
            for piece in tls.pieces(buffers):
                await trio.lowlevel.checkpoint()
                rest = piece
                while rest:  # a piece that TLS could not take yet has to be offered again as it was
                    try:
                        rest = rest[self._tls.send(rest) :]
                    except ssl.SSLWantWriteError:
                        await self._until_writable()
                    except ssl.SSLWantReadError:
                        await self._until_readable()

    def _has_something(self) -> bool:
        return True  # perhaps: part of a record may have been read already


class _StreamLine(_Line):
    """Any trio stream. Its own calls are checkpoints."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        super().__init__()
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


def plain(sock: trio_socket.SocketType) -> socket.socket:
    """The standard library's socket of a trio socket, which is of no more use then."""
    return socket.socket(fileno=sock.detach())


async def until_readable(sock: socket.socket) -> None:
    """Wait for something to read. Raises OSError if another task closes `sock` (with `close`)."""
    with _as_os_error():
        await trio.lowlevel.wait_readable(sock)


async def until_writable(sock: socket.socket) -> None:
    """Wait for room to write. Raises OSError if another task closes `sock` (with `close`)."""
    with _as_os_error():
        await trio.lowlevel.wait_writable(sock)


def close(sock: socket.socket) -> None:
    """Close `sock` and wake whoever waits for it. Safe to repeat."""
    if sock.fileno() >= 0:
        trio.lowlevel.notify_closing(sock)
        sock.close()


@contextlib.contextmanager
def _as_os_error() -> Iterator[None]:
    """trio's words for a line that is closed or broken, as an OSError, so that one piece of code judges them all."""
    try:
        yield
    except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
        raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer") from error
