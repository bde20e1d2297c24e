"""What the episode loop talks to: a model behind a socket, or one in this process.

Both give a policy's ``eval()`` the same thing: the local one encodes and decodes every argument and result exactly as
the wire does, so that a run with ``--local`` is bit for bit the run over a socket.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, Protocol

from framing.binary import decode_body, encode_upgraded
from framing.errors import (
    AuthenticationError,
    DeadlineExceeded,
    EncodeError,
    PeerGone,
    PolicyError,
    ProtocolError,
    WireError,
)
from framing.frames import DEFAULT_MAX_FRAME, FrameDecoder, encode_frame
from framing.session import GET, RESET, Features, Kind, Peer, Reply, RequesterSession, Wait
from model_endpoint.dispatcher import Dispatcher
from robopro_eval.transport.retry import STATUS_EVERY
from sim_endpoint.settings import Patience

# Ctrl-C has to end within five seconds. A call that was under way then is answered before the goodbye is; a model that
# needs longer for it finds the goodbye afterwards.
GOODBYE_SEND_SECONDS, FAREWELL_SECONDS = 1.0, 2.5

FENCED_KINDS = frozenset({Kind.STALE_EPISODE.value, Kind.PROTOCOL_ERROR.value, Kind.SKIPPED.value})
"""Error replies that are no fault of the policy: the session is out of step, the attempt is invalid."""


def _say_nothing(_line: str) -> None: ...


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
    """Where the time of the calls goes: seconds of wall clock since it was made.

    The parts add up: ``call = encode + wire + queue + model``. Queue and model are what the peer tells, so they and
    the wire are None as soon as one reply came without timing: a stock server does not tell.
    """

    calls: int = 0
    call_seconds: float = 0.0
    encode_seconds: float = 0.0
    """Our own encoding and decoding."""
    queue_seconds: float | None = 0.0
    """Waiting in the model's process for its policy to be free."""
    model_seconds: float | None = 0.0
    """The policy at work."""

    def add(self, seconds: float, encode: float, timing: Mapping[str, float] | None) -> None:
        """One call of `seconds`, of which `encode` were ours, and what the reply told of the rest."""
        self.calls += 1
        self.call_seconds += seconds
        self.encode_seconds += encode
        if timing is None or "infer" not in timing or self.model_seconds is None or self.queue_seconds is None:
            self.queue_seconds = self.model_seconds = None
            return
        # A peer may tell more than there was; what it tells must not make the parts more than the whole.
        rest = max(0.0, seconds - encode)
        infer = min(max(0.0, timing["infer"]), rest)
        self.model_seconds += infer
        self.queue_seconds += min(max(0.0, timing.get("queue", 0.0)), rest - infer)

    @property
    def wire_seconds(self) -> float | None:
        """The rest of the calls: both sockets, the network, and the peer's encoding."""
        if self.queue_seconds is None or self.model_seconds is None:
            return None
        return max(0.0, self.call_seconds - self.encode_seconds - self.queue_seconds - self.model_seconds)


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

    ``on_wait`` is told, one line per change, that others are served first.
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
    ) -> None:
        self.clock = CallClock()
        self.peer = peer
        self._channel = channel
        self._session = session
        self._patience = patience
        self._line = _WaitingLine(peer, on_wait)
        self._recorder = recorder
        self._answered: set[str] = set()  # the first call of each method may load and compile
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
            self._exchange(RESET, self._session.request(RESET), begun)
        except PolicyError as error:
            self._reset_error = error
        self._reset_done = True
        self.clock = CallClock()

    def begin_episode(self, info: EpisodeInfo) -> None:
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
        begun = time.perf_counter()
        episode = None
        if name == RESET and self._session.peer is Peer.OURS and self._episode is not None:
            episode = self._episode.as_dict()
        frame = self._session.request(name, args, kwargs, episode=episode)
        return self._exchange(name, frame, begun).value

    def get(self, path: str, *, length: bool = False) -> object:
        self._check()
        begun = time.perf_counter()
        return self._exchange(GET, self._session.get(path, length=length), begun).value

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
            with contextlib.suppress(PolicyError):  # the answer to the call that was under way
                self._session.receive(body)

    def _check(self) -> None:
        if self._fault is not None:
            raise self._fault

    def _exchange(self, name: str, frame: Sequence[bytes | bytearray | memoryview], begun: float) -> Reply:
        """Send `frame`, whose making began at `begun`, and wait for the reply."""
        timeout = self._patience.later if name in self._answered else self._patience.first
        encode = time.perf_counter() - begun
        timing: Mapping[str, float] | None = None
        try:
            if self._session.peer is Peer.STOCK and self._channel.has_unread:
                # Replies of a stock peer have no ids: one too many would shift all that follow by one.
                raise ProtocolError("the model sent something that it had not been asked for")
            self._channel.send(frame, timeout)
            while True:
                body = self._channel.receive(timeout)
                arrived = time.perf_counter()
                try:
                    reply = self._session.receive(body)
                finally:
                    encode += time.perf_counter() - arrived
                if not isinstance(reply, Wait):
                    break
                self._line.at(reply)
            self._answered.add(name)
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
        except (PeerGone, DeadlineExceeded, ProtocolError, AuthenticationError) as error:
            self._fail(error)
        finally:
            self.clock.add(time.perf_counter() - begun, encode, timing)

    def _fail(self, error: WireError) -> NoReturn:
        """Poison the connection, so that a late reply can never be taken for the next action."""
        self._fault = error
        with contextlib.suppress(Exception):
            self._channel.close()
        raise error


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
        self._show(f"⏳ {self._peer} serves other simulators first; waiting in line: place {wait.place}{of}")


class LocalModel:
    """The policy in this process, in a session of its own where it offers that.

    Every argument and result passes through the codec of the wire between two of ours, so that what arrives is bit for
    bit what would arrive over a socket. ``max_frame`` is the largest message, bytes.
    """

    def __init__(self, dispatcher: Dispatcher, *, max_frame: int = DEFAULT_MAX_FRAME) -> None:
        self.clock = CallClock()
        self.peer = "this process"
        self._dispatcher = dispatcher
        self._max_frame = max_frame
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
        def work(arrived: Mapping[str, object]) -> object:
            if name == RESET and self._episode is not None:
                self._dispatcher.begin_episode(self._episode.as_dict())
            return self._dispatcher.call(name, arrived["args"], arrived["kwargs"])  # type: ignore[arg-type]

        return self._exchange({"args": list(args), "kwargs": dict(kwargs or {})}, work, f"what {name}() returned")

    def get(self, path: str, *, length: bool = False) -> object:
        return self._exchange({}, lambda _: self._dispatcher.get(path, length=length), f"the data at {path!r}")

    def close(self, *, goodbye: bool) -> None:
        """Nothing to part from."""

    def _exchange(
        self, message: Mapping[str, object], work: Callable[[Mapping[str, object]], object], what: str
    ) -> object:
        """What a request and its reply would come to; ``what`` names the reply's value in an error."""
        begun = time.perf_counter()
        infer = 0.0
        try:
            arrived = self._sent(message)
            asked = time.perf_counter()
            try:
                value = work(arrived)
            finally:
                infer = time.perf_counter() - asked
            try:
                return self._sent({"res": value})["res"]
            except EncodeError as error:
                name = self._dispatcher.features().policy_name
                raise PolicyError(f"{name}: {what} cannot be sent: {error}", kind=Kind.CANNOT_SEND) from error
        finally:
            seconds = time.perf_counter() - begun
            self.clock.add(seconds, seconds - infer, {"infer": infer})

    def _sent(self, message: Mapping[str, object]) -> dict[str, object]:
        """What arrives at the other end when ``message`` is sent. Raises EncodeError."""
        decoder = FrameDecoder(max_frame=self._max_frame)
        for piece in encode_frame(encode_upgraded(message, binary=True), max_frame=self._max_frame):
            decoder.feed(piece)
        body = decoder.next_frame()
        assert body is not None
        arrived = decode_body(body)
        assert isinstance(arrived, dict)
        return dict(arrived)
