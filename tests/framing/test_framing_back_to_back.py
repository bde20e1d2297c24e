"""Rule 6: a request that is sent behind one that returns nothing, and what becomes of it when that one fails."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from session_helpers import FEATURES, body, message, upgraded, with_stock_model

from framing.errors import EncodeError, LocalProtocolError, PolicyError, ProtocolError
from framing.session import (
    FOLLOWER_MAX,
    QUIET_METHODS,
    Ending,
    Reply,
    RequesterSession,
    ResponderSession,
    State,
    Wait,
)

IMAGE = np.zeros((100, 100, 3), np.uint8)


def value_of(reply: Reply | Wait) -> Any:
    assert isinstance(reply, Reply)
    return reply.value


@pytest.mark.parametrize("first", sorted(QUIET_METHODS))
def test_a_request_may_follow_one_that_returns_nothing(first: str) -> None:
    ask, answer = upgraded()
    assert ask.owed == 0
    assert not ask.may_follow("get_action")  # nothing to follow
    one = body(ask.request(first, (IMAGE,)))
    assert ask.may_follow("get_action")
    two = body(ask.request("get_action", (7,)))
    assert (ask.state, ask.owed) == (State.OURS_TWO, 2)
    assert json.loads(two) == {
        "cmd": "get_action",
        "id": 3,
        "accept": ["binary", "json", "wait"],
        "args": [7],
        "kwargs": {},
        "episode_id": None,
        "follows": 2,
    }
    assert answer.receive(one).follows is None
    assert answer.skipped() is None
    assert value_of(ask.receive(body(answer.result(None)))) is None
    assert (ask.state, ask.owed) == (State.OURS_BUSY, 1)
    request = answer.receive(two)
    assert (request.args, request.follows) == ((7,), 2)
    assert answer.skipped() is None
    assert value_of(ask.receive(body(answer.result([1.5])))) == [1.5]
    assert (ask.state, ask.owed) == (State.OURS_IDLE, 0)


def test_there_are_never_three() -> None:
    ask, answer = upgraded()
    frames = [body(ask.request("update_obs")), body(ask.request("update_obs"))]
    assert not ask.may_follow("get_action")
    with pytest.raises(LocalProtocolError, match="not allowed in state OURS_TWO"):
        ask.request("get_action")
    answer.receive(frames[0])
    ask.receive(body(answer.result(None)))
    assert ask.may_follow("get_action")  # the second is quiet too, and there is room behind it
    frames.append(body(ask.request("get_action")))
    assert json.loads(frames[2])["follows"] == 3
    for frame in frames[1:]:
        answer.receive(frame)
        ask.receive(body(answer.result(None)))
    assert ask.owed == 0


@pytest.mark.parametrize("cmd", ["reset_model", "__get__", "__bye__"])
def test_these_never_follow(cmd: str) -> None:
    ask, _ = upgraded()
    ask.request("update_obs")
    assert not ask.may_follow(cmd)
    with pytest.raises(LocalProtocolError):
        ask.request(cmd) if cmd == "reset_model" else ask.get("window")


@pytest.mark.parametrize("first", ["get_action", "reset_model", "update"])
def test_nothing_follows_a_request_that_may_return_something(first: str) -> None:
    ask, _ = upgraded()
    ask.request(first)
    assert not ask.may_follow("get_action")
    with pytest.raises(LocalProtocolError, match="not allowed in state OURS_BUSY"):
        ask.request("get_action")


def test_nothing_follows_before_the_upgrade_nor_towards_stock_peers() -> None:
    ask = with_stock_model()
    ask.request("update_obs")
    assert not ask.may_follow("get_action")
    fresh = RequesterSession()
    assert not fresh.may_follow("get_action")
    fresh.request("reset_model")
    assert not fresh.may_follow("update_obs")


def test_the_second_is_small() -> None:
    ask, answer = upgraded()
    first = body(ask.request("update_obs", (IMAGE,)))
    room = "x" * (FOLLOWER_MAX - 200)
    with pytest.raises(EncodeError, match=f"above the maximum of {FOLLOWER_MAX} bytes"):
        ask.request("set_language", (room + room,))
    assert (ask.state, ask.owed) == (State.OURS_BUSY, 1)  # nothing was sent
    second = body(ask.request("set_language", (room,)))
    for frame in (first, second):
        answer.receive(frame)
        ask.receive(body(answer.result(None)))
    ask.request("set_language", (room + room,))  # by itself it may be larger


def test_if_the_first_fails_the_second_is_not_called() -> None:
    ask, answer = upgraded()
    one, two = body(ask.request("update_obs", (IMAGE,))), body(ask.request("get_action"))
    answer.receive(one)
    with pytest.raises(PolicyError, match="out of memory"):
        ask.receive(body(answer.error("out of memory")))
    assert ask.owed == 1
    answer.receive(two)
    skipped = answer.skipped()
    assert skipped is not None
    assert message(skipped) == {
        "error": "get_action was not called, because update_obs before it failed",
        "traceback": "",
        "id": 3,
        "wire": ["binary", "json"],
        "kind": "skipped",
    }
    with pytest.raises(PolicyError) as caught:
        ask.receive(body(skipped))
    assert caught.value.kind == "skipped"
    assert (ask.owed, ask.state, answer.state) == (0, State.OURS_IDLE, State.OURS_IDLE)
    answer.receive(body(ask.request("get_action")))  # which follows nothing, and is called
    assert answer.skipped() is None
    assert value_of(ask.receive(body(answer.result(1)))) == 1


def test_what_follows_a_skipped_request_is_skipped_too() -> None:
    ask, answer = upgraded()
    frames = [body(ask.request("update_obs")), body(ask.request("update_obs"))]
    answer.receive(frames[0])
    with pytest.raises(PolicyError):
        ask.receive(body(answer.error("boom")))
    frames.append(body(ask.request("get_action")))
    for frame in frames[1:]:
        answer.receive(frame)
        skipped = answer.skipped()
        assert skipped is not None
        with pytest.raises(PolicyError, match="before it failed"):
            ask.receive(body(skipped))


def test_a_request_that_waited_is_called_although_the_one_before_failed() -> None:
    ask, answer = upgraded()
    answer.receive(body(ask.request("update_obs")))
    with pytest.raises(PolicyError):
        ask.receive(body(answer.error("boom")))
    answer.receive(body(ask.request("get_action")))
    assert answer.skipped() is None


def test_replies_come_in_the_order_of_the_requests() -> None:
    ask, _ = upgraded()
    ask.request("update_obs")
    ask.request("get_action")
    with pytest.raises(ProtocolError, match=r"reply to request 2 \(update_obs\) carries the id 3"):
        ask.receive(b'{"res": 1, "id": 3, "kind": "ok"}')


def test_goodbye_may_overtake_two_replies() -> None:
    ask, answer = upgraded()
    frames = [body(ask.request("update_obs")), body(ask.request("get_action")), body(ask.bye())]
    assert ask.owed == 3
    for frame in frames:
        answer.receive(frame)
        ask.receive(body(answer.result(None)))
    assert ask.ending is answer.ending is Ending.BYE


def test_wait_notices_may_come_while_two_are_under_way() -> None:
    ask, answer = upgraded()
    answer.receive(body(ask.request("update_obs")))
    ask.request("get_action")
    notice = answer.wait(1, 1)
    assert notice is not None
    assert ask.receive(body(notice)) == Wait(1, 1)
    assert (ask.state, ask.owed) == (State.OURS_TWO, 2)


def asked(answer: ResponderSession, number: int, cmd: str, **more: object) -> None:
    answer.receive(json.dumps({"cmd": cmd, "id": number, "accept": ["json"], "args": [], **more}).encode())


@pytest.mark.parametrize("follows", [0, 1, 3, -1, 2.0, "2", True, [2]])
def test_a_request_follows_the_one_before_it_or_none(follows: object) -> None:
    answer = ResponderSession(FEATURES)
    for number, cmd in ((1, "reset_model"), (2, "update_obs")):
        asked(answer, number, cmd)
        answer.result(None)
    with pytest.raises(ProtocolError, match="with the id 3 follows"):
        asked(answer, 3, "m", follows=follows)


@pytest.mark.parametrize(
    ("first", "second"), [("get_action", "m"), ("update_obs", "reset_model"), ("update_obs", "__get__")]
)
def test_a_request_that_ought_to_have_waited_is_a_violation(first: str, second: str) -> None:
    answer = ResponderSession(FEATURES)
    for number, cmd in ((1, "reset_model"), (2, first)):
        asked(answer, number, cmd)
        answer.result(None)
    with pytest.raises(ProtocolError, match="did not wait for a reply"):
        asked(answer, 3, second, follows=2)
    assert answer.state is State.BROKEN


@given(st.lists(st.tuples(st.sampled_from(["update_obs", "get_action", "fails"]), st.booleans()), max_size=12))
@settings(max_examples=100, deadline=None)
def test_whatever_is_sent_back_to_back_each_reply_reaches_its_own_request(program: list[tuple[str, bool]]) -> None:
    """The model works through a line of frames, as from a socket; a request is sent at once wherever it may be."""
    ask, answer = upgraded()
    line: list[bytes] = []
    sent: list[tuple[int, str]] = []
    called: list[int] = []
    skipped: list[int] = []

    def serve_one() -> None:
        number, what = sent.pop(0)
        request = answer.receive(line.pop(0))
        assert request.args == (number,)
        frame = answer.skipped()
        if frame is not None:
            skipped.append(number)
            with pytest.raises(PolicyError, match="was not called"):
                ask.receive(body(frame))
            return
        called.append(number)
        if what == "fails":
            with pytest.raises(PolicyError, match=f"^failed {number}$"):
                ask.receive(body(answer.error(f"failed {number}")))
        else:
            assert value_of(ask.receive(body(answer.result(number)))) == number

    for number, (what, patient) in enumerate(program):
        cmd = "get_action" if what == "get_action" else "update_obs"
        while ask.owed and (patient or not ask.may_follow(cmd)):
            serve_one()
        line.append(body(ask.request(cmd, (number,))))
        sent.append((number, what))
        assert ask.owed == len(sent) <= 2
    while ask.owed:
        serve_one()
    assert sorted(called + skipped) == list(range(len(program)))
    assert all(number - 1 in skipped or program[number - 1][0] == "fails" for number in skipped)
    assert ask.state is answer.state is State.OURS_IDLE
