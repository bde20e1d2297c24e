"""Recorded requests asked again: what is sent, what came back then and now, and whether that is the same.

Results are compared, and whether a request ended in an error; ids, timing and wait notices are not. Requests are
encoded anew for the peer at hand, so that a recording made with an upgraded server can be played to a stock one, and
the other way round.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from framing.binary import decode_body
from framing.decoding import Wire
from framing.errors import EncodeError, PolicyError, ProtocolError
from framing.messages import read_upgraded, stock_args
from framing.session import BYE, GET, RESET, Kind, Peer, Request
from robopro_eval.checks.bench import Talk, clipped
from robopro_eval.checks.difference import Difference, Tolerance, differences
from robopro_eval.transport.recording import Direction, RecordedFrame, Recording, RecordingError

MAX_SHOWN = 200
"""Differences told, of one reply and of all: when everything differs, more says no more."""


@dataclass(frozen=True)
class Answer:
    """The reply to a request: a value, or an error's text and kind (None from a stock server)."""

    value: Wire = None
    error: str | None = None
    kind: str | None = None


@dataclass(frozen=True)
class Exchange:
    """One recorded request, its reply, and how many seconds that took. `name` is for people.

    Both are read from the file anew each time, so that a recording of hundreds of megabytes never lies in memory.
    """

    number: int
    name: str
    sent: RecordedFrame
    received: RecordedFrame

    @property
    def request(self) -> Request:
        return _read_request(decode_body(self.sent.body))

    @property
    def answer(self) -> Answer:
        return _read_answer(decode_body(self.received.body))

    @property
    def seconds(self) -> float:
        return self.received.seconds - self.sent.seconds


@dataclass(frozen=True)
class Played:
    """An exchange and what became of it now. `differences` is empty if it is the same; None if it was not asked."""

    exchange: Exchange
    differences: Sequence[Difference] | None
    seconds: float = 0.0
    reason: str = ""


def read_exchanges(recording: Recording) -> list[Exchange]:
    """The requests of a recording with their replies, without the goodbye and without a last request never answered.

    Raises RecordingError if a frame is no message, or a reply has no request.
    """
    exchanges: list[Exchange] = []
    owed: deque[tuple[str, RecordedFrame]] = deque()
    for number, frame in enumerate(recording.frames, start=1):
        try:
            message = decode_body(frame.body)
            if frame.direction is Direction.SENT:
                owed.append((_name(_read_request(message)), frame))
                continue
            _read_answer(message)
        except ProtocolError as error:
            raise RecordingError(f"frame {number} of the recording is no message: {error}") from error
        if "wait" in _members(message):
            continue
        if not owed:
            raise RecordingError(f"frame {number} of the recording is a reply to no request")
        name, sent = owed.popleft()
        if name != BYE:
            exchanges.append(Exchange(len(exchanges) + 1, name, sent, frame))
    return exchanges


def _name(request: Request) -> str:
    """The method, or the attribute that was read."""
    return f"attribute {request.args[0]!s}" if request.cmd == GET and request.args else request.cmd


def _members(message: Wire) -> dict[str, Wire]:
    if not isinstance(message, dict):
        raise ProtocolError("it is no object")
    return message


def _read_request(message: Wire) -> Request:
    members = _members(message)
    cmd = members.get("cmd")
    if not isinstance(cmd, str):
        raise ProtocolError("a request names no method")
    return read_upgraded(cmd, members) if "id" in members else Request(cmd, stock_args(members.get("obs")))


def _read_answer(body: Wire) -> Answer:
    message = _members(body)
    if "error" not in message:
        return Answer(message.get("res"))
    kind = message.get("kind")
    return Answer(error=str(message["error"]), kind=kind if isinstance(kind, str) else None)


def introduce(talk: Talk) -> tuple[Answer, float]:
    """What a fresh connection begins with: `reset_model`. The answer, and in how many seconds it came."""
    return _timed(talk, Request(RESET))


def play(
    talk: Talk, introduction: tuple[Answer, float], exchanges: Sequence[Exchange], tolerance: Tolerance
) -> Iterator[Played]:
    """Ask everything again, in order, after `introduce`. What cannot be asked of this peer is said to be so.

    Raises WireError (not PolicyError) when the server is lost.
    """
    # Whether the policy is freshly reset: then a stock server need not be reset again.
    fresh, over = True, ""
    for index, exchange in enumerate(exchanges):
        request = exchange.request
        then = exchange.answer
        reason = over or _cannot_ask(talk, request, then)
        if reason:
            yield Played(exchange, None, reason=reason)
            continue
        if request.cmd == RESET and fresh and (talk.session.peer is Peer.STOCK or _is_introduction(index, request)):
            answer, seconds = introduction
        else:
            answer, seconds = _timed(talk, request)
        fresh = False
        if answer.error is not None and talk.session.peer is Peer.STOCK:
            over = "a stock server closes the connection after an error reply"
        found = list(itertools.islice(compare(then, answer, tolerance), MAX_SHOWN))
        yield Played(exchange, found, seconds)


def compare(then: Answer, now: Answer, tolerance: Tolerance) -> Iterator[Difference]:
    """Where the reply now is not the reply then."""
    if then.error is None and now.error is None:
        yield from differences(then.value, now.value, "res", tolerance)
    elif then.error is None:
        yield Difference("res", f"a result became the error {clipped(now.error)!r}")
    elif now.error is None:
        yield Difference("error", f"the error {clipped(then.error)!r} became a result")
    elif then.kind != now.kind and None not in (then.kind, now.kind):
        yield Difference("kind", f"{then.kind} became {now.kind} ({clipped(now.error)})")


def median_seconds(played: Sequence[Played]) -> dict[str, tuple[int, float, float]]:
    """By name of what was asked, in order of appearance: how often, and the median seconds then and now."""
    groups: dict[str, list[Played]] = {}
    for one in played:
        if one.differences is not None:
            groups.setdefault(one.exchange.name, []).append(one)
    return {
        name: (
            len(group),
            statistics.median(one.exchange.seconds for one in group),
            statistics.median(one.seconds for one in group),
        )
        for name, group in groups.items()
    }


def _is_introduction(index: int, request: Request) -> bool:
    """Whether it is what every connection begins with, and not the reset of an episode."""
    return index == 0 and request.episode is None


def _cannot_ask(talk: Talk, request: Request, then: Answer) -> str:
    if then.kind == Kind.SKIPPED:
        return "it had been sent behind a request that failed, and was not called"
    if talk.session.peer is Peer.OURS:
        return ""
    if request.cmd == GET and not request.is_stock:
        return "a stock server has no attributes to read"
    if request.kwargs:
        return "a stock server takes no keyword arguments"
    return ""


def _timed(talk: Talk, request: Request) -> tuple[Answer, float]:
    """What the server answers, and in how many seconds."""
    begun = time.perf_counter()
    answer = _ask(talk, request)
    return answer, time.perf_counter() - begun


def _ask(talk: Talk, request: Request) -> Answer:
    try:
        if request.cmd == GET and not request.is_stock:
            return Answer(talk.read(str(request.args[0]), length=bool(request.kwargs.get("length", False))))
        episode: Mapping[str, Wire] | None = request.episode
        return Answer(talk.request(request.cmd, request.args, request.kwargs, episode=episode))
    except EncodeError as error:
        return Answer(error=f"cannot be sent: {error}")
    except PolicyError as error:
        return Answer(error=str(error), kind=error.kind)
