"""The simulator at the mercy of its model: what each misbehaviour is called, and what becomes of the episode.

Whatever happens, nothing but an answer to the request under way is ever taken for an action, and an attempt that was
disturbed is invalid and run again from its seed.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bytes_helpers import (
    ACTION,
    DEATHS,
    FORMATS,
    STALE,
    STRANGERS,
    Fault,
    FaultyModel,
    framed,
    silent,
)
from sim_fakes import ChainSupply, Rig

from framing.errors import DeadlineExceeded, PeerGone, ProtocolError
from robopro_eval.records import read_jsonl
from sim_endpoint.controllers import PolicyController
from sim_endpoint.model_source import EpisodeInfo

INFO = EpisodeInfo("cell/30001#1", "t", 30001)


def begun(model: FaultyModel) -> FaultyModel:
    model.source.handshake()
    model.source.begin_episode(INFO)
    return model


def reply_length(form: str) -> int:
    seen: list[int] = []
    silence = {"get_action": lambda model, reply: seen.append(len(reply))}
    with FaultyModel(form, silence, seconds=0.01) as model, pytest.raises(DeadlineExceeded):
        begun(model).source.call("get_action")
    return seen[0]


# ---------------------------------------------------------------- dying
@pytest.mark.parametrize("how", DEATHS)
@pytest.mark.parametrize("form", FORMATS)
def test_the_model_dies_at_every_byte_of_its_reply(form: str, how: str) -> None:
    length = reply_length(form)
    assert length > 100
    for sent in range(length):

        def die(model: FaultyModel, reply: bytes, sent: int = sent) -> None:
            model.there.sendall(reply[:sent])
            DEATHS[how](model.there)

        with FaultyModel(form, {"get_action": die}) as model:
            source = begun(model).source
            with pytest.raises(PeerGone) as caught:
                source.call("get_action")
            assert caught.value.mid_frame is (sent > 0), sent
            assert source.fault is caught.value
            with pytest.raises(PeerGone):
                source.call("get_action")
            assert model.channel.closed


@pytest.mark.parametrize("how", DEATHS)
@pytest.mark.parametrize("form", FORMATS)
def test_a_whole_reply_before_the_death_counts_and_the_next_call_finds_it_out(form: str, how: str) -> None:
    def answer_and_die(model: FaultyModel, reply: bytes) -> None:
        model.there.sendall(reply)
        DEATHS[how](model.there)

    with FaultyModel(form, {"get_action": answer_and_die}) as model:
        source = begun(model).source
        np.testing.assert_array_equal(source.call("get_action"), ACTION)
        assert source.fault is None
        with pytest.raises(PeerGone) as caught:
            source.call("get_action")
        assert not caught.value.mid_frame


@pytest.mark.parametrize("form", FORMATS)
def test_a_reply_byte_by_byte_is_a_reply(form: str) -> None:
    def dribble(model: FaultyModel, reply: bytes) -> None:
        for at in range(len(reply)):
            model.there.sendall(reply[at : at + 1])

    with FaultyModel(form, {"get_action": dribble, "reset_model": dribble}) as model:
        source = begun(model).source
        for _ in range(2):
            np.testing.assert_array_equal(source.call("get_action"), ACTION)


# ---------------------------------------------------------------- being late
@pytest.mark.parametrize("form", FORMATS)
def test_a_model_that_accepts_and_never_answers_is_named_at_the_deadline(form: str) -> None:
    with FaultyModel(form, {"reset_model": silent}, seconds=0.02) as model:
        with pytest.raises(DeadlineExceeded, match=r"no reply from the peer at 127\.0\.0\.1:\d+ within 0\.02 s"):
            model.source.handshake()
        assert model.channel.closed


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("sent", ["nothing", "half"])
def test_a_reply_after_the_deadline_reaches_nobody(form: str, sent: str) -> None:
    kept: list[bytes] = []

    def too_slow(model: FaultyModel, reply: bytes) -> None:
        half = len(reply) // 2 if sent == "half" else 0
        model.there.sendall(reply[:half])
        kept.append(reply[half:])

    with FaultyModel(form, {"get_action": too_slow}, seconds=0.02) as model:
        source = begun(model).source
        with pytest.raises(DeadlineExceeded):
            source.call("get_action")
        model.there.sendall(kept[0])
        with pytest.raises(DeadlineExceeded):
            source.call("get_action")
        assert model.asked.count("get_action") == 1, "a poisoned connection is asked nothing more"


# ---------------------------------------------------------------- breaking the wire
def instead(make: Callable[[bytes], bytes]) -> Fault:
    """Another frame in the place of the reply."""

    def fault(model: FaultyModel, reply: bytes) -> None:
        model.there.sendall(make(reply))

    return fault


def id_in(reply: bytes) -> re.Match[bytes]:
    found = re.search(rb'"id": (\d+)', reply)
    assert found is not None
    return found


def under_id(number: object) -> Fault:
    def change(reply: bytes) -> bytes:
        # The head of a binary body may not change its length, so that its padding stays what it is.
        written = json.dumps(number).encode()
        found = id_in(reply)
        changed = reply[: found.start(1)] + written + reply[found.end(1) :]
        return changed if len(changed) == len(reply) else framed(json.dumps({"res": 1, "id": number}).encode())

    return instead(change)


BAD_IDS: dict[str, object] = {"old": 2, "repeated": 1, "of the future": 4, "text": "3", "fraction": 3.0, "true": True}


@pytest.mark.parametrize("form", ["json", "binary"])
@pytest.mark.parametrize("number", BAD_IDS.values(), ids=BAD_IDS)
def test_a_reply_under_another_id_is_no_reply(form: str, number: object) -> None:
    with FaultyModel(form, {"get_action": under_id(number)}) as model:
        source = begun(model).source
        with pytest.raises(ProtocolError, match=r"the reply to request 3 \(get_action\) carries the id"):
            source.call("get_action")
        assert model.channel.closed


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("together", [True, False], ids=["in one packet", "one after the other"])
def test_two_replies_for_one_request_never_become_two_actions(form: str, together: bool) -> None:
    def twice(model: FaultyModel, reply: bytes) -> None:
        model.there.sendall(reply + reply if together else reply)
        if not together:
            model.there.sendall(reply)

    with FaultyModel(form, {"get_action": twice}) as model:
        source = begun(model).source
        np.testing.assert_array_equal(source.call("get_action"), ACTION)
        with pytest.raises(ProtocolError):
            source.call("get_action")
        assert model.channel.closed


@pytest.mark.parametrize("stranger", STRANGERS)
@pytest.mark.parametrize("form", FORMATS)
def test_what_is_no_reply_is_a_violation_at_any_time(form: str, stranger: str) -> None:
    say = instead(lambda _: STRANGERS[stranger])
    with FaultyModel(form, {"reset_model": say}) as model, pytest.raises(ProtocolError):
        model.source.handshake()
    with FaultyModel(form, {"get_action": say}) as model:
        source = begun(model).source
        with pytest.raises(ProtocolError) as caught:
            source.call("get_action")
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 300
        assert model.channel.closed


# ---------------------------------------------------------------- waiting for ever
def notices(count: int, places: Iterator[int] | None = None) -> Fault:
    def say(model: FaultyModel, reply: bytes) -> None:
        number = int(id_in(reply)[1])
        for _ in range(count):
            place = 5 if places is None else next(places)
            notice = {"wait": {"place": place, "of": 9}, "id": number, "wire": ["json"], "kind": "wait"}
            model.there.sendall(framed(json.dumps(notice).encode()))

    return say


def test_endless_wait_notices_are_never_a_reply_and_do_not_fill_the_screen() -> None:
    """Each restarts the deadline, as a place in a line may; when they end, so does the patience."""
    with FaultyModel("binary", {"reset_model": notices(300)}, seconds=0.05) as model:
        lines: list[str] = []
        model.source._line._show = lines.append
        with pytest.raises(DeadlineExceeded):
            model.source.handshake()
        assert len(lines) == 1
        assert model.source.features is None


def test_a_line_that_moves_to_and_fro_does_not_fill_the_screen() -> None:
    places = iter([2, 1] * 150)
    with FaultyModel("binary", {"reset_model": notices(300, places)}, seconds=0.05) as model:
        lines: list[str] = []
        model.source._line._show = lines.append
        with pytest.raises(DeadlineExceeded):
            model.source.handshake()
        assert len(lines) == 2


# ---------------------------------------------------------------- what becomes of the episode
def dying(how: str, share: float) -> Fault:
    def fault(model: FaultyModel, reply: bytes) -> None:
        model.there.sendall(reply[: int(share * len(reply))])
        DEATHS[how](model.there)

    return fault


def second_reply(model: FaultyModel, reply: bytes) -> None:
    model.there.sendall(reply + reply.replace(ACTION.tobytes(), STALE.tobytes()))


EPISODE_FAULTS: dict[str, tuple[Fault, str]] = {
    "closed": (dying("closed", 0), "peer_gone"),
    "closed in a reply": (dying("closed", 0.5), "peer_gone"),
    "reset in a reply": (dying("reset", 0.5), "peer_gone"),
    "silent": (silent, "deadline"),
    "half a reply": (instead(lambda reply: reply[: len(reply) // 2]), "deadline"),
    "another id": (under_id(2), "protocol"),
    "two replies": (second_reply, "protocol"),
    "garbage": (instead(lambda _: framed(b"\x80 no text")), "protocol"),
    "HTTP": (instead(lambda _: STRANGERS["HTTP answer"]), "protocol"),
    "4 GiB": (instead(lambda _: STRANGERS["4 GiB"]), "protocol"),
    "wait notices": (notices(50), "deadline"),
    "a broken wire": (instead(lambda _: framed(b'{"error": "?", "id": 9, "kind": "protocol_error"}')), "protocol"),
}


@pytest.mark.parametrize("form", ["json", "binary"])
@pytest.mark.parametrize("fault", EPISODE_FAULTS)
def test_a_disturbed_attempt_is_invalid_and_the_seed_is_run_again_with_the_next_model(
    tmp_path: Path, fault: str, form: str
) -> None:
    misbehave, kind = EPISODE_FAULTS[fault]
    actions: list[np.ndarray] = []

    def evaluate(env: Any, model: Any, observation: Any) -> None:
        actions.append(model.get_action(observation["vector"]))
        env.take_action(actions[-1])

    with (
        FaultyModel(form, {"get_action": misbehave}, after=1, seconds=0.1) as bad,
        FaultyModel(form) as good,
    ):

        def controllers() -> Iterator[PolicyController]:
            for model in (bad, good):
                model.source.handshake()
                yield PolicyController("toy", model.source, evaluate, {})

        rig = Rig(tmp_path)
        assert rig.play([30001], ChainSupply(controllers())) is None
        attempts = [(line["outcome"], line["error"]) for line in read_jsonl(rig.results.path / "_attempts.jsonl")]
        assert attempts == [("invalid", kind), ("scored", None)]
        assert [(record.seed, record.success) for record in rig.results.scored] == [(30001, True)]
        assert bad.channel.closed
        assert good.asked == ["reset_model", "reset_model", *["get_action"] * 3]
    undisturbed = 2 if fault == "two replies" else 1  # the first of the two is the reply
    assert len(actions) == undisturbed + 3
    for action in actions:
        np.testing.assert_array_equal(action, ACTION)


def test_a_goodbye_takes_no_longer_for_a_model_that_never_stops_talking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C has to end the program, also while notices come faster than they are read."""
    monkeypatch.setattr("sim_endpoint.remote_model.FAREWELL_SECONDS", 0.1)
    with FaultyModel("binary", {"__bye__": notices_without_end}) as model:
        begun(model).source.close(goodbye=True)
        assert model.channel.closed


def notices_without_end(model: FaultyModel, reply: bytes) -> None:
    notice = {"wait": {"place": 1, "of": 1}, "id": int(id_in(reply)[1]), "wire": ["json"], "kind": "wait"}
    flood = framed(json.dumps(notice).encode()) * 1000

    def talk() -> None:
        with contextlib.suppress(OSError):
            while True:
                model.there.sendall(flood)

    threading.Thread(target=talk, daemon=True).start()
