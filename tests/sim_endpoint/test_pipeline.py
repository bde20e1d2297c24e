"""Back-to-back requests: what returns nothing is not waited for, and nothing else changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sim_fakes import ChainSupply, Rig, ScriptedModel

from framing.errors import DeadlineExceeded, PolicyError, ProtocolError
from framing.session import RequesterSession, WireChoice
from robopro_eval.records import EpisodeRecord, deterministic, read_jsonl
from robopro_eval.settings.program import parse_program
from sim_endpoint.controllers import PolicyController
from sim_endpoint.model_source import EpisodeInfo
from sim_endpoint.remote_model import RemoteModel
from sim_endpoint.settings import Patience, SimSettings

UPDATE = "update_observation_window"
LARGE = [np.zeros((240, 320, 3), np.uint8)]


def connect(model: ScriptedModel, *, pipeline: bool = True, wire: WireChoice = "auto") -> RemoteModel:
    source = RemoteModel(
        model, RequesterSession(wire), patience=Patience(600.0, 5.0), peer="node-b:29761", pipeline=pipeline
    )
    source.handshake()
    source.begin_episode(EpisodeInfo("c/1#1", "t", 1))
    return source


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel({"get_action": 7})


def warm(model: ScriptedModel, **choices: Any) -> RemoteModel:
    """Connected, and the update has once been waited for."""
    source = connect(model, **choices)
    source.call(UPDATE, [LARGE])
    assert model.inbox == []
    model.deadlines.clear()
    return source


def test_the_next_request_is_sent_before_the_reply_is_read(model: ScriptedModel) -> None:
    source = warm(model)
    assert source.call(UPDATE, [LARGE]) is None
    assert len(model.inbox) == 1, "its reply is there and nobody waited for it"
    assert source.call("get_action") == 7
    assert model.inbox == []
    assert model.deadlines == [("get_action", 5.0), ("get_action", 600.0)], "each reply has its own deadline"
    assert model.calls[-2:] == [UPDATE, "get_action"]


@pytest.mark.parametrize("choices", [{"pipeline": False}, {"wire": "stock"}])
def test_what_is_waited_for(model: ScriptedModel, choices: dict[str, Any]) -> None:
    source = warm(model, **choices)
    source.call(UPDATE, [LARGE])
    assert model.inbox == []


def test_only_methods_that_are_known_to_return_nothing(model: ScriptedModel) -> None:
    source = warm(model)
    model.answers["update_obs"] = "a count"
    for name in ("update_obs", "update_obs", "forget", "forget"):
        source.call(name)
        assert model.inbox == [], f"{name} is waited for"


def test_a_large_request_follows_nothing(model: ScriptedModel) -> None:
    source = warm(model)
    source.call(UPDATE, [LARGE])
    source.call("get_action", [LARGE])
    assert model.deadlines == [(UPDATE, 5.0), ("get_action", 600.0)], "the first reply was read before it was sent"


def test_two_that_return_nothing_take_turns(model: ScriptedModel) -> None:
    source = warm(model)
    for _ in range(5):
        source.call(UPDATE, [LARGE])
        assert len(model.inbox) == 1
    source.settle()
    assert model.inbox == []
    source.settle()


@pytest.mark.parametrize("what", ["get", "episode", "settle"])
def test_everything_else_waits_first(model: ScriptedModel, what: str) -> None:
    source = warm(model)
    source.call(UPDATE, [LARGE])
    if what == "get":
        source.get("obs_cache")
    elif what == "episode":
        source.begin_episode(EpisodeInfo("c/2#1", "t", 2))
    else:
        source.settle()
    assert model.inbox == []
    assert model.deadlines[0] == (UPDATE, 5.0)
    assert source.fault is None


def test_goodbye_may_be_said_while_a_reply_is_owed(model: ScriptedModel) -> None:
    source = warm(model)
    source.call(UPDATE, [LARGE])
    source.close(goodbye=True)
    assert model.calls[-2:] == [UPDATE, "__bye__"]
    assert model.inbox == []
    assert model.closed


def test_the_first_failure_is_told_and_the_second_call_is_not_made(model: ScriptedModel) -> None:
    source = warm(model)
    model.answers[UPDATE] = PolicyError("x.update_observation_window() failed: KeyError: 'head'")
    assert source.call(UPDATE, [LARGE]) is None
    with pytest.raises(PolicyError, match=r"update_observation_window\(\) failed"):
        source.call("get_action")
    assert model.calls[-1] == UPDATE, "get_action was skipped"
    assert source.fault is None
    assert source.call("get_action") == 7


def test_a_failure_that_an_episode_left_behind_is_not_the_next_ones(model: ScriptedModel) -> None:
    source = warm(model)
    model.answers[UPDATE] = PolicyError("too late for its episode")
    source.call(UPDATE, [LARGE])
    source.begin_episode(EpisodeInfo("c/2#1", "t", 2))
    assert source.call("get_action") == 7


def test_something_where_there_was_nothing_ends_the_connection(model: ScriptedModel) -> None:
    """eval() was given None already: the attempt says nothing about the policy."""
    source = warm(model)
    model.answers[UPDATE] = "the window is full"
    assert source.call(UPDATE, [LARGE]) is None
    with pytest.raises(ProtocolError, match=r"update_observation_window\(\) returned nothing .*--no-pipeline"):
        source.call("get_action")
    assert isinstance(source.fault, ProtocolError)
    assert model.closed


def test_a_model_that_is_lost_between_two_replies(model: ScriptedModel) -> None:
    source = warm(model)
    model.answers["get_action"] = DeadlineExceeded
    source.call(UPDATE, [LARGE])
    with pytest.raises(DeadlineExceeded, match=r"\(--first_reply_timeout\)"):
        source.call("get_action")
    assert isinstance(source.fault, DeadlineExceeded)
    source.settle()
    with pytest.raises(DeadlineExceeded):
        source.call(UPDATE, [LARGE])


def test_what_cannot_travel_is_refused_as_ever(model: ScriptedModel) -> None:
    source = warm(model)
    source.call(UPDATE, [LARGE])
    with pytest.raises(Exception, match=r"args\[0\]"):
        source.call("get_action", [object()])
    assert source.call("get_action") == 7


def test_the_parts_of_the_time_still_add_up(model: ScriptedModel) -> None:
    source = warm(model)
    for _ in range(3):
        source.call(UPDATE, [LARGE])
        source.call("get_action")
    clock = source.clock
    assert clock.calls == 2 + 6, "the reset, the first update, and three pairs"
    assert clock.wire_seconds is not None
    assert clock.queue_seconds is not None
    assert clock.model_seconds is not None
    parts = clock.encode_seconds + clock.wire_seconds + clock.queue_seconds + clock.model_seconds
    assert parts == pytest.approx(clock.call_seconds)


@pytest.mark.parametrize("when", [2, 3, 4])
def test_an_episode_in_which_an_update_fails_ends_the_same(tmp_path: Path, when: int) -> None:
    """The robot does not move on before what the model was told has gone well, even where eval() asks it nothing."""

    class Failing(ScriptedModel):
        def send(self, buffers: Any, timeout: float | None = None) -> None:
            if self.calls.count(UPDATE) + 1 >= when:
                self.answers[UPDATE] = PolicyError("no window any more")
            super().send(buffers, timeout)

    def evaluate(env: Any, model: Any, observation: Any) -> None:
        for _ in range(2):
            env.take_action(-np.ones(14))
            model.update_observation_window(LARGE)

    records = []
    for pipeline in (False, True):
        rig = Rig(tmp_path / str(pipeline))
        rig.results.path.mkdir()
        source = connect(Failing(), pipeline=pipeline)
        controller = PolicyController("fake", source, evaluate, {})
        assert rig.play([1], ChainSupply(iter([controller]))) is None
        (line,) = read_jsonl(rig.results.path / "_metrics.jsonl")
        records.append(deterministic(EpisodeRecord.model_validate(line)))
    assert records[0] == records[1]
    assert records[0]["steps"] == when
    assert "no window any more" in str(records[0]["reason"])


def test_the_switch() -> None:
    assert parse_program(SimSettings, [], {}, prog="eval-sim")[0].pipeline is True
    assert parse_program(SimSettings, ["--no-pipeline"], {}, prog="eval-sim")[0].pipeline is False
