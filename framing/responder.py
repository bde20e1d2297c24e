"""The model's side of a session."""

from __future__ import annotations

from typing import NamedTuple

from framing.binary import encode_upgraded
from framing.decoding import Wire
from framing.encoding import encode_parts
from framing.errors import LocalProtocolError, ProtocolError, clip
from framing.frames import DEFAULT_MAX_FRAME, Buffer, encode_frame
from framing.messages import (
    BINARY,
    QUIET_METHODS,
    READABLE,
    WAIT,
    Features,
    Kind,
    Peer,
    Request,
    kind_of,
    read_upgraded,
    shorten,
    stock_args,
    text_of,
)
from framing.states import Ending, Event, Role, State
from framing.turns import REQUESTS, Session


class ResponderSession(Session):
    """The model's side of one connection.

    `features` describes the policy in the first upgraded reply; until then it may be replaced, so that what the first
    `reset_model` creates is listed too.
    """

    _role = Role.RESPONDER
    _local = frozenset({Event.REPLY, Event.STOCK_REPLY, Event.BYE_REPLY, Event.WAIT})

    def __init__(self, features: Features, *, max_frame: int = DEFAULT_MAX_FRAME) -> None:
        super().__init__(State.FRESH, max_frame)
        self.features = features
        self._request: _Asked | None = None
        self._last_id = 0
        self._introduced = False
        self._failed: _Asked | None = None

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
        try:
            return self._understand(self._read(body))
        except ProtocolError:
            self._break()
            raise

    def _understand(self, message: dict[str, Wire]) -> Request:
        cmd = message.get("cmd")
        if "error" in message and cmd is None:  # our end dialed something that could say why it will not talk to us
            raise ProtocolError(f"the peer says: {text_of(message['error'])}")
        if not isinstance(cmd, str):
            raise ProtocolError(f"a request's cmd is {kind_of(cmd)}, not a string")
        request = read_upgraded(cmd, message) if "id" in message else Request(cmd, stock_args(message.get("obs")))
        event = REQUESTS.get(cmd, (Event.STOCK_CALL, Event.CALL))[not request.is_stock]
        if request.follows is not None:
            event = self._following(request, event)
        after = self._next(event)
        if request.id is not None:
            if request.id != self._last_id + 1:
                raise ProtocolError(f"request {clip(cmd)} carries the id {clip(request.id)}, not {self._last_id + 1}")
            self._last_id = request.id
        self._state, self._started = after, True
        self._request = _Asked(cmd, request.id, request.accept, request.follows)
        return request

    def _following(self, request: Request, event: Event) -> Event:
        before = self._request
        if event is not Event.CALL or before is None or before.cmd not in QUIET_METHODS:
            raise ProtocolError(f"request {clip(request.cmd)} did not wait for a reply that it has to wait for")
        return Event.FOLLOW

    def skipped(self) -> list[Buffer] | None:
        """The frame that answers the request if it must not be called, because the one it follows failed; else None."""
        request, failed = self._request, self._failed
        if request is None or failed is None or request.follows is None or request.follows != failed.id:
            return None
        message = f"{request.cmd} was not called, because {failed.cmd} before it failed"
        return self.error(message, None, Kind.SKIPPED)

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
        """The frame that answers the request with an error, texts shortened. The connection stays open."""
        texts: dict[str, object] = {"error": shorten(str(message)), "traceback": shorten(traceback or "")}
        frame = self._reply(texts, Kind(kind), None)
        self._failed = self._request
        return frame

    def wait(self, place: int, of: int | None = None) -> list[Buffer] | None:
        """An interim frame: the request under way waits for its turn, `place` 1 being next, `of` so many.

        None if that request did not say that it reads such frames. The reply is still due.
        """
        request = self._request
        if request is None or WAIT not in request.accept:
            return None
        self._state = self._next(Event.WAIT)
        message = {
            "wait": {"place": place, "of": of},
            "id": request.id,
            "wire": list(READABLE),
            "kind": Kind.WAIT.value,
        }
        return encode_frame(encode_parts(message))

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
        if request is None or request.id is None:
            after = self._next(Event.STOCK_REPLY)
            body = encode_parts(message, root="")
        else:
            after = self._next(Event.BYE_REPLY if self._state is State.LEAVING else Event.REPLY)
            message |= {"id": request.id, "wire": list(READABLE), "kind": kind.value}
            if timing is not None:
                message["timing"] = timing
            if not self._introduced:
                message["policy"] = self.features.as_dict()
            body = encode_upgraded(message, binary=BINARY in request.accept)
        frame = encode_frame(body, max_frame=self._max_frame)
        self._introduced = request is not None and request.id is not None
        self._state = after
        if after is State.DONE:
            self._ending = Ending.BYE
        return frame


class _Asked(NamedTuple):
    """What the reply needs to know of a request. Not its arguments: their arrays keep whole frames."""

    cmd: str
    id: int | None
    accept: frozenset[str]
    follows: int | None
