"""The binary body: exact, equal to what JSON gives, nothing copied that need not be."""

from __future__ import annotations

import gc
import math
import weakref
from typing import Any

import numpy as np
import plain_reader
import pytest
from framing_values import (
    ARRAYS,
    LAYOUTS,
    LOOKALIKES,
    REFUSED,
    SCALAR_FATES,
    TREES,
    TREES_WITH_BYTES,
    same,
)
from hypothesis import given, settings

from framing.arrays import MAX_ARRAYS
from framing.binary import COPY_BELOW, FIRST_BYTE, decode_binary, decode_body, encode_binary, encode_upgraded
from framing.codec import json_to_numpy, numpy_to_json
from framing.encoding import encode_parts
from framing.errors import EncodeError
from framing.frames import Buffer, FrameDecoder, encode_frame

LARGE = np.arange(COPY_BELOW, dtype=np.int32)


def joined(pieces: list[Buffer]) -> bytearray:
    return bytearray().join(pieces)


def there_and_back(value: object) -> Any:
    return decode_binary(joined(encode_binary(value)))


def overlaps(piece: Buffer, array: np.ndarray[Any, Any]) -> bool:
    return len(piece) > 0 and np.shares_memory(np.frombuffer(piece, np.uint8), array)


def frame_decoder() -> FrameDecoder:
    return FrameDecoder()


# ---------------------------------------------------------------- byte for byte
def test_the_bytes_of_a_small_message() -> None:
    value = {"a": np.array([1, 2], ">u2"), "b": b"\x00\xff", "c": [None, 1.5]}
    head = (
        b'{"a": {"__numpy_array__": "buffer", "dtype": ">u2", "shape": [2]}, '
        b'"b": {"__numpy_array__": "bytes", "size": 2}, "c": [null, 1.5]}'
    )
    body = b"\xff\x01\x00\x00" + bytes([0, 0, 0, len(head)]) + head
    body += bytes(-len(body) % 64) + b"\x00\x01\x00\x02" + bytes(60) + b"\x00\xff"
    assert joined(encode_binary(value)) == body
    assert same(decode_binary(body), value)


def test_a_body_without_buffers_is_padded_too() -> None:
    body = joined(encode_binary([1]))
    assert body == b"\xff\x01\x00\x00\x00\x00\x00\x03[1]" + bytes(53)
    assert decode_binary(body) == [1]


@pytest.mark.parametrize("name", ARRAYS)
def test_an_independent_reader_finds_the_same_bytes(name: str) -> None:
    array = np.asarray(ARRAYS[name])
    got = plain_reader.read_binary(
        bytes(joined(encode_binary({"x": [array, b"between", array], "__numpy_array__": 3})))
    )
    expected = plain_reader.Array(str(array.dtype), list(array.shape), array.tobytes())
    assert got == {"x": [expected, b"between", expected], "__numpy_array__": 3}


# ---------------------------------------------------------------- what arrives
@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_survive_exactly_and_are_writable(name: str) -> None:
    array = ARRAYS[name]
    got = there_and_back({"x": [array, 1, array]})["x"]
    for one in (got[0], got[2]):
        assert same(one, np.asarray(array))
        assert one.flags.writeable
        assert one.flags.c_contiguous
        assert one.flags.aligned
        one[...] = one[...]


@pytest.mark.parametrize("view", LAYOUTS)
@pytest.mark.parametrize("repeat", [1, 1000])
def test_any_memory_layout_arrives_in_c_order(view: Any, repeat: int) -> None:
    array = view(np.arange(24 * repeat, dtype=np.float32).reshape(2, 3, 4 * repeat))
    assert same(there_and_back(array), np.ascontiguousarray(array))


@pytest.mark.parametrize(("value", "expected"), SCALAR_FATES)
def test_scalars_and_containers_become_what_they_become_in_json(value: object, expected: object) -> None:
    got = there_and_back([value, LARGE])[0]
    assert same(got, json_to_numpy(numpy_to_json(value)))
    assert same(got, expected)


@pytest.mark.parametrize("value", LOOKALIKES)
def test_dicts_that_look_like_arrays_survive(value: Any) -> None:
    assert same(there_and_back([value, LARGE]), json_to_numpy(numpy_to_json([value, LARGE], escape=True)))


@pytest.mark.parametrize(
    "lookalike",
    [
        {"__numpy_array__": "buffer", "dtype": "uint8", "shape": [3]},
        {"__numpy_array__": "bytes", "size": 3},
        {"__numpy_array__": np.arange(3)},
        {"__numpy_array__": b"raw", "size": np.arange(3)},
        {"__numpy_array__": {"__numpy_array__": LARGE}},
    ],
)
def test_dicts_that_look_like_descriptors_survive(lookalike: Any) -> None:
    assert same(there_and_back({"x": lookalike, "y": LARGE}), {"x": lookalike, "y": LARGE})


@pytest.mark.parametrize("raw", [b"", b"x", bytes(COPY_BELOW + 1), bytearray(b"abc"), np.bytes_(b"text")])
def test_bytes_arrive_as_bytes(raw: bytes) -> None:
    got = there_and_back({"raw": raw})
    assert got == {"raw": bytes(raw)}
    assert type(got["raw"]) is bytes


def test_a_read_only_body_gives_writable_arrays_too() -> None:
    got = decode_binary(bytes(joined(encode_binary([LARGE, LARGE[:3]]))))
    assert all(array.flags.writeable for array in got)  # type: ignore[union-attr]
    assert same(got, [LARGE, LARGE[:3]])


def test_text_in_the_head_may_be_any_utf_8() -> None:
    head = '{"ключ": "значение 🤖"}'.encode()
    body = b"\xff\x01\x00\x00" + len(head).to_bytes(4, "big") + head
    assert decode_binary(body + bytes(-len(body) % 64)) == {"ключ": "значение 🤖"}


@given(TREES_WITH_BYTES)
@settings(max_examples=150, deadline=None)
def test_any_tree_survives(tree: Any) -> None:
    assert same(there_and_back(tree), tree)


@given(TREES)
@settings(max_examples=100, deadline=None)
def test_what_arrives_through_binary_is_what_arrives_through_json(tree: Any) -> None:
    assert same(there_and_back(tree), json_to_numpy(numpy_to_json(tree, escape=True)))


# ---------------------------------------------------------------- what is refused at the sender
@pytest.mark.parametrize(("bad", "word"), REFUSED)
def test_what_cannot_travel_is_refused_with_its_key_path(bad: object, word: str) -> None:
    with pytest.raises(EncodeError, match=word) as caught:
        encode_binary({"cams": [{"rgb": LARGE}, {"depth map": bad}]}, root="obs")
    assert str(caught.value).startswith("obs.cams[1]['depth map']")


@pytest.mark.parametrize("value", [np.zeros(0, np.uint8), b""], ids=["arrays", "bytes"])
def test_more_arrays_than_a_reader_takes_are_refused_at_the_sender(value: object) -> None:
    assert len(there_and_back([value] * MAX_ARRAYS)) == MAX_ARRAYS
    with pytest.raises(EncodeError, match=rf"^res\[{MAX_ARRAYS}\]: a message holds at most {MAX_ARRAYS} arrays"):
        encode_binary([value] * (MAX_ARRAYS + 1), root="res")


def test_json_bodies_hold_no_more_arrays_either() -> None:
    tiny = np.zeros(0, np.uint8)
    assert len(json_to_numpy(numpy_to_json([tiny] * MAX_ARRAYS))) == MAX_ARRAYS  # type: ignore[arg-type]
    with pytest.raises(EncodeError, match="at most"):
        numpy_to_json([tiny] * (MAX_ARRAYS + 1))


# ---------------------------------------------------------------- which body a message gets
def test_without_arrays_and_bytes_a_message_stays_json() -> None:
    message = {"res": [1, "two", {"__numpy_array__": 3}]}
    assert joined(encode_upgraded(message, binary=True)) == numpy_to_json(message, escape=True)
    with_array = joined(encode_upgraded({"res": LARGE}, binary=True))
    assert with_array[0] == FIRST_BYTE
    assert same(decode_body(with_array), {"res": LARGE})


def test_a_peer_that_reads_only_json_gets_json() -> None:
    assert joined(encode_upgraded({"res": LARGE}, binary=False)) == numpy_to_json({"res": LARGE})
    with pytest.raises(EncodeError, match=r"^res: bytes cannot travel in JSON"):
        encode_upgraded({"res": b"raw"}, binary=False)


# ---------------------------------------------------------------- nothing is copied that need not be
def test_a_contiguous_array_is_sent_from_its_own_memory() -> None:
    frozen = LARGE.copy()
    frozen.setflags(write=False)
    part = np.arange(10 * COPY_BELOW, dtype=np.float64).reshape(10, -1)[2:5]
    text = np.full(COPY_BELOW, "ab")
    for array in (LARGE, frozen, part, text, np.asarray(LARGE, ">i4")):
        pieces = encode_binary({"small": np.arange(3), "x": array})
        assert [overlaps(piece, array) for piece in pieces] == [False, True]
        assert memoryview(pieces[1]).nbytes == array.nbytes


def test_large_bytes_are_sent_from_their_own_memory() -> None:
    raw = bytes(COPY_BELOW)
    pieces = encode_binary([raw])
    assert np.shares_memory(np.frombuffer(pieces[1], np.uint8), np.frombuffer(raw, np.uint8))


def test_other_layouts_are_copied_once() -> None:
    array = np.arange(4 * COPY_BELOW, dtype=np.uint8).reshape(2, -1).T
    pieces = encode_binary(array)
    assert not any(overlaps(piece, array) for piece in pieces)
    assert memoryview(pieces[1]).nbytes == array.nbytes


def test_small_arrays_share_one_piece() -> None:
    pieces = encode_binary([np.arange(number) for number in range(40)])
    assert len(pieces) == 1


def test_a_step_is_five_pieces() -> None:
    """The header, the head with what is small, and three images, which need no padding between them."""
    images = [np.zeros((240, 320, 3), np.uint8) for _ in range(3)]
    frame = encode_frame(encode_binary({"args": [np.zeros(20), *images]}))
    assert len(frame) == 5
    assert all(len(piece) for piece in frame)


def received(pieces: list[Buffer]) -> memoryview:
    decoder = FrameDecoder()
    for piece in encode_frame(pieces):
        decoder.feed(piece)
    body = decoder.next_frame()
    assert body is not None
    return body


@pytest.mark.parametrize("itemsize", [1, 2, 4, 8])
def test_large_arrays_are_views_of_the_received_frame_and_small_ones_are_not(itemsize: int) -> None:
    dtype = np.dtype(f"u{itemsize}")
    sizes = [0, 1, COPY_BELOW // itemsize - 1, COPY_BELOW // itemsize, COPY_BELOW // itemsize + 1, 100_000]
    sent = [np.arange(size).astype(dtype) for size in sizes]
    body = received(encode_binary(sent))
    arrays = decode_binary(body)
    assert same(arrays, sent)
    memory = np.frombuffer(body, np.uint8)
    shared = [np.shares_memory(array, memory) for array in arrays]  # type: ignore[union-attr, arg-type]
    assert shared == [False, False, False, True, True, True]
    for array in arrays[3:]:  # type: ignore[index, union-attr]
        assert array.ctypes.data % 64 == 0  # type: ignore[union-attr]
        array[:] = 7  # type: ignore[call-overload, index]
    assert (memory == 7).sum() >= sum(size for size in sizes if size * itemsize >= COPY_BELOW)


def test_no_two_arrays_share_memory() -> None:
    same_array = [LARGE, LARGE, LARGE[:10], LARGE[:10], LARGE[:2000]]
    arrays = decode_binary(received(encode_binary(same_array)))
    for index, left in enumerate(arrays):  # type: ignore[arg-type]
        for right in arrays[index + 1 :]:  # type: ignore[index, operator]
            assert not np.shares_memory(left, right)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [COPY_BELOW - 1, COPY_BELOW])
def test_only_large_arrays_keep_the_frame_alive(size: int) -> None:
    memory = np.frombuffer(
        joined(encode_binary({"small": np.zeros(size, np.uint8), "raw": bytes(COPY_BELOW)})), np.uint8
    )
    alive = weakref.ref(memory)
    kept = decode_binary(memoryview(memory))
    del memory
    gc.collect()
    assert (alive() is not None) is (size == COPY_BELOW)
    del kept
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("form", ["json", "binary"])
def test_a_hundred_observations_are_kept_and_compared_at_the_end(form: str) -> None:
    """Whatever a policy keeps stays what it was, however many frames come after it."""

    def observation(number: int) -> dict[str, object]:
        random = np.random.default_rng(number)
        return {
            "rgb": [random.integers(0, 256, (60, 80, 3), np.uint8) for _ in range(3)],
            "proprio": random.normal(size=20).astype(np.float32),
            "intrinsics": random.normal(size=(3, 3, 3)),
            "step": number,
            "prompt": f"observation {number}",
        }

    decoder = FrameDecoder()
    kept: list[Any] = []
    for number in range(100):
        message = observation(number)
        for piece in encode_frame(encode_binary(message) if form == "binary" else encode_parts(message)):
            decoder.feed(piece)
        while (body := decoder.next_frame()) is not None:
            kept.append(decode_body(body))
        del body
    assert len(kept) == 100
    for number, got in enumerate(kept):
        assert same(got, observation(number))
    kept[0]["rgb"][0][:] = 0
    assert same(kept[1], observation(1))


def test_a_kept_observation_keeps_its_frame_and_no_more() -> None:
    """What 50 kept observations hold: 50 frames, give or take."""
    import tracemalloc

    pieces = encode_frame(encode_binary({"rgb": np.zeros((120, 160, 3), np.uint8), "proprio": np.zeros(20)}))
    size = sum(memoryview(piece).nbytes for piece in pieces)
    decoder = FrameDecoder()
    tracemalloc.start()
    kept = []
    for _ in range(50):
        for piece in pieces:
            decoder.feed(piece)
        body = decoder.next_frame()
        assert body is not None
        kept.append(decode_body(body))
    del body
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert 50 * 57_600 < held < 50 * (size + 3000)
    assert math.isclose(size, 57_600, rel_tol=0.02)
