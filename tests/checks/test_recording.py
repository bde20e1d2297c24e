"""Recordings: what passed is what is read, up to the limit and up to a torn end, and a full disk costs no episode."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from framing.errors import PeerGone
from robopro_eval.transport.blocking import BlockingChannel
from robopro_eval.transport.recording import Direction, RecordingChannel, RecordingError, read_recording

META = {"task": "lift_pot", "seed": 30001}


@pytest.fixture
def ends() -> Iterator[tuple[BlockingChannel, socket.socket]]:
    ours, theirs = socket.socketpair()
    with BlockingChannel(ours) as channel, theirs:
        yield channel, theirs


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def converse(channel: RecordingChannel, theirs: socket.socket, clock: Clock) -> None:
    """Two frames out, the first in two buffers, and one in."""
    channel.send([b"\0\0\0\5", b'["a"]'])
    clock.now += 0.25
    theirs.sendall(b"\0\0\0\2[]")
    assert channel.receive(5) == b"[]"
    clock.now += 0.5
    channel.send([b"\0\0\0\2{}"])


def test_frames_are_read_as_they_passed(ends: tuple[BlockingChannel, socket.socket], tmp_path: Path) -> None:
    channel, theirs = ends
    path, clock = tmp_path / "a.frames", Clock()
    recorder = RecordingChannel(channel, path, meta=META, clock=clock)
    converse(recorder, theirs, clock)
    recorder.finish()
    recorder.send([b"\0\0\0\1", b"1"])  # not recorded any more
    assert theirs.recv(100) == b'\0\0\0\5["a"]\0\0\0\2{}\0\0\0\x011'
    recording = read_recording(path)
    assert recording.meta == META
    assert [(frame.direction, frame.seconds, bytes(frame.body)) for frame in recording.frames] == [
        (Direction.SENT, 0.0, b'["a"]'),
        (Direction.RECEIVED, 0.25, b"[]"),
        (Direction.SENT, 0.75, b"{}"),
    ]
    assert not recording.torn
    assert not recording.full
    assert recorder.failure is None


def test_the_bytes_in_the_file_are_those_of_the_documented_format(
    ends: tuple[BlockingChannel, socket.socket], tmp_path: Path
) -> None:
    recorder = RecordingChannel(ends[0], tmp_path / "a", meta={"a": 1}, clock=Clock())
    recorder.send([b"\0\0\0\1", b"7"])
    recorder.finish()
    assert (tmp_path / "a").read_bytes() == (
        b"RPWIRE\0\x01" + b"\0\0\0\x08" + b'{"a": 1}' + b">" + bytes(8) + b"\0\0\0\5" + b"\0\0\0\x017"
    )


def test_a_file_cut_anywhere_gives_the_frames_before_the_cut(
    ends: tuple[BlockingChannel, socket.socket], tmp_path: Path
) -> None:
    path = tmp_path / "whole"
    recorder = RecordingChannel(ends[0], path, meta=META)
    boundaries = [path.stat().st_size]
    recorder.send([b"\0\0\0\2", b"[]"])
    boundaries.append(path.stat().st_size)  # an entry is in the file as soon as the call has returned
    recorder.send([b"\0\0\0\2", b"{}"])
    whole = path.read_bytes()
    boundaries.append(len(whole))
    for size in range(8, len(whole) + 1):
        (tmp_path / "cut").write_bytes(whole[:size])
        recording = read_recording(tmp_path / "cut")
        assert len(recording.frames) == max(0, sum(size >= boundary for boundary in boundaries) - 1)
        assert recording.torn == (size not in boundaries)


def test_the_limit_holds_and_the_channel_goes_on(ends: tuple[BlockingChannel, socket.socket], tmp_path: Path) -> None:
    channel, theirs = ends
    path = tmp_path / "small"
    recorder = RecordingChannel(channel, path, 400, meta=META)
    for _ in range(5):
        recorder.send([b"\0\0\0\x64", b"x" * 100])
    assert path.stat().st_size <= 400
    recording = read_recording(path)
    assert len(recording.frames) == 2
    assert recording.full
    assert not recording.torn
    assert "is full" in (recorder.failure or "")
    assert len(theirs.recv(1000)) == 5 * 104


def test_a_full_disk_costs_the_recording_only(ends: tuple[BlockingChannel, socket.socket], tmp_path: Path) -> None:
    channel, theirs = ends
    recorder = RecordingChannel(channel, tmp_path / "a", meta=META)
    assert recorder._file is not None
    recorder._file.close()
    recorder._file = open("/dev/full", "wb", buffering=0)  # noqa: SIM115 - the channel closes it
    recorder.send([b"\0\0\0\1", b"1"])
    recorder.send([b"\0\0\0\1", b"2"])
    assert "No space left on device" in (recorder.failure or "")
    assert theirs.recv(100) == b"\0\0\0\x011\0\0\0\x012"


def test_a_receive_that_fails_is_passed_on(ends: tuple[BlockingChannel, socket.socket], tmp_path: Path) -> None:
    channel, theirs = ends
    recorder = RecordingChannel(channel, tmp_path / "a", meta=META)
    theirs.close()
    with pytest.raises(PeerGone):
        recorder.receive(5)
    recorder.close()
    assert channel.closed
    assert read_recording(tmp_path / "a").frames == ()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not a recording"),
        (b"\x89PNG\r\n\x1a\n0123", "not a recording"),
        (b"RPWIRE\0\x02\0\0\0\2{}", "format 2; this program reads 1"),
        (b"RPWIRE\0\x01\xff\xff\xff\xff", "claims 4294967295 bytes"),
        (b"RPWIRE\0\x01\0\0\0\2[]", "meta is not a JSON object"),
        (b"RPWIRE\0\x01\0\0\0\2{}" + b"?" + bytes(12), "damaged at frame 1"),
        (b"RPWIRE\0\x01\0\0\0\2{}" + b">" + bytes(8) + b"\0\0\0\5\0\0\0\2x", "its two lengths differ"),
    ],
)
def test_what_is_no_recording_is_named(content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(RecordingError, match=words):
        read_recording(tmp_path / "a")


def test_an_earlier_recording_is_never_overwritten(ends: tuple[BlockingChannel, socket.socket], tmp_path: Path) -> None:
    RecordingChannel(ends[0], tmp_path / "a", meta=META).finish()
    with pytest.raises(FileExistsError):
        RecordingChannel(ends[0], tmp_path / "a", meta=META)
