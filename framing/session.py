"""Who may say what when: one requester (the simulator), one responder (the model), strictly taking turns.

`framing.states.TRANSITIONS` is the whole protocol as data: (role, state, event) -> next state. Whatever is not in it is
forbidden, and the type of the error says whose mistake it was: `LocalProtocolError` for events that we cause,
`ProtocolError` for events that the peer causes. A `ProtocolError` leaves the session `BROKEN` for good.

A session starts by speaking the stock wire with two extra keys that a stock peer ignores, `id` and `accept`. A peer of
ours answers with the same `id`, and from then on both use the upgraded shapes. Nothing survives a reconnect: make a new
session for every connection.

No sockets here: methods return the buffers of one frame to send, or take the body of one frame that was received.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from framing.decoding import Wire, decode
from framing.encoding import encode_parts
from framing.errors import EncodeError, LocalProtocolError, PolicyError, ProtocolError
from framing.frames import DEFAULT_MAX_FRAME, Buffer, encode_frame
from framing.messages import (
    BYE,
    GET,
    READABLE,
    RESET,
    Features,
    Kind,
    Peer,
    Reply,
    Request,
    clip,
    kind_of,
    read_features,
    read_timing,
    read_upgraded,
    stock_args,
)
from framing.states import TRANSITIONS, Ending, Event, Role, State, forbidden

__all__ = [
    "BYE",
    "GET",
    "READABLE",
    "RESET",
    "TRANSITIONS",
    "Ending",
    "Event",
    "Features",
    "Kind",
    "Peer",
    "Reply",
    "Request",
    "RequesterSession",
    "ResponderSession",
    "Role",
    "State",
]

_REQUESTS = {
    RESET: (Event.STOCK_RESET, Event.RESET),
    GET: (Event.STOCK_CALL, Event.GET),
    BYE: (Event.STOCK_CALL, Event.BYE),
}


class _Session(ABC):
    """What both roles share: the state, and how to break."""

    _role: Role
    _local: frozenset[Event]

    def __init__(self, state: State, max_frame: int) -> None:
        self._state = state
        self._max_frame = max_frame
        self._started = False
        self._ending: Ending | None = None

    @property
    def state(self) -> State:
        return self._state

    @property
    def ending(self) -> Ending | None:
        """How it ended; None while it has not."""
        return self._ending

    def _next(self, event: Event) -> State:
        """The state after `event`. Raises without changing anything if the table forbids it."""
        after = TRANSITIONS.get((self._role, self._state, event))
        if after is None:
            if event in self._local:
                raise LocalProtocolError(forbidden(self._role, self._state, event))
            raise self._violation(f"a {event.value} came in state {self._state.value}, where none is allowed")
        return after

    def _violation(self, message: str) -> ProtocolError:
        """Break the session and make the exception to raise."""
        self._state = TRANSITIONS.get((self._role, self._state, Event.VIOLATION), self._state)
        self._ending = Ending.LOST
        return ProtocolError(message)

    @contextlib.contextmanager
    def _blaming_peer(self) -> Iterator[None]:
        """A ProtocolError inside is a violation by the peer."""
        try:
            yield
        except ProtocolError as problem:
            raise self._violation(str(problem)) from None

    def _read(self, body: Buffer) -> dict[str, Wire]:
        if self._state is State.BROKEN:
            raise ProtocolError("the connection was given up after an earlier violation")
        view = memoryview(body).cast("B")
        if len(view) and view[0] == 0xFF:
            raise self._violation("the peer sent a binary body, which it was not offered")
        with self._blaming_peer():
            message = decode(body)
        if not isinstance(message, dict):
            raise self._violation(f"a message is {kind_of(message)}, not a JSON object")
        return message

    def received_eof(self) -> Ending:
        """The stream has ended. Says how the connection ended; may be called again."""
        if self._ending is None:
            self._ending = self._judge_eof()
            self._state = self._next(Event.END)
        return self._ending

    @abstractmethod
    def _judge_eof(self) -> Ending:
        """How a connection ended that just did, as this role sees it."""


class RequesterSession(_Session):
    """The simulator's side of one connection.

    `wire="stock"` speaks exactly the stock wire from the start; `"auto"` finds out from the first reply.
    `max_frame` is the largest body it will send, in bytes.
    """

    _role = Role.REQUESTER
    _local = frozenset({Event.RESET, Event.CALL, Event.GET, Event.BYE, Event.STOCK_RESET, Event.STOCK_CALL})

    def __init__(self, wire: Literal["auto", "stock"] = "auto", *, max_frame: int = DEFAULT_MAX_FRAME) -> None:
        super().__init__(State.STOCK_IDLE if wire == "stock" else State.FRESH, max_frame)
        self._peer = Peer.STOCK if wire == "stock" else Peer.UNKNOWN
        self._last_id = 0
        self._cmd = ""
        self._owed: int | None = None  # the call that a goodbye overtook
        self._episode_id: str | None = None
        self._features: Features | None = None

    @property
    def peer(self) -> Peer:
        return self._peer

    @property
    def features(self) -> Features | None:
        """What the policy offers; None before the first upgraded reply and towards stock peers."""
        return self._features

    def request(
        self,
        cmd: str,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
        *,
        episode: Mapping[str, object] | None = None,
    ) -> list[Buffer]:
        """The frame that calls the policy's method `cmd`.

        `episode` (`{"id", "task", "seed"}`) goes with `reset_model` to a peer of ours and is dropped towards others,
        which do not know what it is. Later requests carry its id.

        Raises EncodeError for values that cannot travel, and for keyword arguments towards a peer that is not known to
        be ours; LocalProtocolError if a request is still under way, or the first one is not `reset_model`.
        """
        if episode is not None and cmd != RESET:
            raise LocalProtocolError(f"an episode begins with {RESET}, not with {cmd}")
        if cmd in (GET, BYE):
            raise LocalProtocolError(f"{cmd} has a method of its own")
        if self._peer is Peer.OURS:
            message: dict[str, object] = {"args": list(args), "kwargs": dict(kwargs or {})}
            if cmd != RESET:
                message["episode_id"] = self._episode_id
                return self._ours(cmd, Event.CALL, message)
            episode_id = None if episode is None else episode.get("id")
            if not (episode_id is None or isinstance(episode_id, str)):
                raise EncodeError(f"episode.id: must be a string, not {kind_of(episode_id)}")
            message["episode_id"] = episode_id
            if episode is not None:
                message["episode"] = dict(episode)
            frame = self._ours(cmd, Event.RESET, message)
            self._episode_id = episode_id
            return frame
        if kwargs:
            raise EncodeError(
                f"{cmd}: keyword arguments ({', '.join(kwargs)}) cannot travel to a stock peer; pass them by position"
            )
        return self._stock(cmd, args)

    def get(self, path: str, *, length: bool = False) -> list[Buffer]:
        """The frame that reads the policy's attribute `path` (dotted for data inside data), or its `len`."""
        message: dict[str, object] = {"args": [path], "kwargs": {"length": length}, "episode_id": self._episode_id}
        return self._ours(GET, Event.GET, message)

    def bye(self) -> list[Buffer]:
        """The frame that says that the run is over. Only towards a peer of ours; a stock one is simply closed.

        Unlike everything else it may be sent while a reply is owed (somebody pressed Ctrl-C in the middle of a call).
        That reply then still comes before the farewell: receive until `ending` is set.
        """
        owed = self._last_id if self._state is State.OURS_BUSY else None
        frame = self._ours(BYE, Event.BYE, {"args": [], "kwargs": {}})
        self._owed = owed
        return frame

    def receive(self, body: Buffer) -> Reply:
        """The reply in `body`.

        Raises PolicyError for an error reply (the session goes on), ProtocolError for anything that is not the reply to
        the request under way (the session is broken).
        """
        message = self._read(body)
        if self._state not in (State.PROBING, State.STOCK_BUSY, State.OURS_BUSY, State.LEAVING):
            raise self._violation("the peer sent a reply to no request")
        if ("res" in message) == ("error" in message):
            raise self._violation(f"a reply to {self._cmd} has to hold one of res and error")
        upgraded = self._peer is not Peer.STOCK and "id" in message
        if upgraded:
            self._accept_id(message["id"])
            if self._features is None:
                with self._blaming_peer():
                    self._features = read_features(message.get("policy"))
        kind = message.get("kind") if upgraded else None
        if not (kind is None or isinstance(kind, str)):
            raise self._violation(f"a reply to {self._cmd} has a kind that is {kind_of(kind)}")
        event = Event.STOCK_REPLY
        if upgraded:
            last = self._state is State.LEAVING and message["id"] == self._last_id
            event = Event.BYE_REPLY if last else Event.REPLY
        with self._blaming_peer():
            timing = read_timing(message.get("timing")) if upgraded else None
        self._state = self._next(event)
        if self._peer is Peer.UNKNOWN:
            self._peer = Peer.OURS if upgraded else Peer.STOCK
        if self._state is State.DONE:
            self._ending = Ending.BYE
        self._started = True
        if "error" not in message:
            return Reply(message["res"], timing)
        text, remote = message["error"], message.get("traceback")
        if kind == Kind.PROTOCOL_ERROR:
            raise self._violation(f"the model says that we broke the wire: {text}")
        raise PolicyError(str(text), kind=kind, remote_traceback=remote if isinstance(remote, str) else None)

    def _judge_eof(self) -> Ending:
        if not self._started:
            return Ending.SILENT
        return Ending.LOST

    def _stock(self, cmd: str, args: Sequence[object]) -> list[Buffer]:
        probing = self._peer is Peer.UNKNOWN
        after = self._next(_REQUESTS.get(cmd, (Event.STOCK_CALL, Event.CALL))[probing])
        # One None and one dict with the key _args mean something else to a stock server when they stand alone.
        alone = len(args) == 1 and args[0] is not None and not (isinstance(args[0], dict) and "_args" in args[0])
        message: dict[str, object] = {"cmd": cmd, "obs": None}
        if args:
            message["obs"] = args[0] if alone else {"_args": list(args)}
        if probing:
            message |= {"id": self._last_id + 1, "accept": list(READABLE)}
        frame = encode_frame(encode_parts(message, root=""), max_frame=self._max_frame)
        self._last_id += probing
        self._state, self._cmd = after, cmd
        return frame

    def _ours(self, cmd: str, event: Event, rest: Mapping[str, object]) -> list[Buffer]:
        after = self._next(event)
        message = {"cmd": cmd, "id": self._last_id + 1, "accept": list(READABLE), **rest}
        frame = encode_frame(encode_parts(message, root="", escape=True), max_frame=self._max_frame)
        self._last_id += 1
        self._state, self._cmd = after, cmd
        return frame

    def _accept_id(self, value: Wire) -> None:
        if type(value) is int and value == self._owed:
            self._owed = None
        elif type(value) is not int or value != self._last_id:
            raise self._violation(f"the reply to request {self._last_id} ({self._cmd}) carries the id {clip(value)}")


class ResponderSession(_Session):
    """The model's side of one connection.

    `features` describes the policy in the first upgraded reply; until then it may be replaced, so that what the first
    `reset_model` creates is listed too.
    """

    _role = Role.RESPONDER
    _local = frozenset({Event.REPLY, Event.STOCK_REPLY, Event.BYE_REPLY})

    def __init__(self, features: Features, *, max_frame: int = DEFAULT_MAX_FRAME) -> None:
        super().__init__(State.FRESH, max_frame)
        self.features = features
        self._request: Request | None = None
        self._last_id = 0
        self._introduced = False

    @property
    def peer(self) -> Peer:
        """Which simulator this is; known from its first request on."""
        if self._last_id:
            return Peer.OURS
        return Peer.STOCK if self._started else Peer.UNKNOWN

    def receive(self, body: Buffer) -> Request:
        """The request in `body`. Raises ProtocolError if it is none, or comes where none is allowed.

        `args` are the positional arguments: those of an upgraded request, or what the stock server makes of `obs`.
        """
        message = self._read(body)
        cmd = message.get("cmd")
        if not isinstance(cmd, str):
            raise self._violation(f"a request's cmd is {kind_of(cmd)}, not a string")
        with self._blaming_peer():
            request = read_upgraded(cmd, message) if "id" in message else Request(cmd, stock_args(message.get("obs")))
        after = self._next(_REQUESTS.get(cmd, (Event.STOCK_CALL, Event.CALL))[not request.is_stock])
        if request.id is not None:
            if request.id != self._last_id + 1:
                raise self._violation(f"request {cmd} carries the id {clip(request.id)}, not {self._last_id + 1}")
            self._last_id = request.id
        self._state, self._request, self._started = after, request, True
        return request

    def result(
        self, value: object, *, infer_seconds: float | None = None, queue_seconds: float | None = None
    ) -> list[Buffer]:
        """The frame that answers the request with `value`. To `BYE` it is the farewell.

        Raises EncodeError if `value` cannot travel: nothing was sent, `error(..., kind="cannot_send")` is still due.
        """
        message: dict[str, object] = {"res": value}
        kind = Kind.BYE if self._state is State.LEAVING else Kind.OK
        return self._reply(message, kind, {"queue": queue_seconds, "infer": infer_seconds})

    def error(self, message: str, traceback: str | None = None, kind: str = Kind.POLICY_ERROR) -> list[Buffer]:
        """The frame that answers the request with an error. The connection stays open."""
        return self._reply({"error": str(message), "traceback": traceback or ""}, Kind(kind), None)

    def protocol_error(self, message: str) -> list[Buffer] | None:
        """After `receive` raised: a last frame that tells the peer why, or None if nothing can be said to it any more.

        The session is broken; close the connection after sending.
        """
        if self._ending is not Ending.LOST:
            raise LocalProtocolError("there has been no violation to report")
        reply: dict[str, object] = {"error": message, "traceback": ""}
        if self._last_id:
            reply |= {"id": self._last_id, "wire": list(READABLE), "kind": Kind.PROTOCOL_ERROR.value}
        return encode_frame(encode_parts(reply))

    def _judge_eof(self) -> Ending:
        if not self._started:
            return Ending.SILENT
        return Ending.STOCK_EOF if self._state is State.STOCK_IDLE else Ending.LOST

    def _reply(self, message: dict[str, object], kind: Kind, timing: dict[str, float | None] | None) -> list[Buffer]:
        request = self._request
        if request is None or request.is_stock:
            event = Event.STOCK_REPLY
        else:
            event = Event.BYE_REPLY if self._state is State.LEAVING else Event.REPLY
        after = self._next(event)
        upgraded = event is not Event.STOCK_REPLY
        if upgraded:
            message |= {"id": self._last_id, "wire": list(READABLE), "kind": kind.value}
            if timing is not None:
                message["timing"] = timing
            if not self._introduced:
                message["policy"] = {
                    "name": self.features.policy_name,
                    "methods": sorted(self.features.methods),
                    "attributes": sorted(self.features.attributes),
                }
        frame = encode_frame(encode_parts(message, root="", escape=upgraded), max_frame=self._max_frame)
        self._state, self._introduced = after, self._introduced or upgraded
        if self._state is State.DONE:
            self._ending = Ending.BYE
        return frame
