"""What two programs of ours do beyond the stock wire: the binary body, wait notices, the refusal without a token."""

from __future__ import annotations

import json
import weakref
from typing import Any

import numpy as np
import pytest
from session_helpers import FEATURES, body, message, upgraded, with_stock_model

from framing.binary import COPY_BELOW, encode_binary
from framing.errors import AuthenticationError, EncodeError, LocalProtocolError, PolicyError, ProtocolError
from framing.session import (
    Ending,
    Features,
    Kind,
    Peer,
    Reply,
    RequesterSession,
    ResponderSession,
    State,
    Wait,
    WireChoice,
)

IMAGE = np.arange(3 * COPY_BELOW, dtype=np.uint8)
FIRST_REPLY = {"id": 1, "kind": "ok", "policy": {"name": "p", "methods": [], "attributes": []}}


def is_binary(data: bytes) -> bool:
    return data[0] == 0xFF


def binary(value: object) -> bytes:
    return b"".join(encode_binary(value))


def value_of(reply: Reply | Wait) -> Any:
    assert isinstance(reply, Reply)
    return reply.value


# ---------------------------------------------------------------- rules 1, 3, 4: the format of each frame
def test_binary_is_used_both_ways_once_both_have_said_that_they_read_it() -> None:
    ask, answer = RequesterSession(), ResponderSession(FEATURES)
    first = body(ask.request("reset_model", (IMAGE,)))
    assert not is_binary(first)  # nothing is known of the peer yet
    (got,) = answer.receive(first).args
    np.testing.assert_array_equal(got, IMAGE)  # type: ignore[arg-type]
    reply = body(answer.result({"echo": IMAGE}))
    assert is_binary(reply)  # the request said that it is read
    np.testing.assert_array_equal(value_of(ask.receive(reply))["echo"], IMAGE)
    for _ in range(2):
        call = body(ask.request("update_obs", (IMAGE, b"raw"), {"more": IMAGE}))
        assert is_binary(call)
        request = answer.receive(call)
        np.testing.assert_array_equal(request.args[0], IMAGE)  # type: ignore[arg-type]
        np.testing.assert_array_equal(request.kwargs["more"], IMAGE)  # type: ignore[arg-type]
        assert request.args[1] == b"raw"
        ask.receive(body(answer.result(None)))


def test_a_session_does_not_keep_the_memory_of_a_request() -> None:
    ask, answer = upgraded()
    request = answer.receive(bytearray(body(ask.request("update_obs", (IMAGE,)))))
    assert isinstance(request.args[0], np.ndarray)
    kept = weakref.ref(request.args[0])
    del request
    assert kept() is None  # the policy is at work on it, or has done with it
    assert message(answer.error("too dark"))["id"] == 2


def test_what_holds_no_arrays_stays_readable() -> None:
    ask, answer = upgraded()
    call = body(ask.request("set_language", ("lift the pot",)))
    assert json.loads(call)["args"] == ["lift the pot"]
    answer.receive(call)
    assert json.loads(body(answer.result([1, 2])))["res"] == [1, 2]


def test_wire_json_upgrades_and_never_meets_a_binary_body() -> None:
    ask, answer = upgraded("json")
    assert message(ask.request("update_obs", ([1],)))["accept"] == ["json", "wait"]
    ask, answer = upgraded("json")
    call = body(ask.request("update_obs", (IMAGE,)))
    assert not is_binary(call)
    (got,) = answer.receive(call).args
    reply = body(answer.result(got))
    assert not is_binary(reply)
    np.testing.assert_array_equal(value_of(ask.receive(reply)), IMAGE)
    with pytest.raises(EncodeError, match=r"^args\[0\]: bytes cannot travel in JSON"):
        ask.request("update_obs", (b"raw",))


@pytest.mark.parametrize("wire", ["auto", "json", "stock"])
def test_rule_1_either_format_is_read_at_any_time(wire: WireChoice) -> None:
    ask = RequesterSession(wire)
    ask.request("reset_model")
    reply = {"res": IMAGE} if wire == "stock" else {"res": IMAGE, **FIRST_REPLY}
    np.testing.assert_array_equal(value_of(ask.receive(binary(reply))), IMAGE)
    answer = ResponderSession(FEATURES)
    request = answer.receive(binary({"cmd": "reset_model", "obs": IMAGE}))
    assert request.is_stock
    np.testing.assert_array_equal(request.args[0], IMAGE)  # type: ignore[arg-type]
    assert not is_binary(body(answer.result(IMAGE)))  # it did not say that it reads binary


@pytest.mark.parametrize("wire", [None, ["json"], [], "binary", ["binary", 3], ["binary", IMAGE], {"binary": 1}])
def test_rule_4_nothing_binary_goes_to_a_peer_that_has_not_named_it(wire: Any) -> None:
    ask = RequesterSession()
    ask.request("reset_model")
    ask.receive(binary({"res": None, **FIRST_REPLY} | ({} if wire is None else {"wire": wire})))
    assert ask.peer is Peer.OURS
    assert not is_binary(body(ask.request("update_obs", (IMAGE,))))


def test_rule_3_the_reply_follows_what_that_request_accepts() -> None:
    answer = ResponderSession(FEATURES)
    for number, accept in enumerate((["json"], ["binary", "json"], [], ["json", "later"], ["binary"]), 1):
        request = {"cmd": "reset_model", "id": number, "accept": accept, "args": []}
        answer.receive(json.dumps(request).encode())
        assert is_binary(body(answer.result(IMAGE))) is ("binary" in accept)


def test_error_replies_in_binary_are_errors_too() -> None:
    ask, _ = upgraded()
    ask.request("get_action")
    with pytest.raises(PolicyError, match="boom"):
        ask.receive(binary({"error": "boom", "traceback": "", "id": 2, "kind": "policy_error"}))


def test_a_binary_body_that_is_none_breaks_the_session() -> None:
    _, answer = upgraded()
    with pytest.raises(ProtocolError, match="claims a head"):
        answer.receive(b"\xff\x01\x00\x00\x00\x00\xff\xff{}")
    assert answer.state is State.BROKEN


def test_the_reason_of_a_violation_is_shown_though_its_id_is_that_of_an_older_request() -> None:
    """A body that cannot be read has no id; the model answers with the last that it knows."""
    ask, answer = upgraded()
    ask.request("update_obs", (IMAGE,))
    with pytest.raises(ProtocolError) as caught:
        answer.receive(b"\xff\x01\x00\x00 half a body")
    last = answer.protocol_error(str(caught.value))
    assert last is not None
    with pytest.raises(ProtocolError, match="we broke the wire: a binary message of 16 bytes claims a head of"):
        ask.receive(body(last))
    assert ask.state is State.BROKEN


# ---------------------------------------------------------------- rule 8: wait notices
def test_an_upgraded_simulator_is_told_its_place_while_it_waits() -> None:
    ask, answer = RequesterSession(), ResponderSession(FEATURES)
    answer.receive(body(ask.request("reset_model")))
    notice = answer.wait(2, 3)
    assert notice is not None
    assert message(notice) == {"wait": {"place": 2, "of": 3}, "id": 1, "wire": ["binary", "json"], "kind": "wait"}
    assert ask.receive(body(notice)) == Wait(2, 3)
    assert (ask.state, ask.peer, answer.state) == (State.OURS_BUSY, Peer.OURS, State.OURS_BUSY)
    notice = answer.wait(1, None)
    assert notice is not None
    assert ask.receive(body(notice)) == Wait(1, None)
    assert ask.features is None  # they come with the reply
    assert value_of(ask.receive(body(answer.result("done")))) == "done"
    assert ask.features == FEATURES
    assert ask.state is answer.state is State.OURS_IDLE


def test_wait_notices_come_before_any_reply_not_only_the_first() -> None:
    ask, answer = upgraded()
    answer.receive(body(ask.request("get_action")))
    notice = answer.wait(1, 1)
    assert notice is not None
    assert ask.receive(body(notice)) == Wait(1, 1)
    with pytest.raises(LocalProtocolError, match="not allowed in state OURS_BUSY"):
        ask.request("get_action")  # the reply is still owed
    assert value_of(ask.receive(body(answer.result(5)))) == 5


@pytest.mark.parametrize(
    "request_body",
    [b'{"cmd": "reset_model"}', b'{"cmd": "reset_model", "id": 1, "accept": ["json", "binary"]}'],
    ids=["stock", "ours without wait"],
)
def test_who_does_not_read_notices_waits_silently(request_body: bytes) -> None:
    answer = ResponderSession(FEATURES)
    answer.receive(request_body)
    assert answer.wait(1, 1) is None
    answer.result(None)


def test_nobody_is_told_to_wait_who_has_asked_nothing() -> None:
    assert ResponderSession(FEATURES).wait(1, 1) is None
    _, answer = upgraded()
    with pytest.raises(LocalProtocolError, match="wait notice is not allowed in state OURS_IDLE"):
        answer.wait(1, 1)


def test_a_stock_peer_sends_no_notices() -> None:
    ask = with_stock_model()
    ask.request("get_action")
    with pytest.raises(ProtocolError, match="stock peer sent a wait notice"):
        ask.receive(b'{"wait": {"place": 1, "of": 1}, "kind": "wait"}')


@pytest.mark.parametrize(
    "wait",
    [
        *(None, 3, [], {}, {"place": 0}, {"place": -1, "of": 3}, {"place": 1.0}, {"place": True}, {"place": [1]}),
        *({"place": 2, "of": 1}, {"place": 1, "of": "many"}, {"place": 1, "of": True}),
        *({"place": 10**6 + 1}, {"place": 10**4000}, {"place": 1, "of": 10**4000}),
    ],
)
def test_a_notice_that_is_none_is_a_violation(wait: object) -> None:
    ask, _ = upgraded()
    ask.request("get_action")
    with pytest.raises(ProtocolError, match="wait notice"):
        ask.receive(json.dumps({"wait": wait, "id": 2, "kind": "wait"}).encode())
    assert ask.state is State.BROKEN


@pytest.mark.parametrize("number", [1, 3, None, "2"])
def test_a_notice_for_another_request_is_a_violation(number: object) -> None:
    ask, _ = upgraded()
    ask.request("get_action")
    with pytest.raises(ProtocolError, match="carries the id"):
        ask.receive(json.dumps({"wait": {"place": 1, "of": 1}, "id": number, "kind": "wait"}).encode())


def test_a_notice_after_the_reply_is_a_violation() -> None:
    ask, answer = upgraded()
    answer.receive(body(ask.request("get_action")))
    notice = answer.wait(1, 1)
    assert notice is not None
    ask.receive(body(answer.result(1)))
    with pytest.raises(ProtocolError, match="reply to no request"):
        ask.receive(body(notice))


def test_goodbye_can_be_said_while_waiting() -> None:
    ask, answer = RequesterSession(), ResponderSession(FEATURES)
    answer.receive(body(ask.request("reset_model")))
    notice = answer.wait(1, 2)
    assert notice is not None
    ask.receive(body(notice))
    goodbye = body(ask.bye())
    assert ask.receive(body(notice)) == Wait(1, 2)  # one that was under way already
    reply = body(answer.result(None))
    answer.receive(goodbye)
    ask.receive(reply)
    assert ask.ending is None
    ask.receive(body(answer.result(None)))
    assert ask.ending is answer.ending is Ending.BYE


def test_a_model_that_vanishes_while_we_wait_was_one() -> None:
    ask, answer = RequesterSession(), ResponderSession(FEATURES)
    answer.receive(body(ask.request("reset_model")))
    notice = answer.wait(1, 1)
    assert notice is not None
    ask.receive(body(notice))
    assert ask.received_eof() is Ending.LOST  # not SILENT: somebody was there


def test_the_reply_to_an_older_request_comes_first_even_before_a_farewell() -> None:
    ask, answer = upgraded()
    answer.receive(body(ask.request("get_action")))
    ask.bye()
    with pytest.raises(ProtocolError, match=r"request 2 \(get_action\) carries the id 3"):
        ask.receive(json.dumps({"res": None, "id": 3, "kind": "bye"}).encode())


# ---------------------------------------------------------------- what the policy offers
def test_how_many_calls_the_model_batches_is_told() -> None:
    ask, answer = RequesterSession(), ResponderSession(Features("p", max_batch=4))
    answer.receive(body(ask.request("reset_model")))
    ask.receive(body(answer.result(None)))
    assert ask.features == Features("p", max_batch=4)
    older = RequesterSession()
    older.request("reset_model")
    older.receive(json.dumps({"res": None, **FIRST_REPLY}).encode())
    assert older.features == Features("p", max_batch=1)


@pytest.mark.parametrize("number", [0, -1, 1.0, True, "4", None])
def test_a_batch_of_no_size_is_a_violation(number: object) -> None:
    ask = RequesterSession()
    ask.request("reset_model")
    first = {"res": None, **FIRST_REPLY, "policy": {"name": "p", "methods": [], "attributes": [], "max_batch": number}}
    with pytest.raises(ProtocolError, match="says that it batches"):
        ask.receive(json.dumps(first).encode())


def test_a_peer_that_only_says_why_it_will_not_talk_is_quoted() -> None:
    with pytest.raises(ProtocolError, match=r"^the peer says: this end speaks TLS only$"):
        ResponderSession(FEATURES).receive(b'{"error": "this end speaks TLS only", "traceback": ""}')


# ---------------------------------------------------------------- without the token
REFUSAL = b'{"error": "this model wants a token", "traceback": "", "kind": "auth_required"}'


@pytest.mark.parametrize("wire", ["auto", "json", "stock"])
@pytest.mark.parametrize("with_id", [False, True])
def test_a_model_that_wants_a_token_is_understood_whatever_we_speak(wire: WireChoice, with_id: bool) -> None:
    ask = RequesterSession(wire)
    ask.request("reset_model")
    refusal = json.loads(REFUSAL) | ({"id": 1} if with_id else {})
    with pytest.raises(AuthenticationError, match=r"^this model wants a token$"):
        ask.receive(json.dumps(refusal).encode())
    assert ask.state is State.BROKEN
    assert ask.received_eof() is Ending.LOST


def test_it_is_understood_later_too() -> None:
    ask, _ = upgraded()
    ask.request("get_action")
    with pytest.raises(AuthenticationError):
        ask.receive(REFUSAL)


def test_a_result_that_only_looks_like_a_refusal_is_a_result() -> None:
    ask, answer = upgraded()
    answer.receive(body(ask.request("m")))
    value = {"error": "x", "kind": "auth_required"}
    assert value_of(ask.receive(body(answer.result(value)))) == value


def test_the_kinds_are_spelled_as_the_page_says() -> None:
    assert {kind.value for kind in Kind} == {
        *("ok", "policy_error", "unknown_method", "bad_arguments", "stale_episode", "cannot_send", "protocol_error"),
        *("bye", "wait", "skipped", "auth_required"),
    }
