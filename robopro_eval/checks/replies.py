"""Checks of the frame and of the first replies: what everything else rests on."""

from __future__ import annotations

import contextlib
import time

import numpy as np

from framing.binary import FIRST_BYTE, decode_body
from framing.errors import DeadlineExceeded, PolicyError, ProtocolError, WireError
from framing.frames import HEADER
from framing.messages import BINARY, JSON
from framing.session import RESET, Peer
from robopro_eval.checks.bench import (
    ACCEPTS,
    ECHO,
    ECHO_MARK,
    QUIET_SECONDS,
    Bench,
    clipped,
    farewell,
    first_request,
    frame_of,
    upgraded_request,
)
from robopro_eval.checks.core import Check, CheckFailed, Need, NotOffered
from robopro_eval.checks.survival import HTTP
from robopro_eval.transport.errors import TransportError

HTTP_SECONDS = 2.0
"""A server of HTTP answers a GET within milliseconds."""

SPLIT_PAUSE = 0.1
"""Seconds between two pieces of a frame: longer than any server takes to notice the first."""


def first_reply(bench: Bench) -> str:
    try:
        talk, result = bench.meet()
    except PolicyError as error:
        raise CheckFailed(f"{RESET} was answered with an error: {clipped(error)}") from error
    except DeadlineExceeded as error:
        raise CheckFailed(f"{error}{_why_silent(bench)}") from error
    known = bench.known
    known.peer, known.features = talk.session.peer, talk.session.features
    message = decode_body(talk.last_body)
    known.wire = message.get("wire") if isinstance(message, dict) else None
    if bench.link.listens:
        talk.bye()
    kind = "upgraded" if known.peer is Peer.OURS else "stock"
    return f"a result ({clipped(repr(result))}); the server is {kind}"


def _why_silent(bench: Bench) -> str:
    """A guess, to be told behind the silence.

    A server of HTTP waits for the end of a line, which no frame holds: it is given one.
    """
    if bench.link.listens:
        bench.begin_check()  # the silence has used its time up
        try:
            with bench.raw() as raw:
                raw.send(HTTP)
                if raw.channel.has_news(HTTP_SECONDS):
                    raw.reply()
        except ProtocolError as error:
            return f", but an answer to a GET: {error}"
        except (WireError, TransportError, CheckFailed):
            pass
    return ": no server of this protocol, or a policy that needs a longer --timeout"


def one_reply(bench: Bench) -> str:
    with bench.talk() as talk:
        if talk.channel.has_news(QUIET_SECONDS):
            with contextlib.suppress(DeadlineExceeded):  # news of TLS, then
                talk.channel.receive(QUIET_SECONDS)
                raise CheckFailed("a second message came, although nothing had been asked")
    return f"nothing more comes within {QUIET_SECONDS:g} s"


def ids_returned(bench: Bench) -> str:
    with bench.talk() as talk:
        for _ in range(3):
            talk.call(RESET)
    return "each reply carries the id of its request"


def policy_methods(bench: Bench) -> str:
    """Not only a line of the report: it finds out which further checks can be made."""
    known = bench.known
    if known.features is not None:
        private = sorted(name for name in known.features.methods | known.features.attributes if name.startswith("_"))
        if private:
            raise CheckFailed(f"private names are listed: {', '.join(private[:5])}")
        if RESET not in known.features.methods:
            raise CheckFailed(f"{RESET} is not among the methods listed: {clipped(sorted(known.features.methods))}")
        known.is_echo_policy = ECHO_MARK in known.features.methods
    elif bench.link.listens:
        known.is_echo_policy = _answers(bench, ECHO_MARK)
    known.echo = bench.method or (ECHO if known.is_echo_policy else None)
    if known.features is None:
        return "a stock server lists nothing" + ("; it serves the echo policy" if known.is_echo_policy else "")
    return f"policy {known.features.policy_name!r} with {len(known.features.methods)} methods"


def formats_read(bench: Bench) -> str:
    wire = bench.known.wire
    if not isinstance(wire, list) or JSON not in wire:
        raise CheckFailed(f"`wire` is {clipped(wire)}, and {JSON} has to be in it")
    bench.known.reads_binary = BINARY in wire
    if not bench.known.reads_binary:
        raise NotOffered("the server reads JSON only")
    return "the server reads JSON and binary bodies"


def _answers(bench: Bench, method: str) -> bool:
    with bench.talk() as talk:
        try:
            talk.call(method)
        except PolicyError:
            return False
    return True


def stock_shape(bench: Bench) -> str:
    with bench.raw() as raw:
        raw.request({"cmd": RESET, "obs": None})
        reply = raw.reply()
        if set(reply) != {"res"}:
            raise CheckFailed(f"the reply holds the keys {clipped(sorted(reply))} and not res alone")
    return "a request without id gets res alone"


def unknown_words(bench: Bench) -> str:
    with bench.raw() as raw:
        raw.request({**first_request(), "accept": [*ACCEPTS, "eval_check_format"], "eval_check_key": {"a": [1]}})
        if "res" not in (reply := raw.reply()):
            raise CheckFailed(f"answered with an error: {clipped(reply.get('error'))}")
    return "answered"


def split_header(bench: Bench) -> str:
    frame = frame_of(first_request())
    with bench.raw() as raw:
        raw.send(frame[:2])
        time.sleep(SPLIT_PAUSE)
        raw.send(frame[2:])
        raw.reply()
    return "answered"


def body_byte_by_byte(bench: Bench) -> str:
    frame = frame_of(first_request())
    with bench.raw() as raw:
        raw.send(frame[: HEADER.size])
        for position in range(HEADER.size, len(frame)):
            raw.send(frame[position : position + 1])
            if position == len(frame) // 2:  # or a busy server finds all pieces there when it looks
                time.sleep(SPLIT_PAUSE)
        raw.reply()
    return f"answered ({len(frame) - HEADER.size} pieces)"


def two_frames_at_once(bench: Bench) -> str:
    with bench.raw() as raw:
        raw.introduce()
        raw.send(frame_of(upgraded_request(RESET, 2)) + frame_of(farewell(3)))
        for number in (2, 3):
            reply = raw.reply()
            if reply.get("id") != number:
                raise CheckFailed(f"the reply to request {number} carries the id {clipped(reply.get('id'))}")
    return "both answered, in order"


def unasked_binary(bench: Bench) -> str:
    with bench.raw() as raw:
        raw.request({**first_request(), "accept": [JSON]})
        raw.reply()
        bodies = [raw.last_body[0]]
        if bench.known.echo is not None:
            array = np.arange(300, dtype=np.float32)
            raw.request(upgraded_request(bench.known.echo, 2, array, accept=[JSON]))
            raw.reply()
            bodies.append(raw.last_body[0])
        if FIRST_BYTE in bodies:
            raise CheckFailed("a binary body came in reply to a request that accepts JSON only")
    return "JSON only, where only that is accepted"


def binary_request(bench: Bench) -> str:
    with bench.raw() as raw:
        raw.introduce()
        raw.request(upgraded_request(RESET, 2), binary=True)
        if "res" not in (reply := raw.reply()):
            raise CheckFailed(f"answered with an error: {clipped(reply.get('error'))}")
    return "answered"


_UPGRADED = frozenset({Need.UPGRADED})
_LISTENS = frozenset({Need.LISTENS})

CHECKS = (
    Check(
        "reply.first",
        "the first request, reset_model in the stock shape, gets a result in one frame",
        'answer with a frame of a 4-byte big-endian length and one JSON object {"res": ...}; give the policy a '
        "reset_model() that works",
        first_reply,
        fundamental=True,
    ),
    Check(
        "reply.one",
        "a request gets one reply and nothing after it",
        "send exactly one frame per request; a second one is taken for the reply to the next request",
        one_reply,
        fundamental=True,
    ),
    Check(
        "reply.id",
        "an upgraded reply carries the id of its request",
        "copy id from the request that is being answered, on error replies too",
        ids_returned,
        needs=_UPGRADED,
        fundamental=True,
    ),
    Check(
        "reply.policy",
        "the first upgraded reply names the policy, its public methods and attributes",
        "list public names only, reset_model among them, in `policy` of the first reply of each connection",
        policy_methods,
    ),
    Check(
        "reply.formats",
        "an upgraded reply says in `wire` which body formats the server reads",
        'send `wire`: a list with "json", and "binary" if binary bodies are read',
        formats_read,
        needs=_UPGRADED,
    ),
    Check(
        "reply.stock_shape",
        "a request without id gets exactly what a stock server sends",
        "add id, wire, kind, timing and policy only to replies to requests that carry an id",
        stock_shape,
        needs=_LISTENS,
    ),
    Check(
        "reply.unknown_words",
        "a request with a key and a format that nobody knows yet is answered all the same",
        "ignore keys of a message that you do not know, and words in `accept` that you do not know",
        unknown_words,
        needs=_LISTENS,
    ),
    Check(
        "frame.split_header",
        "a request whose 4-byte header arrives in two pieces is answered",
        "read until all 4 bytes of the header are there; recv(4) may return fewer",
        split_header,
        needs=_LISTENS,
    ),
    Check(
        "frame.body_in_pieces",
        "a request whose body arrives byte by byte is answered",
        "read until the whole body is there; recv(n) may return fewer than n bytes",
        body_byte_by_byte,
        needs=_LISTENS,
    ),
    Check(
        "frame.two_at_once",
        "a request and a goodbye that arrive in one segment are both answered, in order",
        "keep what was read beyond the end of a frame: it is the beginning of the next one",
        two_frames_at_once,
        needs=_UPGRADED | _LISTENS,
    ),
    Check(
        "binary.request",
        "a server that says it reads binary bodies answers a binary request",
        'decide by a body\'s first byte, 0xFF for binary, whatever came before; or leave "binary" out of `wire`',
        binary_request,
        needs=frozenset({Need.BINARY, Need.LISTENS}),
    ),
    Check(
        "binary.unasked",
        "a request that accepts JSON only is answered in JSON",
        "answer in binary only if the `accept` of this very request names it",
        unasked_binary,
        needs=_UPGRADED | _LISTENS,
    ),
)
