"""Both programs with a token and TLS, as users start them: they find each other, and the token is nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from certificates import Certificates
from programs import BIN, NUDGE, Program, clean_environ, free_port, metrics_of, running

from robopro_eval.records import read_jsonl

TOKEN = "a-token-that-nobody-can-guess"


@pytest.mark.parametrize("direction", ["sim-server", "model-server"])
def test_a_run_with_token_and_tls_leaves_no_trace_of_the_token(direction: str, tmp_path: Path, seed_file: Path) -> None:
    certificates = Certificates.make(tmp_path / "tls")

    def secured(name: str, **extra: str) -> dict[str, str]:
        cert, key = certificates.issue(name)
        files = {
            "EVAL_LINK_TLS_CERT": str(cert),
            "EVAL_LINK_TLS_KEY": str(key),
            "EVAL_LINK_TLS_CA": str(certificates.ca),
        }
        return clean_environ(EVAL_LINK_TOKEN=TOKEN, **files, **extra)

    runs, recordings = tmp_path / "runs", tmp_path / "recordings"
    roles = ({"SIM_AS_SERVER": "1"}, {"MODEL_AS_CLIENT": "1"}) if direction == "sim-server" else ({}, {})
    ours, theirs = (secured("localhost", **role) for role in roles)
    words = ["--policy_name", NUDGE, "--port", str(free_port())]
    sim_words = [*words, "--task_name", "put_cup_in_box", "--task_config", "bench_demo_study_clean"]
    sim_words += ["--eval_seed_file", seed_file, "--test_num", "1", "--step_lim", "30", "--no-video"]
    sim_words += ["--record", recordings, "--connect_interval", "0.5"]
    with running(
        Program([BIN / "eval-sim", *sim_words], env={**ours, "RUNS_ROOT": str(runs)}),
        Program([BIN / "eval-model", *words, "--debug"], env=theirs),
    ) as (sim, model):
        assert sim.exit_code() == 0
        assert "EVAL_LINK_TOKEN" not in sim.output, "no warning that anyone may connect"
        outputs = sim.output + model.output
    assert len(read_jsonl(metrics_of(runs))) == 1
    written = [path for folder in (runs, recordings) for path in folder.rglob("*") if path.is_file()]
    assert {path.name for path in written} >= {"manifest.json", "_metrics.jsonl"}
    assert any(path.suffix == ".recording" for path in written)
    for path in written:
        assert TOKEN.encode() not in path.read_bytes(), path
        assert b"__link_auth__" not in path.read_bytes(), path
    assert TOKEN not in outputs
