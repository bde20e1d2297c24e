"""One simulator's connection: read a request, let the policy answer it, send the reply, until the simulator is done.

The simulator always asks and the model always answers, whoever opened the socket. A policy that raises costs the
request, not the connection. Frames and the rules of the wire are `framing`'s; what may be called is the dispatcher's;
this module knows about episodes: a request that belongs to another episode than the one that began here is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from framing.errors import DeadlineExceeded, EncodeError, PeerGone, PolicyError, ProtocolError
from framing.frames import DEFAULT_MAX_FRAME, Buffer
from framing.session import BYE, GET, RESET, Ending, Features, Kind, Peer, Request, ResponderSession, State
from model_endpoint.dispatcher import Dispatcher
from model_endpoint.logs import EventLog
from model_endpoint.policy_thread import PolicyRunner
from robopro_eval.transport.aio import TrioChannel

LAST_WORD_SECONDS = 1.0  # for a reply to a peer that broke the wire or said goodbye: it may not read any more

log = EventLog("sessions")


@dataclass(frozen=True)
class Farewell:
    """The end of a connection, with what is needed to decide what to do next.

    ``ending`` is None if the peer broke the wire. ``upgraded`` is true if it showed itself to be one of ours;
    ``requests`` counts what it asked.
    """

    ending: Ending | None
    detail: str
    upgraded: bool
    requests: int


@dataclass
class Tally:
    """What this program has done so far, for the line at the end."""

    simulators: int = 0
    episodes: int = 0
    calls: int = 0
    policy_errors: int = 0

    def __str__(self) -> str:
        counts = ((self.simulators, "simulator"), (self.episodes, "episode"), (self.calls, "call"))
        text = ", ".join(f"{count} {name}{'' if count == 1 else 's'}" for count, name in counts)
        errors = self.policy_errors
        return text + (f", {errors} policy error{'' if errors == 1 else 's'}" if errors else "")


@dataclass
class Session:
    """Serves one connection. ``peer`` names it in the log."""

    channel: TrioChannel
    runner: PolicyRunner
    features: Features
    peer: str
    tally: Tally
    max_frame: int = DEFAULT_MAX_FRAME
    _wire: ResponderSession = field(init=False)
    _episode: str | None = field(init=False, default=None)
    _requests: int = field(init=False, default=0)
    _introduced: bool = field(init=False, default=False)
    _errors_shown: set[str] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self._wire = ResponderSession(self.features, max_frame=self.max_frame)

    async def serve(self, first: memoryview | None = None) -> Farewell:
        """Answer until the peer is done or gone; never raises for anything the peer or the policy does.

        ``first`` is a frame that was read already, while the connection waited for its turn.
        """
        owed = False
        try:
            while True:
                body = await self.channel.receive(None) if first is None else first
                first = None
                request = self._wire.receive(body)
                del body  # arrays of the request keep what they need of it
                self._requests += 1
                self.tally.simulators += self._requests == 1
                if request.cmd == BYE and not request.is_stock:
                    await self._last_word(self._wire.result(None))
                    return self._farewell(Ending.BYE, "the simulator said it is done")
                owed = True
                await self.channel.send(await self._answer(request), None)
                owed = False
        except (PeerGone, DeadlineExceeded) as error:
            ending = self._wire.received_eof()
            torn = owed or (isinstance(error, PeerGone) and error.mid_frame)
            return self._farewell(Ending.LOST if torn else ending, str(error))
        except ProtocolError as error:
            if self._wire.state is State.BROKEN:  # else not even a frame arrived, and nothing we frame will be read
                await self._last_word(self._wire.protocol_error(str(error)))
            return self._farewell(None, str(error))

    @property
    def requests(self) -> int:
        """How many requests came so far."""
        return self._requests

    def _farewell(self, ending: Ending | None, detail: str) -> Farewell:
        return Farewell(ending, detail, self._wire.peer is Peer.OURS, self._requests)

    async def _answer(self, request: Request) -> list[Buffer]:
        self.tally.calls += 1
        try:
            self._check_episode(request)
            if request.cmd == RESET:
                self._episode = None  # until it succeeds, no episode is active
            timed = await self.runner.run(lambda dispatcher: _work(dispatcher, request))
            if not (request.is_stock or self._introduced):
                # Only now: an attribute that the first reset creates belongs to what the policy offers.
                self._wire.features = (await self.runner.run(Dispatcher.features)).value
                self._introduced = True
        except PolicyError as error:
            return self._refuse(request, str(error), error.remote_traceback, error.kind or Kind.POLICY_ERROR)
        if request.cmd == RESET:
            self._began(request)
        log.debug("call", peer=self.peer, cmd=request.cmd, seconds=timed.infer_seconds, queued=timed.queue_seconds)
        try:
            return self._wire.result(timed.value, infer_seconds=timed.infer_seconds, queue_seconds=timed.queue_seconds)
        except EncodeError as error:
            path = request.args[0] if request.cmd == GET else None
            what = f"the data at {path!r}" if path else f"what {request.cmd}() returned"
            message = f"{self.features.policy_name}: {what} cannot be sent: {error}"
            return self._refuse(request, message, None, Kind.CANNOT_SEND)

    def _check_episode(self, request: Request) -> None:
        if request.cmd == RESET and request.episode is not None:
            return  # it says itself which episode begins
        if request.episode_id is not None and request.episode_id != self._episode:
            raise PolicyError(
                f"{request.cmd} belongs to episode {request.episode_id!r}, but the active episode here is "
                f"{self._episode!r}; begin it with reset_model",
                kind=Kind.STALE_EPISODE,
            )

    def _began(self, request: Request) -> None:
        if request.episode is not None:
            begun = request.episode.get("id")
            self._episode = begun if isinstance(begun, str) else None
            self.tally.episodes += 1
            log.info(
                "episode begins", peer=self.peer, **{key: request.episode.get(key) for key in ("id", "task", "seed")}
            )
        elif request.is_stock:
            self.tally.episodes += 1
            log.info("episode begins", peer=self.peer)

    def _refuse(self, request: Request, message: str, traceback: str | None, kind: str) -> list[Buffer]:
        self.tally.policy_errors += 1
        seen = message in self._errors_shown  # the same traceback a hundred times hides everything else
        self._errors_shown.add(message)
        log.warning(
            "request failed",
            traceback=None if seen else traceback,
            peer=self.peer,
            cmd=request.cmd,
            kind=Kind(kind).value,
            error=message,
        )
        return self._wire.error(message, traceback, kind)

    async def _last_word(self, frame: list[Buffer] | None) -> None:
        """Send a frame to a peer that need not listen any more; the connection is closed next, whatever happens."""
        if frame is None:
            return
        try:
            await self.channel.send(frame, LAST_WORD_SECONDS)
        except (PeerGone, DeadlineExceeded, ProtocolError) as error:
            log.debug("the last word did not arrive", peer=self.peer, error=str(error))


def _work(dispatcher: Dispatcher, request: Request) -> object:
    """What the policy's thread does for one request."""
    if request.cmd == GET and not request.is_stock:
        path = request.args[0] if len(request.args) == 1 else None
        if not isinstance(path, str):
            raise PolicyError(f"{GET} takes one path, a string", kind=Kind.BAD_ARGUMENTS)
        return dispatcher.get(path, length=bool(request.kwargs.get("length", False)))
    if request.cmd == RESET and request.episode is not None:
        dispatcher.begin_episode(request.episode)
    return dispatcher.call(request.cmd, request.args, request.kwargs)
