"""One numpy array <-> the four fields by which it travels in JSON.

    {"__numpy_array__": true, "data": <base64 of the C-order bytes>, "dtype": <str(dtype)>, "shape": [...]}

Both directions keep to one allow-list of dtypes, so that what we send can be read, and what we read can neither run
code nor name memory: booleans, integers, IEEE floats and complex numbers up to 8 (16) bytes, fixed-width text and
bytes, datetime64 and timedelta64; any byte order. Structured, object, void and extended-precision dtypes are out.
"""

from __future__ import annotations

import base64
import binascii
import functools
import math
import re
import sys
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from framing.errors import ProtocolError, clip

try:  # SIMD, roughly 10x the standard library; an ordinary dependency, but old simulator environments may lack it
    import pybase64
except ImportError:  # pragma: no cover - exercised by a test that hides the module in a subprocess
    pybase64 = None  # type: ignore[assignment,unused-ignore]

_PIECE = 1 << 18  # characters; a multiple of 4

AnyArray: TypeAlias = npt.NDArray[np.generic]

MARKER = "__numpy_array__"
"""The key that makes a JSON object an array descriptor."""

MAX_DIMENSIONS = 32
"""numpy 1.x stops at 32 (numpy 2 at 64); a message must be readable by the older of two environments."""

MAX_ARRAYS = 1 << 16
"""Arrays (and bytes) in one message. An observation has a dozen; a million empty ones would cost their reader far more
memory than their descriptors took on the way."""

MAX_DTYPE_TEXT = 32
"""Longest dtype text looked at; the longest honest one is `timedelta64[1000ns]`."""

_NUMERIC = frozenset(
    ["bool"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
    + ["float16", "float32", "float64", "complex64", "complex128"]
)
_CODED = re.compile(
    r"[<>=|]?(?:[?]|b1|[iu][1248]|f[248]|c8|c16|[US][1-9][0-9]{0,7}|[mM]8(?:\[(?:[1-9][0-9]{0,8})?(?:as|fs|ps|ns|us|ms|[smhDWMY])\])?)",
    re.ASCII,
)
_TIMED = re.compile(r"(?:datetime64|timedelta64)(?:\[(?:[1-9][0-9]{0,8})?(?:as|fs|ps|ns|us|ms|[smhDWMY])\])?", re.ASCII)


def refusal(array: AnyArray) -> str | None:
    """Why `array` cannot travel, as the rest of a sentence that begins with its key path; None if it can."""
    dtype = array.dtype
    if isinstance(array, np.ma.MaskedArray):
        return "a masked array cannot travel (the mask would be lost); send .filled(...) or data and mask apart"
    if dtype.hasobject:
        return "object dtype cannot travel; convert it to a numeric array, or send a list"
    if dtype.names is not None:
        return f"a structured array cannot travel; send its fields {', '.join(dtype.names)} as separate arrays"
    if array.ndim > MAX_DIMENSIONS:
        return f"an array of {array.ndim} dimensions cannot travel; the most is {MAX_DIMENSIONS}"
    if dtype_text(dtype) is None:
        return f"dtype {dtype} cannot travel; convert it first, for example with .astype(np.float32)"
    return None


@functools.lru_cache(maxsize=256)
def dtype_text(dtype: np.dtype[np.generic]) -> str | None:
    """numpy's text for `dtype`; None if it is not one that travels. Kept, because numpy takes its time over it."""
    text = str(dtype)
    return text if dtype.itemsize and _allowed(text) else None


def raw_bytes(array: AnyArray) -> memoryview:
    """The array's bytes in C order. `array` must have passed `refusal`. Copies only non-contiguous input."""
    if not array.size:
        return memoryview(b"")
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def encode_data(array: AnyArray) -> bytes:
    """base64 of the array's bytes in C order. `array` must have passed `refusal`."""
    raw = raw_bytes(array)
    if pybase64 is not None:
        encoded: bytes = pybase64.b64encode(raw)
        return encoded
    return binascii.b2a_base64(raw, newline=False)


def decode_array(data: str | memoryview, dtype_text: str, shape: list[object]) -> AnyArray:
    """The array of a JSON descriptor, writable. `data` is base64, as text or as bytes in the receive buffer.

    Raises ProtocolError on a dtype outside the allow-list, a shape that is not a list of sizes or does not match the
    data, and base64 that is not.
    """
    dtype, sizes = parse_dtype(dtype_text), parse_shape(shape)
    try:
        raw = _decode_base64(data)
    except ValueError as problem:  # binascii.Error is a ValueError
        raise ProtocolError(f"an array's data is not base64: {problem}") from None
    expected = bytes_needed(dtype, sizes)
    if expected != len(raw):
        raise ProtocolError(
            f"an array of shape {clip(sizes)} and dtype {dtype} needs {clip(expected)} bytes; it has {len(raw)}"
        )
    return array_over(raw, dtype, sizes)


def bytes_needed(dtype: np.dtype[np.generic], sizes: list[int]) -> int:
    """What an array of `sizes` takes; exact whatever the peer claims, since these are Python's integers."""
    return math.prod(sizes) * dtype.itemsize


def array_over(raw: bytearray | memoryview, dtype: np.dtype[np.generic], sizes: list[int]) -> AnyArray:
    """The array whose memory is `raw`, which has exactly `bytes_needed`. Raises ProtocolError if there can be none."""
    try:
        if not raw:
            return np.empty(sizes, dtype)
        array: AnyArray = np.frombuffer(raw, dtype).reshape(sizes)
    except (ValueError, OverflowError) as problem:  # an empty array whose other sizes overflow the address space
        raise ProtocolError(f"an array of shape {clip(sizes)} cannot exist: {problem}") from None
    # Bytes that no array of these dtypes can hold; numpy would trip over them later, far from here.
    if dtype.kind == "b" and array.view(np.uint8).max() > 1:
        raise ProtocolError("an array of booleans holds bytes that are neither 0 nor 1")
    if (
        dtype.kind == "U"
        and np.frombuffer(raw, np.dtype(np.uint32).newbyteorder(dtype.byteorder)).max() > sys.maxunicode
    ):
        raise ProtocolError("an array of text holds a number that is no character")
    return array


def _allowed(text: str) -> bool:
    if len(text) > MAX_DTYPE_TEXT:
        return False
    return text in _NUMERIC or _CODED.fullmatch(text) is not None or _TIMED.fullmatch(text) is not None


def parse_dtype(text: str) -> np.dtype[np.generic]:
    """The dtype of an array descriptor. Raises ProtocolError unless it is on the allow-list."""
    if not _allowed(text):
        raise ProtocolError(f"dtype {clip(text)} is not one that travels on this wire")
    try:
        dtype: np.dtype[np.generic] = np.dtype(text)
    except (TypeError, ValueError) as problem:  # e.g. datetime64[0s], a width beyond numpy's own limit
        raise ProtocolError(f"dtype {text!r} is not one that numpy knows: {problem}") from None
    if dtype.itemsize <= 0 or dtype.hasobject:  # numpy 1.x lets widths overflow
        raise ProtocolError(f"dtype {text!r} is not one that travels on this wire")
    return dtype


def parse_shape(shape: list[object]) -> list[int]:
    """The shape of an array descriptor. Raises ProtocolError unless it is a list of sizes."""
    if len(shape) > MAX_DIMENSIONS:
        raise ProtocolError(f"an array of {len(shape)} dimensions; the most is {MAX_DIMENSIONS}")
    sizes: list[int] = []
    for size in shape:
        if type(size) is not int or size < 0 or size >= 1 << 63:
            raise ProtocolError(f"an array's shape holds {clip(size)}, which is not a size")
        sizes.append(size)
    return sizes


def _decode_base64(data: str | memoryview) -> bytearray:
    # A bytearray, because an array over it is writable without another copy.
    if pybase64 is not None:
        decoded: bytearray = pybase64.b64decode_as_bytearray(data, validate=True)
        return decoded
    # Piece by piece, so that the result never exists twice. Padding is legal at the very end only.
    out = bytearray(len(data) // 4 * 3)
    filled = 0
    for start in range(0, len(data), _PIECE):
        if filled != start // 4 * 3:
            raise ValueError("padding before the end")
        piece = base64.b64decode(data[start : start + _PIECE], validate=True)
        out[filled : filled + len(piece)] = piece
        filled += len(piece)
    del out[filled:]
    return out
