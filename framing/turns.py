"""What both roles of a session share: a state that moves by the table, and how it breaks."""

from __future__ import annotations

from abc import ABC, abstractmethod

from framing.binary import decode_body
from framing.decoding import Wire
from framing.errors import LocalProtocolError, ProtocolError
from framing.frames import Buffer
from framing.messages import BYE, GET, RESET, kind_of
from framing.states import TRANSITIONS, Ending, Event, Role, State, forbidden

REQUESTS = {
    RESET: (Event.STOCK_RESET, Event.RESET),
    GET: (Event.STOCK_CALL, Event.GET),
    BYE: (Event.STOCK_CALL, Event.BYE),
}


class Session(ABC):
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
            raise ProtocolError(f"a {event.value} came in state {self._state.value}, where none is allowed")
        return after

    def _break(self) -> None:
        """The peer broke the wire, or will not talk to us."""
        self._state = TRANSITIONS.get((self._role, self._state, Event.VIOLATION), self._state)
        self._ending = Ending.LOST

    def _read(self, body: Buffer) -> dict[str, Wire]:
        if self._state is State.BROKEN:
            raise ProtocolError("the connection was given up after an earlier violation")
        message = decode_body(body)
        if not isinstance(message, dict):
            raise ProtocolError(f"a message is {kind_of(message)}, not an object")
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
