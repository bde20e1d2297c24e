"""Ctrl-C and sudden death, in the middle of a real run."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from evaluations import Evaluation
from programs import Program, metrics_of, running

PROMPT = 5.0
"""Seconds within which a program that got Ctrl-C has to end."""

MANY = tuple(range(30000, 30006))


@pytest.fixture
def evaluation(tmp_path: Path) -> Evaluation:
    """A simulator that listens and has many episodes before it."""
    return Evaluation(tmp_path, MANY)


def ends_within(program: Program, seconds: float) -> int:
    began = time.monotonic()
    code = program.exit_code(seconds + 10.0)
    assert time.monotonic() - began <= seconds, f"it took {time.monotonic() - began:.1f} s to end"
    return code


def test_ctrl_c_in_the_simulator_says_goodbye_and_a_model_that_dialled_exits_0(evaluation: Evaluation) -> None:
    with running(evaluation.simulator(), evaluation.model()) as (sim, model):
        sim.wait_for("[2/6]")
        sim.ctrl_c()
        assert ends_within(sim, PROMPT) == 130
        assert ends_within(model, PROMPT) == 0
    assert len(evaluation.metrics()) >= 2
    assert "Traceback" not in sim.output
    assert str(metrics_of(evaluation.runs).parent) in sim.output, "it says where the finished episodes are"


def test_ctrl_c_in_the_simulator_leaves_a_listening_model_serving(tmp_path: Path) -> None:
    evaluation = Evaluation(tmp_path, MANY, "model-server")
    with evaluation.model() as model:
        with evaluation.simulator() as sim:
            sim.wait_for("[1/6]")
            sim.ctrl_c()
            assert ends_within(sim, PROMPT) == 130
        assert model.is_running()
        with evaluation.simulator() as again:
            again.wait_for("[1/6]")


def test_ctrl_c_in_the_simulator_while_it_waits_for_a_model(evaluation: Evaluation) -> None:
    with evaluation.simulator() as sim:
        sim.wait_for("waiting for model to connect")
        sim.ctrl_c()
        assert ends_within(sim, PROMPT) == 130
    assert "Traceback" not in sim.output


@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c_in_the_simulator_during_a_long_call_of_the_model(evaluation: Evaluation, presses: int) -> None:
    with running(evaluation.simulator(), evaluation.model(think_seconds=12)) as (sim, model):
        sim.wait_for("🔗 Model connected from (")
        time.sleep(2.0)
        for _ in range(presses):
            sim.ctrl_c()
            time.sleep(0.2)
        assert ends_within(sim, PROMPT) == 130
        if presses == 1:
            # Nobody pressed Ctrl-C there: the model finishes its call, for nobody, and ends well.
            assert model.exit_code() == 0
    assert "Traceback" not in sim.output


@pytest.mark.parametrize("how", ["ctrl-c", "killed"])
def test_without_another_model_the_simulator_saves_and_exits_1(evaluation: Evaluation, how: str) -> None:
    with running(evaluation.simulator("--peer-wait", "1.5"), evaluation.model()) as (sim, model):
        sim.wait_for("[2/6]")
        model.send(signal.SIGKILL if how == "killed" else signal.SIGINT)
        model.exit_code(PROMPT + 10.0)
        assert ends_within(sim, 1.5 + PROMPT) == 1
    assert len(evaluation.metrics()) >= 2
    assert "Traceback" not in sim.output


def test_ctrl_c_in_the_model_ends_it_in_time_even_inside_a_call(evaluation: Evaluation) -> None:
    with running(evaluation.simulator("--peer-wait", "1"), evaluation.model(think_seconds=60)) as (sim, model):
        sim.wait_for("🔗 Model connected from (")
        time.sleep(1.5)
        model.ctrl_c()
        assert ends_within(model, PROMPT) == 130
        assert ends_within(sim, 1.0 + PROMPT) == 1
