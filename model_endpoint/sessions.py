"""One simulator's connection: read a request, let the policy answer it, send the reply, until the simulator is done.

The simulator always asks and the model always answers, whoever opened the socket. A policy that raises costs the
request, not the connection. Frames and the rules of the wire are ``framing``'s; what may be called is the dispatcher's;
this module knows about episodes: a request that belongs to another episode than the one that began here is refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import trio

from framing.errors import AuthenticationError, DeadlineExceeded, EncodeError, PeerGone, PolicyError, ProtocolError
from framing.frames import DEFAULT_MAX_FRAME, Buffer
from framing.messages import shorten
from framing.session import BYE, GET, RESET, Ending, Features, Kind, Peer, Request, ResponderSession, State
from model_endpoint.line import Line, Place
from model_endpoint.logs import EventLog
from model_endpoint.policy import Call, Inferences, Seat
from model_endpoint.policy_thread import PolicyRunner
from robopro_eval.transport.aio import TrioChannel
from robopro_eval.transport.auth import AUTH_COMMAND
from robopro_eval.transport.retry import STATUS_EVERY

LAST_WORD_SECONDS = 1.0  # for a reply to a peer that broke the wire or said goodbye: it may not read any more
ERRORS_REMEMBERED = 100  # of one connection, at most 16 KiB each; more of them are shown as often as they come
NO_TOKEN_HERE = (
    "the simulator asks for a token and this model has none: set the same EVAL_LINK_TOKEN for both programs or none"
)
GAVE_UP = "the simulator gave up its place in the line; the policy was not called"

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
    inferences: Inferences | None = None  # where calls may share one

    def __str__(self) -> str:
        counts = ((self.simulators, "simulator"), (self.episodes, "episode"), (self.calls, "call"))
        text = ", ".join(f"{count} {name}{'' if count == 1 else 's'}" for count, name in counts)
        if self.inferences is not None:
            text += f", {self.inferences}"
        errors = self.policy_errors
        return text + (f", {errors} policy error{'' if errors == 1 else 's'}" if errors else "")


@dataclass
class Session:
    """Serves one connection. ``peer`` names it in the log.

    ``line`` is the one to wait in where the policy serves one simulator at a time; a simulator that can read it is told
    its place at once, when it changes, and every ``status_seconds``.
    """

    channel: TrioChannel
    runner: PolicyRunner
    policy_name: str
    peer: str
    tally: Tally
    max_frame: int = DEFAULT_MAX_FRAME
    line: Line | None = None
    status_seconds: float = STATUS_EVERY
    _wire: ResponderSession = field(init=False)
    _seat: Seat = field(init=False)
    _place: Place | None = field(init=False, default=None)
    _ahead: memoryview | None = field(init=False, default=None)  # a frame that was read already
    _episode: str | None = field(init=False, default=None)
    _requests: int = field(init=False, default=0)
    _served: bool = field(init=False, default=False)
    _errors_shown: set[str] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self._wire = ResponderSession(Features(self.policy_name), max_frame=self.max_frame)
        self._seat = Seat(self.peer)

    async def listen(self) -> None:
        """Wait for the first request. Raises what the channel raises."""
        self._ahead = await self.channel.receive(None)

    async def serve(self) -> Farewell:
        """Answer until the peer is done or gone.

        Raises AuthenticationError for a simulator that asks for a token, which got its answer; nothing else for
        anything that the peer or the policy does.
        """
        owed = False
        try:
            while True:
                request = self._wire.receive(await self._next_frame())
                self._requests += 1
                if request.cmd == AUTH_COMMAND and self._requests == 1:
                    await self._last_word(self._wire.error(NO_TOKEN_HERE))
                    raise AuthenticationError(NO_TOKEN_HERE)
                if request.cmd == BYE and not request.is_stock:
                    await self._last_word(self._wire.result(None))
                    return self._farewell(Ending.BYE, "the simulator said it is done")
                owed = True
                frame = self._wire.skipped()  # one that was sent along with a request which then failed
                if frame is None:
                    has_turn = await self._has_its_turn()
                    frame = await self._answer(request) if has_turn else self._wire.error(GAVE_UP, None, Kind.SKIPPED)
                await self.channel.send(frame, None)  # the system gives up a peer that does not read: TCP_USER_TIMEOUT
                del request, frame  # large arrays, of which nobody here has any more need
                owed = False
        except (PeerGone, DeadlineExceeded) as error:
            ending = self._wire.received_eof()
            torn = owed or (isinstance(error, PeerGone) and error.mid_frame)
            return self._farewell(Ending.LOST if torn else ending, str(error))
        except ProtocolError as error:
            if self._wire.state is State.BROKEN:  # else not even a frame arrived, and nothing we frame will be read
                await self._last_word(self._wire.protocol_error(str(error)))
            return self._farewell(None, str(error))
        finally:
            self._leave_line()
            self.runner.leave(self._seat)

    @property
    def requests(self) -> int:
        """How many requests came so far."""
        return self._requests

    def _farewell(self, ending: Ending | None, detail: str) -> Farewell:
        return Farewell(ending, detail, self._wire.peer is Peer.OURS, self._requests)

    async def _next_frame(self) -> memoryview:
        frame, self._ahead = self._ahead, None
        return await self.channel.receive(None) if frame is None else frame

    async def _has_its_turn(self) -> bool:
        """Wait for it; False if the simulator, instead of waiting, sends something else: its goodbye."""
        if self.line is None:
            return True
        if self._place is None:
            self._place = self.line.join()
        if self._place.number == 0:
            return True
        log.info("waits for its turn", peer=self.peer, place=self._place.number, of=self.line.waiting)
        line, place = self.line, self._place
        await self._while_connected(lambda: self._wait_in_line(line, place), or_asks=self._wire.peer is Peer.OURS)
        if place.number == 0:
            return True
        self._leave_line()
        return False

    async def _while_connected(self, work: Callable[[], Awaitable[None]], *, or_asks: bool = False) -> None:
        """Do ``work``, given up when the simulator goes, which is raised, or with ``or_asks`` when it sends a frame."""
        gone: PeerGone | DeadlineExceeded | ProtocolError | None = None
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                nonlocal gone
                try:
                    self._ahead = await self.channel.receive(None)
                except (PeerGone, ProtocolError) as error:  # kept and raised outside: a nursery would wrap it
                    gone = error
                if gone is not None or or_asks:
                    nursery.cancel_scope.cancel()

            if self._ahead is None:
                nursery.start_soon(watch)
            try:
                await work()
            except (PeerGone, DeadlineExceeded, ProtocolError) as error:
                gone = error
            nursery.cancel_scope.cancel()
        if gone is not None:
            raise gone

    async def _wait_in_line(self, line: Line, place: Place) -> None:
        while place.number:
            number = place.number  # before the notice is sent: it may be our turn when it has gone out
            notice = self._wire.wait(number, line.waiting)
            if notice is not None:
                await self.channel.send(notice, self.status_seconds)
            with trio.move_on_after(self.status_seconds):
                while place.number == number:
                    await place.moved()

    def _leave_line(self) -> None:
        if self._place is not None:
            self._place.leave()
            self._place = None

    async def _answer(self, request: Request) -> list[Buffer]:
        self.tally.calls += 1
        self.tally.simulators += not self._served
        self._served = True
        stale = self._stale(request)
        if stale is not None:
            return self._refuse(request, stale, None, Kind.STALE_EPISODE)
        begins = request.episode.get("id") if request.episode is not None else self._episode
        if request.cmd == RESET:
            self._episode = None  # until it succeeds, no episode is active
        call = Call(self._seat, request, begins if isinstance(begins, str) else None)
        if self.runner.busy() is None:
            await self.runner.run(call)
        else:  # it may be a while, and for a simulator that has gone nothing need be done
            await self._while_connected(lambda: self.runner.run(call))
        if call.features is not None:
            self._wire.features = call.features
        if isinstance(call.error, PolicyError):
            error = call.error
            return self._refuse(request, str(error), error.remote_traceback, error.kind or Kind.POLICY_ERROR)
        if request.cmd == RESET:
            self._began(request)
        if log.shows_debug:
            log.debug("call", peer=self.peer, cmd=request.cmd, seconds=call.infer_seconds, queued=call.queue_seconds)
        try:
            return self._wire.result(call.value, infer_seconds=call.infer_seconds, queue_seconds=call.queue_seconds)
        except EncodeError as error:
            path = request.args[0] if request.cmd == GET else None
            what = f"the data at {path!r}" if path else f"what {request.cmd}() returned"
            return self._refuse(request, f"{self.policy_name}: {what} cannot be sent: {error}", None, Kind.CANNOT_SEND)

    def _stale(self, request: Request) -> str | None:
        """Why the request belongs to no episode that began here; None if it does."""
        begins = request.cmd == RESET and request.episode is not None  # it says itself which episode begins
        if begins or request.episode_id is None or request.episode_id == self._episode:
            return None
        return (
            f"{request.cmd} belongs to episode {request.episode_id!r}, but the active episode here is "
            f"{self._episode!r}; begin it with reset_model"
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
        message = shorten(message)
        seen = message in self._errors_shown  # the same traceback a hundred times hides everything else
        if len(self._errors_shown) < ERRORS_REMEMBERED:
            self._errors_shown.add(message)
        log.warning(
            "request failed",
            traceback=None if seen or traceback is None else shorten(traceback),
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
