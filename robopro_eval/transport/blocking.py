"""`BlockingChannel`: whole frames over a connected socket, with one deadline per frame. For synchronous programs."""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import ssl
import time
from collections.abc import Iterator, Sequence

from framing.errors import DeadlineExceeded, PeerGone, ProtocolError, WireError
from framing.frames import DEFAULT_MAX_FRAME, HEADER, Buffer, FrameDecoder
from robopro_eval.transport import tls
from robopro_eval.transport.addresses import Address
from robopro_eval.transport.retry import describe
from robopro_eval.transport.sockets import peer_address

IOV_MAX = 1024
"""Buffers per sendmsg; Linux and macOS refuse more."""

MAX_POLL_MS = 2**31 - 1
"""The longest that poll waits in one go, about 24 days: a C int of milliseconds."""

NOT_TAKEN = "the peer at {peer} did not take a message within {timeout:g} s"
NO_REPLY = "no reply from the peer at {peer} within {timeout:g} s"


class BlockingChannel:
    """Frames out, frames in, one thread at a time.

    Takes over `sock`, which may be an `ssl.SSLSocket` whose handshake is done (see `security.secure`). Deadlines are
    per frame, on a monotonic clock. Raises only PeerGone, DeadlineExceeded and ProtocolError; after any of them the
    channel is closed, except that a frame which had arrived before a send failed is still delivered by the next
    `receive` (a stock server says why it closes, then closes). Ctrl-C interrupts every wait: a send leaves the channel
    closed, because half a frame may have gone out; a receive leaves it as it was.
    """

    def __init__(self, sock: socket.socket, max_frame: int = DEFAULT_MAX_FRAME) -> None:
        self._sock = sock
        self._tls = sock if isinstance(sock, ssl.SSLSocket) else None
        self._decoder = FrameDecoder(max_frame=max_frame)
        self._failure: PeerGone | ProtocolError | None = None
        self.peer: Address = peer_address(sock)
        sock.setblocking(False)
        self._readable, self._writable = poll_for(sock, select.POLLIN), poll_for(sock, select.POLLOUT)

    @property
    def closed(self) -> bool:
        return self._sock.fileno() < 0

    @property
    def max_frame(self) -> int:
        """Largest body to receive, in bytes. May be changed between frames."""
        return self._decoder.max_frame

    @max_frame.setter
    def max_frame(self, size: int) -> None:
        self._decoder.max_frame = size

    @property
    def has_unread(self) -> bool:
        """True if more has come than the frames that `receive` returned; over TLS, as far as it has been read."""
        if self._decoder.has_frame or not self._decoder.at_boundary:
            return True
        if isinstance(self._sock, ssl.SSLSocket):  # what waits in the system need not be ours to read
            return self._sock.pending() > 0
        try:
            return bool(self._sock.recv(1, socket.MSG_PEEK))
        except OSError:  # nothing; or the line broke, which whoever receives finds out
            return False

    def send(self, buffers: Sequence[Buffer], timeout: float | None = None) -> None:
        """Send one frame (what `framing` returned). `timeout` seconds for all of it, None waits for ever."""
        self._check_open()
        deadline = _deadline(timeout)
        try:
            if self._tls is None:
                self._send_plain(buffers, deadline, timeout)
            else:
                self._send_encrypted(self._tls, buffers, deadline, timeout)
        except OSError as error:
            self._failed(error, "while a message was being sent to it")
        except BaseException:
            self.close()
            raise

    def receive(self, timeout: float | None = None) -> memoryview:
        """The next frame's body: fresh memory that nothing else touches. `timeout` seconds for the whole frame."""
        deadline = _deadline(timeout)
        try:
            while (body := self._decoder.next_frame()) is None:
                self._check_open()
                self._read_some(deadline, timeout)
        except WireError:
            self.close()
            raise
        return body

    def close(self) -> None:
        """Close the socket. Safe to repeat."""
        self._sock.close()

    def __enter__(self) -> BlockingChannel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send_plain(self, buffers: Sequence[Buffer], deadline: float | None, timeout: float | None) -> None:
        rest = [memoryview(buffer).cast("B") for buffer in buffers]
        while rest:
            try:
                sent = self._sock.sendmsg(rest[:IOV_MAX])
            except BlockingIOError:
                self._wait(self._writable, deadline, timeout, NOT_TAKEN)
                continue
            rest = drop_sent(rest, sent)

    def _send_encrypted(
        self, sock: ssl.SSLSocket, buffers: Sequence[Buffer], deadline: float | None, timeout: float | None
    ) -> None:
        """One piece after the other; a piece that TLS could not take yet has to be offered again as it was."""
        with corked(sock):
            for piece in tls.pieces(buffers):
                rest = piece
                while rest:
                    try:
                        rest = rest[sock.send(rest) :]
                    except ssl.SSLWantWriteError:
                        self._wait(self._writable, deadline, timeout, NOT_TAKEN)
                    except ssl.SSLWantReadError:
                        self._wait(self._readable, deadline, timeout, NOT_TAKEN)

    def _read_some(self, deadline: float | None, timeout: float | None) -> None:
        if self._tls is None:  # TLS may have read more than it gave; else a reply is hardly ever there already
            self._wait(self._readable, deadline, timeout, NO_REPLY)
        try:
            count = self._sock.recv_into(self._decoder.get_buffer())
        except BlockingIOError:
            return
        except ssl.SSLWantReadError:
            self._wait(self._readable, deadline, timeout, NO_REPLY)
            return
        except ssl.SSLWantWriteError:
            self._wait(self._writable, deadline, timeout, NO_REPLY)
            return
        except OSError as error:
            self._failed(error, "while a reply was awaited")
            return
        if count == 0:
            raise gone(self.peer, self._decoder, None, "")
        self._decoder.buffer_updated(count)
        if count == HEADER.size:
            acknowledge(self._sock)

    def _wait(self, poller: select.poll, deadline: float | None, timeout: float | None, complaint: str) -> None:
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            self.close()
            raise DeadlineExceeded(complaint.format(peer=self.peer, timeout=timeout))
        poller.poll(None if left is None else milliseconds(left))

    def _failed(self, error: OSError, when: str) -> None:
        """The line broke: close it, but read what had already arrived; if that completes no frame, raise."""
        try:
            while count := self._sock.recv_into(self._decoder.get_buffer()):
                self._decoder.buffer_updated(count)
        except ProtocolError as told:  # what had arrived is not of this protocol
            self._failure = told
        except OSError as told:
            if tls.tells_why(told):  # a reset has no reason, but the alert that came before it has
                error = told
        finally:
            self._sock.close()
        self._failure = self._failure or broken(self.peer, self._decoder, error, when)
        if not self._decoder.has_frame:
            raise self._failure

    def _check_open(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self.closed:
            raise PeerGone(f"the connection to {self.peer} is closed")


def acknowledge(sock: socket.socket) -> None:
    """A header came alone. A stock peer's Nagle keeps the body back until that is acknowledged: do so at once.

    (The option lasts for one acknowledgement only; that is why it is not set once and for all.)
    """
    option = getattr(socket, "TCP_QUICKACK", None)  # Linux only
    if option is not None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, option, 1)


@contextlib.contextmanager
def corked(sock: ssl.SSLSocket) -> Iterator[None]:
    """What is sent inside leaves in full packets, the rest at the end.

    OpenSSL writes every record of 16 KiB by itself, and TCP_NODELAY sends it off at once: the reader would be woken for
    each. Three pictures of 240x320 took three times as long.
    """
    option = getattr(socket, "TCP_CORK", None)  # Linux only
    if option is None:
        yield
        return
    sock.setsockopt(socket.IPPROTO_TCP, option, 1)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # a line that broke meanwhile has its own error
            sock.setsockopt(socket.IPPROTO_TCP, option, 0)


def drop_sent(rest: list[memoryview], sent: int) -> list[memoryview]:
    """`rest` without its first `sent` bytes (and without empty buffers, which would never be sent)."""
    for index, buffer in enumerate(rest):
        if sent < buffer.nbytes:
            return [buffer[sent:], *rest[index + 1 :]]
        sent -= buffer.nbytes
    return []


def gone(peer: Address, decoder: FrameDecoder, error: OSError | None, when: str) -> PeerGone:
    """The exception for a peer that closed (`error` None) or vanished."""
    mid_frame = not decoder.at_boundary
    how = "closed the connection" if error is None else f"vanished {when} ({describe(error)})"
    where = " in the middle of a message" if mid_frame else ""
    return PeerGone(f"the peer at {peer} {how}{where}", mid_frame=mid_frame)


def broken(peer: Address, decoder: FrameDecoder, error: OSError, when: str) -> PeerGone | ProtocolError:
    """The exception for a line that failed: a peer that vanished, or TLS that was not kept or refused us."""
    if tls.tells_why(error):
        return ProtocolError(tls.sentence(error, peer))
    if isinstance(error, ssl.SSLError):  # the line ended under TLS, which has no words of the system for it
        error = ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
    return gone(peer, decoder, error, when)


def poll_for(sock: socket.socket, event: int) -> select.poll:
    poller = select.poll()
    poller.register(sock, event)
    return poller


def milliseconds(seconds: float) -> int:
    """For poll: rounded up, since waking early would spin, and bounded, since the caller comes back anyway."""
    return int(min(seconds * 1000 + 1, MAX_POLL_MS))


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout
