"""Malformed binary bodies, and bombs in both formats: a ProtocolError at the price of the bytes."""

from __future__ import annotations

import contextlib
import json
import struct
import time
import tracemalloc
from typing import Any

import numpy as np
import pytest
from damage import damaged
from framing_values import same
from hypothesis import given, settings
from hypothesis import strategies as st

from framing.arrays import MAX_ARRAYS
from framing.binary import COPY_BELOW, decode_binary, decode_body, encode_binary
from framing.encoding import MAX_DEPTH
from framing.errors import ProtocolError

MIB = 1 << 20


def binary(head: str | bytes, *buffers: bytes, tail: bytes = b"") -> bytes:
    """A binary body with this head; the buffers at their places."""
    raw = head.encode() if isinstance(head, str) else head
    body = b"\xff\x01\x00\x00" + struct.pack(">I", len(raw)) + raw
    body += bytes(-len(body) % 64)
    for buffer in buffers:
        body += bytes(-len(body) % 64) + buffer
    return body + tail


def array(dtype: object = "uint8", shape: object = (3,), buffer: bytes = b"abc", **more: object) -> bytes:
    return binary(json.dumps({"__numpy_array__": "buffer", "dtype": dtype, "shape": shape, **more}), buffer)


def raw(size: object, buffer: bytes = b"abc", **more: object) -> bytes:
    return binary(json.dumps({"__numpy_array__": "bytes", "size": size, **more}), buffer)


GOOD = array()

BAD = {
    "nothing": (b"", "not JSON"),
    "only the first byte": (b"\xff", "1 bytes is too short"),
    "cut before the head's length": (GOOD[:7], "too short"),
    "a version to come": (b"\xff\x02" + GOOD[2:], "begins with ff 02 00 00, which this program does not know"),
    "reserved bytes": (b"\xff\x01\x00\x01" + GOOD[4:], "begins with ff 01 00 01"),
    "head beyond the body": (b"\xff\x01\x00\x00\x00\x00\x00\x40" + bytes(63), "71 bytes claims a head of 64"),
    "head of four gibibytes": (b"\xff\x01\x00\x00\xff\xff\xff\xff" + bytes(100), "claims a head of 4294967295"),
    "no head": (b"\xff\x01\x00\x00\x00\x00\x00\x00" + bytes(56), "not JSON"),
    "head that is no JSON": (binary("{1"), "not JSON"),
    "head that is no UTF-8": (binary(b'{"a": "\xff"}'), "not UTF-8"),
    "two values": (binary("{} {}"), "not JSON"),
    "duplicate key": (binary('{"a": 1, "a": 2}'), "duplicate key, 'a'"),
    "duplicate key in a descriptor": (
        binary('{"__numpy_array__": "buffer", "dtype": "uint8", "shape": [9], "shape": [3]}', b"abc"),
        "duplicate key, 'shape'",
    ),
    "deep lists": (binary(b"[" * 100_000 + b"]" * 100_000), "nested"),
    "one list too deep": (binary(b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1)), "nested"),
    "huge integer": (binary('{"n": ' + "9" * 5000 + "}"), "number"),
    "unpadded": (binary("[1]")[:11], "ends before its padding"),
    "padding cut short": (binary("[1]")[:-1], "ends before its padding"),
    "padding that is not zero": (binary("[1]")[:-1] + b"\x01", "padding that is not zero"),
    "padding between buffers that is not zero": (
        binary(json.dumps([{"__numpy_array__": "bytes", "size": 1}] * 2), b"a" + b"\x01" * 63, b"b"),
        "padding that is not zero",
    ),
    "bytes after the head": (binary("[1]", tail=b"\x00"), "1 bytes that nothing describes"),
    "bytes after the last buffer": (array() + b"\x00", "1 bytes that nothing describes"),
    "padding after the last buffer": (array() + bytes(61), "61 bytes that nothing describes"),
    "a buffer that is missing": (array(buffer=b""), "takes 3 bytes"),
    "a buffer that is cut short": (array(buffer=b"ab"), "takes 3 bytes"),
    "a second buffer that is missing": (
        binary(json.dumps([{"__numpy_array__": "bytes", "size": 3}] * 2), b"abc"),
        "ends before its padding",
    ),
    "an array from the JSON body": (
        binary('{"__numpy_array__": true, "data": "YWJj", "dtype": "uint8", "shape": [3]}'),
        "describes nothing",
    ),
    "a descriptor of another kind": (binary('{"__numpy_array__": "mmap", "dtype": "uint8", "shape": [3]}'), "nothing"),
    "a descriptor that is a number": (binary('{"__numpy_array__": 1}'), "describes nothing"),
    "a descriptor that is a descriptor": (
        binary('{"__numpy_array__": {"__numpy_array__": "buffer", "dtype": "uint8", "shape": [3]}}', b"abc"),
        "describes nothing",
    ),
    "a descriptor with more": (array(offset=0), "describes nothing"),
    "a descriptor with less": (binary('{"__numpy_array__": "buffer", "dtype": "uint8"}'), "describes nothing"),
    "a shape that is a number": (array(shape=3), "describes nothing"),
    "a dtype that is a number": (array(dtype=1), "describes nothing"),
    "a shape that holds an array": (
        binary(
            '{"__numpy_array__": "buffer", "dtype": "uint8", "shape": [{"__numpy_array__": "bytes", "size": 3}]}',
            b"abc",
        ),
        "not a size",
    ),
    "negative size": (array(shape=[-3]), "-3, which is not a size"),
    "two negative sizes": (array(shape=[-1, -3]), "not a size"),
    "fractional size": (array(shape=[3.0]), "not a size"),
    "boolean size": (array(shape=[True]), "not a size"),
    "text size": (array(shape=["3"]), "not a size"),
    "overflowing size": (array(shape=[2**64 + 3]), "not a size"),
    "overflowing product": (array(shape=[2**32, 2**32]), "takes 18446744073709551616 bytes"),
    "product that wraps to the right size": (array("uint16", [2**63 - 1, 2], b"ab"), "ends inside"),
    "empty but impossible": (array(shape=[0, 2**62, 2**62], buffer=b""), "cannot exist"),
    "gigantic size": (array(shape=[10**4000]), "not a size"),
    "too many dimensions": (array(shape=[1] * 40), "40 dimensions"),
    "object dtype": (array("object"), "not one that travels"),
    "object code": (array("O"), "not one that travels"),
    "structured": (array("f4,u1"), "not one that travels"),
    "void": (array("V3"), "not one that travels"),
    "zero width": (array("S0"), "not one that travels"),
    "impossible width": (array("U999999999"), "not one that travels|not one that numpy|ends inside"),
    "long dtype": (array("uint8" * 1000), "not one that travels"),
    "neither true nor false": (array("bool", buffer=b"\x00\x01\x02"), "neither 0 nor 1"),
    "neither true nor false, large": (array("bool", [COPY_BELOW], b"\x01" * (COPY_BELOW - 1) + b"\x02"), "neither 0"),
    "no character": (array("<U1", [1], b"\x00\x00\x11\x00"), "no character"),
    "no character, big endian, large": (
        array(">U1", [COPY_BELOW], b"\x00\x00\x00\x41" * (COPY_BELOW - 1) + b"\x00\x11\x00\x00"),
        "no character",
    ),
    "negative bytes": (raw(-3), "describes nothing"),
    "fractional bytes": (raw(3.0), "describes nothing"),
    "boolean bytes": (raw(True), "describes nothing"),
    "too many bytes": (raw(4), "takes 4 bytes"),
    "far too many bytes": (raw(10**4000), r"takes about 2\^13288 bytes"),
    "bytes with more": (raw(3, dtype="uint8"), "describes nothing"),
    "escaped dict without pairs": (binary('{"__numpy_array__": "pairs", "pairs": 3}'), "escaped"),
    "escaped dict with bad pairs": (binary('{"__numpy_array__": "pairs", "pairs": [["a"]]}'), "escaped"),
    "escaped dict with more": (binary('{"__numpy_array__": "pairs", "pairs": [], "x": 1}'), "describes nothing"),
    "escaped dict with duplicates": (binary('{"__numpy_array__": "pairs", "pairs": [["a", 1], ["a", 2]]}'), "distinct"),
}


@pytest.mark.parametrize("name", BAD)
def test_each_malformed_body_is_a_protocol_error_that_says_why(name: str) -> None:
    body, word = BAD[name]
    for form in (body, bytearray(body), memoryview(body)):
        with pytest.raises(ProtocolError, match=word) as caught:
            decode_body(form)
        assert len(str(caught.value)) < 300


def test_the_good_ones_among_them_are_good() -> None:
    assert same(decode_binary(GOOD), np.frombuffer(b"abc", np.uint8))
    assert decode_binary(raw(3)) == b"abc"
    assert decode_binary(binary(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)) is not None


@pytest.mark.parametrize("body", [GOOD, raw(3), b"".join(encode_binary([np.arange(3000), b"x", np.zeros((0, 2))]))])
def test_every_truncation_and_every_byte_too_many_is_refused(body: bytes) -> None:
    decode_binary(body)
    for end in range(1, len(body), 1 if len(body) < 800 else 61):
        with pytest.raises(ProtocolError):
            decode_body(body[:end])
    with pytest.raises(ProtocolError):
        decode_binary(body + b"\x00")


@pytest.mark.parametrize(
    "body",
    [
        array(shape=[1 << 40]),
        array("float64", [1 << 20, 1 << 20]),
        array("U100000", [1 << 30]),
        raw(1 << 50),
        b"\xff\x01\x00\x00\xff\xff\xff\xff",
    ],
)
def test_what_is_only_claimed_is_never_allocated(body: bytes) -> None:
    tracemalloc.start()
    with pytest.raises(ProtocolError):
        decode_body(bytearray(body))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50_000


_TINY_BINARY = b'{"__numpy_array__":"buffer","dtype":"u1","shape":[0]},'
_TINY_BYTES = b'{"__numpy_array__":"bytes","size":0},'
_TINY_JSON = b'{"__numpy_array__":true,"data":"","dtype":"u1","shape":[0]},'


def _many(tiny: bytes, count: int) -> bytes:
    return b"[" + (tiny * count)[:-1] + b"]"


def test_as_many_arrays_as_are_allowed_are_read() -> None:
    for body in (binary(_many(_TINY_BINARY, MAX_ARRAYS)), _many(_TINY_JSON, MAX_ARRAYS)):
        assert len(decode_body(body)) == MAX_ARRAYS  # type: ignore[arg-type]


_TOO_MANY = {
    "binary": lambda count: binary(_many(_TINY_BINARY, count)),
    "bytes": lambda count: binary(_many(_TINY_BYTES, count)),
    "json": lambda count: _many(_TINY_JSON, count),
}


@pytest.mark.parametrize("form", _TOO_MANY)
def test_a_million_tiny_arrays_are_refused_long_before_the_last(form: str) -> None:
    body = bytearray(_TOO_MANY[form](1_000_000))
    begun = time.monotonic()
    with pytest.raises(ProtocolError, match=f"more than {MAX_ARRAYS} arrays"):
        decode_body(body)
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize("form", _TOO_MANY)
def test_tiny_arrays_cost_memory_in_proportion_to_their_number(form: str) -> None:
    body = bytearray(_TOO_MANY[form](MAX_ARRAYS + 1))
    tracemalloc.start()
    with pytest.raises(ProtocolError, match=f"more than {MAX_ARRAYS} arrays"):
        decode_body(body)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * len(body) + 40 * MIB


@pytest.mark.parametrize(
    "head",
    [b"[" * (4 * MIB), b'"' + b"\\" * (4 * MIB), b"9" * (4 * MIB), b'{"a":' * MIB, b"[" + b"0," * MIB],
    ids=["brackets", "backslashes", "digits", "objects", "zeros"],
)
def test_bombs_in_a_head_cost_what_they_cost_in_json(head: bytes) -> None:
    body = bytearray(binary(head))
    tracemalloc.start()
    begun = time.monotonic()
    with pytest.raises(ProtocolError):
        decode_binary(body)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert time.monotonic() - begun < 20
    assert peak < 24 * len(body) + 32 * MIB


# ---------------------------------------------------------------- fuzz
_SEEDS = [
    b"".join(encode_binary({"cmd": "update", "args": [np.arange(600), 1.5, "x", b"raw"], "id": 3})),
    b"".join(encode_binary([np.zeros((2, 3), np.float16), np.array(True), np.array(["a", "ü"]), b""])),
    b"".join(encode_binary({"__numpy_array__": {"__numpy_array__": np.zeros(0)}})),
    GOOD,
    raw(3),
]


def _read(body: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        decode_body(body)


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_random_bytes_after_a_true_beginning(tail: bytes) -> None:
    _read(b"\xff" + tail)
    _read(b"\xff\x01\x00\x00" + tail)
    _read(b"\xff\x01\x00\x00" + struct.pack(">I", len(tail) // 2) + tail)
    _read(binary(tail))


_HEAD_LETTERS = '{}[]":,0123456789.-_ abcdefghinopqrstuyz'


@given(st.text(alphabet=_HEAD_LETTERS, max_size=100), st.binary(max_size=100))
@settings(max_examples=200, deadline=None)
def test_random_text_in_the_head(text: str, buffer: bytes) -> None:
    _read(binary(text, buffer))


_WORDS = ["__numpy_array__", "dtype", "shape", "size", "pairs", "a"]
_PARTS = st.recursive(
    st.one_of(
        st.none(),
        st.integers(-3, 9),
        st.sampled_from(
            ["buffer", "bytes", "pairs", "uint8", "<U1", "bool", ">f2", "M8[ns]", True, 2**63, 2**31, 1e300]
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(_WORDS), inner, max_size=4),
    ),
    max_leaves=12,
)


@given(_PARTS, st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_random_descriptors(head: Any, buffer: bytes) -> None:
    _read(binary(json.dumps(head), buffer))


@given(damaged(_SEEDS, [b'"', b"{", b"]", b"\xff", b"\x00", b"-", b"9" * 30, b"[0,"]))
@settings(max_examples=400, deadline=None)
def test_mutated_messages(body: bytes) -> None:
    _read(body)
