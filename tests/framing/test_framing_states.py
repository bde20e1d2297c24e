"""The table of states, its page, and sessions driven by programs and bytes that nobody chose."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from framing_values import same
from hypothesis import given, settings
from hypothesis import strategies as st
from session_helpers import FEATURES, body, upgraded

from framing import states
from framing.errors import AuthenticationError, LocalProtocolError, PolicyError, ProtocolError
from framing.session import (
    TRANSITIONS,
    Event,
    Peer,
    Reply,
    RequesterSession,
    ResponderSession,
    Role,
    State,
    Wait,
    WireChoice,
)

# ---------------------------------------------------------------- the table
_OURS = {
    Role.REQUESTER: {
        *(Event.RESET, Event.CALL, Event.GET, Event.BYE, Event.FOLLOW),
        *(Event.STOCK_RESET, Event.STOCK_CALL),
    },
    Role.RESPONDER: {Event.REPLY, Event.STOCK_REPLY, Event.BYE_REPLY, Event.WAIT},
}


@pytest.mark.parametrize("role", Role)
def test_every_state_can_be_reached_and_left_as_the_table_says(role: Role) -> None:
    seen = {State.FRESH}
    while True:
        more = {after for (r, before, _), after in TRANSITIONS.items() if r is role and before in seen} - seen
        if not more:
            break
        seen |= more
    expected = set(State) - ({State.PROBING, State.OURS_TWO} if role is Role.RESPONDER else set())
    assert seen == expected
    assert not [key for key in TRANSITIONS if key[0] is role and key[1] is State.BROKEN]
    assert set(states.MEANINGS) == set(State)


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", Event)
def test_what_is_not_in_the_table_is_refused_by_the_side_whose_fault_it_is(
    role: Role, state: State, event: Event
) -> None:
    session: Any = RequesterSession() if role is Role.REQUESTER else ResponderSession(FEATURES)
    session._state = state
    if (role, state, event) in TRANSITIONS:
        assert session._next(event) is TRANSITIONS[role, state, event]
        assert session.state is state
        return
    with pytest.raises(LocalProtocolError if event in _OURS[role] else ProtocolError):
        session._next(event)


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        TRANSITIONS[Role.REQUESTER, State.FRESH, Event.CALL] = State.DONE  # type: ignore[index]


def test_the_page_with_the_diagrams_is_current() -> None:
    page = Path(__file__).parents[2] / "docs" / "wire_states.md"
    assert page.read_text() == states.document(), "run: python -m framing.states > docs/wire_states.md"
    printed = subprocess.run([sys.executable, "-m", "framing.states"], capture_output=True, text=True, check=True)
    assert printed.stdout == page.read_text()


# ---------------------------------------------------------------- anything at all
KEYS = ["cmd", "obs", "id", "accept", "args", "kwargs", "res", "error", "kind", "timing", "policy", "episode", "name"]
KEYS += ["wire", "wait", "place", "of", "traceback", "episode_id"]
_AN_ARRAY = {"__numpy_array__": True, "data": "AAEC", "dtype": "uint8", "shape": [3]}
_JSONISH = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-2, 4),
        st.text(max_size=5),
        st.sampled_from(["json", "binary", "ok", "wait", "auth_required", "protocol_error", "reset_model"]),
        st.just(_AN_ARRAY),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=6,
        ),
    ),
    max_leaves=10,
)


@given(st.lists(st.one_of(_JSONISH.map(lambda value: json.dumps(value).encode()), st.binary(max_size=30)), max_size=5))
@settings(max_examples=300, deadline=None)
def test_whatever_a_peer_sends_only_errors_of_the_wire_come_out(bodies: list[bytes]) -> None:
    answer = ResponderSession(FEATURES)
    ask, _ = upgraded()
    fresh = RequesterSession()
    fresh.request("reset_model")
    for data in bodies:
        try:
            answer.receive(data)
            answer.result(None)
        except ProtocolError:
            assert answer.state is State.BROKEN
        for session in (ask, fresh):
            try:
                if session.state in (State.OURS_IDLE, State.STOCK_IDLE):
                    session.request("get_action")
                session.receive(data)
            except (ProtocolError, PolicyError, AuthenticationError):
                pass


class _Both:
    """Two sessions joined by their bytes; hypothesis drives the requester's side."""

    def __init__(self, wire: WireChoice) -> None:
        self.ask = RequesterSession(wire)
        self.answer = ResponderSession(FEATURES)

    def step(self, action: str, *, waits: bool) -> None:
        if action == "call":
            frame = self.ask.request("m", (1, "x"))
        elif action == "observe":
            frame = self.ask.request("m", (np.arange(5000), "x"))
        elif action == "reset":
            frame = self.ask.request("reset_model", episode={"id": "e"})
        elif action == "get":
            frame = self.ask.get("a")
        else:
            frame = self.ask.bye()
        request = self.answer.receive(body(frame))
        assert request.is_stock is (self.ask.peer is Peer.STOCK)
        if waits and action != "bye" and (notice := self.answer.wait(1, 2)) is not None:
            assert self.ask.receive(body(notice)) == Wait(1, 2)
        value = {"echo": list(request.args)}
        reply = self.ask.receive(body(self.answer.result(value)))
        assert isinstance(reply, Reply)
        assert same(reply.value, value)


_ACTIONS = st.tuples(st.sampled_from(["call", "observe", "reset", "get", "bye"]), st.booleans())


@given(st.sampled_from(["auto", "json", "stock"]), st.lists(_ACTIONS, max_size=12))
@settings(max_examples=200, deadline=None)
def test_any_program_of_calls_keeps_both_sides_in_step_or_is_refused_before_anything_is_sent(
    wire: WireChoice, actions: list[tuple[str, bool]]
) -> None:
    both = _Both(wire)
    for action, waits in actions:
        before = (both.ask.state, both.answer.state)
        try:
            both.step(action, waits=waits)
        except LocalProtocolError:
            assert (both.ask.state, both.answer.state) == before
