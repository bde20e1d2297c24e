"""A reader of the binary body written from docs/wire.md alone, with `struct` and `json`: no `framing`, no numpy.

Arrays come as `Array(dtype, shape, bytes)`, so that what is compared is what travelled.
"""

from __future__ import annotations

import json
import math
import re
import struct
from dataclasses import dataclass
from typing import Any

_NAMED = {"bool": 1, "complex64": 8, "complex128": 16}
_TEXT_UNITS = {"S": 1, "U": 4}


@dataclass
class Array:
    dtype: str
    shape: list[int]
    data: bytes


def item_size(dtype: str) -> int:
    if dtype in _NAMED:
        return _NAMED[dtype]
    if dtype.startswith(("datetime64", "timedelta64")):
        return 8
    if named := re.fullmatch(r"u?(?:int|float)(\d+)", dtype):
        return int(named[1]) // 8
    _, kind, width = re.fullmatch(r"([<>=|]?)([A-Za-z?])(\d+).*", dtype).groups()  # type: ignore[union-attr]
    return int(width) * _TEXT_UNITS.get(kind, 1)


def read_binary(body: bytes) -> Any:
    mark, length = struct.unpack_from(">4sI", body)
    assert mark == b"\xff\x01\x00\x00"
    position = 8 + length

    def take(size: int) -> bytes:
        nonlocal position
        start = (position + 63) // 64 * 64
        assert not any(body[position:start])
        position = start + size
        assert position <= len(body)
        return body[start:position]

    def build(members: dict[str, Any]) -> Any:
        kind = members.get("__numpy_array__")
        if kind is None:
            return members
        if kind == "buffer":
            size = item_size(members["dtype"]) * math.prod(members["shape"])
            return Array(members["dtype"], members["shape"], take(size))
        if kind == "bytes":
            return take(members["size"])
        assert kind == "pairs"
        return dict(members["pairs"])

    take(0)  # the head is padded, whether or not a buffer follows
    value = json.loads(body[8 : 8 + length].decode("utf-8"), object_hook=build)
    assert position == len(body)
    return value
