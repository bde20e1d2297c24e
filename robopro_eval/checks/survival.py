"""Checks of survival: strangers, broken frames, vanished simulators and slow calls leave the server serving."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from framing.codec import numpy_to_json
from framing.errors import DeadlineExceeded, WireError
from framing.frames import HEADER
from framing.session import RESET, Peer
from robopro_eval.checks.bench import Bench, Raw, clipped, first_request
from robopro_eval.checks.core import Check, CheckFailed, Need, Skipped
from robopro_eval.transport.security import LinkSecurity

SLOW_SECONDS = 0.5
"""A call of this length is slow for a wire and short for a person who waits for the report."""

IMPATIENT_SECONDS = 0.1
"""The simulator that leaves before a slow call is done waits so long."""

MANY = 10
"""Connections that come and go. More at once would only measure the server's backlog."""

HTTP = b"GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: eval-check\r\n\r\n"

CLIENT_HELLO = bytes.fromhex("16030100310100002d0303" + "5a" * 32 + "000002130101000002000000")
"""The beginning of TLS: what a client that expects encryption sends first."""

GARBAGE = bytes(range(255, 0, -1)) * 8


def mid_frame(bench: Bench) -> str:
    body = numpy_to_json(first_request())
    with bench.raw() as raw:
        raw.send(HEADER.pack(len(body)) + body[: len(body) // 2])
    bench.serves_next()
    return "the next simulator is served"


def after_request(bench: Bench) -> str:
    with bench.raw() as raw:
        raw.request(first_request())
    bench.serves_next()
    return "the next simulator is served"


def come_and_go(bench: Bench) -> str:
    for _ in range(MANY):
        bench.link.open(LinkSecurity()).close()
    bench.serves_next()
    return f"after {MANY} connections that said nothing the next simulator is served"


def silent_peer(bench: Bench) -> str:
    with bench.raw(LinkSecurity()):
        bench.serves_next()
    return "a connection that says nothing keeps nobody waiting"


def _bytes(data: bytes) -> Callable[[Bench], str]:
    """A check that sends `data` and nothing else, not even what TLS or a token asks for."""

    def check(bench: Bench) -> str:
        with bench.raw(LinkSecurity()) as raw, contextlib.suppress(WireError):
            raw.send(data)
            raw.channel.has_news(IMPATIENT_SECONDS)
        bench.serves_next()
        return "the next simulator is served"

    return check


def _refuses(data: bytes) -> Callable[[Bench], str]:
    """A check that sends the bytes of a violation, which must be refused before the deadline."""

    def check(bench: Bench) -> str:
        with bench.raw() as raw:
            how = _refusal(raw, data)
        bench.serves_next()
        return how

    return check


def _refusal(raw: Raw, data: bytes) -> str:
    raw.send(data)
    try:
        return raw.refused()
    except DeadlineExceeded:
        raise CheckFailed("the server neither closes the connection nor answers with an error") from None


def slow_call(bench: Bench) -> str:
    with bench.talk() as talk:
        if talk.call("sleep", SLOW_SECONDS) != SLOW_SECONDS:
            raise CheckFailed("the result is another one")
    return f"a call of {SLOW_SECONDS} s is answered"


def late_reply(bench: Bench) -> str:
    with bench.silent_talk() as impatient:
        impatient.call(RESET)
        impatient.ask("sleep", SLOW_SECONDS)
        impatient.channel.has_news(IMPATIENT_SECONDS)
    with bench.talk() as talk:
        for cmd, sent in (("echo", "mine"), ("sleep", SLOW_SECONDS), ("echo", "mine too")):
            if (found := talk.call(cmd, sent)) != sent:
                raise CheckFailed(f"the next simulator got {clipped(found)} instead of its own reply")
    return "the reply that nobody awaits any more reaches nobody"


def redial(bench: Bench) -> str:
    with bench.talk() as talk:
        talk.channel.close()
    try:
        with bench.talk() as again:
            if again.session.peer is not Peer.OURS:
                raise CheckFailed("what dialed again is no upgraded model")
    except Skipped as nobody:
        raise CheckFailed(str(nobody)) from None
    return "the model dialed again and answers"


_LISTENS = frozenset({Need.LISTENS})
_ECHO_POLICY = frozenset({Need.ECHO_POLICY})
_BAD_JSON = b'{"cmd": "reset_model", "obs": '
_NO_OBJECT = b"[1, 2, 3]"

_SERVES_ON = "catch what goes wrong on one connection, close it, and go on accepting"

CHECKS = (
    Check(
        "frame.empty",
        "a frame of zero bytes is refused",
        "close the connection (or answer with an error) when a header announces 0 bytes",
        _refuses(HEADER.pack(0)),
        _LISTENS,
    ),
    Check(
        "frame.oversized",
        "a header that announces 4 GiB is refused before 4 GiB are awaited",
        "compare the announced length with a maximum, 256 MiB say, before reading on, and close the connection",
        _refuses(b"\xff\xff\xff\xff" + b"x" * 64),
        _LISTENS,
    ),
    Check(
        "frame.bad_json",
        "a body that is no JSON is refused",
        "close the connection (or answer with an error) when a body cannot be read; " + _SERVES_ON,
        _refuses(HEADER.pack(len(_BAD_JSON)) + _BAD_JSON),
        _LISTENS,
    ),
    Check(
        "frame.no_object",
        "a body that is no JSON object is refused",
        "close the connection (or answer with an error) when a message is not an object; " + _SERVES_ON,
        _refuses(HEADER.pack(len(_NO_OBJECT)) + _NO_OBJECT),
        _LISTENS,
    ),
    Check(
        "survival.mid_frame",
        "a simulator that vanishes in the middle of a frame leaves the server serving",
        _SERVES_ON,
        mid_frame,
        _LISTENS,
    ),
    Check(
        "survival.after_request",
        "a simulator that vanishes right after its request leaves the server serving",
        "expect that the reply cannot be sent; " + _SERVES_ON,
        after_request,
        _LISTENS,
    ),
    Check(
        "survival.come_and_go",
        "connections that say nothing and close leave the server serving",
        "expect the end of the stream before the first request; " + _SERVES_ON,
        come_and_go,
        _LISTENS,
    ),
    Check(
        "survival.silent_peer",
        "a connection that says nothing keeps no simulator waiting",
        "accept further connections while one is silent; give a simulator its turn with its first request",
        silent_peer,
        _LISTENS,
    ),
    Check("survival.garbage", "random bytes leave the server serving", _SERVES_ON, _bytes(GARBAGE), _LISTENS),
    Check("survival.http", "an HTTP request leaves the server serving", _SERVES_ON, _bytes(HTTP), _LISTENS),
    Check("survival.tls", "the beginning of TLS leaves the server serving", _SERVES_ON, _bytes(CLIENT_HELLO), _LISTENS),
    Check(
        "time.slow_call",
        "a call that takes its time is answered",
        "do not limit how long a call of the policy may take on the connection's account",
        slow_call,
        _ECHO_POLICY,
    ),
    Check(
        "time.late_reply",
        "a reply that comes too late reaches nobody else",
        "drop the result of a call whose simulator has gone; never send it on another connection",
        late_reply,
        _ECHO_POLICY | _LISTENS,
    ),
    Check(
        "time.redial",
        "an upgraded model that dials, dials again when its connection is lost without a goodbye",
        "dial again unless the simulator said __bye__",
        redial,
        frozenset({Need.UPGRADED, Need.DIALS}),
    ),
)
