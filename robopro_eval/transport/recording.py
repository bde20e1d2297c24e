"""Recordings: every frame of one episode in a file, for `eval-replay` and for people who look for a difference.

`RecordingChannel` stands in front of a channel and writes down what passes; `read_recording` reads the file, also one
whose end is torn because the program was killed. Recording must never cost an episode: a full disk or a full recording
ends the recording, and the channel goes on.

The file (all numbers big-endian):

==========================  ==========================================================================================
8 bytes                     `MAGIC`, whose last byte is the version
4 bytes, then as many       the length of the meta, and the meta: one UTF-8 JSON object
per entry, 1 byte           `>` a frame sent, `<` a frame received, `!` the recording was full and ends here
            8 bytes         seconds since the recording began, on a monotonic clock (float64)
            4 bytes         the length of what follows
            as many         the frame as it was on the wire, its own 4-byte header included (nothing for `!`)
==========================  ==========================================================================================

Recorded is what a channel carries: after TLS and after the handshake of a token, so no secret is in a recording. What
the robot saw is.
"""

from __future__ import annotations

import contextlib
import enum
import json
import math
import mmap
import os
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from framing.errors import WireError
from framing.frames import HEADER, Buffer

MAGIC = b"RPWIRE\x00\x01"

MAX_RECORDING = 512 << 20
"""Bytes of one file. An episode of 100 queries with three 240x320 pictures each takes about 90 MB on the stock wire."""

MAX_META = 1 << 20
"""Bytes of the meta. It names an episode; a reader should not have to believe a length of 4 GiB."""

_LENGTH = struct.Struct(">I")
_ENTRY = struct.Struct(">cdI")


class RecordingError(WireError):
    """A file that is no recording, or of a version that this program does not know."""


class Direction(enum.Enum):
    """Which way a frame went, seen from the program that recorded."""

    SENT = ">"
    RECEIVED = "<"


@dataclass(frozen=True)
class RecordedFrame:
    """One frame. `body` is without the frame's header, read-only; `seconds` since the recording began."""

    direction: Direction
    seconds: float
    body: memoryview


@dataclass(frozen=True)
class Recording:
    """What a file holds. `torn`: its last entry was cut off. `full`: the limit was reached before the episode's end."""

    meta: Mapping[str, object]
    frames: tuple[RecordedFrame, ...]
    torn: bool
    full: bool


class FrameChannel(Protocol):
    """What is recorded: the face of `robopro_eval.transport.blocking.BlockingChannel`."""

    @property
    def has_unread(self) -> bool: ...

    def send(self, buffers: Sequence[Buffer], timeout: float | None = None) -> None: ...

    def receive(self, timeout: float | None = None) -> memoryview: ...

    def close(self) -> None: ...


class RecordingChannel:
    """`channel`, with every frame that passes also written to `path`, of at most `max_bytes` bytes.

    A frame that fails to be sent is not written; one that was received is. Each entry reaches the operating system
    before the call returns, so that what happened until a crash can be read. `finish` ends the file while the channel
    goes on unrecorded; `close` ends both. `failure` is why recording stopped early, for a person, else None.

    Raises OSError if the file cannot be created (it must not exist), ValueError if `meta` is not JSON or has no room.
    """

    def __init__(
        self,
        channel: FrameChannel,
        path: Path,
        max_bytes: int = MAX_RECORDING,
        *,
        meta: Mapping[str, object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.channel = channel
        self.path = path
        self.failure: str | None = None
        self._clock = clock
        self._began = clock()
        text = json.dumps(dict(meta), allow_nan=False).encode()
        head = MAGIC + _LENGTH.pack(len(text)) + text
        # The entry that says "full" always has its place.
        self._room = max_bytes - len(head) - _ENTRY.size
        if len(text) > MAX_META or self._room < 0:
            raise ValueError(f"a recording of at most {max_bytes} bytes has no room for a meta of {len(text)} bytes")
        self._file: BinaryIO | None = open(path, "xb", buffering=0)  # noqa: SIM115 - closed by `finish`
        self._write([head])

    @property
    def has_unread(self) -> bool:
        return self.channel.has_unread

    def send(self, buffers: Sequence[Buffer], timeout: float | None = None) -> None:
        self.channel.send(buffers, timeout)
        self._add(Direction.SENT, buffers)

    def receive(self, timeout: float | None = None) -> memoryview:
        body = self.channel.receive(timeout)
        self._add(Direction.RECEIVED, [HEADER.pack(body.nbytes), body])
        return body

    def finish(self) -> None:
        """End the file. Safe to repeat; the channel stays open."""
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()

    def close(self) -> None:
        self.finish()
        self.channel.close()

    def _add(self, direction: Direction, frame: Sequence[Buffer]) -> None:
        if self._file is None:
            return
        size = sum(memoryview(piece).nbytes for piece in frame)
        seconds = self._clock() - self._began
        if _ENTRY.size + size > self._room:
            self._write([_ENTRY.pack(b"!", seconds, 0)])
            self.failure = f"{self.path} is full; the rest of the episode is not recorded"
            self.finish()
            return
        self._room -= _ENTRY.size + size
        self._write([_ENTRY.pack(direction.value.encode(), seconds, size), *frame])

    def _write(self, pieces: Sequence[Buffer]) -> None:
        assert self._file is not None
        try:
            for piece in pieces:
                rest = memoryview(piece).cast("B")
                while rest.nbytes:
                    rest = rest[os.write(self._file.fileno(), rest) :]
        except OSError as error:
            self.failure = f"{self.path} cannot be written ({error.strerror}); the rest of the episode is not recorded"
            self.finish()


def read_recording(path: Path) -> Recording:
    """The recording in a file, as far as it goes. Raises OSError, and RecordingError for what is no recording.

    The bodies of its frames are views of the file, which is read as they are looked at.
    """
    with path.open("rb") as file:
        is_empty = os.fstat(file.fileno()).st_size == 0  # that cannot be mapped
        data = memoryview(b"" if is_empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    start = len(MAGIC) + _LENGTH.size
    if bytes(data[: len(MAGIC)])[:-1] != MAGIC[:-1]:
        raise RecordingError(f"{path} is not a recording of eval-sim --record")
    if data[: len(MAGIC)] != MAGIC:
        raise RecordingError(f"{path} was recorded in format {data[len(MAGIC) - 1]}; this program reads {MAGIC[-1]}")
    if len(data) < start:
        return Recording({}, (), torn=True, full=False)
    (size,) = _LENGTH.unpack_from(data, len(MAGIC))
    if size > MAX_META:
        raise RecordingError(f"{path} is damaged: its meta claims {size} bytes")
    if len(data) < start + size:
        return Recording({}, (), torn=True, full=False)
    meta = _read_meta(path, data[start : start + size])
    frames, torn, full = _read_entries(path, data[start + size :])
    return Recording(meta, frames, torn, full)


def _read_meta(path: Path, text: memoryview) -> Mapping[str, object]:
    try:
        meta = json.loads(bytes(text))
    except ValueError:
        meta = None
    if not isinstance(meta, dict):
        raise RecordingError(f"{path} is damaged: its meta is not a JSON object")
    return meta


def _read_entries(path: Path, data: memoryview) -> tuple[tuple[RecordedFrame, ...], bool, bool]:
    """The frames, whether the end is torn, and whether the recording was full."""
    frames: list[RecordedFrame] = []
    while len(data):
        if len(data) < _ENTRY.size:
            return tuple(frames), True, False
        mark, seconds, size = _ENTRY.unpack_from(data)
        if mark == b"!":
            return tuple(frames), False, True
        if mark not in (b">", b"<") or not math.isfinite(seconds) or size <= HEADER.size:
            raise RecordingError(f"{path} is damaged at frame {len(frames) + 1}: it does not begin like one")
        if len(data) < _ENTRY.size + size:
            return tuple(frames), True, False
        frame = data[_ENTRY.size : _ENTRY.size + size]
        if HEADER.unpack_from(frame)[0] != size - HEADER.size:
            raise RecordingError(f"{path} is damaged at frame {len(frames) + 1}: its two lengths differ")
        frames.append(RecordedFrame(Direction(mark.decode()), seconds, frame[HEADER.size :]))
        data = data[_ENTRY.size + size :]
    return tuple(frames), False, False
