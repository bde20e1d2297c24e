"""The rules of a session, one by one, with real bytes between two sessions."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from session_helpers import FEATURES, body, message, upgraded, with_stock_model

from framing.errors import EncodeError, LocalProtocolError, PolicyError, ProtocolError, clip
from framing.session import (
    Ending,
    Features,
    Kind,
    Peer,
    RequesterSession,
    ResponderSession,
    State,
)


# ---------------------------------------------------------------- rule 2: who speaks first, and how
def test_the_first_request_is_a_stock_request_with_id_and_accept() -> None:
    frame = RequesterSession().request("reset_model", episode={"id": "e", "task": "t", "seed": 1})
    assert message(frame) == {"cmd": "reset_model", "obs": None, "id": 1, "accept": ["binary", "json", "wait"]}


@pytest.mark.parametrize("cmd", ["get_action", "set_language"])
def test_rule_5_nothing_comes_before_reset_model(cmd: str) -> None:
    ask = RequesterSession()
    with pytest.raises(LocalProtocolError, match="must be reset_model"):
        ask.request(cmd)
    assert ask.state is State.FRESH
    assert message(ask.request("reset_model"))["id"] == 1


def test_ids_count_from_one_on_every_connection() -> None:
    for _ in range(2):
        ask, _ = upgraded()
        assert message(ask.request("get_action"))["id"] == 2


# ---------------------------------------------------------------- rule 3: what a reply holds
def test_without_an_id_the_reply_is_exactly_the_stock_one() -> None:
    answer = ResponderSession(FEATURES)
    assert answer.receive(b'{"cmd": "get_action", "obs": null}').is_stock
    assert message(answer.result(3, infer_seconds=0.1)) == {"res": 3}
    answer.receive(b'{"cmd": "get_action"}')
    assert message(answer.error("no", "Traceback ...", Kind.POLICY_ERROR)) == {
        "error": "no",
        "traceback": "Traceback ...",
    }
    assert answer.peer is Peer.STOCK


def test_with_an_id_the_reply_adds_id_wire_kind_and_once_the_policy() -> None:
    ask, answer = RequesterSession(), ResponderSession(FEATURES)
    answer.receive(body(ask.request("reset_model")))
    frame = answer.result(3, infer_seconds=0.25, queue_seconds=0.5)
    policy = {
        "name": "dxvla",
        "methods": ["get_action", "reset_model"],
        "attributes": ["observation_window"],
        "max_batch": 1,
    }
    assert message(frame) == {
        "res": 3,
        "id": 1,
        "wire": ["binary", "json"],
        "kind": "ok",
        "timing": {"queue": 0.5, "infer": 0.25},
        "policy": policy,
    }
    reply = ask.receive(body(frame))
    assert reply.value == 3
    assert reply.timing == {"queue": 0.5, "infer": 0.25}
    assert ask.features == FEATURES
    answer.receive(body(ask.request("get_action")))
    assert "policy" not in message(answer.result(4))


def test_error_replies_are_upgraded_too_and_can_be_the_first() -> None:
    ask, answer = RequesterSession(), ResponderSession(FEATURES)
    answer.receive(body(ask.request("reset_model")))
    frame = answer.error("boom", "Traceback: boom", "policy_error")
    assert set(message(frame)) == {"error", "traceback", "id", "wire", "kind", "policy"}
    with pytest.raises(PolicyError, match="boom") as caught:
        ask.receive(body(frame))
    assert (caught.value.kind, caught.value.remote_traceback) == ("policy_error", "Traceback: boom")
    assert ask.peer is Peer.OURS
    assert ask.features == FEATURES
    ask.request("get_action")  # the session goes on


def test_features_may_be_replaced_until_they_are_told() -> None:
    ask, answer = RequesterSession(), ResponderSession(FEATURES)
    answer.receive(body(ask.request("reset_model")))
    answer.features = Features("other")
    ask.receive(body(answer.result(None)))
    assert ask.features == Features("other")


def test_a_value_that_cannot_be_sent_can_still_be_answered_with_an_error() -> None:
    ask, answer = upgraded()
    answer.receive(body(ask.request("get_action")))
    with pytest.raises(EncodeError, match=r"^res\.actions\[1\]: object dtype"):
        answer.result({"actions": [0, np.array([None])]})
    with pytest.raises(PolicyError, match="cannot"):
        ask.receive(body(answer.error("cannot be sent", None, Kind.CANNOT_SEND)))
    assert answer.state is State.OURS_IDLE


# ---------------------------------------------------------------- rule 4: recognising a stock peer
def test_no_id_in_the_first_reply_means_stock_and_from_then_on_exactly_cmd_and_obs() -> None:
    ask = with_stock_model()
    assert message(ask.request("get_action")) == {"cmd": "get_action", "obs": None}
    ask.receive(b'{"res": [1]}')
    assert body(ask.request("reset_model", episode={"id": "x"})) == b'{"cmd": "reset_model", "obs": null}'


def test_wire_stock_does_so_from_the_start_and_ignores_an_id() -> None:
    ask = RequesterSession("stock")
    assert ask.peer is Peer.STOCK
    assert message(ask.request("get_action")) == {"cmd": "get_action", "obs": None}
    assert ask.receive(b'{"res": 1, "id": 1, "kind": "ok"}').value == 1
    assert ask.peer is Peer.STOCK


@pytest.mark.parametrize(
    ("args", "obs"),
    [
        ((), None),
        ((5,), 5),
        (([1, 2],), [1, 2]),
        (({"a": 1},), {"a": 1}),
        ((1, "b"), {"_args": [1, "b"]}),
        ((None,), {"_args": [None]}),
        (({"_args": [1]},), {"_args": [{"_args": [1]}]}),
    ],
)
def test_arguments_in_the_stock_shape_are_what_a_stock_server_calls_with(args: tuple[Any, ...], obs: Any) -> None:
    ask = with_stock_model()
    frame = ask.request("m", args)
    assert message(frame) == {"cmd": "m", "obs": obs}
    assert ResponderSession(FEATURES).receive(body(frame)).args == args


def test_keyword_arguments_do_not_reach_a_stock_peer() -> None:
    ask = with_stock_model()
    with pytest.raises(EncodeError, match="keyword arguments"):
        ask.request("m", (), {"a": 1})
    assert ask.state is State.STOCK_IDLE


def test_a_dict_like_an_array_is_refused_towards_stock_and_survives_towards_ours() -> None:
    value = {"__numpy_array__": "mine"}
    with pytest.raises(EncodeError, match=r"^obs: "):
        with_stock_model().request("m", (value,))
    ask, answer = upgraded()
    assert answer.receive(body(ask.request("m", (value,)))).args == (value,)
    assert ask.receive(body(answer.result(value))).value == value
    stock = ResponderSession(FEATURES)
    stock.receive(b'{"cmd": "m"}')
    with pytest.raises(EncodeError, match=r"^res: "):
        stock.result(value)


# ---------------------------------------------------------------- rule 5: what only an upgraded peer understands
def test_upgraded_requests_carry_args_kwargs_and_the_episode() -> None:
    ask, answer = upgraded()
    info = {"id": "cell/40001#1", "task": "put_cup_in_box", "seed": 40001}
    request = answer.receive(body(ask.request("reset_model", episode=info)))
    assert (request.episode_id, request.episode) == ("cell/40001#1", info)
    ask.receive(body(answer.result(None)))
    frame = ask.request("update_obs", (None, {"_args": 1}), {"flag": True})
    assert message(frame) == {
        "cmd": "update_obs",
        "id": 3,
        "accept": ["binary", "json", "wait"],
        "args": [None, {"_args": 1}],
        "kwargs": {"flag": True},
        "episode_id": "cell/40001#1",
    }
    request = answer.receive(body(frame))
    assert (request.args, request.kwargs) == ((None, {"_args": 1}), {"flag": True})
    assert (request.id, request.accept, request.episode) == (3, frozenset({"binary", "json", "wait"}), None)


def test_an_episode_belongs_to_reset_model() -> None:
    ask, _ = upgraded()
    with pytest.raises(LocalProtocolError, match="begins with reset_model"):
        ask.request("get_action", episode={"id": "x"})


@pytest.mark.parametrize("session", [RequesterSession, lambda: RequesterSession("stock"), with_stock_model])
def test_attribute_reads_and_goodbye_wait_for_the_upgrade(session: Any) -> None:
    ask = session()
    with pytest.raises(LocalProtocolError):
        ask.get("observation_window")
    with pytest.raises(LocalProtocolError):
        ask.bye()
    with pytest.raises(LocalProtocolError, match="method of its own"):
        ask.request("__get__", ("observation_window",))


def test_attribute_reads() -> None:
    ask, answer = upgraded()
    frame = ask.get("env_runner.obs", length=True)
    sent = message(frame)
    assert (sent["cmd"], sent["args"], sent["kwargs"]) == ("__get__", ["env_runner.obs"], {"length": True})
    request = answer.receive(body(frame))
    assert (request.cmd, request.args, request.kwargs) == ("__get__", ("env_runner.obs",), {"length": True})


# ---------------------------------------------------------------- rule 7: ids
@pytest.mark.parametrize("number", [0, 1, 3, -1, 2.0, "2", None, True, 10**30])
def test_a_reply_with_another_id_is_a_violation(number: Any) -> None:
    ask, _ = upgraded()
    ask.request("get_action")
    with pytest.raises(ProtocolError, match="carries the id"):
        ask.receive(json.dumps({"res": 1, "id": number, "kind": "ok"}).encode())
    assert ask.state is State.BROKEN


def test_a_repeated_reply_is_a_violation() -> None:
    ask, answer = upgraded()
    answer.receive(body(ask.request("get_action")))
    reply = body(answer.result(1))
    ask.receive(reply)
    with pytest.raises(ProtocolError, match="reply to no request"):
        ask.receive(reply)


def test_a_late_reply_is_never_taken_for_the_next_one() -> None:
    ask, answer = upgraded()
    answer.receive(body(ask.request("get_action")))
    reply = body(answer.result(1))
    ask.receive(reply)
    ask.request("get_action")
    with pytest.raises(ProtocolError, match=r"request 3 \(get_action\) carries the id 2"):
        ask.receive(reply)


def test_an_upgraded_peer_may_not_fall_back_to_stock_replies() -> None:
    ask, _ = upgraded()
    ask.request("get_action")
    with pytest.raises(ProtocolError, match="reply without id"):
        ask.receive(b'{"res": 1}')


@pytest.mark.parametrize("number", [0, 1, 3, -1])
def test_a_request_with_an_old_repeated_or_unknown_id_is_a_violation(number: int) -> None:
    _, answer = upgraded()
    with pytest.raises(ProtocolError, match=f"carries the id {number}, not 2"):
        answer.receive(json.dumps({"cmd": "m", "id": number, "accept": ["json"], "args": []}).encode())
    assert answer.state is State.BROKEN


def test_a_simulator_may_not_change_its_kind() -> None:
    _, answer = upgraded()
    with pytest.raises(ProtocolError):
        answer.receive(b'{"cmd": "m", "obs": null}')
    answer = ResponderSession(FEATURES)
    answer.receive(b'{"cmd": "reset_model"}')
    answer.result(None)
    with pytest.raises(ProtocolError):
        answer.receive(b'{"cmd": "reset_model", "id": 1, "accept": ["json"]}')


def test_an_upgraded_simulator_begins_with_reset_model() -> None:
    with pytest.raises(ProtocolError, match="call request came in state FRESH"):
        ResponderSession(FEATURES).receive(b'{"cmd": "m", "id": 1, "accept": ["json"]}')


# ---------------------------------------------------------------- rule 9: endings
def test_goodbye() -> None:
    ask, answer = upgraded()
    request = answer.receive(body(ask.bye()))
    assert request.cmd == "__bye__"
    farewell = body(answer.result(None))
    assert json.loads(farewell)["kind"] == "bye"
    ask.receive(farewell)
    assert ask.state is answer.state is State.DONE
    assert ask.ending is answer.ending is Ending.BYE
    assert ask.received_eof() is answer.received_eof() is Ending.BYE
    with pytest.raises(LocalProtocolError):
        ask.request("reset_model")


@pytest.mark.parametrize("fails", [False, True])
def test_goodbye_may_overtake_a_reply_that_is_owed(fails: bool) -> None:
    ask, answer = upgraded()
    call, bye = body(ask.request("get_action")), body(ask.bye())
    answer.receive(call)
    reply = body(answer.error("too late") if fails else answer.result([1]))
    answer.receive(bye)
    farewell = body(answer.result(None))
    if fails:
        with pytest.raises(PolicyError):
            ask.receive(reply)
    else:
        assert ask.receive(reply).value == [1]
    assert ask.ending is None
    ask.receive(farewell)
    assert ask.ending is Ending.BYE
    assert answer.ending is Ending.BYE


def test_how_a_connection_ended_seen_from_the_model() -> None:
    assert ResponderSession(FEATURES).received_eof() is Ending.SILENT
    stock = ResponderSession(FEATURES)
    stock.receive(b'{"cmd": "m"}')
    stock.result(None)
    assert stock.received_eof() is Ending.STOCK_EOF
    owing = ResponderSession(FEATURES)
    owing.receive(b'{"cmd": "m"}')
    assert owing.received_eof() is Ending.LOST
    _, ours = upgraded()
    assert ours.received_eof() is Ending.LOST
    broken = ResponderSession(FEATURES)
    with pytest.raises(ProtocolError):
        broken.receive(b"garbage")
    assert broken.received_eof() is Ending.LOST


def test_how_a_connection_ended_seen_from_the_simulator() -> None:
    assert RequesterSession().received_eof() is Ending.SILENT
    probing = RequesterSession()
    probing.request("reset_model")
    assert probing.received_eof() is Ending.SILENT
    ask, _ = upgraded()
    ask.request("get_action")
    assert ask.received_eof() is Ending.LOST
    assert with_stock_model().received_eof() is Ending.LOST


# ---------------------------------------------------------------- violations by the peer
@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"[]",
        b"null",
        b"3",
        b"{}",
        b'{"res": 1, "error": "x"}',
        b'{"res": 1, "id": 1, "kind": 3, "policy": {"name": "p", "methods": [], "attributes": []}}',
        b'{"res": 1, "id": 1}',
        b'{"res": 1, "id": 1, "policy": {"name": 3, "methods": [], "attributes": []}}',
        b'{"res": 1, "id": 1, "policy": {"name": "p", "methods": [1], "attributes": []}}',
        b'{"res": 1, "id": 1, "timing": 3, "policy": {"name": "p", "methods": [], "attributes": []}}',
        b'{"res": 1, "id": 1, "timing": {"infer": 1%s}, "policy": {"name": "p", "methods": [], "attributes": []}}'
        % (b"0" * 400),
        b"\xff\x00\x00\x00",
        b"HTTP/1.1 400 Bad Request",
        b'{"error": "x", "id": 1, "kind": "protocol_error", "policy": {"name": "", "methods": [], "attributes": []}}',
    ],
)
def test_a_reply_that_is_none_breaks_the_session_for_good(reply: bytes) -> None:
    ask = RequesterSession()
    ask.request("reset_model")
    with pytest.raises(ProtocolError):
        ask.receive(reply)
    assert ask.state is State.BROKEN
    with pytest.raises(ProtocolError):
        ask.receive(b'{"res": 1}')
    with pytest.raises(LocalProtocolError):
        ask.request("reset_model")


@pytest.mark.parametrize(
    "request_body",
    [
        b"[]",
        b"{}",
        b'{"cmd": 3}',
        b'{"cmd": null}',
        b'{"cmd": "reset_model", "id": "1", "accept": ["json"]}',
        b'{"cmd": "reset_model", "id": 1}',
        b'{"cmd": "reset_model", "id": 1, "accept": "json"}',
        b'{"cmd": "reset_model", "id": 1, "accept": ["json"], "args": 3}',
        b'{"cmd": "reset_model", "id": 1, "accept": ["json"], "args": [], "kwargs": []}',
        b'{"cmd": "reset_model", "id": 1, "accept": ["json"], "args": [], "episode_id": 3}',
        b'{"cmd": "reset_model", "id": 1, "accept": ["json"], "args": [], "episode": 3}',
        b"\xffbinary",
    ],
)
def test_a_request_that_is_none_breaks_the_session_and_can_be_reported(request_body: bytes) -> None:
    answer = ResponderSession(FEATURES)
    with pytest.raises(ProtocolError) as caught:
        answer.receive(request_body)
    last = message(answer.protocol_error(str(caught.value)))
    assert last == {"error": str(caught.value), "traceback": ""}
    with pytest.raises(ProtocolError):
        answer.receive(b'{"cmd": "m"}')
    with pytest.raises(LocalProtocolError):
        answer.result(1)


def test_the_last_words_to_an_upgraded_peer_tell_it_whose_fault_it_was() -> None:
    ask, answer = upgraded()
    ask.request("get_action")
    with pytest.raises(ProtocolError):
        answer.receive(b'{"cmd": "m", "id": 2, "accept": ["json"], "args": 1}')
    with pytest.raises(LocalProtocolError, match="no violation"):
        upgraded()[1].protocol_error("x")
    last = message(answer.protocol_error("args"))
    assert last["kind"] == "protocol_error"


def test_two_requests_without_a_reply_between_them_are_a_violation() -> None:
    answer = ResponderSession(FEATURES)
    answer.receive(b'{"cmd": "m"}')
    with pytest.raises(ProtocolError, match="stock request came in state STOCK_BUSY"):
        answer.receive(b'{"cmd": "m"}')


def test_our_own_mistakes_are_refused_and_change_nothing() -> None:
    ask, answer = upgraded()
    with pytest.raises(LocalProtocolError):
        answer.result(1)
    ask.request("get_action")
    with pytest.raises(LocalProtocolError, match="not allowed in state OURS_BUSY"):
        ask.request("get_action")
    assert ask.state is State.OURS_BUSY


@pytest.mark.parametrize("session", [lambda: upgraded()[0], with_stock_model, RequesterSession])
def test_a_failed_encoding_changes_nothing(session: Any) -> None:
    ask = session()
    before = ask.state
    with pytest.raises(EncodeError, match=r"(obs|args)"):
        ask.request("reset_model", ({1, 2},))
    assert ask.state is before
    number = message(ask.request("reset_model")).get("id")
    assert number in (None, 1, 2)


def test_frames_above_the_maximum_are_refused_at_the_sender() -> None:
    ask = RequesterSession(max_frame=100)
    with pytest.raises(EncodeError, match="above the maximum"):
        ask.request("reset_model", ("x" * 100,))


def test_whatever_the_peer_sent_is_quoted_in_one_short_line() -> None:
    for value in (np.eye(3), "x" * 1000, "two\nlines", [1] * 1000, -(10**5000)):
        assert "\n" not in clip(value)
        assert 0 < len(clip(value)) <= 80
    assert clip("x" * 300) == f"'{'x' * 75}...'"
    assert clip("it does not know that", 12) == "'it does...'"


def test_a_text_of_megabytes_is_shortened_at_both_ends() -> None:
    """Policies raise errors that hold whole arrays; the last lines of a traceback are the ones to read."""
    ask, answer = upgraded()
    answer.receive(body(ask.request("get_action")))
    huge = "begins " + "x" * (3 << 20) + " ends"
    frame = answer.error(huge, huge)
    assert sum(map(len, frame)) < 40_000
    with pytest.raises(PolicyError) as ours:
        ask.receive(body(frame))
    stock = with_stock_model()
    stock.request("get_action")
    with pytest.raises(PolicyError) as theirs:
        stock.receive(json.dumps({"error": huge, "traceback": huge}).encode())
    for error in (ours.value, theirs.value):
        for text in (str(error), error.remote_traceback or ""):
            assert len(text) < 17_000
            assert text.startswith("begins x")
            assert text.endswith("x ends")
            assert "characters left out" in text
