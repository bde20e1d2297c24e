"""The readers of the wire, each as a function of bytes that raises only if a promise is broken.

The promises: whatever a peer sends, nothing but the errors of `framing.errors` comes out of a reader; a session moves
only along its table; what can be read can be written and read again as the same value; and memory stays below a fixed
amount plus `PER_BYTE` for each byte that arrived.

`scripts/fuzz_wire.py` drives these by coverage for as long as one likes, `tests/faults` by hypothesis for seconds.
Several messages travel in one input, joined by `SEPARATOR`; the first byte chooses among a target's beginnings.
"""

from __future__ import annotations

import contextlib
import json
import math
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np

import framing.frames
from framing.binary import VERSION, decode_body, encode_binary
from framing.decoding import decode
from framing.encoding import encode_parts
from framing.errors import AuthenticationError, PolicyError, ProtocolError
from framing.frames import HEADER, FrameDecoder
from framing.session import Features, RequesterSession, ResponderSession, State
from framing.states import TRANSITIONS, Role
from robopro_eval.transport.auth import AUTH_MAX_FRAME, ModelAuth, SimulatorAuth, refusal

SEPARATOR = b"\xfe\xfe\xfe"
"""Between two messages of one input. No UTF-8 text holds it."""

ASSEMBLED = b"\xffA"
"""A message that begins so is a binary body in parts: the head up to the first zero byte, then the buffers.

A mutation of the head would otherwise break its length and never reach what lies behind it.
"""

PER_BYTE = 48
"""Bytes of memory per byte of input. `{"":` and its `}` are 6 bytes of text and a dict of 184 (232 below Python 3.11);
looking how deep a text is nested takes 28 for each of up to a million bytes."""

FIXED = 16 << 10
"""Bytes that are free: a few small objects, and an error with its traceback."""

SMALL_AT_ONCE = 1 << 10
"""What a decoder allocates at once here, so that inputs of kilobytes see frames that grow."""

TOKEN = b"a token for fuzzing only"

FEATURES = Features("toy", frozenset({"reset_model", "get_action"}), frozenset({"obs_cache"}))

_EDGES = {(role, before, after) for (role, before, _), after in TRANSITIONS.items()}


class Broken(AssertionError):
    """A promise of the wire does not hold."""


class TooMuchMemory(Broken):
    """More than `PER_BYTE` for each byte of input."""


class Meter:
    """How much memory reading takes, measured inside `with`; tracemalloc must be running, numpy's memory counts too.

    `ratio` is the worst so far: bytes of memory, beyond what is free, per byte of input. Leaving raises TooMuchMemory
    above `PER_BYTE`.
    """

    def __init__(self, size: int) -> None:
        self.ratio = 0.0
        self.free = FIXED
        self._size = max(1, size)
        self._before = 0

    def __enter__(self) -> None:
        tracemalloc.reset_peak()
        self._before = tracemalloc.get_traced_memory()[0]

    def __exit__(self, *_: object) -> None:
        used = tracemalloc.get_traced_memory()[1] - self._before
        self.ratio = max(self.ratio, (used - self.free) / self._size)
        if self.ratio > PER_BYTE:
            raise TooMuchMemory(f"{used} bytes of memory for {self._size} bytes of input")


Target = Callable[[bytes, Meter], None]


def measured(target: Target, data: bytes) -> float:
    """Run `target`; the worst ratio of memory to input. Raises whatever it raises, Broken where a promise is broken.

    Memory has to be too much twice: now and then a table of the interpreter's own (of interned names) doubles.
    """
    with contextlib.suppress(TooMuchMemory):
        target(data, meter := Meter(len(data)))
        return meter.ratio
    target(data, meter := Meter(len(data)))
    return meter.ratio


# ---------------------------------------------------------------- frames and bodies
def frames(data: bytes, meter: Meter) -> None:
    """A stream in pieces of any size, by both ways in: the same bodies and the same error."""
    step, stream = (data[0] or 256 if data else 1), data[1:]
    meter.free = 4 * SMALL_AT_ONCE
    step = max(step, len(stream) >> 7)
    seen: tuple[list[bytes], list[bytes]] = ([], [])
    healthy = [False, False]
    with mock.patch.object(framing.frames, "AT_ONCE", SMALL_AT_ONCE):
        for which in range(2):
            decoder = FrameDecoder(max_frame=1 << 20)
            with contextlib.suppress(ProtocolError), meter:
                for at in range(0, len(stream), step):
                    _arrive(decoder, stream[at : at + step], whole=which == 0)
                    while (body := decoder.next_frame()) is not None:
                        _require(len(body) > 0 and not body.readonly, "a body is empty or cannot be written")
                        seen[which].append(bytes(body))
            with contextlib.suppress(ProtocolError):
                decoder.get_buffer()
                healthy[which] = True
    _require(seen[0] == seen[1] and healthy[0] == healthy[1], "the two ways in disagree")
    _require(stream.startswith(b"".join(HEADER.pack(len(body)) + body for body in seen[0])), "a body was made up")


def _arrive(decoder: FrameDecoder, piece: bytes, *, whole: bool) -> None:
    if whole:
        decoder.feed(piece)
        return
    while piece:
        room = decoder.get_buffer()
        count = min(len(room), len(piece))
        room[:count] = piece[:count]
        decoder.buffer_updated(count)
        piece = piece[count:]


def text(data: bytes, meter: Meter) -> None:
    """A JSON body: what comes out is what json makes of it, arrays apart, and survives another trip."""
    try:
        with meter:
            value = decode(data)
    except ProtocolError:
        return
    _require(_matches(value, json.loads(data)), "decoded differently from what json reads")
    again = decode(b"".join(encode_parts(value, escape=True)))
    _require(same(value, again), "changed by a second trip")


def binary(data: bytes, meter: Meter) -> None:
    """A binary body, whole or in parts: what comes out survives another trip, and arrays may be written to."""
    body = _message(data)
    try:
        with meter:
            value = decode_body(body)
    except ProtocolError:
        return
    for array in _arrays(value):
        _require(array.flags.writeable and array.flags.c_contiguous, "an array cannot be written to")
    again = decode_body(bytearray(b"".join(encode_binary(value))))
    _require(same(value, again), "changed by a second trip")


# ---------------------------------------------------------------- sessions
def requester(data: bytes, meter: Meter) -> None:
    """Replies, to a requester that asks whenever it may; the first byte chooses its `beginning`."""
    ask = beginning(data[0] % 5 if data else 0)
    for number, body in enumerate(messages(data[1:])):
        ask_something(ask, number)
        before = ask.state
        try:
            with meter:
                ask.receive(body)
        except ProtocolError:
            _require(ask.state is State.BROKEN, "a violation left the session whole")
        except (PolicyError, AuthenticationError):
            _require(ask.state is State.BROKEN or _moved(Role.REQUESTER, before, ask.state), "an error off the table")
        else:
            _require(before is not State.BROKEN, "a broken session went on")
            _require(_moved(Role.REQUESTER, before, ask.state), f"{before} -> {ask.state} is not in the table")


def ask_something(ask: RequesterSession, number: int) -> None:
    """Request number `number`, or two of them, if that may be done now."""
    if ask.state is State.STOCK_IDLE:
        ask.request("get_action", (number,))
    elif ask.state is State.OURS_IDLE:
        if number == 9:
            ask.bye()
        elif number % 4 == 0:
            ask.request("get_action", (number,), {"fast": True})
        elif number % 4 == 1:
            ask.request("reset_model", episode={"id": f"cell/{number}#1", "task": "t", "seed": number})
        elif number % 4 == 2:
            ask.get("obs_cache")
        else:
            ask.request("update_obs", (number,))
            ask.request("get_action")  # back to back


def beginning(which: int) -> RequesterSession:
    """A requester that is 0 fresh, 1 stock, 2 upgraded, 3 upgraded without binary, 4 leaving with a reply owed."""
    ask = RequesterSession("stock" if which == 1 else "json" if which == 3 else "auto")
    if which == 1:
        return ask
    asked = ask.request("reset_model")
    if which >= 2:
        answer = ResponderSession(FEATURES)
        answer.receive(_body(asked))
        ask.receive(_body(answer.result(None)))
    if which == 4:
        ask.request("get_action")
        ask.bye()
    return ask


def responder(data: bytes, meter: Meter) -> None:
    """Requests, to a responder that answers each with a result, an error, or a wait notice and a result."""
    answer = ResponderSession(FEATURES)
    for number, body in enumerate(messages(data)):
        before = answer.state
        try:
            with meter:
                request = answer.receive(body)
        except ProtocolError:
            _require(answer.state is State.BROKEN, "a violation left the session whole")
            last = answer.protocol_error("it broke the wire")
            _require(last is None or "error" in _decoded(_body(last)), "the last word is none")
            continue
        _require(before is not State.BROKEN, "a broken session went on")
        _require(_moved(Role.RESPONDER, before, answer.state), f"{before} -> {answer.state} is not in the table")
        if number % 3 == 2 and answer.state is not State.LEAVING:
            notice = answer.wait(number, number + 1)
            _require(notice is None or "wait" in request.accept, "a wait notice that nobody asked for")
        failing = number % 2 and answer.state is not State.LEAVING
        frame = answer.skipped()
        if frame is None:
            frame = answer.error("no") if failing else answer.result({"action": np.zeros(2000, np.float32)})
        reply = _decoded(_body(frame))
        _require(("id" in reply) is not request.is_stock, "a stock peer got an id, or one of ours none")
        _require(request.is_stock or reply["id"] == request.id, "answered under another id")
        _require("binary" in request.accept or _body(frame)[0] != 0xFF, "binary that nobody asked for")


# ---------------------------------------------------------------- tokens
def auth(data: bytes, meter: Meter) -> None:
    """Messages to one side of the exchange of tokens: the simulator's if the first byte is even, else the model's.

    Its own number is fixed, so that a recorded exchange leads to its end.
    """
    machine: SimulatorAuth | ModelAuth = ModelAuth(TOKEN, nonce=lambda: "b" * 64)
    if not (data and data[0] % 2):
        machine = SimulatorAuth(TOKEN, nonce=lambda: "a" * 64)
        machine.begin()
    failed = False
    for body in messages(data[1:]):
        try:
            with meter:
                frame = machine.receive(body)
        except AuthenticationError as error:
            failed = True
            _require(TOKEN.decode() not in str(error), "the token is in an error")
        else:
            _require(not failed, "went on after a failure")
            said = _body(frame or refusal("done"))
            _require(TOKEN not in said and len(said) <= AUTH_MAX_FRAME, "the token was sent, or too much")
    _require(not (failed and machine.done), "both failed and done")


# ---------------------------------------------------------------- what they share
def _message(data: bytes) -> bytearray:
    """A fresh buffer, as the decoder of frames gives, put together first if it came in parts."""
    if not data.startswith(ASSEMBLED):
        return bytearray(data)
    head, _, buffers = data[len(ASSEMBLED) :].partition(b"\0")
    start = VERSION + HEADER.pack(len(head)) + head
    return bytearray(start + bytes(-len(start) % 64) + buffers)


def messages(data: bytes) -> Iterator[bytearray]:
    """The messages of one input."""
    return (_message(part) for part in data.split(SEPARATOR)[:16])


def _decoded(body: bytes) -> dict[str, Any]:
    value = decode_body(bytearray(body))
    if not isinstance(value, dict):
        raise Broken("what we wrote is not a message")
    return value


def _body(frame: list[Any]) -> bytes:
    """The body of a frame, which is also checked to be one."""
    decoder = FrameDecoder()
    decoder.feed(b"".join(frame))
    body = decoder.next_frame()
    if body is None or not decoder.at_boundary:
        raise Broken("what we wrote is not one frame")
    return bytes(body)


def _moved(role: Role, before: State, after: State) -> bool:
    return before is after or (role, before, after) in _EDGES


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Broken(otherwise)


def _arrays(value: object) -> Iterator[Any]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, (list, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _arrays(item)


def same(one: Any, other: Any) -> bool:
    """Equal in type, dtype, shape and every bit; NaN is NaN."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return bool(one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes())
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return (one == other and math.copysign(1, one) == math.copysign(1, other)) or (one != one and other != other)
    return bool(one == other)


def _matches(value: Any, plain: Any) -> bool:
    """Whether `value` is what json reads, with descriptors made into arrays and escaped dicts into themselves."""
    if isinstance(value, np.ndarray):
        return isinstance(plain, dict) and list(value.shape) == plain["shape"] and plain["__numpy_array__"] is True
    if isinstance(value, dict) and isinstance(plain, dict) and list(value) != list(plain):
        return plain.get("__numpy_array__") == "pairs" and all(
            key == pair[0] and _matches(item, pair[1])
            for (key, item), pair in zip(value.items(), plain["pairs"], strict=True)
        )
    if isinstance(value, (dict, list)):
        if type(value) is not type(plain) or len(value) != len(plain):
            return False
        keys = value if isinstance(value, dict) else range(len(value))
        return all(_matches(value[key], plain[key]) for key in keys)
    return same(value, plain)


TARGETS: dict[str, Target] = {
    "frames": frames,
    "json": text,
    "binary": binary,
    "requester": requester,
    "responder": responder,
    "auth": auth,
}
