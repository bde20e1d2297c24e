"""How long the simulator waits: which deadline holds for which call, and what a wait notice changes."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import pytest
from sim_fakes import ScriptedModel, body_of

from framing.errors import DeadlineExceeded, PolicyError, ProtocolError
from framing.session import RequesterSession
from robopro_eval.console.errors import UsageError
from robopro_eval.settings.program import parse_program
from sim_endpoint.cli import main
from sim_endpoint.model_source import EpisodeInfo
from sim_endpoint.remote_model import RemoteModel
from sim_endpoint.settings import Patience, SimSettings


@pytest.fixture
def lines() -> list[str]:
    return []


def ready(model: ScriptedModel, lines: list[str]) -> RemoteModel:
    source = RemoteModel(
        model, RequesterSession(), patience=Patience(600.0, 5.0), peer="node-b:29761", on_wait=lines.append
    )
    source.handshake()
    return source


def test_the_first_call_of_each_method_may_load_and_compile(lines: list[str]) -> None:
    model = ScriptedModel({"get_action": 1})
    source = ready(model, lines)
    source.begin_episode(EpisodeInfo("c/1#1", "t", 1))
    for name in ("get_action", "get_action", "set_language", "get_action"):
        source.call(name)
    assert model.deadlines == [
        ("reset_model", 600.0),
        ("reset_model", 5.0),
        ("get_action", 600.0),
        ("get_action", 5.0),
        ("set_language", 600.0),
        ("get_action", 5.0),
    ]


def test_a_wait_notice_restarts_the_clock_and_is_shown_when_it_changes(lines: list[str]) -> None:
    model = ScriptedModel()
    model.places = [(3, 3), (3, 3), (2, 2), (2, 2), (1, 1)]
    ready(model, lines)
    assert model.deadlines == [("reset_model", 600.0)] * 6
    assert lines == [f"⏳ node-b:29761 is busy; waiting in line: place {place} of {place}" for place in (3, 2, 1)]


def test_an_unchanged_place_is_repeated_now_and_then(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim_endpoint.remote_model.STATUS_EVERY", 0.0)
    model = ScriptedModel()
    model.places = [(2, 4), (2, 4)]
    ready(model, lines)
    assert len(lines) == 2


def test_a_late_reply_is_never_the_next_action(lines: list[str]) -> None:
    """The link is closed at the deadline. That the reply comes after all changes nothing for whoever asks again."""
    model = ScriptedModel({"get_action": np.ones(14)})
    source = ready(model, lines)
    source.begin_episode(EpisodeInfo("c/1#1", "t", 1))
    model.answers["get_action"] = DeadlineExceeded
    with pytest.raises(DeadlineExceeded, match=r"\(--first_reply_timeout\)"):
        source.call("get_action")
    assert model.closed
    model.inbox.append(body_of(model.session.result(np.zeros(14))))
    for _ in range(2):
        with pytest.raises(DeadlineExceeded):
            source.call("get_action")
    assert len(model.inbox) == 1, "nobody read it"
    assert isinstance(source.fault, DeadlineExceeded)


def test_a_model_that_knows_another_episode_is_left(lines: list[str]) -> None:
    model = ScriptedModel({"get_action": PolicyError("belongs to episode 'c/1#1'", kind="stale_episode")})
    source = ready(model, lines)
    source.begin_episode(EpisodeInfo("c/1#2", "t", 1))
    with pytest.raises(ProtocolError, match="refused the request"):
        source.call("get_action")
    assert isinstance(source.fault, ProtocolError), "the attempt is invalid; it is no failure of the policy"
    assert model.closed


# ---------------------------------------------------------------- the settings
def patience(argv: Sequence[str] = (), **environ: str) -> Patience:
    return parse_program(SimSettings, list(argv), environ, prog="eval-sim")[0].patience


@pytest.mark.parametrize(
    ("argv", "environ", "expected"),
    [
        ([], {}, (600.0, 600.0)),
        ([], {"SIM_SERVER_RECV_TIMEOUT": "30"}, (30.0, 30.0)),
        ([], {"SIM_SERVER_RECV_TIMEOUT": "0"}, (None, None)),
        ([], {"SIM_SERVER_RECV_TIMEOUT": ""}, (None, None)),
        (["--reply-timeout", "5"], {}, (600.0, 5.0)),
        (["--first_reply_timeout", "5"], {"SIM_SERVER_RECV_TIMEOUT": "0"}, (5.0, None)),
        (["--first-reply-timeout", "0", "--reply-timeout=0.5"], {"SIM_SERVER_RECV_TIMEOUT": "30"}, (None, 0.5)),
    ],
)
def test_the_seeds_variable_sets_what_is_not_given(
    argv: list[str], environ: dict[str, str], expected: tuple[float | None, float | None]
) -> None:
    assert patience(argv, **environ) == expected


@pytest.mark.parametrize("name", ["connect-timeout", "first-reply-timeout", "reply-timeout", "sim-hang-timeout"])
@pytest.mark.parametrize("value", ["-1", "nan", "inf", "soon"])
def test_a_time_that_is_none_is_refused_before_anything_is_dialed(
    name: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([f"--{name}", value, "--runs_root", os.devnull]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    sentences = [line for line in captured.err.splitlines() if line.startswith("error: ")]
    assert len(sentences) == 1
    assert f"--{name.replace('-', '_')}: '{value}' cannot be used" in sentences[0]


def test_no_attempt_to_connect_takes_no_time() -> None:
    with pytest.raises(UsageError, match="--connect_timeout: '0'"):
        parse_program(SimSettings, ["--connect-timeout", "0"], {}, prog="eval-sim")
