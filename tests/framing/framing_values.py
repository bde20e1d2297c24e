"""Values that travel, for the tests of both bodies, and what it means that one has arrived."""

from __future__ import annotations

import enum
import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import hypothesis.extra.numpy as hnp
import numpy as np
from hypothesis import strategies as st

from framing.decoding import CUT_FROM

LONG = "QUJD" * CUT_FROM
BIG = np.arange(4 * CUT_FROM, dtype=np.int32)


def same(left: Any, right: Any) -> bool:
    """Equal in type, dtype, shape and value, NaN equal to itself."""
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        return (
            type(left) is type(right)
            and left.dtype == right.dtype
            and left.shape == right.shape
            and left.tobytes() == right.tobytes()
        )
    if isinstance(left, dict):
        return isinstance(right, dict) and list(left) == list(right) and all(same(left[k], right[k]) for k in left)
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return type(left) is type(right) and bool(left == right)


ARRAYS = {
    "rgb": np.arange(240 * 320 * 3, dtype=np.uint32).reshape(240, 320, 3).astype(np.uint8),
    "int16": np.array([-1, 2, 300], np.int16),
    "float16": np.array([0.1, np.inf, np.nan], np.float16),
    "bool": np.array([[True, False]]),
    "complex64": np.array([1 + 2j, np.nan], np.complex64),
    "big endian": np.array([1.5, -2.5], ">f4"),
    "big endian ints": np.arange(5, dtype=">i8"),
    "unicode": np.array(["ab", "ü"]),
    "big endian unicode": np.array(["ab", "c"], ">U2"),
    "bytes": np.array([b"ab", b"c"]),
    "datetime": np.array(["2024-01-02", "NaT"], "datetime64[ns]"),
    "big endian datetime": np.array(["2024-01-02"], ">M8[D]"),
    "timedelta": np.array([1, 2], "timedelta64[25s]"),
    "0-d": np.array(3.5, np.float32),
    "0-d datetime": np.array("2024-01-02", "datetime64[D]"),
    "empty": np.zeros((0, 3), np.float32),
    "empty text": np.zeros((0,), "U4"),
    "NaNs of all sorts": np.array([0x7FC00001, 0xFFC12345, 0x7F800001, 0x80000000], np.uint32).view(np.float32),
    "uint64 max": np.array([2**64 - 1], np.uint64),
    "large": BIG,
}


LAYOUTS: list[Callable[[Any], Any]] = [
    lambda a: a[::2],
    lambda a: a[::-1, :, ::-1],
    lambda a: a.transpose(2, 1, 0),
    lambda a: np.asfortranarray(a),
    lambda a: np.broadcast_to(a[:1], a.shape),
    lambda a: a[:, 0, 0],
    lambda a: a.reshape(-1)[3:],
]
"""Views of a [2, 3, 4] array whose memory is not, or not only, the array in C order."""


class _Colour(str, enum.Enum):
    RED = "red"


class _Pair(NamedTuple):
    a: int
    b: object


SCALAR_FATES: list[tuple[object, object]] = [
    (np.float64(0.1), 0.1),
    (np.float32(0.1), 0.10000000149011612),
    (np.int64(-3), -3),
    (np.uint8(3), 3),
    (np.bool_(True), True),
    (np.str_("x"), "x"),
    ((1, (2, 3)), [1, [2, 3]]),
    (_Pair(1, None), [1, None]),
    ({7: "a", 2.5: "b", True: "c", None: "d"}, {"7": "a", "2.5": "b", "true": "c", "null": "d"}),
    ({np.str_("k"): 1, np.float64(1.5): 2}, {"k": 1, "1.5": 2}),
    (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
    (float("inf"), float("inf")),
    (float("-inf"), float("-inf")),
    (float("nan"), float("nan")),
    (-0.0, -0.0),
    (2**100, 2**100),
    (_Colour.RED, "red"),
    ("\x00\ud800 \u2028 ü 🤖", "\x00\ud800 \u2028 ü 🤖"),
    ([], []),
    ({}, {}),
    (None, None),
]
"""What goes in and what comes out, on the stock wire and in both of our bodies."""


class _Tensor:
    def __array__(self) -> object:
        return np.zeros(3)


_STRUCTURED = np.zeros(2, [("depth", "f4"), ("rgb", "u1", 3)])
_LOOP: list[object] = []
_LOOP.append(_LOOP)


REFUSED: list[tuple[object, str]] = [
    (np.array([object()]), "object dtype"),
    (np.array([None, 1.0]), "object dtype"),
    (_STRUCTURED, "depth, rgb"),
    (_STRUCTURED.view(np.recarray), "structured"),
    (np.ma.masked_array([1, 2], [True, False]), "mask"),
    (np.zeros(2, np.longdouble), "float128|longdouble"),
    (np.zeros(2, "V4"), "V4"),
    (np.zeros(2, [("nothing", "S0")])["nothing"], "S0"),
    (memoryview(b"raw"), "memoryview"),
    ({1, 2}, "set"),
    (frozenset({1}), "frozenset"),
    (1 + 2j, "0-d array"),
    (np.complex64(1), "0-d array"),
    (np.datetime64("2024-01-01"), "0-d array"),
    (_Tensor(), "_Tensor cannot travel; send a numpy array"),
    (object(), "object"),
    (range(3), "range"),
    (iter([1]), "iterator"),
    ({np.int64(3): 1}, "int64"),
    ({(1, 2): 1}, "tuple"),
    ({b"k": 1}, "bytes"),
    ({1: "a", "1": "b"}, "two keys"),
    (_LOOP, "nested more than"),
]
"""What can travel in no body, and what the sender says about it."""


LOOKALIKES: list[Any] = [
    {"__numpy_array__": False, "data": "AAAA"},
    {"__numpy_array__": True},
    {"__numpy_array__": "pairs", "pairs": [["a", 1]]},
    {"__numpy_array__": "pairs", "pairs": "x"},
    {"__numpy_array__": True, "data": "AAAA", "dtype": "uint8", "shape": [3]},
    {"__numpy_array__": True, "data": "A" * 4 * CUT_FROM, "dtype": "uint8", "shape": [3 * CUT_FROM]},
    {"__numpy_array__": {"__numpy_array__": None}},
    {"inner": {"__numpy_array__": [BIG], 7: "seven"}},
]


_DTYPES = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.floating_dtypes(endianness="?"),
    hnp.complex_number_dtypes(endianness="?", sizes=(64, 128)),
    hnp.byte_string_dtypes(endianness="?", min_len=1),
    hnp.unicode_string_dtypes(endianness="?", min_len=1),
    hnp.datetime64_dtypes(endianness="?"),
    hnp.timedelta64_dtypes(endianness="?"),
)
_SHAPES = hnp.array_shapes(min_dims=0, min_side=0, max_dims=4, max_side=6)
ANY_ARRAY = _DTYPES.flatmap(lambda dtype: hnp.arrays(dtype, _SHAPES))
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.sampled_from(["@0", "data", LONG, '"data": "'])
)
KEYS = st.one_of(st.text(max_size=6), st.sampled_from(["data", "dtype", "shape", "__numpy_array__", "pairs", "_args"]))


def _trees(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves,
        lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
        max_leaves=12,
    )


TREES = _trees(st.one_of(SCALARS, ANY_ARRAY))
TREES_WITH_BYTES = _trees(st.one_of(SCALARS, ANY_ARRAY, st.binary()))
