"""One simulator's connection: read a request, let the policy answer it, send the reply, until the simulator is done.

The simulator always asks and the model always answers, whoever opened the socket. A policy that raises costs the
request, not the connection. Frames and the rules of the wire are `framing`'s; what may be called is the dispatcher's;
this module knows about episodes: a request that belongs to another episode than the one that began here is refused.
"""

from __future__ import annotations

import contextlib
import enum
from dataclasses import dataclass, field

from framing.session import Features, Request, ResponderSession
from robopro_eval.transport.aio import TrioChannel

from framing.errors import DeadlineExceeded, EncodeError, PeerGone, PolicyError, ProtocolError
from model_endpoint.dispatcher import RESET, Dispatcher
from model_endpoint.logs import EventLog
from model_endpoint.policy_thread import PolicyRunner

GET = "__get__"
BYE = "__bye__"

log = EventLog("sessions")


class Ending(enum.Enum):
    """How a connection ended."""

    BYE = "the simulator said it is done"
    CLOSED = "the simulator closed the connection"
    LOST = "the simulator vanished"
    BROKEN = "the peer broke the wire"


@dataclass(frozen=True)
class Farewell:
    """The end of a connection, with what is needed to decide what to do next.

    ``upgraded`` is true if the peer showed itself to be one of ours; ``requests`` counts what it asked.
    """

    ending: Ending
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
    """Serves one connection. ``first`` is a frame that was read already while the connection waited for its turn."""

    channel: TrioChannel
    runner: PolicyRunner
    features: Features
    peer: str
    tally: Tally
    _wire: ResponderSession = field(init=False)
    _episode: str | None = field(init=False, default=None)
    _upgraded: bool = field(init=False, default=False)
    _requests: int = field(init=False, default=0)
    _errors_shown: set[str] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self._wire = ResponderSession(self.features)

    async def serve(self, first: memoryview | None = None) -> Farewell:
        """Answer until the peer is done or gone; never raises for anything the peer or the policy does."""
        body = first
        try:
            while True:
                if body is None:
                    body = await self.channel.receive(None)
                request = self._wire.receive(body)
                body = None
                self._requests += 1
                self.tally.simulators += self._requests == 1
                self._upgraded |= not request.is_stock
                if request.cmd == BYE:
                    await self._say_bye()
                    return self._farewell(Ending.BYE, Ending.BYE.value)
                reply = await self._answer(request)
                await self.channel.send(reply, None)
        except PeerGone as error:
            return self._farewell(Ending.LOST if error.mid_frame else Ending.CLOSED, str(error))
        except DeadlineExceeded as error:
            return self._farewell(Ending.LOST, str(error))
        except ProtocolError as error:
            await self._complain(error)
            return self._farewell(Ending.BROKEN, str(error))

    def _farewell(self, ending: Ending, detail: str) -> Farewell:
        return Farewell(ending, detail, self._upgraded, self._requests)

    async def _answer(self, request: Request) -> list[memoryview | bytes]:
        self.tally.calls += 1
        try:
            self._check_episode(request)
            if request.cmd == RESET:
                self._episode = None  # until it succeeds, no episode is active
            timed = await self.runner.run(lambda dispatcher: _work(dispatcher, request))
        except PolicyError as error:
            return self._refuse(request, str(error), error.remote_traceback, error.kind or "policy_error")
        if request.cmd == RESET:
            self._began(request)
        log.debug("call", peer=self.peer, cmd=request.cmd, seconds=timed.infer_seconds, queued=timed.queue_seconds)
        try:
            return self._wire.result(timed.value, infer_seconds=timed.infer_seconds, queue_seconds=timed.queue_seconds)
        except EncodeError as error:
            what = "read" if request.cmd == GET else f"{request.cmd}() returned"
            return self._refuse(
                request, f"{self.features.policy_name}: {what} what cannot be sent: {error}", None, "cannot_send"
            )

    def _check_episode(self, request: Request) -> None:
        if request.cmd == RESET and request.episode is not None:
            return  # it says itself which episode begins
        if request.episode_id is not None and request.episode_id != self._episode:
            raise PolicyError(
                f"{request.cmd} belongs to episode {request.episode_id!r}, but the active episode here is "
                f"{self._episode!r}; begin it with reset_model",
                kind="stale_episode",
            )

    def _began(self, request: Request) -> None:
        if request.episode is not None:
            self._episode = str(request.episode["id"])
            self.tally.episodes += 1
            log.info(
                "episode begins", peer=self.peer, **{key: request.episode.get(key) for key in ("id", "task", "seed")}
            )
        elif request.is_stock:
            self.tally.episodes += 1
            log.info("episode begins", peer=self.peer)

    def _refuse(self, request: Request, message: str, traceback: str | None, kind: str) -> list[memoryview | bytes]:
        self.tally.policy_errors += 1
        seen = message in self._errors_shown  # the same traceback a hundred times hides everything else
        self._errors_shown.add(message)
        log.warning(
            "request failed",
            traceback=None if seen else traceback,
            peer=self.peer,
            cmd=request.cmd,
            kind=kind,
            error=message,
        )
        return self._wire.error(message, traceback, kind)

    async def _say_bye(self) -> None:
        with contextlib.suppress(PeerGone, DeadlineExceeded):  # it need not wait for our answer
            await self.channel.send(self._wire.result(None), None)

    async def _complain(self, error: ProtocolError) -> None:
        """Tell the peer what was wrong, if it still listens and the state of the session allows an answer."""
        try:
            await self.channel.send(self._wire.error(str(error), None, "protocol_error"), 1.0)
        except (
            Exception
        ) as failure:  # whatever it is, the connection is closed next; the first error is the one that counts
            log.debug("could not tell the peer", peer=self.peer, error=str(failure))


def _work(dispatcher: Dispatcher, request: Request) -> object:
    """What the policy's thread does for one request."""
    if request.cmd == GET:
        path = request.args[0] if len(request.args) == 1 else None
        if not isinstance(path, str):
            raise PolicyError(f"{GET} takes one path, a string", kind="bad_arguments")
        return dispatcher.get(path, length=bool(request.kwargs.get("length", False)))
    if request.cmd == RESET and request.episode is not None:
        dispatcher.begin_episode(request.episode)
    return dispatcher.call(request.cmd, request.args, request.kwargs)
