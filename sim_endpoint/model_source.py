"""What the episode loop talks to: a model behind a socket, or one in this process.

Both give a policy's ``eval()`` the same thing: the local one encodes and decodes every argument and result exactly as
the wire does, so that a run with ``--local`` is bit for bit the run over a socket.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, Protocol, TypeVar

from framing.codec import json_to_numpy, numpy_to_json
from framing.errors import DeadlineExceeded, EncodeError, PeerGone, PolicyError, ProtocolError, WireError
from framing.session import Features, Peer, Reply, RequesterSession, Wait
from model_endpoint.dispatcher import Dispatcher

T = TypeVar("T")

RESET = "reset_model"
# Ctrl-C has to end within five seconds. A call that was under way then is answered before the goodbye is; a model that
# needs longer for it finds the goodbye afterwards.
GOODBYE_SEND_SECONDS, FAREWELL_SECONDS = 1.0, 2.5

FENCED_KINDS = frozenset({"stale_episode", "protocol_error"})
"""Error replies that are no fault of the policy: the session is out of step, the attempt is invalid."""


@dataclass(frozen=True)
class EpisodeInfo:
    """``id`` is ``<cell>/<seed>#<attempt>``; the attempt fences and never enters a random generator."""

    id: str
    task: str
    seed: int

    def as_dict(self) -> dict[str, object]:
        return {"id": self.id, "task": self.task, "seed": self.seed}


@dataclass
class CallClock:
    """Where the time of the calls goes; seconds of wall clock since the last reset."""

    calls: int = 0
    call_seconds: float = 0.0
    model_seconds: float | None = 0.0
    """None as soon as one reply came without timing: a stock server does not tell."""

    def add(self, seconds: float, infer: float | None) -> None:
        self.calls += 1
        self.call_seconds += seconds
        if infer is None or self.model_seconds is None:
            self.model_seconds = None
        else:
            self.model_seconds += infer

    @property
    def wire_seconds(self) -> float | None:
        return None if self.model_seconds is None else max(0.0, self.call_seconds - self.model_seconds)


class ModelSource(Protocol):
    """One model, ready to be asked.

    ``features`` is None for a stock peer, which lists nothing. ``fault`` is the error that ended the connection, if
    one did; every later call raises it again.
    """

    clock: CallClock
    peer: str
    """Where it is, for people."""

    @property
    def features(self) -> Features | None: ...

    @property
    def fault(self) -> Exception | None: ...

    def begin_episode(self, info: EpisodeInfo) -> None:
        """Reset the policy for a new episode. Raises PolicyError, PeerGone, DeadlineExceeded, ProtocolError."""

    def call(self, name: str, args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None) -> object:
        """Call a method of the policy. Raises as above, and EncodeError for what cannot travel."""

    def get(self, path: str, *, length: bool = False) -> object:
        """Read data at a dotted path, or its len(). Only where ``features`` is not None."""

    def close(self, *, goodbye: bool) -> None:
        """Part from the model; with ``goodbye`` it is told that the run is over. Never raises."""


class Channel(Protocol):
    """The part of ``robopro_eval.transport.blocking.BlockingChannel`` used here."""

    def send(self, buffers: Sequence[bytes | bytearray | memoryview], timeout: float | None = None) -> None: ...

    def receive(self, timeout: float | None = None) -> memoryview: ...

    def close(self) -> None: ...


class RemoteModel:
    """A model at the other end of a channel. Call :meth:`handshake` first."""

    def __init__(self, channel: Channel, session: RequesterSession, *, timeout: float | None, peer: str) -> None:
        self.clock = CallClock()
        self.peer = peer
        self._channel = channel
        self._session = session
        self._timeout = timeout
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

        Raises PeerGone, DeadlineExceeded, ProtocolError: then it was no model. An error *reply* is a model's: it is
        kept and raised when the first episode begins.
        """
        try:
            self._exchange(self._session.request(RESET))
        except PolicyError as error:
            self._reset_error = error
        self._reset_done = True
        self.clock = CallClock()

    def begin_episode(self, info: EpisodeInfo) -> None:
        self._episode = info
        done, self._reset_done = self._reset_done, False
        error, self._reset_error = self._reset_error, None
        if done and self._session.peer is Peer.STOCK:
            if error is not None:
                raise error
            return
        self.call(RESET)

    def call(self, name: str, args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None) -> object:
        self._check()
        episode = None
        if name == RESET and self._session.peer is Peer.OURS and self._episode is not None:
            episode = self._episode.as_dict()
        return self._exchange(self._session.request(name, args, kwargs, episode=episode)).value

    def get(self, path: str, *, length: bool = False) -> object:
        self._check()
        return self._exchange(self._session.get(path, length=length)).value

    def close(self, *, goodbye: bool) -> None:
        if self._fault is None and goodbye and self._session.peer is Peer.OURS:
            with contextlib.suppress(WireError):
                self._say_goodbye()
        with contextlib.suppress(Exception):
            self._channel.close()
        if self._fault is None:
            self._fault = PeerGone("we closed the connection")

    def _say_goodbye(self) -> None:
        self._channel.send(self._session.bye(), GOODBYE_SEND_SECONDS)
        deadline = time.monotonic() + FAREWELL_SECONDS
        while self._session.ending is None:
            body = self._channel.receive(max(0.0, deadline - time.monotonic()))
            with contextlib.suppress(PolicyError):  # the answer to the call that was under way
                self._session.receive(body)

    def _check(self) -> None:
        if self._fault is not None:
            raise self._fault

    def _exchange(self, frame: Sequence[bytes | bytearray | memoryview]) -> Reply:
        start = time.perf_counter()
        infer: float | None = None
        try:
            self._channel.send(frame, self._timeout)
            reply = self._session.receive(self._channel.receive(self._timeout))
            while isinstance(reply, Wait):  # the model serves somebody else first
                reply = self._session.receive(self._channel.receive(self._timeout))
            infer = None if reply.timing is None else float(reply.timing.get("infer") or 0.0)
            return reply
        except PolicyError as error:
            infer = 0.0 if self.features is not None else None
            if error.kind in FENCED_KINDS:
                self._fail(ProtocolError(f"the model refused the request: {error}"))
            if self.features is None:
                # A stock server closes after every error reply. Part now rather than stumble over it in the next call.
                self._fault = PeerGone("a stock server closes the connection after an error reply")
                self._channel.close()
            raise
        except (PeerGone, DeadlineExceeded, ProtocolError) as error:
            self._fail(error)
        finally:
            self.clock.add(time.perf_counter() - start, infer)

    def _fail(self, error: PeerGone | DeadlineExceeded | ProtocolError) -> NoReturn:
        """Poison the connection, so that a late reply can never be taken for the next action."""
        self._fault = error
        with contextlib.suppress(Exception):
            self._channel.close()
        raise error


class LocalModel:
    """The policy in this process. Every argument and result passes through the codec, as over a socket."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.clock = CallClock()
        self.peer = "this process"
        self._dispatcher = dispatcher
        self._episode: EpisodeInfo | None = None

    @property
    def features(self) -> Features | None:
        return self._dispatcher.features()

    @property
    def fault(self) -> Exception | None:
        return None

    def begin_episode(self, info: EpisodeInfo) -> None:
        self._episode = info
        self.call(RESET)

    def call(self, name: str, args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None) -> object:
        start = time.perf_counter()
        infer = 0.0
        try:
            sent_args = _copy(list(args), list)
            sent_kwargs = _copy(dict(kwargs or {}), dict)
            asked = time.perf_counter()
            try:
                if name == RESET and self._episode is not None:
                    self._dispatcher.begin_episode(self._episode.as_dict())
                value = self._dispatcher.call(name, sent_args, sent_kwargs)
            finally:
                infer = time.perf_counter() - asked
            return _through_the_codec(value, f"{name}()")
        finally:
            self.clock.add(time.perf_counter() - start, infer)

    def get(self, path: str, *, length: bool = False) -> object:
        return _through_the_codec(self._dispatcher.get(path, length=length), path)

    def close(self, *, goodbye: bool) -> None:
        """Nothing to part from."""


def _copy(value: T, kind: type[T]) -> T:
    """What arrives at the other end when ``value`` is sent. Raises EncodeError."""
    arrived = json_to_numpy(numpy_to_json(value))
    assert isinstance(arrived, kind)
    return arrived


def _through_the_codec(value: object, what: str) -> object:
    if value is None or isinstance(value, bool | int | str):
        return value
    try:
        return json_to_numpy(numpy_to_json(value))
    except EncodeError as error:
        raise PolicyError(f"{what} cannot travel: {error}", kind="cannot_send") from error
