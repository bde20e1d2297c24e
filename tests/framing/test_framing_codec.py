"""The stock body against an independent implementation of it, and what our decoder does better."""

from __future__ import annotations

import enum
import json
import math
from collections import OrderedDict
from typing import Any, NamedTuple

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import stock_peer
from hypothesis import given, settings
from hypothesis import strategies as st

from framing.binary import decode_body, encode_binary
from framing.codec import json_to_numpy, numpy_to_json
from framing.decoding import CUT_FROM
from framing.encoding import MAX_DEPTH
from framing.errors import EncodeError

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
    "uint64 max": np.array([2**64 - 1], np.uint64),
    "large": BIG,
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_survive_exactly_and_are_writable(name: str) -> None:
    array = ARRAYS[name]
    out = json_to_numpy(numpy_to_json({"x": [array]}))
    assert isinstance(out, dict)
    got = out["x"][0]  # type: ignore[index, call-overload]
    assert same(got, np.asarray(array))
    assert got.flags.writeable
    if got.size:
        got[...] = got[...]


@pytest.mark.parametrize("name", ARRAYS)
def test_the_bytes_are_the_stock_bytes_and_a_stock_peer_reads_them(name: str) -> None:
    message = {"cmd": "update", "obs": {"_args": [[ARRAYS[name], ARRAYS[name]], 0.5, "text", None, True]}}
    body = numpy_to_json(message)
    assert body == stock_peer.stock_dumps(message).encode()
    assert same(stock_peer.stock_loads(body.decode()), json_to_numpy(body))


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[::2],
        lambda a: a[::-1, :, ::-1],
        lambda a: a.transpose(2, 1, 0),
        lambda a: np.asfortranarray(a),
        lambda a: np.broadcast_to(a[:1], a.shape),
        lambda a: a[:, 0, 0],
        lambda a: a.reshape(-1)[3:],
    ],
)
def test_any_memory_layout_arrives_in_c_order(view: Any) -> None:
    array = view(np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    got = json_to_numpy(numpy_to_json(array))
    assert isinstance(got, np.ndarray)
    assert got.flags.c_contiguous
    np.testing.assert_array_equal(got, array)


def test_received_arrays_share_no_memory_with_the_body() -> None:
    body = bytearray(numpy_to_json([BIG, np.arange(3)]))
    large, small = json_to_numpy(body)  # type: ignore[misc]
    body[:] = bytes(len(body))
    np.testing.assert_array_equal(large, BIG)
    np.testing.assert_array_equal(small, np.arange(3))


class _Colour(str, enum.Enum):
    RED = "red"


class _Pair(NamedTuple):
    a: int
    b: object


@pytest.mark.parametrize(
    ("value", "expected"),
    [
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
    ],
)
def test_scalars_and_containers_become_what_the_stock_wire_makes_of_them(value: object, expected: object) -> None:
    body = numpy_to_json(value)
    assert body == stock_peer.stock_dumps(value).encode()
    got = json_to_numpy(body)
    assert same(got, expected) or got == expected
    assert type(got) is type(expected)


class _Image(np.ndarray):
    pass


def test_subclasses_become_plain_arrays() -> None:
    got = json_to_numpy(numpy_to_json(BIG.view(_Image)))
    assert type(got) is np.ndarray


class _Tensor:
    def __array__(self) -> object:
        return np.zeros(3)


_STRUCTURED = np.zeros(2, [("depth", "f4"), ("rgb", "u1", 3)])
_LOOP: list[object] = []
_LOOP.append(_LOOP)


@pytest.mark.parametrize(
    ("bad", "word"),
    [
        (np.array([object()]), "object dtype"),
        (np.array([None, 1.0]), "object dtype"),
        (_STRUCTURED, "depth, rgb"),
        (_STRUCTURED.view(np.recarray), "structured"),
        (np.ma.masked_array([1, 2], [True, False]), "mask"),
        (np.zeros(2, np.longdouble), "float128|longdouble"),
        (np.zeros(2, "V4"), "V4"),
        (np.zeros(2, [("nothing", "S0")])["nothing"], "S0"),
        (b"raw", "bytes"),
        (bytearray(b"raw"), "bytearray"),
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
        ({"__numpy_array__": 1}, "__numpy_array__"),
        (_LOOP, "nested more than"),
    ],
)
def test_what_cannot_travel_is_refused_at_the_sender_with_its_key_path(bad: object, word: str) -> None:
    with pytest.raises(EncodeError, match=word) as caught:
        numpy_to_json({"cams": [{"rgb": BIG}, {"depth map": bad}]}, root="obs")
    assert str(caught.value).startswith("obs.cams[1]['depth map']")


def test_a_number_too_long_to_read_is_refused_at_the_sender() -> None:
    with pytest.raises(EncodeError, match="digit"):
        numpy_to_json({"n": 10**5000})


# ---------------------------------------------------------------- dicts that look like arrays
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


@pytest.mark.parametrize("value", LOOKALIKES)
def test_between_two_of_ours_such_a_dict_survives_escaped(value: Any) -> None:
    body = numpy_to_json([value, BIG], escape=True)
    got = json_to_numpy(body)
    expected = {"inner": {"__numpy_array__": [BIG], "7": "seven"}} if "inner" in value else value
    assert same(got, [expected, BIG])


def test_from_a_stock_peer_such_a_dict_is_an_array_only_if_its_fields_fit() -> None:
    for body in (
        b'{"__numpy_array__": false, "data": "AAAA", "dtype": "uint8", "shape": [3]}',
        b'{"__numpy_array__": true, "data": "AAAA", "dtype": "uint8"}',
        b'{"__numpy_array__": true, "data": 3, "dtype": "uint8", "shape": [3]}',
        b'{"__numpy_array__": 1}',
    ):
        assert same(json_to_numpy(body), json.loads(body))


# ---------------------------------------------------------------- the cut-out fast path gives what plain json gives
_LONG = "QUJD" * CUT_FROM


@pytest.mark.parametrize(
    "value",
    [
        {"data": _LONG},
        {"data": _LONG, "more": {"data": _LONG, "list": [{"data": _LONG}]}},
        {"data": "x" * 3 * CUT_FROM, "other": "@0"},
        {"data": _LONG, "deep": {"data": "@0"}},
        {"deep": {"data": "@0"}, "data": _LONG},
        [{"data": "@1"}, {"data": _LONG}, {"data": _LONG[4:]}],
        {"data": 'quotes " and \\ backslashes \n' * CUT_FROM},
        {"data": "\\" * 3 * CUT_FROM},
        {"data": "x" * 3 * CUT_FROM + '"tail', "more": {"data": _LONG + '\\"' + _LONG}},
        {"data": "ü🤖" * CUT_FROM},
        {'my"data': _LONG},
        {"text": '"data": "' + _LONG + '"'},
        {"text": 'a\\"data": "' + _LONG + '"', "data": _LONG},
        {"data": ["@0", _LONG]},
        {"data": {"data": _LONG}},
        {"data": "@" + "9" * 40, "x": {"data": _LONG}},
        {"data": "@00", "x": {"data": _LONG}},
        {"data": "@²", "x": {"data": _LONG}},
    ],
)
@pytest.mark.parametrize("separators", [(", ", ": "), (",", ":"), (" , ", " : ")])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_long_texts_under_the_key_data_stay_texts(value: Any, separators: tuple[str, str], ascii_only: bool) -> None:
    body = json.dumps(value, separators=separators, ensure_ascii=ascii_only).encode()
    assert json_to_numpy(body) == value
    padded = memoryview(b"." + body + b".")[1:-1]  # a view that is not the whole of its memory
    assert json_to_numpy(padded) == value


def test_writers_that_escape_slashes_or_order_keys_differently_are_understood() -> None:
    array = np.frombuffer(b"\xff" * 3 * CUT_FROM, np.uint8)
    data = "\\/\\/\\/\\/" * CUT_FROM
    body = f'{{"shape":[{array.size}],"dtype":"uint8","data":"{data}","__numpy_array__":true}}'
    assert same(json_to_numpy(body.encode()), array)


@pytest.mark.parametrize("leaf", [[], {}, np.zeros(3), np.array(1.5), {"__numpy_array__": {"a": [1]}}], ids=str)
@pytest.mark.parametrize("form", ["json", "binary"])
def test_whatever_the_writer_lets_pass_is_not_too_deep_for_the_reader(leaf: Any, form: str) -> None:
    """The descriptor of an array and an escaped dict nest deeper in the text than in the caller's tree."""
    value, deepest = leaf, 0
    with pytest.raises(EncodeError, match="nested more than"):  # noqa: PT012 - the last depth that passes is sought
        for depth in range(MAX_DEPTH + 2):
            body = numpy_to_json(value, escape=True) if form == "json" else b"".join(encode_binary(value))
            assert same(decode_body(bytearray(body)), value)
            value, deepest = [value], depth
    assert MAX_DEPTH - 6 <= deepest < MAX_DEPTH


# ---------------------------------------------------------------- anything at all
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
_ANY_ARRAY = _DTYPES.flatmap(lambda dtype: hnp.arrays(dtype, _SHAPES))
_SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.sampled_from(["@0", "data", _LONG, '"data": "'])
)
_KEYS = st.one_of(st.text(max_size=6), st.sampled_from(["data", "dtype", "shape", "__numpy_array__", "pairs", "_args"]))
_TREES = st.recursive(
    st.one_of(_SCALARS, _ANY_ARRAY),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_KEYS, inner, max_size=4)),
    max_leaves=12,
)


@given(_TREES)
@settings(max_examples=150, deadline=None)
def test_any_tree_survives_between_two_of_ours(tree: Any) -> None:
    assert same(json_to_numpy(numpy_to_json(tree, escape=True)), tree)


def holds_marker(tree: Any) -> bool:
    if isinstance(tree, dict):
        return "__numpy_array__" in tree or any(map(holds_marker, tree.values()))
    return isinstance(tree, list) and any(map(holds_marker, tree))


@given(_TREES)
@settings(max_examples=80, deadline=None)
def test_what_we_send_to_a_stock_peer_is_its_own_bytes_or_is_refused(tree: Any) -> None:
    try:
        body = numpy_to_json(tree)
    except EncodeError:
        assert holds_marker(tree)
        return
    assert body == stock_peer.stock_dumps(tree).encode()
