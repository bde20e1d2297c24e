"""A model at the other end of a connection, as the episode loop sees it."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, NoReturn, Protocol

from framing.errors import (
    AuthenticationError,
    DeadlineExceeded,
    EncodeError,
    PeerGone,
    PolicyError,
    ProtocolError,
    WireError,
)
from framing.frames import Buffer
from framing.session import (
    GET,
    QUIET_METHODS,
    RESET,
    Features,
    Kind,
    Peer,
    Reply,
    RequesterSession,
    Wait,
)
from robopro_eval.transport.retry import STATUS_EVERY
from sim_endpoint.model_source import CallClock, EpisodeInfo
from sim_endpoint.settings import Patience

# Ctrl-C has to end within five seconds. A call that was under way then is answered before the goodbye is; a model that
# needs longer for it finds the goodbye afterwards.
GOODBYE_SEND_SECONDS, FAREWELL_SECONDS = 1.0, 2.5

FIRST_REPLY_TIMEOUT, REPLY_TIMEOUT = "--first_reply_timeout", "--reply_timeout"

FENCED_KINDS = frozenset({Kind.STALE_EPISODE.value, Kind.PROTOCOL_ERROR.value, Kind.SKIPPED.value})
"""Error replies that are no fault of the policy: the session is out of step, the attempt is invalid."""


def _say_nothing(_line: str) -> None: ...


class ChannelRecorder(Protocol):
    """Writes down what passes over a channel (``sim_endpoint.recorder``)."""

    def begin(self, channel: Channel, info: EpisodeInfo) -> Channel: ...

    def finish(self) -> None: ...


class Channel(Protocol):
    """The part of ``robopro_eval.transport.blocking.BlockingChannel`` used here."""

    @property
    def has_unread(self) -> bool: ...

    def send(self, buffers: Sequence[bytes | bytearray | memoryview], timeout: float | None = None) -> None: ...

    def receive(self, timeout: float | None = None) -> memoryview: ...

    def close(self) -> None: ...


class RemoteModel:
    """A model at the other end of a channel. Call :meth:`handshake` first.

    ``on_wait`` is told, one line per change, that others are served first. With ``pipeline`` a call that returned
    nothing when it was first made on this connection is not waited for: the next one is sent behind it, or its reply is
    read by :meth:`settle`, whichever comes first. Whose call failed is told all the same.
    """

    def __init__(
        self,
        channel: Channel,
        session: RequesterSession,
        *,
        patience: Patience,
        peer: str,
        on_wait: Callable[[str], None] = _say_nothing,
        recorder: ChannelRecorder | None = None,
        pipeline: bool = False,
    ) -> None:
        self.clock = CallClock()
        self.peer = peer
        self._channel = channel
        self._session = session
        self._patience = patience
        self._line = _WaitingLine(peer, on_wait)
        self._recorder = recorder
        self._pipeline = pipeline
        self._answered: set[str] = set()  # the first call of each method may load and compile
        self._quiet: set[str] = set()  # methods that may be left unanswered for a while
        self._pending: _Asked | None = None
        self._episode: EpisodeInfo | None = None
        self._fault: Exception | None = None
        self._reset_done = False  # by the handshake: a stock peer need not be reset twice
        self._reset_error: PolicyError | None = None

    @property
    def features(self) -> Features | None:
        return self._session.features if self._session.peer is Peer.OURS else None

    @property
    def fault(self) -> Exception | None:
        return self._fault

    def handshake(self) -> None:
        """Send the first request, ``reset_model`` in stock shape, and learn from the reply who answers.

        Raises PeerGone, DeadlineExceeded, ProtocolError, AuthenticationError: then it was no model for us. Any other
        error *reply* is a model's: it is kept and raised when the first episode begins.
        """
        begun = time.perf_counter()
        try:
            self._answer(self._ask(RESET, self._session.request(RESET), begun))
        except PolicyError as error:
            self._reset_error = error
        self._reset_done = True
        self.clock = CallClock()

    def begin_episode(self, info: EpisodeInfo) -> None:
        with contextlib.suppress(PolicyError):  # of an episode that has ended
            self.settle()
        self._episode = info
        done, self._reset_done = self._reset_done, False
        error, self._reset_error = self._reset_error, None
        if self._recorder is not None:
            self._channel = self._recorder.begin(self._channel, info)
            done = error is not None  # a recording begins with the reset
        if done and self._session.peer is Peer.STOCK:
            if error is not None:
                raise error
            return
        self.call(RESET)

    def call(self, name: str, args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None) -> object:
        self._check()
        quiet = self._pipeline and name in self._quiet
        if self._pending is not None and (quiet or not self._session.may_follow(name)):
            self.settle()
        try:
            asked = self._request(name, args, kwargs)
        except EncodeError:
            if self._pending is None:
                raise
            self.settle()  # it may only have been too large to follow
            asked = self._request(name, args, kwargs)
        if quiet:
            self._pending = asked
            return None
        try:
            self.settle()
        except PolicyError:
            self._skip(asked)
            raise
        value = self._answer(asked).value
        if value is None and name in QUIET_METHODS and self._session.peer is Peer.OURS:
            self._quiet.add(name)
        return value

    def get(self, path: str, *, length: bool = False) -> object:
        self._check()
        self.settle()
        begun = time.perf_counter()
        return self._answer(self._ask(GET, self._session.get(path, length=length), begun)).value

    def settle(self) -> None:
        asked, self._pending = self._pending, None
        if asked is not None and self._fault is None and self._answer(asked).value is not None:
            surprise = f"the model's {asked.name}() returned nothing at first and something now"
            self._fail(ProtocolError(f"{surprise}; --no-pipeline waits for every reply"))

    def close(self, *, goodbye: bool) -> None:
        if self._fault is None and goodbye and self._session.peer is Peer.OURS:
            with contextlib.suppress(WireError):
                self._say_goodbye()
        if self._recorder is not None:
            self._recorder.finish()
        with contextlib.suppress(Exception):
            self._channel.close()
        if self._fault is None:
            self._fault = PeerGone("we closed the connection")

    def _say_goodbye(self) -> None:
        self._channel.send(self._session.bye(), GOODBYE_SEND_SECONDS)
        deadline = time.monotonic() + FAREWELL_SECONDS
        while self._session.ending is None:
            body = self._channel.receive(max(0.0, deadline - time.monotonic()))
            with contextlib.suppress(PolicyError):  # the answer to a call that was under way
                self._session.receive(body)

    def _check(self) -> None:
        if self._fault is not None:
            raise self._fault

    def _request(self, name: str, args: Sequence[object], kwargs: Mapping[str, object] | None) -> _Asked:
        begun = time.perf_counter()
        episode = None
        if name == RESET and self._session.peer is Peer.OURS and self._episode is not None:
            episode = self._episode.as_dict()
        return self._ask(name, self._session.request(name, args, kwargs, episode=episode), begun)

    def _ask(self, name: str, frame: Sequence[Buffer], begun: float) -> _Asked:
        """Send `frame`, whose making began at `begun`."""
        encode = time.perf_counter() - begun
        first = name not in self._answered
        timeout = self._patience.first if first else self._patience.later
        try:
            if self._session.peer is Peer.STOCK and self._channel.has_unread:
                # Replies of a stock peer have no ids: one too many would shift all that follow by one.
                raise ProtocolError("the model sent something that it had not been asked for")
            self._channel.send(frame, timeout)
        except (PeerGone, DeadlineExceeded, ProtocolError) as error:
            self._fail(error)
        return _Asked(
            name, timeout, FIRST_REPLY_TIMEOUT if first else REPLY_TIMEOUT, time.perf_counter() - begun, encode
        )

    def _answer(self, asked: _Asked) -> Reply:
        """The reply to the oldest call under way."""
        begun = time.perf_counter()
        encode = asked.encode
        timing: Mapping[str, float] | None = None
        try:
            while True:
                body = self._channel.receive(asked.timeout)
                arrived = time.perf_counter()
                try:
                    reply = self._session.receive(body)
                finally:
                    encode += time.perf_counter() - arrived
                if not isinstance(reply, Wait):
                    break
                self._line.at(reply)
            self._answered.add(asked.name)
            timing = reply.timing
            return reply
        except PolicyError as error:
            if error.kind in FENCED_KINDS:
                self._fail(ProtocolError(f"the model refused the request: {error}"))
            if self.features is None:
                # A stock server closes after every error reply. Part now rather than stumble over it in the next call.
                self._fault = PeerGone("a stock server closes the connection after an error reply")
                self._channel.close()
            else:
                timing = {"infer": math.inf}  # an error reply tells no time; it is the policy that took it
            raise
        except DeadlineExceeded as error:
            self._fail(DeadlineExceeded(f"{error} ({asked.knob})"))
        except (PeerGone, ProtocolError, AuthenticationError) as error:
            self._fail(error)
        finally:
            self.clock.add(asked.seconds + time.perf_counter() - begun, encode, timing)

    def _skip(self, asked: _Asked) -> None:
        """Read the reply to a call that the model did not make because the one before it failed."""
        try:
            with contextlib.suppress(PolicyError):
                while isinstance(self._session.receive(self._channel.receive(asked.timeout)), Wait):
                    pass
        except WireError as error:  # the failure before it is the one to report
            with contextlib.suppress(WireError):
                self._fail(error)

    def _fail(self, error: WireError) -> NoReturn:
        """Poison the connection, so that a late reply can never be taken for the next action."""
        self._fault = error
        with contextlib.suppress(Exception):
            self._channel.close()
        raise error


class _Asked(NamedTuple):
    """A call that was sent: `timeout` for its reply, as `knob` sets it; and the seconds spent so far, all and for
    encoding."""

    name: str
    timeout: float | None
    knob: str
    seconds: float
    encode: float


class _WaitingLine:
    """Shows the place in a model's line: when it has become a better one, and now and then while it does not."""

    def __init__(self, peer: str, show: Callable[[str], None]) -> None:
        self._peer = peer
        self._show = show
        self._last: Wait | None = None
        self._told = 0.0

    def at(self, wait: Wait) -> None:
        now = time.monotonic()
        better = self._last is None or wait.place < self._last.place
        if not better and now - self._told < STATUS_EVERY:
            return
        self._last, self._told = wait, now
        of = "" if wait.of is None else f" of {wait.of}"
        # With others, or with a call of our own that we have given up.
        self._show(f"⏳ {self._peer} is busy; waiting in line: place {wait.place}{of}")
