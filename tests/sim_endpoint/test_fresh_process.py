"""A simulator that crashes, hangs or dies in the middle of a real run: nothing is lost and nothing counted twice."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from programs import BIN, Program, clean_environ, free_port, metrics_of, running

from robopro_eval.records import EpisodeRecord, deterministic, read_jsonl

SEEDS = (30000, 30001, 30002)
HANG = "6"  # seconds: more than a busy machine needs for the first picture

POLICY = '''
import ctypes, os, signal, time
from pathlib import Path
import numpy as np

class Model:
    def reset_model(self):
        self.queries = 0

    def get_action(self):
        self.queries += 1
        pose = [0.0] * 14
        pose[0] = 0.02 * self.queries
        return np.array(pose)

def get_model(usr_args):
    return Model()

def crash(*_args, **_kwargs):
    raise RuntimeError("the device was lost")

def hang(*_args, **_kwargs):
    time.sleep(3600)

def hang_with_the_lock(*_args, **_kwargs):
    ctypes.PyDLL(None).sleep(3600)

def die(*_args, **_kwargs):
    os.kill(os.getpid(), signal.SIGKILL)

def eval(TASK_ENV, model, observation):
    """In the middle of the second seed the environment does what MISHAP says, the first MISHAP_TIMES times."""
    done = Path(os.environ["MISHAP_FILE"])
    if TASK_ENV.seed == 30001 and TASK_ENV.take_action_cnt == 3 and os.environ.get("MISHAP"):
        with done.open("a+") as log:
            if log.tell() < int(os.environ.get("MISHAP_TIMES", "1")):
                log.write("x")
                TASK_ENV.take_action = globals()[os.environ["MISHAP"]]
    TASK_ENV.take_action(model.get_action())
'''


class Rig:
    """A run of three short episodes, into one folder of runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.policy = folder / "mishap"
        self.policy.mkdir()
        (self.policy / "deploy_policy.py").write_text(POLICY)
        self.seeds = folder / "seeds.txt"
        self.seeds.write_text(" ".join(map(str, SEEDS)))

    def run(self, *extra: str | Path, runs: str = "runs", **variables: str) -> Program:
        words: list[str | Path] = [BIN / "eval-sim", "--policy_name", self.policy, "--eval_seed_file", self.seeds]
        words += ["--no-video", "--step_lim", "6", *extra]
        env = clean_environ(RUNS_ROOT=str(self.folder / runs), MISHAP_FILE=str(self.folder / "mishaps"), **variables)
        return Program(words, env=env, cwd=self.folder)

    def results(self, runs: str = "runs") -> list[dict[str, Any]]:
        lines = read_jsonl(metrics_of(self.folder / runs))
        return [deterministic(EpisodeRecord.model_validate(line)) for line in lines]

    def attempts(self, runs: str = "runs") -> list[tuple[Any, ...]]:
        lines = read_jsonl(metrics_of(self.folder / runs).with_name("_attempts.jsonl"))
        return [(line["seed"], line["attempt"], line["outcome"], line["error"]) for line in lines]


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    rig = Rig(tmp_path_factory.mktemp("undisturbed"))
    with rig.run("--local") as sim:
        assert sim.exit_code() == 0
    return rig.results()


ONE_MISHAP = [
    (30000, 1, "scored", None),
    (30001, 1, "invalid", "simulator"),
    (30001, 2, "scored", None),
    (30002, 1, "scored", None),
]


def test_a_crash_or_a_hang_costs_an_attempt(rig: Rig, undisturbed: list[dict[str, Any]]) -> None:
    """In both directions of the link too: the model is dialed, or dials, the fresh process."""
    with rig.run("--local", runs="crash", MISHAP="crash") as sim:
        assert sim.exit_code() == 0
    assert "the device was lost); running it again from its seed\nnote: going on in a fresh process" in sim.output
    (rig.folder / "mishaps").unlink()
    port = str(free_port())
    model_env = clean_environ(MODEL_AS_CLIENT="1", SIM_SERVER_PORT=port)
    hanging = {"MISHAP": "hang", "SIM_AS_SERVER": "1", "SIM_SERVER_PORT": port}
    with running(
        rig.run("--sim_hang_timeout", HANG, runs="hang", **hanging),
        Program([BIN / "eval-model", "--policy_name", rig.policy], env=model_env),
    ) as (sim, model):
        assert sim.exit_code() == 0
        assert model.exit_code() == 0
    assert "the simulator hangs: take_action() had not returned after" in sim.output
    for runs in ("crash", "hang"):
        assert rig.results(runs) == undisturbed
        assert rig.attempts(runs) == ONE_MISHAP


def test_a_crash_that_comes_back_is_given_up_after_five_attempts(rig: Rig) -> None:
    with rig.run("--local", MISHAP="crash", MISHAP_TIMES="99") as sim:
        assert sim.exit_code() == 0
    assert [line[1:] for line in rig.attempts() if line[0] == 30001] == [
        (number, "invalid", "simulator") for number in range(1, 6)
    ]
    assert [line["seed"] for line in rig.results()] == [30000, 30002]
    assert "2 of 3" in sim.output


@pytest.mark.parametrize("mishap", ["die", "hang_with_the_lock"])
def test_a_run_that_died_is_resumed(rig: Rig, undisturbed: list[dict[str, Any]], mishap: str) -> None:
    """Killed, or in a hang that no thread of Python survives: the next process plays only what is missing."""
    with rig.run("--local", "--sim_hang_timeout", HANG, MISHAP=mishap) as sim:
        assert sim.exit_code() == (-signal.SIGKILL if mishap == "die" else 1)
    assert [line["seed"] for line in rig.results()] == [30000]
    with rig.run("--local", EVAL_RESUME_SEEDS="1") as sim:
        assert sim.exit_code() == 0
    assert "1 of 3 episodes are there" in sim.output
    assert "[2/3]" in sim.output
    assert rig.results() == undisturbed
    assert rig.attempts() == ONE_MISHAP
    with rig.run("--local", EVAL_RESUME_SEEDS="1") as sim:
        assert sim.exit_code() == 0
    assert "all 3 episodes of this run are in" in sim.output
    assert rig.results() == undisturbed
