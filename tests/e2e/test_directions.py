"""Whoever opens the socket, and whether there is one at all, the same seeds give the same results."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import BIN, NUDGE, Program, clean_environ, free_port, metrics_of, running

from robopro_eval.records import DETERMINISTIC_FIELDS, read_jsonl

SCENE = ["--task_name", "put_cup_in_box", "--task_config", "bench_demo_study_clean"]
LISTENING = "— waiting for model to connect..."


def deterministic_part(runs: Path) -> list[dict[str, object]]:
    lines = read_jsonl(metrics_of(runs))
    assert [line["episode"] for line in lines] == list(range(len(lines)))
    return [{name: line[name] for name in DETERMINISTIC_FIELDS} for line in lines]


def evaluate(direction: str, policy: str | Path, seed_file: Path, runs: Path, *extra: str) -> list[dict[str, object]]:
    """One run; the deterministic fields of its episodes."""
    port = str(free_port())
    words = ["--policy_name", policy, *SCENE, "--seed", "0"]
    output = clean_environ(RUNS_ROOT=str(runs))
    sim_words = [BIN / "eval-sim", *words, "--eval_seed_file", seed_file, "--no-video"]
    if direction == "local":
        with Program([*sim_words, "--local", *extra], env=output) as sim:
            assert sim.exit_code(120.0) == 0
    elif direction == "sim-server":
        ours = {**output, "SIM_AS_SERVER": "1", "SIM_SERVER_PORT": port}
        theirs = clean_environ(MODEL_AS_CLIENT="1", SIM_SERVER_HOST="localhost", SIM_SERVER_PORT=port)
        with running(Program([*sim_words, *extra], env=ours), Program([BIN / "eval-model", *words], env=theirs)) as (
            sim,
            model,
        ):
            assert sim.exit_code(120.0) == 0
            assert model.exit_code() == 0, "a model that dialled ends when the simulator is done"
    else:
        with running(
            Program([*sim_words, "--port", port, *extra], env=output),
            Program([BIN / "eval-model", *words, "--port", port], env=clean_environ()),
        ) as (sim, model):
            assert sim.exit_code(120.0) == 0
            assert model.is_running(), "a model that listens serves on"
    return deterministic_part(runs)


def test_the_shipped_policy_gives_equal_results_locally_and_in_both_directions(tmp_path: Path, seed_file: Path) -> None:
    results = {
        direction: evaluate(direction, "dxvla", seed_file, tmp_path / direction)
        for direction in ("local", "sim-server", "model-server")
    }
    assert results["sim-server"] == results["local"]
    assert results["model-server"] == results["local"]
    assert [line["seed"] for line in results["local"]] == [30000, 30001]
    assert all(line["success"] for line in results["local"]), "seeds that the shipped checkpoint solves"
    assert all(line["state_hash"] for line in results["local"])


def test_a_policy_that_depends_on_every_pixel_gives_equal_results(tmp_path: Path, seed_file: Path) -> None:
    """And over the stock wire too. The final state differs between seeds, so equality says something."""
    shorter = ("--step_lim", "90")
    local = evaluate("local", NUDGE, seed_file, tmp_path / "local", *shorter)
    assert evaluate("sim-server", NUDGE, seed_file, tmp_path / "socket", *shorter) == local
    assert evaluate("sim-server", NUDGE, seed_file, tmp_path / "stock", *shorter, "--wire", "stock") == local
    assert local[0]["state_hash"] != local[1]["state_hash"]


def test_the_readme_commands_in_two_terminals(tmp_path: Path, seed_file: Path) -> None:
    """The lines of the README as they stand there, but for the port, the seeds and where results go."""
    port = str(free_port())
    ours = clean_environ(
        SIM_AS_SERVER="1",
        SIM_SERVER_BIND="0.0.0.0",
        SIM_SERVER_PORT=port,
        EVAL_SEED_FILE=str(seed_file),
        EVAL_TEST_NUM="1",
        RUNS_ROOT=str(tmp_path),
    )
    theirs = clean_environ(MODEL_AS_CLIENT="1", SIM_SERVER_HOST="localhost", SIM_SERVER_PORT=port)
    words = ["--ckpt_setting", "demo", "--seed", "0", "--policy_name", "dxvla"]
    with Program([BIN / "eval-sim", *SCENE, *words], env={**ours, "LC_ALL": "C"}) as sim:
        assert sim.wait_for("listening on") == f"🚀 SIM server listening on 0.0.0.0:{port} {LISTENING}"
        with Program(
            [BIN / "eval-model", "--policy_name", "dxvla", "--ckpt_setting", "demo"], env={**theirs, "LC_ALL": "C"}
        ) as model:
            assert model.wait_for("connected to") == f"🔗 Model connected to SIM server at localhost:{port}"
            assert sim.wait_for("🔗 Model connected from ('127.0.0.1', ")
            assert sim.exit_code() == 0
            assert model.exit_code() == 0
    metrics = metrics_of(tmp_path)
    where = metrics.relative_to(tmp_path).parts
    assert where[:-2] == ("demo", "eval_result", "put_cup_in_box", "dxvla", "bench_demo_study_clean", "demo")
    assert " " not in where[-2]
    assert ":" not in where[-2]
    for word in ("SR", "HSR", "_metrics.jsonl", "%"):
        assert word in sim.output


@pytest.mark.parametrize("direction", ["sim-server", "model-server"])
def test_whoever_dials_may_start_first(direction: str, tmp_path: Path, seed_file: Path) -> None:
    port = str(free_port())
    words = ["--policy_name", NUDGE, "--port", port]
    sim_words = [BIN / "eval-sim", *words, *SCENE, "--eval_seed_file", seed_file, "--no-video"]
    sim_words += ["--connect_interval", "0.5", "--step_lim", "60"]
    ours, theirs = clean_environ(RUNS_ROOT=str(tmp_path), EVAL_TEST_NUM="1"), clean_environ()
    if direction == "sim-server":
        ours |= {"SIM_AS_SERVER": "1"}
        theirs |= {"MODEL_AS_CLIENT": "1"}
        with Program([BIN / "eval-model", *words], env=theirs) as first:
            first.wait_for(f"localhost:{port}")  # it says that it could not connect yet
            with Program(sim_words, env=ours) as second:
                assert second.exit_code() == 0
    else:
        with Program(sim_words, env=ours) as first:
            first.wait_for(f"localhost:{port}")
            with Program([BIN / "eval-model", *words], env=theirs):
                assert first.exit_code() == 0
    assert len(read_jsonl(metrics_of(tmp_path))) == 1


def test_the_stock_command_lines_and_door_names(tmp_path: Path, seed_file: Path) -> None:
    """``--config`` first, everything else behind ``--overrides``, through the scripts with RoboPRO's names."""
    port = str(free_port())
    scripts = BIN.parents[1] / "scripts"
    config = BIN.parents[1] / "policies" / "dxvla" / "deploy_policy.yml"
    tail = [
        "--port", port, "--config", config, "--overrides", *SCENE, "--ckpt_setting", "stock", "--seed", "0",
        "--policy_name", "dxvla",
    ]  # fmt: skip
    ours = clean_environ(
        SIM_AS_SERVER="1",
        SIM_SERVER_PORT=port,
        RUNS_ROOT=str(tmp_path),
        EVAL_SEED_FILE=str(seed_file),
        EVAL_TEST_NUM="1",
    )
    theirs = clean_environ(MODEL_AS_CLIENT="1", SIM_SERVER_PORT=port)
    python = BIN / "python"
    with running(
        Program([python, scripts / "eval_policy_client.py", *tail], env=ours),
        Program([python, scripts / "policy_model_server.py", *tail], env=theirs),
    ) as (sim, model):
        assert sim.exit_code() == 0
        assert model.exit_code() == 0
    assert metrics_of(tmp_path).parts[-3] == "stock"
