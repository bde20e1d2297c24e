"""Ctrl-C and sudden death, in the middle of a real run."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from programs import BIN, NUDGE, Program, clean_environ, free_port, metrics_of, running

from robopro_eval.records import read_jsonl

PROMPT = 5.0
"""Seconds within which a program that got Ctrl-C has to end."""

MANY = "\n".join(str(seed) for seed in range(30000, 30006))


class Pair:
    """A simulator with many episodes before it, and how to start models for it."""

    def __init__(self, tmp_path: Path) -> None:
        self.port = str(free_port())
        self.runs = tmp_path / "runs"
        self.seeds = tmp_path / "many.txt"
        self.seeds.write_text(MANY)

    def simulator(self, *extra: str, dial: bool = False) -> Program:
        words = ["--policy_name", NUDGE, "--task_name", "put_cup_in_box", "--task_config", "bench_demo_study_clean"]
        words += ["--eval_seed_file", self.seeds, "--no-video", "--port", self.port, "--step_lim", "90", *extra]
        variables = {} if dial else {"SIM_AS_SERVER": "1", "SIM_SERVER_BIND": "localhost"}
        return Program([BIN / "eval-sim", *words], env=clean_environ(RUNS_ROOT=str(self.runs), **variables))

    def model(self, *overrides: str, listen: bool = False) -> Program:
        words = ["--policy_name", NUDGE, "--port", self.port]
        words += ["--overrides", *overrides] if overrides else []
        variables = {} if listen else {"MODEL_AS_CLIENT": "1"}
        return Program([BIN / "eval-model", *words], env=clean_environ(**variables))

    def scored(self) -> list[dict[str, object]]:
        return read_jsonl(metrics_of(self.runs))


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def ends_within(program: Program, seconds: float) -> int:
    began = time.monotonic()
    code = program.exit_code(seconds + 10.0)
    assert time.monotonic() - began <= seconds, f"it took {time.monotonic() - began:.1f} s to end"
    return code


def test_ctrl_c_in_the_simulator_says_goodbye_and_a_model_that_dialled_exits_0(pair: Pair) -> None:
    with running(pair.simulator(), pair.model()) as (sim, model):
        sim.wait_for("[2/6]")
        sim.ctrl_c()
        assert ends_within(sim, PROMPT) == 130
        assert ends_within(model, PROMPT) == 0
    assert len(pair.scored()) >= 2
    assert "Traceback" not in sim.output
    assert str(metrics_of(pair.runs).parent) in sim.output, "it says where the finished episodes are"


def test_ctrl_c_in_the_simulator_leaves_a_listening_model_serving(pair: Pair) -> None:
    with pair.model(listen=True) as model:
        with pair.simulator(dial=True) as sim:
            sim.wait_for("[1/6]")
            sim.ctrl_c()
            assert ends_within(sim, PROMPT) == 130
        assert model.is_running()
        with pair.simulator(dial=True) as again:
            again.wait_for("[1/6]")


def test_ctrl_c_in_the_simulator_while_it_waits_for_a_model(pair: Pair) -> None:
    with pair.simulator() as sim:
        sim.wait_for("waiting for model to connect")
        sim.ctrl_c()
        assert ends_within(sim, PROMPT) == 130
    assert "Traceback" not in sim.output


@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c_in_the_simulator_during_a_long_call_of_the_model(pair: Pair, presses: int) -> None:
    with running(pair.simulator(), pair.model("--think_seconds", "12")) as (sim, model):
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


def test_a_model_that_is_killed_is_waited_for_and_another_goes_on(pair: Pair) -> None:
    with running(pair.simulator("--peer-wait", "60"), pair.model("--think_seconds", "0.05")) as (sim, model):
        sim.wait_for("[2/6]")
        model.send(signal.SIGKILL)
        model.exit_code()
        with pair.model() as second:
            assert sim.exit_code() == 0
            assert second.exit_code() == 0
    assert [line["seed"] for line in pair.scored()] == list(range(30000, 30006))
    attempts = read_jsonl(metrics_of(pair.runs).with_name("_attempts.jsonl"))
    assert [line["error"] for line in attempts if line["outcome"] == "invalid"] == ["peer_gone"]


@pytest.mark.parametrize("how", ["ctrl-c", "killed"])
def test_without_another_model_the_simulator_saves_and_exits_1(pair: Pair, how: str) -> None:
    with running(pair.simulator("--peer-wait", "1.5"), pair.model()) as (sim, model):
        sim.wait_for("[2/6]")
        model.send(signal.SIGKILL if how == "killed" else signal.SIGINT)
        model.exit_code(PROMPT + 10.0)
        assert ends_within(sim, 1.5 + PROMPT) == 1
    assert len(pair.scored()) >= 2
    assert "Traceback" not in sim.output


def test_ctrl_c_in_the_model_ends_it_in_time_even_inside_a_call(pair: Pair) -> None:
    with running(pair.simulator("--peer-wait", "1"), pair.model("--think_seconds", "60")) as (sim, model):
        sim.wait_for("🔗 Model connected from (")
        time.sleep(1.5)
        model.ctrl_c()
        assert ends_within(model, PROMPT) == 130
        assert ends_within(sim, 1.0 + PROMPT) == 1


@pytest.mark.parametrize(
    ("fault", "words"), [("nan", "nan at index 0"), ("shape", "(30, 7)"), ("raise", "was asked to raise")]
)
def test_a_model_that_misbehaves_fails_its_episodes_and_not_the_run(pair: Pair, fault: str, words: str) -> None:
    with running(pair.simulator("--overrides", "--test_num", "2"), pair.model("--misbehave", fault)) as (sim, model):
        assert sim.exit_code() == 0
        assert model.exit_code() == 0
    lines = pair.scored()
    assert [line["success"] for line in lines] == [False, False]
    assert all(str(line["reason"]).startswith("policy_error: ") and words in str(line["reason"]) for line in lines)
    assert [line["steps"] for line in lines] == [30, 30], "the first chunk was executed, the second one is at fault"
