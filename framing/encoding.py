"""A tree of Python and numpy values -> the stock JSON body.

One walk over the tree (`_Lowering`) checks everything that can be checked at the sender and replaces each array by a
descriptor with empty data. The standard library's json writes that small skeleton, and the base64 of the arrays is put
into its gaps: no JSON library ever scans image bytes.

Byte for byte the result is what `json.dumps` of the whole tree would give (separators `", "` and `": "`, ASCII only,
`NaN` / `Infinity` as bare tokens), which is what stock peers write and read.
"""

from __future__ import annotations

import json
from typing import TypeAlias

import numpy as np

from framing.arrays import MARKER, MAX_ARRAYS, AnyArray, dtype_text, encode_data, refusal
from framing.errors import EncodeError, clip
from framing.frames import Buffer

Path: TypeAlias = "tuple[Path, str | int] | str"
"""Where a value sits in the tree, linked towards the root: nothing is formatted unless something is wrong."""

MAX_DEPTH = 128
"""Containers inside containers. Observations nest three to five deep; recursion must end somewhere safe on any peer."""

ESCAPED = "pairs"
"""A user's dict holding the key `__numpy_array__` is escaped as `{"__numpy_array__": "pairs", "pairs": [[k, v]...]}`.

Pairs, because a reader that works from the inside out would otherwise meet the user's own dict first.
"""

BUFFER = "buffer"
BYTES = "bytes"
"""What `__numpy_array__` says in the head of a binary body: an array whose contents follow, or bytes that do."""

_WRITER = json.JSONEncoder(check_circular=False)
_PLAIN = frozenset({str, int, float, bool, type(None)})
# Where an array's data belongs. The text cannot come from anywhere else: a user's dict with this key is refused or
# escaped, and inside a user's string the quotes are written as \".
_GAP = b'"__numpy_array__": true, "data": "'


def encode_parts(value: object, *, root: str = "value", escape: bool = False) -> list[Buffer]:
    """The JSON body of `value` as pieces that concatenate to it, ready for one gathering send.

    `root` names the value in error messages. `escape`: write a user's dict that holds the key `__numpy_array__` in the
    escaped form that only our own decoder reads; without it such a dict is refused, because a stock peer would take it
    for an array.

    Raises EncodeError, whose message begins with the key path, for whatever cannot travel.
    """
    lowering = Lowering(escape=escape)
    skeleton = lowering.text(value, root)
    if not lowering.arrays:
        return [skeleton]
    pieces = skeleton.split(_GAP)
    parts: list[Buffer] = [pieces[0]]
    for array, piece in zip(lowering.arrays, pieces[1:], strict=True):
        parts += (_GAP, encode_data(array), piece)
    return parts


class Lowering:
    """The walk: values as json takes them, arrays set aside in the order in which json will write them."""

    def __init__(self, *, escape: bool, binary: bool = False) -> None:
        self.arrays: list[AnyArray] = []
        self._escape = escape
        self._binary = binary

    def text(self, value: object, root: str) -> bytes:
        """The JSON text of `value`, without the contents of `arrays`. Raises EncodeError."""
        try:
            return _WRITER.encode(self.lower(value, root, 0)).encode("ascii")
        except RecursionError:  # the caller's own stack is nearly used up
            raise EncodeError(f"{root or 'message'}: nested too deeply for what is left of the stack") from None
        except ValueError as problem:  # an integer beyond the interpreter's digit limit
            raise EncodeError(f"{root or 'message'}: {problem}") from None

    def lower(self, value: object, path: Path, depth: int) -> object:
        if type(value) in _PLAIN:
            return value
        if isinstance(value, np.ndarray):
            return self._array(value, path, depth)
        if isinstance(value, dict):
            return self._dict(value, path, depth)
        if isinstance(value, (list, tuple)):
            _check_depth(path, depth + 1)
            return [
                item if type(item) in _PLAIN else self.lower(item, (path, index), depth + 1)
                for index, item in enumerate(value)
            ]
        if isinstance(value, (str, int, float)):  # np.str_, np.float64, enums of these: json writes the plain value
            return value
        if isinstance(value, np.bool_):
            return bool(value)
        if isinstance(value, np.integer):
            return int(value)
        if isinstance(value, np.floating):
            return float(value)
        if self._binary and isinstance(value, (bytes, bytearray)):
            _check_depth(path, depth + 1)
            self._set_aside(np.frombuffer(value, np.uint8), path)
            return {MARKER: BYTES, "size": len(value)}
        raise EncodeError(f"{_shown(path)}: {_advice(value)}")

    def _array(self, array: AnyArray, path: Path, depth: int) -> dict[str, object]:
        _check_depth(path, depth + 2)  # the descriptor, and the list of its shape
        reason = refusal(array)
        if reason is not None:
            raise EncodeError(f"{_shown(path)}: {reason}")
        self._set_aside(array, path)
        shape = list(array.shape)
        if self._binary:
            return {MARKER: BUFFER, "dtype": dtype_text(array.dtype), "shape": shape}
        return {MARKER: True, "data": "", "dtype": dtype_text(array.dtype), "shape": shape}

    def _set_aside(self, array: AnyArray, path: Path) -> None:
        if len(self.arrays) == MAX_ARRAYS:
            raise EncodeError(f"{_shown(path)}: a message holds at most {MAX_ARRAYS} arrays; send fewer, larger ones")
        self.arrays.append(array)

    def _dict(self, mapping: dict[object, object], path: Path, depth: int) -> object:
        _check_depth(path, depth + 1)
        only_text = True
        for key in mapping:
            if type(key) is not str:
                only_text = False
                break
        if not only_text:
            mapping = self._text_keys(mapping, path)
        if MARKER in mapping:
            if not self._escape:
                raise EncodeError(
                    f"{_shown(path)}: a dict with the key {MARKER!r} cannot travel to a stock peer, which would take "
                    "it for an array; rename the key"
                )
            _check_depth(path, depth + 3)
            pairs = [[key, self.lower(item, (path, str(key)), depth + 3)] for key, item in mapping.items()]
            return {MARKER: ESCAPED, ESCAPED: pairs}
        return {
            key: item if type(item) in _PLAIN else self.lower(item, (path, str(key)), depth + 1)
            for key, item in mapping.items()
        }

    def _text_keys(self, mapping: dict[object, object], path: Path) -> dict[object, object]:
        """Keys as the text json makes of them: numbers, booleans and None become strings, as on the stock wire."""
        out: dict[object, object] = {}
        for key, item in mapping.items():
            if isinstance(key, str):
                text = str.__str__(key)
            elif key is None or isinstance(key, (bool, int, float)):
                text = json.dumps(key)
            else:
                raise EncodeError(
                    f"{_shown(path)}: a key of type {type(key).__name__} ({clip(key)}) cannot travel; use a string"
                )
            if text in out:
                raise EncodeError(f"{_shown(path)}: two keys are both written as {text!r}; use strings")
            out[text] = item
        return out


def _check_depth(path: Path, deepest: int) -> None:
    """`deepest`: how many containers the text will have inside one another there. A reader counts the same."""
    if deepest > MAX_DEPTH:
        raise EncodeError(f"{_shown(path)}: nested more than {MAX_DEPTH} deep (does it contain itself?)")


def _advice(value: object) -> str:
    kind = type(value)
    name = kind.__name__ if kind.__module__ in ("builtins", "numpy") else f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"{name} cannot travel in JSON; send np.frombuffer(..., np.uint8)"
    if isinstance(value, (set, frozenset)):
        return f"a {name} cannot travel; send a sorted list"
    if isinstance(value, (complex, np.generic)):
        return f"a scalar of type {name} cannot travel; send a 0-d array, np.asarray(value)"
    if hasattr(kind, "__array__"):
        return f"a {name} cannot travel; send a numpy array"
    return f"a value of type {name} cannot travel; send numbers, strings, lists, dicts and numpy arrays"


def _shown(path: Path) -> str:
    """`obs.cams[0].depth`"""
    steps: list[str] = []
    while isinstance(path, tuple):
        path, step = path
        if isinstance(step, int):
            steps.append(f"[{step}]")
        elif step.isidentifier():
            steps.append(f".{step}")
        else:
            steps.append(f"[{clip(step)}]")
    return (path + "".join(reversed(steps))).removeprefix(".")
