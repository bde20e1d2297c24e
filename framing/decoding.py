"""The JSON body -> a tree of Python values and numpy arrays.

The base64 of an array is found in the receive buffer by two searches for a fixed byte pattern, cut out, and decoded
straight from there into the array's own memory; the json module sees only the small remainder. That this gives the same
result as reading the whole text rests on three facts:

- In valid JSON the bytes `"data": "` without a backslash before them are the key `data` and the beginning of its text
  value (inside a string the quotes would be escaped).
- What is cut out is the whole inside of that text, so that the rest is cut into tokens as before.
- Each cut leaves a numbered placeholder. Every dict with the key `data` is seen once its members are complete; there
  the placeholder becomes an array, or the text it was. If any number is seen twice or never, some text only looked
  like a placeholder, and the body is read again without cutting.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from framing.arrays import MARKER, MAX_ARRAYS, AnyArray, decode_array
from framing.encoding import ESCAPED, MAX_DEPTH
from framing.errors import ProtocolError, clip
from framing.frames import address_of

Wire: TypeAlias = "bool | int | float | str | bytes | list[Wire] | dict[str, Wire] | AnyArray | None"
"""What comes off the wire: JSON values and numpy arrays, and bytes from a binary body."""

CUT_FROM = 128
"""Shorter data is left to json: cutting it out would cost more than scanning it."""

MAX_DIGITS = 4300
"""Longest integer, in decimal digits: CPython's own limit, held here where an interpreter has it switched off."""

_OPENING = re.compile(rb'"data" ?: ?"')
_LONG_NUMBER = re.compile(rb"[0-9]{%d}" % (MAX_DIGITS + 1))
_CHUNK = 1 << 20


class _Ambiguous(Exception):
    """Some text in the body looks like one of our placeholders."""


def decode(body: bytes | bytearray | memoryview) -> Wire:
    """The value of a JSON body. Arrays are writable and share no memory with `body`.

    Raises ProtocolError, and nothing else, on anything malformed: bytes that are not UTF-8 or not JSON, duplicate keys,
    nesting deeper than `MAX_DEPTH`, integers of more than `MAX_DIGITS` digits, array descriptors whose dtype, shape
    and data do not fit together.

    A dict is an array descriptor if `__numpy_array__` is `true` in it and `data`, `dtype` and `shape` are a text, a
    text and a list. Any other dict with that key is a dict.
    """
    view = memoryview(body).cast("B")
    kept, cuts = _cut(view)
    if cuts:
        try:
            return _read(kept, view, cuts)
        except _Ambiguous:
            pass
    return _read(bytes(view), view, [])


def _cut(view: memoryview) -> tuple[bytes, list[slice]]:
    """The body with long texts under the key `data` replaced by placeholders `@0`, `@1`, ..., and where they were."""
    pieces: list[bytes | memoryview] = []
    cuts: list[slice] = []
    done = 0
    seek = 0
    memory: bytes | bytearray = b""
    offset = 0
    while (opening := _OPENING.search(view, seek)) is not None:
        start = seek = opening.end()
        if opening.start() and view[opening.start() - 1] == 0x5C:
            continue
        if not memory:
            memory, offset = _searchable(view)
        end = seek = memory.find(b'"', offset + start, offset + len(view)) - offset
        if end < start:  # not found
            break
        if end - start >= CUT_FROM and view[end - 1] != 0x5C:  # a backslash: that quote does not end the text
            pieces += (view[done:start], b"@%d" % len(cuts))
            cuts.append(slice(start, end))
            done = end
    pieces.append(view[done:])
    return b"".join(pieces) if cuts else b"", cuts


def _searchable(view: memoryview) -> tuple[bytes | bytearray, int]:
    """The memory that `view` is a part of, and where in it; since a memoryview itself has no `find`."""
    memory = view.obj
    if isinstance(memory, bytearray) and not view.readonly:
        return memory, address_of(view) - address_of(memory)
    if isinstance(memory, bytes) and len(memory) == len(view):
        return memory, 0
    return bytes(view), 0


def _read(text: bytes, view: memoryview, cuts: list[slice]) -> Wire:
    builder = _Builder(view, cuts)
    value = read_text(text, builder.build)
    builder.check_complete()
    return value


def read_text(text: bytes, build: Callable[[list[tuple[str, Wire]]], Wire]) -> Wire:
    """The value of a JSON text, where `build` makes something of each object's members, innermost objects first.

    Raises ProtocolError for whatever `decode` refuses in plain JSON, except duplicate keys, which `build` finds.
    """
    _check_nesting(text)
    _check_numbers(text)
    try:
        value: Wire = json.loads(str(text, "utf-8"), object_pairs_hook=build)
    except UnicodeDecodeError as problem:
        raise ProtocolError(f"a message is not UTF-8 text: {problem.reason} at byte {problem.start}") from None
    except json.JSONDecodeError as problem:
        raise ProtocolError(f"a message is not JSON: {problem.msg} at character {problem.pos}") from None
    except ValueError as problem:  # the digit limit of int()
        raise ProtocolError(f"a message holds a number that cannot be read: {problem}") from None
    except RecursionError:
        raise ProtocolError("a message is nested too deeply") from None
    return value


def members_of(pairs: list[tuple[str, Wire]]) -> dict[str, Wire]:
    """The members of a JSON object. Raises ProtocolError if two have the same key."""
    members = dict(pairs)
    if len(members) != len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ProtocolError(f"a message holds a dict with a duplicate key, {clip(twice)}")
    return members


def unescape(pairs: Wire) -> dict[str, Wire]:
    """The dict that was sent as a list of pairs. Raises ProtocolError."""
    members: dict[str, Wire] = {}
    if not isinstance(pairs, list):
        raise ProtocolError("an escaped dict is not a list of pairs")
    for pair in pairs:
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)) or pair[0] in members:
            raise ProtocolError("an escaped dict is not a list of pairs with distinct text keys")
        members[pair[0]] = pair[1]
    return members


class _Builder:
    """Makes each JSON object, once its members are complete, into the dict or the array that it is."""

    def __init__(self, view: memoryview, cuts: list[slice]) -> None:
        self._view = view
        self._cuts = cuts
        self._seen = bytearray(len(cuts))
        self._arrays = 0

    def build(self, pairs: list[tuple[str, Wire]]) -> Wire:
        members = members_of(pairs)
        cut = self._cut_of(members.get("data")) if self._cuts else None
        if MARKER in members:
            kind, data = members[MARKER], members.get("data")
            dtype, shape = members.get("dtype"), members.get("shape")
            if kind is True and isinstance(data, str) and isinstance(dtype, str) and isinstance(shape, list):
                return self._array(data, cut, dtype, list(shape))
            if isinstance(kind, str) and kind == ESCAPED and len(members) == 2 and ESCAPED in members:
                return unescape(members[ESCAPED])
        if cut is not None:
            members["data"] = self._text(cut)
        return members

    def check_complete(self) -> None:
        if self._seen.count(1) != len(self._cuts):
            raise _Ambiguous

    def _array(self, data: str, cut: slice | None, dtype: str, shape: list[object]) -> AnyArray:
        self._arrays += 1
        if self._arrays > MAX_ARRAYS:
            raise ProtocolError(f"a message holds more than {MAX_ARRAYS} arrays")
        if cut is None:
            return decode_array(data, dtype, shape)
        raw = self._view[cut]
        try:
            return decode_array(raw, dtype, shape)
        except ProtocolError:
            if b"\\" not in bytes(raw):
                raise
        # Some JSON writers escape the slashes of base64.
        return decode_array(self._text(cut), dtype, shape)

    def _cut_of(self, value: Wire) -> slice | None:
        if not isinstance(value, str) or not value.startswith("@"):
            return None
        digits = value[1:]
        if not (digits.isascii() and digits.isdigit() and len(digits) < 10) or str(int(digits)) != digits:
            return None
        index = int(digits)
        if index >= len(self._cuts):
            return None
        if self._seen[index]:
            raise _Ambiguous
        self._seen[index] = 1
        return self._cuts[index]

    def _text(self, cut: slice) -> str:
        """What the json module would have made of a text that was cut out."""
        text: str = json.loads(str(self._view[cut.start - 1 : cut.stop + 1], "utf-8"))
        return text


def _check_nesting(text: bytes) -> None:
    """Refuse deep nesting before the json module recurses into it. Almost always two counts settle it."""
    if text.count(b"[") + text.count(b"{") <= MAX_DEPTH:
        return
    if b"\\" in text:  # without escapes, every quote begins or ends a text
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    quotes = depth = 0
    for start in range(0, len(text), _CHUNK):
        codes = np.frombuffer(text, np.uint8, min(_CHUNK, len(text) - start), start)
        seen = np.cumsum(codes == 0x22, dtype=np.int64) + quotes
        outside = (seen & 1) == 0
        opens = ((codes == 0x5B) | (codes == 0x7B)) & outside
        closes = ((codes == 0x5D) | (codes == 0x7D)) & outside
        depths = np.cumsum(opens.view(np.int8) - closes.view(np.int8), dtype=np.int64) + depth
        if depths.max() > MAX_DEPTH:
            raise ProtocolError(f"a message is nested more than {MAX_DEPTH} deep")
        quotes, depth = int(seen[-1]), int(depths[-1])


def _check_numbers(text: bytes) -> None:
    """Reading an integer takes time quadratic in its digits; most interpreters limit them, this stands in elsewhere."""
    if getattr(sys, "get_int_max_str_digits", int)() == 0 and _LONG_NUMBER.search(text):
        raise ProtocolError(f"a message holds a number of more than {MAX_DIGITS} digits")
