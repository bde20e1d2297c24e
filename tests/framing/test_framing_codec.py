"""The stock body against an independent implementation of it, and what our decoder does better."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import stock_peer
from framing_values import ARRAYS, BIG, LAYOUTS, LONG, LOOKALIKES, REFUSED, SCALAR_FATES, TREES, same
from hypothesis import given, settings

from framing.binary import decode_body, encode_binary
from framing.codec import json_to_numpy, numpy_to_json
from framing.decoding import CUT_FROM
from framing.encoding import MAX_DEPTH
from framing.errors import EncodeError


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


@pytest.mark.parametrize("view", LAYOUTS)
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


@pytest.mark.parametrize(("value", "expected"), SCALAR_FATES)
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


@pytest.mark.parametrize(
    ("bad", "word"),
    [*REFUSED, (b"raw", "bytes"), (bytearray(b"raw"), "bytearray"), ({"__numpy_array__": 1}, "__numpy_array__")],
)
def test_what_cannot_travel_is_refused_at_the_sender_with_its_key_path(bad: object, word: str) -> None:
    with pytest.raises(EncodeError, match=word) as caught:
        numpy_to_json({"cams": [{"rgb": BIG}, {"depth map": bad}]}, root="obs")
    assert str(caught.value).startswith("obs.cams[1]['depth map']")


def test_a_number_too_long_to_read_is_refused_at_the_sender() -> None:
    with pytest.raises(EncodeError, match="digit"):
        numpy_to_json({"n": 10**5000})


# ---------------------------------------------------------------- dicts that look like arrays
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
@pytest.mark.parametrize(
    "value",
    [
        {"data": LONG},
        {"data": LONG, "more": {"data": LONG, "list": [{"data": LONG}]}},
        {"data": "x" * 3 * CUT_FROM, "other": "@0"},
        {"data": LONG, "deep": {"data": "@0"}},
        {"deep": {"data": "@0"}, "data": LONG},
        [{"data": "@1"}, {"data": LONG}, {"data": LONG[4:]}],
        {"data": 'quotes " and \\ backslashes \n' * CUT_FROM},
        {"data": "\\" * 3 * CUT_FROM},
        {"data": "x" * 3 * CUT_FROM + '"tail', "more": {"data": LONG + '\\"' + LONG}},
        {"data": "ü🤖" * CUT_FROM},
        {'my"data': LONG},
        {'my"data': LONG, "data": "@0"},
        {"data": "@0", 'my"data': LONG},
        {"text": '"data": "' + LONG + '"'},
        {"text": 'a\\"data": "' + LONG + '"', "data": LONG},
        {"data": ["@0", LONG]},
        {"data": {"data": LONG}},
        {"data": "@" + "9" * 40, "x": {"data": LONG}},
        {"data": "@00", "x": {"data": LONG}},
        {"data": "@²", "x": {"data": LONG}},
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
@given(TREES)
@settings(max_examples=150, deadline=None)
def test_any_tree_survives_between_two_of_ours(tree: Any) -> None:
    assert same(json_to_numpy(numpy_to_json(tree, escape=True)), tree)


def holds_marker(tree: Any) -> bool:
    if isinstance(tree, dict):
        return "__numpy_array__" in tree or any(map(holds_marker, tree.values()))
    return isinstance(tree, list) and any(map(holds_marker, tree))


@given(TREES)
@settings(max_examples=80, deadline=None)
def test_what_we_send_to_a_stock_peer_is_its_own_bytes_or_is_refused(tree: Any) -> None:
    try:
        body = numpy_to_json(tree)
    except EncodeError:
        assert holds_marker(tree)
        return
    assert body == stock_peer.stock_dumps(tree).encode()
