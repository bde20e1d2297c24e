"""The simulator's side of a session."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias, cast

from framing.binary import encode_upgraded
from framing.decoding import Wire
from framing.encoding import encode_parts
from framing.errors import AuthenticationError, EncodeError, LocalProtocolError, PolicyError, ProtocolError, clip
from framing.frames import DEFAULT_MAX_FRAME, Buffer, encode_frame
from framing.messages import (
    BINARY,
    BYE,
    FOLLOWER_MAX,
    GET,
    JSON,
    QUIET_METHODS,
    READABLE,
    RESET,
    WAIT,
    Features,
    Kind,
    Peer,
    Reply,
    Wait,
    are_texts,
    kind_of,
    read_features,
    read_timing,
    read_wait,
    shorten,
    text_of,
)
from framing.states import Ending, Event, Role, State
from framing.turns import REQUESTS, Session

WireChoice: TypeAlias = Literal["auto", "json", "stock"]
"""`auto`: what the peer reads best; `json`: the upgrade, but never a binary body; `stock`: no upgrade."""


class RequesterSession(Session):
    """The simulator's side of one connection.

    `wire="stock"` speaks exactly the stock wire from the start; otherwise the first reply tells what the peer is, and
    `"auto"` goes on in binary with one that reads it, `"json"` stays with JSON.
    `max_frame` is the largest body it will send, in bytes.
    """

    _role = Role.REQUESTER
    _local = frozenset(
        {Event.RESET, Event.CALL, Event.GET, Event.BYE, Event.FOLLOW, Event.STOCK_RESET, Event.STOCK_CALL}
    )

    def __init__(self, wire: WireChoice = "auto", *, max_frame: int = DEFAULT_MAX_FRAME) -> None:
        super().__init__(State.STOCK_IDLE if wire == "stock" else State.FRESH, max_frame)
        self._peer = Peer.STOCK if wire == "stock" else Peer.UNKNOWN
        self._offers_binary = wire == "auto"
        self._binary = False  # until the peer says that it reads it
        self._accept = [*(READABLE if self._offers_binary else (JSON,)), WAIT]
        self._last_id = 0
        self._owed: deque[_Sent] = deque()  # oldest first
        self._episode_id: str | None = None
        self._features: Features | None = None

    @property
    def peer(self) -> Peer:
        return self._peer

    @property
    def features(self) -> Features | None:
        """What the policy offers; None before the first upgraded reply and towards stock peers."""
        return self._features

    @property
    def owed(self) -> int:
        """How many replies are still to come."""
        return len(self._owed)

    def may_follow(self, cmd: str) -> bool:
        """Whether `cmd` may be requested now although a reply is owed.

        It may if that is the reply to one request that returns nothing (`QUIET_METHODS`). Then receive twice, in the
        order of the requests. If the first fails, an upgraded model answers the second with an error of the kind
        `skipped` without calling it: the first error is the one to report.
        """
        quiet = self._state is State.OURS_BUSY and self._owed[0].cmd in QUIET_METHODS
        return quiet and cmd not in REQUESTS

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

        Raises EncodeError for values that cannot travel, for keyword arguments towards a peer that is not known to be
        ours, and for more than `FOLLOWER_MAX` bytes while a reply is owed; LocalProtocolError if a request is still
        under way that this one may not follow (`may_follow`), or the first one is not `reset_model`.
        """
        if episode is not None and cmd != RESET:
            raise LocalProtocolError(f"an episode begins with {RESET}, not with {cmd}")
        if cmd in (GET, BYE):
            raise LocalProtocolError(f"{cmd} has a method of its own")
        if self._peer is Peer.OURS:
            message: dict[str, object] = {"args": list(args), "kwargs": dict(kwargs or {})}
            if cmd != RESET:
                message["episode_id"] = self._episode_id
                if self.may_follow(cmd):
                    message["follows"] = self._last_id
                    return self._ours(cmd, Event.FOLLOW, message)
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
        return self._ours(BYE, Event.BYE, {"args": [], "kwargs": {}})

    def receive(self, body: Buffer) -> Reply | Wait:
        """The reply in `body`; or a wait notice, after which the reply is still owed: receive again.

        Raises PolicyError for an error reply (the session goes on), ProtocolError for anything that is not the reply to
        the oldest request under way, and AuthenticationError if the peer demands a token that it was not shown (the
        session is broken).
        """
        try:
            return self._understand(self._read(body))
        except (ProtocolError, AuthenticationError):
            self._break()
            raise

    def _understand(self, message: dict[str, Wire]) -> Reply | Wait:
        if not self._owed:
            raise ProtocolError("the peer sent a reply to no request")
        sent = self._owed[0]
        if ("res" in message) + ("error" in message) + ("wait" in message) != 1:
            raise ProtocolError(f"a reply to {sent.cmd} has to hold one of res and error")
        kind = message.get("kind")
        if isinstance(kind, str) and "error" in message:  # these two end the connection, whatever they answer
            if kind == Kind.AUTH_REQUIRED:
                raise AuthenticationError(text_of(message["error"]))
            if kind == Kind.PROTOCOL_ERROR:
                raise ProtocolError(f"the model says that we broke the wire: {text_of(message['error'])}")
        if self._peer is Peer.STOCK or "id" not in message:
            return self._stock_reply(message)
        number = message["id"]
        if type(number) is not int or number != sent.id:
            raise ProtocolError(f"the reply to request {sent.id} ({sent.cmd}) carries the id {clip(number)}")
        if not (kind is None or isinstance(kind, str)):
            raise ProtocolError(f"a reply to {sent.cmd} has a kind that is {kind_of(kind)}")
        if "wait" in message:
            return self._waits(message["wait"])
        if self._features is None:
            self._features = read_features(message.get("policy"))
        timing = read_timing(message.get("timing"))
        wire = message.get("wire")
        self._binary = self._offers_binary and are_texts(wire) and BINARY in cast("list[str]", wire)
        self._settle(Event.BYE_REPLY if sent.cmd == BYE else Event.REPLY, Peer.OURS)
        return _result(message, kind, timing)

    def _judge_eof(self) -> Ending:
        if not self._started:
            return Ending.SILENT
        return Ending.LOST

    def _stock_reply(self, message: dict[str, Wire]) -> Reply:
        if "wait" in message:
            raise ProtocolError("a stock peer sent a wait notice")
        self._settle(Event.STOCK_REPLY, Peer.STOCK)
        return _result(message, None, None)

    def _waits(self, wait: Wire) -> Wait:
        notice = read_wait(wait)
        self._state = self._next(Event.WAIT)
        self._peer = Peer.OURS
        self._started = True
        return notice

    def _settle(self, event: Event, peer: Peer) -> None:
        """The reply to the oldest request under way has come."""
        self._state = self._next(event)
        self._owed.popleft()
        self._peer = peer
        self._started = True
        if self._state is State.DONE:
            self._ending = Ending.BYE

    def _stock(self, cmd: str, args: Sequence[object]) -> list[Buffer]:
        probing = self._peer is Peer.UNKNOWN
        after = self._next(REQUESTS.get(cmd, (Event.STOCK_CALL, Event.CALL))[probing])
        # One None and one dict with the key _args mean something else to a stock server when they stand alone.
        alone = len(args) == 1 and args[0] is not None and not (isinstance(args[0], dict) and "_args" in args[0])
        message: dict[str, object] = {"cmd": cmd, "obs": None}
        if args:
            message["obs"] = args[0] if alone else {"_args": list(args)}
        if probing:
            message |= {"id": self._last_id + 1, "accept": self._accept}
        frame = encode_frame(encode_parts(message, root=""), max_frame=self._max_frame)
        self._sent(cmd, after)
        return frame

    def _ours(self, cmd: str, event: Event, rest: Mapping[str, object]) -> list[Buffer]:
        after = self._next(event)
        message = {"cmd": cmd, "id": self._last_id + 1, "accept": self._accept, **rest}
        limit = min(self._max_frame, FOLLOWER_MAX) if event is Event.FOLLOW else self._max_frame
        frame = encode_frame(encode_upgraded(message, binary=self._binary), max_frame=limit)
        self._sent(cmd, after)
        return frame

    def _sent(self, cmd: str, after: State) -> None:
        self._last_id += 1  # a stock peer is told no numbers; counting does no harm
        self._owed.append(_Sent(self._last_id, cmd))
        self._state = after


class _Sent(NamedTuple):
    """A request whose reply is owed."""

    id: int
    cmd: str


def _result(message: dict[str, Wire], kind: str | None, timing: Mapping[str, float] | None) -> Reply:
    if "error" not in message:
        return Reply(message["res"], timing)
    remote = message.get("traceback")
    traceback = shorten(remote) if isinstance(remote, str) else None
    raise PolicyError(text_of(message["error"]), kind=kind, remote_traceback=traceback)
