"""The environments users really have, each with the wheel and not the checkout: an episode between them, both ways."""

from __future__ import annotations

import json
from pathlib import Path

import environments
import pytest
from environments import Environment
from programs import Program, clean_environ, free_port, metrics_of, running

from robopro_eval.records import read_jsonl

TASK = ("--task_name", "put_cup_in_box", "--task_config", "bench_demo_study_clean", "--policy_name", "dxvla")

FACTS = """
import json, sys
from importlib.metadata import distributions
names = {d.metadata["Name"].lower(): d.version for d in distributions()}
import framing, model_endpoint, policies, robopro_eval, sim_endpoint
rooms = [room.__file__ for room in (framing, model_endpoint, policies, robopro_eval, sim_endpoint)]
print(json.dumps({"versions": names, "rooms": rooms, "python": sys.version}))
"""


def facts(environment: Environment) -> dict[str, object]:
    out = environments.run(environment.program("python"), "-I", "-c", FACTS, cwd=environment.folder)
    return dict(json.loads(out.strip().splitlines()[-1]))


def test_what_is_in_them(simulator_environment: Environment, model_environment: Environment) -> None:
    simulator, model = facts(simulator_environment), facts(model_environment)
    installed_there, installed_here = simulator["versions"], model["versions"]
    assert isinstance(installed_there, dict)
    assert isinstance(installed_here, dict)
    assert installed_there["numpy"] == "1.26.4"
    assert "sapien" in installed_there
    assert "torch" not in installed_there
    assert int(installed_here["numpy"].split(".")[0]) >= 2
    assert "torch" in installed_here
    assert "sapien" not in installed_here
    for environment, seen in ((simulator_environment, simulator), (model_environment, model)):
        assert isinstance(seen["rooms"], list)
        for room in seen["rooms"]:
            assert Path(room).is_relative_to(environment.folder), f"{room} comes from the checkout, not from the wheel"


@pytest.mark.parametrize("direction", ["sim-server", "model-server"])
def test_an_episode_between_them(
    direction: str,
    simulator_environment: Environment,
    model_environment: Environment,
    tmp_path: Path,
    seed_file: Path,
) -> None:
    """Run outside the checkout, with the shipped checkpoint found inside the wheel."""
    port = str(free_port())
    runs = tmp_path / "runs"
    if direction == "sim-server":
        ours = {"SIM_AS_SERVER": "1", "SIM_SERVER_PORT": port}
        theirs = {"MODEL_AS_CLIENT": "1", "SIM_SERVER_HOST": "localhost", "SIM_SERVER_PORT": port}
    else:
        ours, theirs = {"MODEL_SERVER_HOST": "localhost"}, {"MODEL_SERVER_BIND": "localhost"}
    sim = Program(
        [simulator_environment.program("eval-sim"), *TASK, "--port", port, "--eval_seed_file", seed_file],
        env=clean_environ(RUNS_ROOT=str(runs), EVAL_TEST_NUM="1", **ours),
        cwd=tmp_path,
    )
    model = Program(
        [model_environment.program("eval-model"), *TASK, "--port", port], env=clean_environ(**theirs), cwd=tmp_path
    )
    with running(sim, model):
        assert sim.exit_code(180.0) == 0, sim.output
    metrics = metrics_of(runs)
    (record,) = read_jsonl(metrics)
    assert record["steps"] > 0
    assert (metrics.parent / str(record["video"])).stat().st_size > 1000


def test_the_wheel_brings_its_seed_banks(simulator_environment: Environment, tmp_path: Path) -> None:
    """One expert episode, by name only, in an empty folder: the assets and the seed list are the wheel's."""
    words = ["--expert", "--task_name", "lift_pot", "--no-video"]
    sim = Program(
        [simulator_environment.program("eval-sim"), *words],
        env=clean_environ(RUNS_ROOT=str(tmp_path), USE_EVAL_SEEDS="1", EVAL_TEST_NUM="1", BENCH_EVAL_SEEDS_ROOT=""),
        cwd=tmp_path,
    )
    with sim:
        assert sim.exit_code(120.0) == 0, sim.output
    (record,) = read_jsonl(metrics_of(tmp_path))
    assert record["success"] is True
