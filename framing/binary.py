"""A tree of values <-> the binary body, which two programs of ours exchange: a small JSON head, then raw buffers.

    FF 01 00 00 | head length, 4 bytes, big-endian | head, UTF-8 JSON | zeros | buffer | zeros | buffer ...

The head is the tree, with `{"__numpy_array__": "buffer", "dtype", "shape"}` in the place of each array and
`{"__numpy_array__": "bytes", "size"}` in that of each bytes. The head is padded to a multiple of 64 bytes from the
body's beginning. The buffers follow in the order of their descriptors in the head's text, each beginning at the next
multiple of 64, and nothing follows the last. A buffer's size follows from its descriptor, so that no two can overlap.

0xFF is never the first byte of UTF-8 text, which is how a reader knows a binary body from JSON.
"""

from __future__ import annotations

import struct

from framing.arrays import (
    MARKER,
    MAX_ARRAYS,
    AnyArray,
    array_over,
    bytes_needed,
    parse_dtype,
    parse_shape,
    raw_bytes,
)
from framing.decoding import Wire, decode, members_of, read_text, unescape
from framing.encoding import BUFFER, BYTES, ESCAPED, Lowering, encode_parts
from framing.errors import EncodeError, ProtocolError, clip
from framing.frames import ALIGNMENT, Buffer

FIRST_BYTE = 0xFF
"""Of every binary body and no UTF-8 text."""

VERSION = b"\xff\x01\x00\x00"
"""How a binary body begins. A later format, should there be one, begins with 0xFF and something else."""

COPY_BELOW = 4096
"""Arrays below this many bytes are copied, so that a small action that somebody keeps does not keep its whole frame."""

_PREFIX = struct.Struct(">4sI")
_ZEROS = bytes(ALIGNMENT)


def encode_binary(message: object, *, root: str = "") -> list[Buffer]:
    """The binary body of `message` as pieces that concatenate to it, ready for one gathering send.

    Contiguous arrays of at least `COPY_BELOW` bytes are pieces themselves, not copied: they must not change until the
    frame has been sent. Raises EncodeError, whose message begins with the key path under `root`.
    """
    lowering = Lowering(escape=True, binary=True)
    return _assemble(lowering.text(message, root), lowering.arrays)


def encode_upgraded(message: object, *, binary: bool) -> list[Buffer]:
    """The body of a message to a peer of ours, as pieces: binary if the peer reads that and it is of use, else JSON.

    Without arrays and bytes the JSON body is as short and is readable in a capture. Raises EncodeError.
    """
    if not binary:
        return encode_parts(message, root="", escape=True)
    lowering = Lowering(escape=True, binary=True)
    text = lowering.text(message, "")
    if not lowering.arrays:
        return [text]
    return _assemble(text, lowering.arrays)


def decode_body(body: Buffer) -> Wire:
    """The value of a body in either format: its first byte tells. Raises ProtocolError."""
    view = memoryview(body).cast("B")
    return decode_binary(view) if len(view) and view[0] == FIRST_BYTE else decode(body)


def decode_binary(body: Buffer) -> Wire:
    """The value of a binary body. Raises ProtocolError, and nothing else, on anything malformed.

    Arrays of at least `COPY_BELOW` bytes are writable views of `body`; smaller ones and bytes are copies. A read-only
    body is copied first.
    """
    view = memoryview(body).cast("B")
    if len(view) < _PREFIX.size:
        raise ProtocolError(f"a binary message of {len(view)} bytes is too short to be one")
    version, length = _PREFIX.unpack_from(view)
    if version != VERSION:
        raise ProtocolError(f"a binary message begins with {version.hex(' ')}, which this program does not know")
    end = _PREFIX.size + length
    if end > len(view):
        raise ProtocolError(f"a binary message of {len(view)} bytes claims a head of {length}")
    if view.readonly:
        view = memoryview(bytearray(view))
    buffers = _Buffers(view, end)
    value = read_text(bytes(view[_PREFIX.size : end]), buffers.build)
    buffers.check_end()
    return value


def _assemble(head: bytes, arrays: list[AnyArray]) -> list[Buffer]:
    if len(head) > 0xFFFFFFFF:
        raise EncodeError(f"a message whose values alone take {len(head)} bytes cannot travel")
    small: list[Buffer] = [_PREFIX.pack(VERSION, len(head)), head, _padding(_PREFIX.size + len(head))]
    pieces: list[Buffer] = []
    gap = b""  # a buffer is padded when another one follows
    for array in arrays:
        raw = raw_bytes(array)
        if gap:
            small.append(gap)
        if raw.nbytes < COPY_BELOW:
            small.append(raw)
        else:
            if small:
                pieces.append(b"".join(small))
                small = []
            pieces.append(raw)
        gap = _padding(raw.nbytes)
    if small:
        pieces.append(b"".join(small))
    return pieces


def _padding(size: int) -> bytes:
    """Zeros that lead from `size` to the next multiple of `ALIGNMENT`."""
    return _ZEROS[: -size % ALIGNMENT]


class _Buffers:
    """Takes the buffers one after another as their descriptors are met: a reader of JSON completes the objects that
    hold no other objects in the order of the text."""

    def __init__(self, view: memoryview, head_end: int) -> None:
        self._view = view
        self._end = head_end
        self._count = 0
        self._skip_padding()

    def build(self, pairs: list[tuple[str, Wire]]) -> Wire:
        members = members_of(pairs)
        if MARKER not in members:
            return members
        kind = members[MARKER]
        if isinstance(kind, str):
            dtype, shape, size = members.get("dtype"), members.get("shape"), members.get("size")
            if kind == BUFFER and isinstance(dtype, str) and isinstance(shape, list) and len(members) == 3:
                return self._array(dtype, list(shape))
            if kind == BYTES and type(size) is int and size >= 0 and len(members) == 2:
                return bytes(self._take(size))
            if kind == ESCAPED and ESCAPED in members and len(members) == 2:
                return unescape(members[ESCAPED])
        raise ProtocolError(f"a binary message holds an object with the key {MARKER} that describes nothing")

    def check_end(self) -> None:
        if self._end != len(self._view):
            raise ProtocolError(f"a binary message has {len(self._view) - self._end} bytes that nothing describes")

    def _array(self, dtype_text: str, shape: list[object]) -> AnyArray:
        dtype, sizes = parse_dtype(dtype_text), parse_shape(shape)
        raw = self._take(bytes_needed(dtype, sizes))
        return array_over(bytearray(raw) if len(raw) < COPY_BELOW else raw, dtype, sizes)

    def _take(self, size: int) -> memoryview:
        self._count += 1
        if self._count > MAX_ARRAYS:
            raise ProtocolError(f"a message holds more than {MAX_ARRAYS} arrays")
        if self._end % ALIGNMENT:
            self._skip_padding()
        start, end = self._end, self._end + size
        if end > len(self._view):
            raise ProtocolError(f"a binary message ends inside one of its arrays, which takes {clip(size)} bytes")
        self._end = end
        return self._view[start:end]

    def _skip_padding(self) -> None:
        end = self._end + -self._end % ALIGNMENT
        if end > len(self._view):
            raise ProtocolError("a binary message ends before its padding does")
        if self._view[self._end : end] != _padding(self._end):
            raise ProtocolError("a binary message has padding that is not zero")
        self._end = end
