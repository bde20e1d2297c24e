"""Frames in any pieces, with memory that follows what arrived."""

from __future__ import annotations

import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framing.errors import EncodeError, ProtocolError
from framing.frames import AT_ONCE, SCRATCH, FrameDecoder, encode_frame

MIB = 1 << 20


def wire(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(body)) + body for body in bodies)


def drain(decoder: FrameDecoder) -> list[bytes]:
    out = []
    while (body := decoder.next_frame()) is not None:
        out.append(bytes(body))
    return out


# ---------------------------------------------------------------- encoding
def test_a_frame_is_a_big_endian_length_and_the_body() -> None:
    assert b"".join(encode_frame(b"x" * 258)) == b"\x00\x00\x01\x02" + b"x" * 258
    assert b"".join(encode_frame([b"ab", bytearray(b"c"), memoryview(b"d")])) == b"\x00\x00\x00\x04abcd"


def test_nothing_is_copied_for_sending() -> None:
    body = bytes(1000)
    assert encode_frame([body])[1] is body


def test_a_body_above_the_maximum_is_refused_with_both_sizes() -> None:
    with pytest.raises(EncodeError, match=r"1\.5 MiB is above the maximum of 1\.0 MiB"):
        encode_frame(bytes(MIB + MIB // 2), max_frame=MIB)
    encode_frame(bytes(MIB), max_frame=MIB)


def test_four_gibibytes_are_refused_whatever_the_maximum() -> None:
    piece = memoryview(bytearray(64 * MIB))
    with pytest.raises(EncodeError, match=r"4096\.0 MiB is above the maximum"):
        encode_frame([piece] * 64, max_frame=1 << 40)


def test_an_empty_body_is_refused() -> None:
    with pytest.raises(EncodeError, match="empty"):
        encode_frame(b"")


# ---------------------------------------------------------------- decoding
BODIES = [b"a", b"bc" * 40, b"\x00\x00\x00\x00", b"d" * 300]


def test_byte_at_a_time() -> None:
    decoder = FrameDecoder()
    seen = []
    for byte in wire(*BODIES):
        decoder.feed(bytes([byte]))
        seen += drain(decoder)
    assert seen == BODIES
    assert decoder.at_boundary


def test_split_at_every_offset() -> None:
    data = wire(*BODIES)
    for offset in range(len(data) + 1):
        decoder = FrameDecoder()
        decoder.feed(data[:offset])
        seen = drain(decoder)
        complete = offset in (0, 5, 89, 97, len(data))
        assert decoder.at_boundary is complete
        decoder.feed(data[offset:])
        assert seen + drain(decoder) == BODIES


@given(st.lists(st.binary(min_size=1, max_size=3 * SCRATCH), max_size=6), st.data())
@settings(max_examples=60, deadline=None)
def test_any_bodies_in_any_pieces_by_both_ways_in(bodies: list[bytes], data: st.DataObject) -> None:
    stream = memoryview(wire(*bodies))
    decoder = FrameDecoder()
    seen = []
    while len(stream):
        size = data.draw(st.integers(1, 2 * SCRATCH))
        if data.draw(st.booleans()):
            decoder.feed(stream[:size])
        else:
            room = decoder.get_buffer()
            size = min(size, len(room), len(stream))
            room[:size] = stream[:size]
            decoder.buffer_updated(size)
        stream = stream[size:]
        if data.draw(st.booleans()):
            seen += drain(decoder)
    assert seen + drain(decoder) == bodies


def test_a_header_cut_at_the_end_of_the_scratch() -> None:
    for left in range(1, 5):
        first = b"x" * (SCRATCH - 4 - left)
        data = wire(first, b"second")
        decoder = FrameDecoder()
        room = decoder.get_buffer()
        assert len(room) == SCRATCH
        room[:] = data[:SCRATCH]
        decoder.buffer_updated(SCRATCH)
        decoder.feed(data[SCRATCH:])
        assert drain(decoder) == [first, b"second"]


def test_bodies_are_fresh_memory_that_stays_valid() -> None:
    decoder = FrameDecoder()
    kept = []
    for number in range(100):
        decoder.feed(wire(bytes([number]) * 1000))
        body = decoder.next_frame()
        assert body is not None
        assert not body.readonly
        kept.append(body)
    for number, body in enumerate(kept):
        assert bytes(body) == bytes([number]) * 1000
    kept[0][:] = bytes(1000)
    assert bytes(kept[1]) == b"\x01" * 1000


@pytest.mark.parametrize("size", [1, 63, 300, 4096, SCRATCH, 700_000, AT_ONCE, AT_ONCE + 1, 9 * MIB + 5, 33 * MIB])
def test_every_body_begins_at_a_cache_line(size: int) -> None:
    decoder = FrameDecoder()
    pattern = bytes(range(251)) * (size // 251 + 1)
    for _ in range(3):
        decoder.feed(wire(b"0", pattern[:size]))
        small, body = decoder.next_frame(), decoder.next_frame()
        assert small is not None
        assert body is not None
        assert np.frombuffer(small, np.uint8).ctypes.data % 64 == 0
        assert np.frombuffer(body, np.uint8).ctypes.data % 64 == 0
        assert body == pattern[:size]


def test_a_buffer_is_never_empty_and_never_overrun() -> None:
    decoder = FrameDecoder()
    decoder.feed(struct.pack(">I", 10) + b"abc")
    room = decoder.get_buffer()
    assert len(room) == 7
    with pytest.raises(ValueError, match="no room"):
        decoder.buffer_updated(8)


# ---------------------------------------------------------------- what is refused
def test_a_header_above_the_maximum_is_refused_before_any_allocation() -> None:
    decoder = FrameDecoder(max_frame=MIB)
    decoder.feed(wire(b"good"))
    tracemalloc.start()
    decoder.feed(b"\xff\xff\xff\xff")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000
    assert bytes(decoder.next_frame() or b"") == b"good"  # what came before counts
    for _ in range(2):
        with pytest.raises(ProtocolError, match=r"4096\.0 MiB, above the maximum of 1\.0 MiB"):
            decoder.next_frame()
    with pytest.raises(ProtocolError):
        decoder.get_buffer()
    with pytest.raises(ProtocolError):
        decoder.feed(b"more")


def test_the_maximum_itself_is_allowed_and_one_byte_more_is_not() -> None:
    decoder = FrameDecoder(max_frame=10)
    decoder.feed(wire(b"x" * 10))
    assert drain(decoder) == [b"x" * 10]
    decoder.feed(wire(b"x" * 11)[:4])
    with pytest.raises(ProtocolError, match="a frame of 11 bytes, above the maximum of 10 bytes"):
        decoder.next_frame()


@pytest.mark.parametrize(
    ("beginning", "hint"),
    [
        (b"GET / HTTP/1.1\r\n", "it speaks HTTP"),
        (b"HTTP/1.1 400 Bad Request\r\n", "it speaks HTTP"),
        (b"\x16\x03\x01\x02\x00\x01", "it speaks TLS, .* on both ends or on neither"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "it speaks TLS"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "it speaks SSH; check the port"),
        (b"EHLO example.org\r\n", "or it speaks another one .it began with b'EHLO'"),
        (b"\xff\xff\xff\xff", "is not a program of this protocol$"),
    ],
)
def test_a_program_of_another_protocol_is_recognised_by_how_it_begins(beginning: bytes, hint: str) -> None:
    decoder = FrameDecoder()
    decoder.feed(beginning[:4])
    with pytest.raises(ProtocolError, match=hint):
        decoder.next_frame()


def test_the_maximum_may_change_between_frames() -> None:
    decoder = FrameDecoder(max_frame=10)
    decoder.feed(wire(b"x" * 10))
    decoder.max_frame = 20
    decoder.feed(wire(b"y" * 20))
    assert drain(decoder) == [b"x" * 10, b"y" * 20]
    decoder.max_frame = 10
    decoder.feed(wire(b"z" * 20)[:4])
    with pytest.raises(ProtocolError, match="above the maximum of 10 bytes"):
        decoder.next_frame()


def test_an_empty_frame_is_refused() -> None:
    decoder = FrameDecoder()
    decoder.feed(bytes(4))
    with pytest.raises(ProtocolError, match="empty frame"):
        decoder.next_frame()


@pytest.mark.parametrize("limit", [0, -1, 1 << 32])
def test_a_maximum_that_cannot_be(limit: int) -> None:
    with pytest.raises(ValueError, match="maximum frame"):
        FrameDecoder(max_frame=limit)


# ---------------------------------------------------------------- memory
@pytest.mark.parametrize("size", [64 * MIB, 65 * MIB + 12345])
def test_one_large_frame_in_small_pieces_peaks_at_its_own_size(size: int) -> None:
    decoder = FrameDecoder()
    piece = memoryview(bytes(4096))
    tracemalloc.start()
    decoder.feed(struct.pack(">I", size))
    arrived = 0
    while arrived < size:
        count = min(4096, size - arrived)
        room = decoder.get_buffer()
        count = min(count, len(room))
        room[:count] = piece[:count]
        decoder.buffer_updated(count)
        arrived += count
        if arrived % (4 * MIB) == 0:
            assert tracemalloc.get_traced_memory()[1] < 2.1 * arrived + AT_ONCE
    body = decoder.next_frame()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert body is not None
    assert len(body) == size
    assert peak <= 1.1 * size


def test_a_promise_alone_costs_little() -> None:
    decoder = FrameDecoder()
    tracemalloc.start()
    decoder.feed(struct.pack(">I", 256 * MIB) + b"x")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= AT_ONCE + 10_000


def test_a_size_once_reached_is_allocated_at_once_the_next_time() -> None:
    decoder = FrameDecoder()
    decoder.feed(wire(bytes(9 * MIB)))
    assert decoder.next_frame() is not None
    decoder.feed(struct.pack(">I", 9 * MIB))
    assert len(decoder.get_buffer()) == 9 * MIB


def test_contents_survive_growing() -> None:
    body = bytes(range(256)) * (9 * MIB // 256 + 1)
    decoder = FrameDecoder()
    decoder.feed(wire(body))
    assert drain(decoder) == [body]
