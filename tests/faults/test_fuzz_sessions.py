"""Requester and responder against each other, through random legal and illegal events, compared with the table.

The model keeps a state for each side and moves it by `TRANSITIONS` alone: which event an action is, is decided here
from the rules of the wire, not by asking the session.
"""

from __future__ import annotations

import contextlib
import json
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from framing.errors import EncodeError, LocalProtocolError, PolicyError, ProtocolError
from framing.session import (
    TRANSITIONS,
    Ending,
    Event,
    Features,
    RequesterSession,
    ResponderSession,
    Role,
    State,
    Wait,
)

ASK, ANSWER = Role.REQUESTER, Role.RESPONDER
IDLE = (State.FRESH, State.STOCK_IDLE, State.OURS_IDLE)
BUSY = (State.STOCK_BUSY, State.OURS_BUSY, State.LEAVING)
ARRAY = np.arange(3000, dtype=np.float32)


def body_of(frame: list[Any]) -> bytearray:
    return bytearray(b"".join(frame)[4:])


class TwoSessions(RuleBasedStateMachine):
    """`asked` and `answered` are the bodies on their way, with the events that they are."""

    @initialize(
        wire=st.sampled_from(["auto", "auto", "json", "stock"]),
        stock_model=st.sampled_from([False, False, True]),
        hostile=st.booleans(),
        warm=st.booleans(),
    )
    def connect(self, wire: Any, stock_model: bool, hostile: bool, warm: bool) -> None:
        self.ask, self.answer = RequesterSession(wire), ResponderSession(Features("toy"))
        self.wire, self.stock_model, self.hostile = wire, stock_model, hostile
        self.state = {ASK: State.STOCK_IDLE if wire == "stock" else State.FRESH, ANSWER: State.FRESH}
        self.asked: deque[tuple[bytearray, Event]] = deque()
        self.owed: deque[str] = deque()  # what the replies that the requester waits for answer, oldest first
        self.follows = self.failed = False  # the request that is being answered; the one answered last
        self.answered: deque[tuple[bytearray, Event]] = deque()
        if warm:  # the first exchange is over, where most of the table begins
            self.ask_something("reset", None)
            self.go_on(3, None, fails=False, waits=False)

    # ------------------------------------------------------------ the table
    def may(self, role: Role, event: Event) -> bool:
        return (role, self.state[role], event) in TRANSITIONS

    def move(self, role: Role, event: Event) -> None:
        self.state[role] = TRANSITIONS[role, self.state[role], event]

    def break_(self, role: Role) -> None:
        self.state[role] = TRANSITIONS.get((role, self.state[role], Event.VIOLATION), self.state[role])

    # ------------------------------------------------------------ what both do, in and out of turn
    @rule(
        what=st.sampled_from(["reset", "begin", "call", "both", "both", "both", "data", "goodbye"]),
        argument=st.sampled_from([None, 1, {"_args": [1]}, ARRAY]),
    )
    def ask_something(self, what: str, argument: Any) -> None:
        stock = self.state[ASK] in (State.STOCK_IDLE, State.STOCK_BUSY)
        if what == "both":  # back to back, where that may be
            self.ask_something("quiet", argument)
            self.ask_something("call", argument)
        elif what in ("reset", "begin"):
            told = {"id": "cell/1#1", "task": "t", "seed": 1} if what == "begin" else None
            event = Event.STOCK_RESET if stock else Event.RESET
            self._say(event, lambda: self.ask.request("reset_model", episode=told))
        elif what in ("call", "quiet"):
            method = "get_action" if what == "call" else "update_obs"
            behind = self.state[ASK] is State.OURS_BUSY and self.owed[0] == "quiet"
            event = Event.STOCK_CALL if stock else Event.FOLLOW if behind else Event.CALL
            self._say(event, lambda: self.ask.request(method, (argument,)), what)
        elif what == "data":
            self._say(Event.GET, lambda: self.ask.get("obs_cache"))
        else:
            self._say(Event.BYE, self.ask.bye)

    def _say(self, event: Event, make: Callable[[], list[Any]], what: str = "") -> None:
        if self.may(ASK, event):
            self.asked.append((body_of(make()), event))
            self.owed.append(what)
            self.move(ASK, event)
        else:
            with pytest.raises(LocalProtocolError):
                make()

    @rule(steps=st.integers(1, 6), value=st.sampled_from([None, 1.5, ARRAY]), fails=st.booleans(), waits=st.booleans())
    def go_on(self, steps: int, value: Any, fails: bool, waits: bool) -> None:
        """The next things that happen by themselves, replies first."""
        for step in range(steps):
            if self.answered and self.state[ASK] not in (State.DONE, State.BROKEN):
                self._reply_arrives()
            elif self.state[ANSWER] in BUSY:
                if waits and step % 2 == 0:
                    self._answer_with_patience()
                else:
                    self._answer(value, fails)
            elif self.asked and self.state[ANSWER] in IDLE:
                self._request_arrives()

    @rule()
    def the_responder_reads_on(self) -> None:
        """So that a goodbye overtakes a reply that is on its way."""
        if self.asked and self.state[ANSWER] in IDLE:
            self._request_arrives()
        elif self.state[ANSWER] in BUSY:
            self._answer(None, fails=False)

    @rule(value=st.sampled_from([1, {1, 2}, ARRAY]))
    def answer_out_of_turn_or_what_cannot_travel(self, value: Any) -> None:
        if self.state[ANSWER] not in BUSY:
            with pytest.raises(LocalProtocolError):
                self.answer.result(value)
        elif isinstance(value, set):
            with pytest.raises(EncodeError):
                self.answer.result(value)

    def _request_arrives(self) -> None:
        body, event = self.asked.popleft()
        stock = self.stock_model or self.wire == "stock"
        if self.stock_model and b'"id"' in body:  # a stock server sees no more of it than this
            message = json.loads(body)
            body = bytearray(json.dumps({"cmd": message["cmd"], "obs": message.get("obs")}).encode())
        request = self.answer.receive(body)
        assert request.is_stock is stock
        if stock:
            self.move(ANSWER, Event.STOCK_RESET if request.cmd == "reset_model" else Event.STOCK_CALL)
        else:
            self.move(ANSWER, event)
        self.follows = event is Event.FOLLOW

    def _answer(self, value: Any, fails: bool) -> None:
        event = {State.LEAVING: Event.BYE_REPLY, State.OURS_BUSY: Event.REPLY}.get(
            self.state[ANSWER], Event.STOCK_REPLY
        )
        frame = self.answer.skipped()
        assert (frame is not None) is (self.follows and self.failed)
        self.failed = fails or frame is not None
        if frame is None:
            frame = self.answer.error("no", "Traceback") if fails else self.answer.result(value)
        self.answered.append((body_of(frame), event))
        self.move(ANSWER, event)

    def _answer_with_patience(self) -> None:
        if self.state[ANSWER] is State.LEAVING:
            with pytest.raises(LocalProtocolError):
                self.answer.wait(1)
            return
        notice = self.answer.wait(1, 3)
        assert (notice is None) is (self.state[ANSWER] is State.STOCK_BUSY)
        if notice is not None:
            self.answered.append((body_of(notice), Event.WAIT))
            self.move(ANSWER, Event.WAIT)

    def _reply_arrives(self) -> None:
        body, event = self.answered.popleft()
        with contextlib.suppress(PolicyError):
            assert isinstance(self.ask.receive(body), Wait) is (event is Event.WAIT)
        self.move(ASK, event)
        if event is not Event.WAIT:
            self.owed.popleft()

    # ------------------------------------------------------------ what a broken peer does
    @precondition(lambda self: self.hostile and self.state[ASK] is not State.DONE)
    @rule(
        what=st.sampled_from(["nonsense", "another id", "twice"]),
        body=st.sampled_from([b"{}", b"hello", b"\xff\x01\x00\x00", b'{"res": 1, "error": 2}', b"[]"]),
        number=st.sampled_from([0, -1, 99, 1.0, True, "1", None]),
    )
    def the_model_breaks_the_wire(self, what: str, body: bytes, number: Any) -> None:
        if what != "nonsense":
            if not self.answered or self.state[ASK] is State.BROKEN:
                return
            body, event = self.answered[0]
            if what == "twice":
                self._reply_arrives()
                if event is Event.WAIT or self.state[ASK] is State.DONE:
                    return
            elif event is Event.STOCK_REPLY or body[0] == 0xFF:
                return
            else:
                body = json.dumps(json.loads(body) | {"id": number}).encode()
        with pytest.raises(ProtocolError):
            self.ask.receive(body)
        self.break_(ASK)

    @precondition(lambda self: self.hostile)
    @rule(
        what=st.sampled_from(["nonsense", "another id", "out of turn"]),
        body=st.sampled_from([b"{}", b"hello", b"\xff\x02\x00\x00", b'{"cmd": 3}', b'{"cmd": "x", "id": true}']),
        number=st.sampled_from([0, -1, 99]),
    )
    def the_simulator_breaks_the_wire(self, what: str, body: bytes, number: int) -> None:
        if what == "another id":
            message = {"cmd": "reset_model", "args": [], "accept": ["json"], "id": number}
            body = json.dumps(message).encode()
        elif what == "out of turn":
            if not self.asked or self.state[ANSWER] in IDLE:
                return
            body = self.asked[0][0]
        with pytest.raises(ProtocolError):
            self.answer.receive(body)
        self.break_(ANSWER)

    # ------------------------------------------------------------ the end
    @precondition(lambda self: self.hostile)
    @rule(role=st.sampled_from(Role))
    def the_line_ends(self, role: Role) -> None:
        session = self.ask if role is ASK else self.answer
        before = session.ending
        ending = session.received_eof()
        assert session.received_eof() is ending
        if before is not None:
            assert ending is before
            return
        if role is ANSWER and self.state[ANSWER] is State.STOCK_IDLE:
            assert ending is Ending.STOCK_EOF
        self.move(role, Event.END)

    @invariant()
    def both_are_where_the_table_says(self) -> None:
        for role, session in ((ASK, self.ask), (ANSWER, self.answer)):
            assert session.state is self.state[role]
            if session.state is State.BROKEN:
                assert session.ending is Ending.LOST


TestTwoSessions = TwoSessions.TestCase
TestTwoSessions.settings = settings(
    max_examples=300, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
