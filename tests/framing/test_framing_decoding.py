"""Malformed bodies: one ProtocolError each, nothing else, and no more work or memory than their size warrants."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
import tracemalloc

import numpy as np
import pytest
from damage import damaged
from hypothesis import given, settings
from hypothesis import strategies as st

from framing.codec import json_to_numpy, numpy_to_json
from framing.decoding import CUT_FROM, MAX_DEPTH
from framing.errors import ProtocolError


def array(data: str = "AAAA", dtype: object = "uint8", shape: object = (3,)) -> bytes:
    return json.dumps({"__numpy_array__": True, "data": data, "dtype": dtype, "shape": shape}).encode()


LONG = "AAAA" * CUT_FROM

BAD = {
    "empty": (b"", "not JSON"),
    "not UTF-8": (b'{"a": "\xff"}', "not UTF-8"),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), "not UTF-8"),
    "byte order mark": (b"\xef\xbb\xbf{}", "not JSON"),
    "cut short": (b'{"res": [1, 2', "not JSON"),
    "two values": (b"{} {}", "not JSON"),
    "HTTP": (b"GET / HTTP/1.1\r\n\r\n", "not JSON"),
    "control character in a text": (b'{"a": "\n"}', "not JSON"),
    "duplicate key": (b'{"res": 1, "res": 2}', "duplicate key, 'res'"),
    "duplicate key by escape": (b'{"res": 1, "r\\u0065s": 2}', "duplicate key"),
    "duplicate long data": (f'{{"data": "{LONG}", "data": "{LONG}"}}'.encode(), "duplicate key"),
    "deep lists": (b"[" * 100_000 + b"]" * 100_000, "nested"),
    "deep dicts": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested"),
    "deep, with quotes and brackets in texts": (
        b'["]\\"]\\\\", ' * (MAX_DEPTH + 1) + b"1" + b"]" * (MAX_DEPTH + 1),
        "nested",
    ),
    "huge integer": (b'{"n": ' + b"9" * 5000 + b"}", "number"),
    "bad base64": (array("AA?A"), "base64"),
    "bad base64, long": (array("AA?A" * CUT_FROM), "base64"),
    "bad padding": (array("AAA"), "base64"),
    "padding inside": (array("AA==AAAA"), "base64"),
    "padding inside, far from the end": (array("AA==" * (1 << 19), shape=[1 << 19]), "base64|needs"),
    "padding at the end of a megabyte": (array("A" * ((1 << 20) - 2) + "==AAAA", shape=[(3 << 18) + 1]), "base64"),
    "spaces in base64": (array("AAAA AAAA"), "base64"),
    "not ASCII in base64": (array("ÄÄÄÄ"), "base64"),
    "not ASCII in long base64": (array("ÄÄÄÄ" * CUT_FROM), "base64"),
    "too little data": (array(shape=[4]), "needs 4 bytes; it has 3"),
    "too much data": (array(shape=[2]), "needs 2 bytes"),
    "negative size": (array(shape=[-3]), "-3, which is not a size"),
    "two negative sizes": (array(shape=[-1, -3]), "not a size"),
    "fractional size": (array(shape=[3.0]), "not a size"),
    "boolean size": (array(shape=[True]), "not a size"),
    "text size": (array(shape=["3"]), "not a size"),
    "overflowing size": (array(shape=[2**64 + 3]), "not a size"),
    "overflowing product": (array(shape=[2**32, 2**32]), "needs"),
    "empty but impossible": (array("", shape=[0, 2**62, 2**62]), "cannot exist"),
    "gigantic size": (array(shape=[10**4000]), "not a size"),
    "too many dimensions": (array(shape=[1] * 40), "40 dimensions"),
    "object dtype": (array(dtype="object"), "not one that travels"),
    "object code": (array(dtype="O"), "not one that travels"),
    "pickled": (array(dtype="|O8"), "not one that travels"),
    "structured": (array(dtype="f4,u1"), "not one that travels"),
    "repeated": (array(dtype="3u1"), "not one that travels"),
    "void": (array(dtype="V3"), "not one that travels"),
    "unknown": (array(dtype="float31"), "not one that travels"),
    "empty dtype": (array(dtype=""), "not one that travels"),
    "long dtype": (array(dtype="uint8" * 1000), "not one that travels"),
    "zero width": (array(dtype="S0"), "not one that travels"),
    "python name": (array(dtype="int"), "not one that travels"),
    "impossible unit": (array(dtype="datetime64[0s]"), "not one that travels"),
    "impossible width": (array(dtype="U999999999"), "not one that travels"),
    "no character": (array("AAARAA==", dtype="<U1", shape=[1]), "no character"),
    "no character, big endian": (array("ABEAAA==", dtype=">U1", shape=[1]), "no character"),
    "neither true nor false": (array("AAEC", dtype="bool"), "neither 0 nor 1"),
    "escaped dict without pairs": (b'{"__numpy_array__": "pairs", "pairs": 3}', "escaped"),
    "escaped dict with bad pairs": (b'{"__numpy_array__": "pairs", "pairs": [["a"]]}', "escaped"),
    "escaped dict with duplicate keys": (b'{"__numpy_array__": "pairs", "pairs": [["a", 1], ["a", 2]]}', "escaped"),
}


@pytest.mark.parametrize("name", BAD)
def test_each_malformed_body_is_a_protocol_error_that_says_why(name: str) -> None:
    body, word = BAD[name]
    for form in (body, bytearray(body), memoryview(body)):
        with pytest.raises(ProtocolError, match=word) as caught:
            json_to_numpy(form)
        assert len(str(caught.value)) < 300


def test_nesting_just_within_the_limit_is_read() -> None:
    assert json_to_numpy(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH) is not None
    flat = b"[" + b", ".join([b"[]"] * 1000) + b"]"
    assert len(json_to_numpy(flat)) == 1000  # type: ignore[arg-type]


def test_brackets_inside_texts_are_not_nesting() -> None:
    value = {"a": "[{" * 1000, "b": '"[' * 1000, "c": "\\"}
    assert json_to_numpy(json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    "body",
    [
        b"[" * (4 << 20),
        b'{"data": "' * (1 << 16),
        b'[{"data": "@0"}, {"data": "' + b"A" * (4 << 20) + b'"}]',
        b"[" + b'{"__numpy_array__": true, "data": "", "dtype": "uint8", "shape": [0]}, ' * 20_000,
        b'"' + b"\\" * (4 << 20),
        b"9" * (4 << 20),
    ],
    ids=["brackets", "openings", "lookalike", "tiny arrays", "backslashes", "digits"],
)
def test_bombs_cost_time_and_memory_in_proportion_to_their_size(body: bytes) -> None:
    tracemalloc.start()
    begun = time.monotonic()
    try:
        json_to_numpy(body)
    except ProtocolError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert time.monotonic() - begun < 20
    assert peak < 24 * len(body) + (32 << 20)


@pytest.mark.parametrize("before", [0, 48])
def test_data_is_decoded_straight_from_the_buffer(before: int) -> None:
    """A 12 MiB array out of a 16 MiB body: the array itself, and hardly anything beside it.

    A frame's body begins a few bytes `before` in its memory, so that it is aligned.
    """
    memory = bytearray(before) + numpy_to_json({"rgb": np.zeros(12 << 20, np.uint8)})
    body = memoryview(memory)[before:]
    tracemalloc.start()
    json_to_numpy(body)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.1 * (12 << 20)


def test_without_pybase64_the_standard_library_does_the_same() -> None:
    """Both directions and every malformed body, in a process where pybase64 cannot be imported."""
    script = f"""
import sys
sys.modules["pybase64"] = None
sys.path[:0] = {sys.path!r}
import numpy as np
from framing import arrays
from framing.codec import json_to_numpy, numpy_to_json
from framing.errors import ProtocolError
from test_framing_decoding import BAD
assert arrays.pybase64 is None
value = [np.arange(1000, dtype=">f4"), np.zeros((0, 3)), np.array(1.5)]
out = json_to_numpy(numpy_to_json(value))
assert all((a == b).all() and a.dtype == b.dtype and b.flags.writeable for a, b in zip(value, out))
for name, (body, _) in BAD.items():
    try:
        json_to_numpy(body)
    except ProtocolError:
        continue
    raise AssertionError(name)
print("same")
"""
    path = [str(__file__).rsplit("/", 1)[0]]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}\n{script}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "same\n", done.stderr


# ---------------------------------------------------------------- fuzz
_SEEDS = [
    numpy_to_json({"cmd": "update", "obs": {"_args": [np.arange(CUT_FROM), 1.5, "x", {"data": LONG}]}}),
    numpy_to_json({"res": np.zeros((2, 3), np.float16), "id": 3, "kind": "ok", "timing": {"infer": 0.5}}),
    numpy_to_json({"__numpy_array__": [1, {"__numpy_array__": None}]}, escape=True),
    array("AAAA" * 100, "<U1", [75]),
]


def _read(body: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        json_to_numpy(body)


@given(st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_random_bytes(body: bytes) -> None:
    _read(body)


@given(st.text(alphabet='{}[]":,\\0123456789.eE+-truefalsn@data_ypysh', max_size=120))
@settings(max_examples=300, deadline=None)
def test_random_text_in_the_letters_of_json(body: str) -> None:
    _read(body.encode())


@given(damaged(_SEEDS, [b'"', b"\\", b"{", b"]", b'"data": "', b"@0", b"-", b"9" * 30]))
@settings(max_examples=500, deadline=None)
def test_mutated_messages(body: bytes) -> None:
    _read(body)


@pytest.mark.parametrize("seed", range(len(_SEEDS)))
def test_every_truncation(seed: int) -> None:
    body = _SEEDS[seed]
    for end in range(0, len(body), 1 if len(body) < 800 else 7):
        with pytest.raises(ProtocolError):
            json_to_numpy(body[:end])
