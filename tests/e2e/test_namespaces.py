"""Cross-node for real: simulator and model on two hosts that know each other by name, joined by a cable."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from namespaces import Host, two_hosts
from programs import BIN, NUDGE, Program, clean_environ, metrics_of, running

from robopro_eval.records import read_jsonl

PORT = "29761"  # each host has all its ports to itself

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")


@pytest.fixture(scope="module")
def hosts() -> Iterator[tuple[Host, Host]]:
    with two_hosts("sim-node", "model-node") as pair:
        yield pair


def simulator(host: Host, runs: Path, seed_file: Path, **variables: str) -> Program:
    words = ["--policy_name", NUDGE, "--task_name", "put_cup_in_box", "--task_config", "bench_demo_study_clean"]
    words += ["--eval_seed_file", seed_file, "--port", PORT, "--no-video", "--step_lim", "90"]
    environ = clean_environ(RUNS_ROOT=str(runs), EVAL_TEST_NUM="1", **variables)
    return Program(host.command(BIN / "eval-sim", *words), env=environ)


def model(host: Host, **variables: str) -> Program:
    words = ["--policy_name", NUDGE, "--port", PORT]
    return Program(host.command(BIN / "eval-model", *words), env=clean_environ(**variables))


def test_the_model_dials_the_simulator_by_host_name(hosts: tuple[Host, Host], tmp_path: Path, seed_file: Path) -> None:
    here, there = hosts
    listening = {"SIM_AS_SERVER": "1", "SIM_SERVER_BIND": "0.0.0.0", "SIM_SERVER_PORT": PORT}
    dialing = {"MODEL_AS_CLIENT": "1", "SIM_SERVER_HOST": "sim-node", "SIM_SERVER_PORT": PORT}
    with running(simulator(here, tmp_path, seed_file, **listening), model(there, **dialing)) as (sim, client):
        sim.wait_for(f"🚀 SIM server listening on 0.0.0.0:{PORT} — waiting for model to connect...")
        assert f"('{there.address}', " in sim.wait_for("🔗 Model connected from (")
        client.wait_for(f"🔗 Model connected to SIM server at sim-node:{PORT}")
        assert sim.exit_code() == 0
        assert client.exit_code() == 0
    (record,) = read_jsonl(metrics_of(tmp_path))
    assert record["steps"] > 0


def test_the_simulator_dials_the_model_by_host_name(hosts: tuple[Host, Host], tmp_path: Path, seed_file: Path) -> None:
    here, there = hosts
    with running(
        model(there, MODEL_SERVER_BIND="0.0.0.0"), simulator(here, tmp_path, seed_file, MODEL_SERVER_HOST="model-node")
    ) as (server, sim):
        server.wait_for(f"🚀 Model server listening on 0.0.0.0:{PORT}")
        sim.wait_for(f"🔗 Connected to model server at model-node:{PORT}")
        assert sim.exit_code() == 0
        assert here.address in server.wait_for("🔗 Simulator connected from (")
        assert server.is_running(), "a listening model serves the next simulator"
    (record,) = read_jsonl(metrics_of(tmp_path))
    assert record["steps"] > 0


def test_a_listening_model_is_private_unless_told_otherwise(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    here, there = hosts
    with running(model(there)) as (server,):
        server.wait_for(f"🚀 Model server listening on localhost:{PORT}")
        words = ["--overrides", "--connect_attempts", "1"]
        sim = Program(
            here.command(BIN / "eval-sim", "--policy_name", NUDGE, "--port", PORT, *words),
            env=clean_environ(RUNS_ROOT=str(tmp_path), MODEL_SERVER_HOST="model-node"),
        )
        with sim:
            assert sim.exit_code() == 1
            assert f"model-node:{PORT}" in sim.output
