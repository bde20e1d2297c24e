"""Frames: a 4-byte big-endian length, then that many bytes of body.

`encode_frame` gives the buffers of one gathering send: header and body never leave in two writes, which is what made
the stock pair wait for delayed acknowledgements. `FrameDecoder` is the incremental reader; the socket reads straight
into the memory it offers.
"""

from __future__ import annotations

import ctypes
import struct
from collections import deque
from collections.abc import Iterable
from typing import TypeAlias

from framing.errors import EncodeError, ProtocolError

Buffer: TypeAlias = "bytes | bytearray | memoryview"

HEADER = struct.Struct(">I")

DEFAULT_MAX_FRAME = 256 << 20
"""Largest body, in bytes. A seven-camera observation with float64 depth is about 10 MB; the header could say 4 GiB."""

AT_ONCE = 4 << 20
"""A body up to this size is allocated as soon as its header is read; beyond it, memory follows what has arrived."""

ALIGNMENT = 64
"""Every body begins at a multiple of this address: a cache line, and what vector instructions and GPU copies like."""

SCRATCH = 64 << 10
"""Room for headers and small frames: most replies arrive whole in one read, header included."""

_TLS = "it speaks TLS, and this end expects plain frames; use TLS on both ends or on neither"
_HTTP = "it speaks HTTP: a browser, a health check, or the server of another protocol on this port"
_BEGINNINGS = {
    b"\x16\x03": _TLS,  # a handshake
    b"\x15\x03": _TLS,  # an alert: how a TLS server answers a plain frame
    b"HTTP": _HTTP,
    **dict.fromkeys((b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"DELE", b"PATC", b"CONN", b"PRI "), _HTTP),
    b"SSH-": "it speaks SSH; check the port number",
}
"""What some wrong peers begin with. Read as a length, each of these is far above any maximum."""


def encode_frame(body: Buffer | Iterable[Buffer], *, max_frame: int = DEFAULT_MAX_FRAME) -> list[Buffer]:
    """The buffers of one frame, header first, to be sent in one go. `body` may be given in pieces.

    Raises EncodeError if the body is empty, larger than `max_frame`, or too large for a header of 4 bytes.
    """
    pieces = [body] if isinstance(body, (bytes, bytearray, memoryview)) else list(body)
    size = sum(memoryview(piece).nbytes for piece in pieces)
    limit = min(max_frame, 0xFFFFFFFF)
    if size > limit:
        raise EncodeError(f"a message of {_mebibytes(size)} is above the maximum of {_mebibytes(limit)} for one frame")
    if size == 0:
        raise EncodeError("an empty message cannot travel")
    return [HEADER.pack(size), *pieces]


class FrameDecoder:
    """Bytes in, whole bodies out.

    Read into `get_buffer()` and report with `buffer_updated(n)`, or hand over bytes with `feed`; then take bodies with
    `next_frame()` until it returns None. Each body is a fresh writable memoryview, aligned to `ALIGNMENT`, that nothing
    else ever touches again.

    Memory grows with the bytes that arrived, not with those that were promised: a body up to the larger of `AT_ONCE`
    and the largest body already completed is allocated at once, a larger one by doubling, and one above `max_frame`
    never. Errors (a length above the maximum, or zero) are raised by `next_frame`, after the bodies before them, and by
    `get_buffer` and `feed`.

    `max_frame` may be changed at any time; it holds for the headers that are read from then on.
    """

    def __init__(self, *, max_frame: int = DEFAULT_MAX_FRAME) -> None:
        if not 0 < max_frame <= 0xFFFFFFFF:
            raise ValueError(f"the maximum frame must lie between 1 and {0xFFFFFFFF} bytes, not {max_frame}")
        self.max_frame = max_frame
        self._scratch = memoryview(bytearray(SCRATCH))
        self._start = 0  # scratch[start:end] has arrived and belongs to no body yet
        self._end = 0
        self._body: _Body | None = None
        self._done: deque[memoryview] = deque()
        self._largest = 0
        self._error: ProtocolError | None = None

    @property
    def at_boundary(self) -> bool:
        """True if the peer may close here: no frame is incomplete."""
        return self._body is None and self._start == self._end

    @property
    def has_frame(self) -> bool:
        """True if `next_frame` would return a body."""
        return bool(self._done)

    def get_buffer(self) -> memoryview:
        """Where the next bytes belong; never empty. Valid until the next call of any method."""
        if self._error is not None:
            raise self._error
        if self._body is not None:
            return self._body.room()
        if self._start == self._end:
            self._start = self._end = 0
        elif self._end > SCRATCH - HEADER.size:  # a header cut short at the end of the scratch
            rest = bytes(self._scratch[self._start : self._end])
            self._scratch[: len(rest)] = rest
            self._start, self._end = 0, len(rest)
        return self._scratch[self._end :]

    def buffer_updated(self, count: int) -> None:
        """`count` bytes have been written to the beginning of `get_buffer()`."""
        if self._body is not None:
            self._body.grew(count)
            if self._body.complete:
                self._finish(self._body)
        else:
            self._end += count
            self._parse()

    def feed(self, data: Buffer) -> None:
        """The bytes of `data` have arrived. Copies them; `get_buffer` does without."""
        view = memoryview(data).cast("B")
        while view.nbytes:
            room = self.get_buffer()
            count = min(room.nbytes, view.nbytes)
            room[:count] = view[:count]
            room.release()
            self.buffer_updated(count)
            view = view[count:]

    def next_frame(self) -> memoryview | None:
        """The next complete body, or None if more bytes are needed. Raises ProtocolError where the stream is broken."""
        if self._done:
            return self._done.popleft()
        if self._error is not None:
            raise self._error
        return None

    def _parse(self) -> None:
        """Take whole frames, or the beginning of one, out of the scratch."""
        while self._error is None and self._end - self._start >= HEADER.size:
            (size,) = HEADER.unpack_from(self._scratch, self._start)
            if size > self.max_frame:
                self._error = ProtocolError(_too_large(size, self.max_frame))
                return
            if size == 0:
                self._error = ProtocolError("the peer sent an empty frame, and no message is empty")
                return
            self._start += HEADER.size
            body = _Body(size, max(AT_ONCE, self._largest))
            self._start += body.take(self._scratch[self._start : self._end])
            if not body.complete:
                self._body = body
                return
            self._finish(body)

    def _finish(self, body: _Body) -> None:
        self._largest = max(self._largest, body.size)
        self._done.append(body.whole())
        self._body = None


class _Body:
    """The memory of one incomplete body.

    A large one starts at size / 2^k, rounded up, and doubles k times, so that the last doubling ends where the body
    does. `bytearray *= 2` grows in place: no second copy exists at any time. (Memory that nobody zeroes first, such as
    `np.empty` gives, would be no faster: zeroing brings into the cache what the socket is about to write.)
    """

    def __init__(self, size: int, at_once: int) -> None:
        self.size = size
        self._filled = 0
        first, doublings = size, 0
        while first > at_once:
            doublings += 1
            first = -(-size // (1 << doublings))
        self._memory = bytearray(first + ALIGNMENT - 1)
        self._start = -address_of(self._memory) % ALIGNMENT
        self._grown = False
        self._lent = memoryview(self._memory)[:0]

    @property
    def complete(self) -> bool:
        return self._filled == self.size

    @property
    def _capacity(self) -> int:
        return min(self.size, len(self._memory) - self._start)

    def room(self) -> memoryview:
        self._lent.release()  # memory that is lent out cannot grow
        if self._filled == self._capacity:
            self._memory *= 2
            self._grown = True
        self._lent = memoryview(self._memory)[self._start + self._filled : self._start + self._capacity]
        return self._lent

    def grew(self, count: int) -> None:
        if not 0 <= count <= self._capacity - self._filled:
            raise ValueError(f"{count} bytes were reported for a buffer that had no room for them")
        self._filled += count

    def take(self, data: memoryview) -> int:
        """Copy as much of `data` as belongs here; how much that was. `data` is smaller than any first allocation."""
        count = min(len(data), self.size)
        self._memory[self._start : self._start + count] = data[:count]
        self._filled = count
        return count

    def whole(self) -> memoryview:
        self._lent.release()
        view = memoryview(self._memory)
        start = self._start
        if self._grown:  # and perhaps moved
            start = -address_of(self._memory) % ALIGNMENT
            view[start : start + self.size] = view[self._start : self._start + self.size]
        return view[start : start + self.size]


def address_of(memory: bytearray | memoryview) -> int:
    """Where the first byte of `memory`, which is writable and not empty, lies in the address space."""
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def _too_large(size: int, limit: int) -> str:
    start = HEADER.pack(size)
    hint = next((meaning for beginning, meaning in _BEGINNINGS.items() if start.startswith(beginning)), None)
    if hint is None:
        hint = "it is not a program of this protocol"
        if start.isascii():
            hint += f", or it speaks another one (it began with {start!r})"
    return f"the peer announced a frame of {_mebibytes(size)}, above the maximum of {_mebibytes(limit)}: {hint}"


def _mebibytes(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB" if size >= 1 << 20 else f"{size} bytes"
