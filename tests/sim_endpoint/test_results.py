"""The table at the end, the folder, and the manifest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from robopro_eval.console.errors import UserError
from robopro_eval.records import EpisodeRecord
from sim_endpoint.results import ResultsFolder, environment_facts, summary


def record(success: bool, **fields: Any) -> EpisodeRecord:
    base: dict[str, Any] = {
        "task": "t", "seed": 1, "success": success, "hard_success": success, "steps": 88, "episode": 0,
        "wall_seconds": 2.0, "sim_seconds": 1.0, "wire_seconds": 0.25, "model_seconds": 0.75, "call_seconds": 1.0,
        "calls": 3,
    }  # fmt: skip
    return EpisodeRecord(**base | fields)


def table(records: list[EpisodeRecord], planned: int) -> str:
    return summary(records, benchmark="tabletop", task="t", config="c", planned=planned, wall_seconds=10.0)


def test_a_whole_run() -> None:
    text = table([record(True), record(False), record(True, hard_success=False)], 3)
    assert "66.7 % (2/3), 95 % interval 20.8 % to 93.9 %" in text  # scipy.stats.binomtest(2, 3), method wilson
    assert "33.3 % (1/3)" in text
    assert "simulator 50.0 %, wire 12.5 %, model 37.5 %" in text
    assert "2.00 s" in text
    assert "coverage" not in text


def test_why_episodes_failed() -> None:
    reasons = ["step_limit", "policy_error: ValueError: nan", "policy_error: KeyError: 'x'", None]
    text = table([record(True), *(record(False, reason=reason) for reason in reasons)], 5)
    assert "2 policy_error, 1 step_limit, 1 no reason given" in text
    assert "failed" not in table([record(True)], 1)


def test_what_is_missing_is_bounded() -> None:
    text = table([record(True)], 4)
    assert "1 of 4" in text
    assert "25.0 %; SR 25.0 % if every missing episode failed" in text


def test_a_stock_model_does_not_split_its_time() -> None:
    assert "wire and model 50.0 %" in table([record(True, wire_seconds=None, model_seconds=None)], 1)


def test_collisions_not_measured_and_nothing_scored() -> None:
    assert "not measured" in table([record(True, hard_success=None)], 1)
    assert "no episode was scored" in table([], 2)


def test_two_runs_in_one_second_get_two_folders(tmp_path: Path) -> None:
    folders = {ResultsFolder.create(tmp_path, {}).path for _ in range(3)}
    assert len(folders) == 3
    assert not any(set(path.name) & {" ", ":"} for path in folders)


def test_only_a_whole_run_leaves_the_file_that_robotwins_scripts_take_as_final(tmp_path: Path) -> None:
    folder = ResultsFolder.create(tmp_path, {"instruction_type": "unseen"})
    folder.add_episode(record(True, seed=7))
    folder.finish(planned=2, stopped="interrupted")
    assert not (folder.path / "_result.txt").exists()
    folder.add_episode(record(False, seed=8))
    folder.finish(planned=2, stopped=None)
    assert (folder.path / "_result.txt").read_text().split("\n\n")[1:] == [
        "Instruction Type: unseen", "Eval seeds: 7 8", "0.5",
    ]  # fmt: skip


def test_a_step_limit_set_by_hand_is_told_beside_the_rates() -> None:
    text = summary([record(True)], benchmark="tabletop", task="t", config="c", planned=1, wall_seconds=1.0, step_lim=31)
    assert "31, set by hand" in text
    assert "set by hand" not in table([record(True)], 1)


def test_a_manifest_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    folder = ResultsFolder.create(tmp_path, {})
    (folder.path / "manifest.json").unlink()
    (folder.path / "manifest.json").mkdir()
    with pytest.raises(UserError, match=r"cannot write .*manifest\.json: Is a directory"):
        folder.finish(planned=1, stopped=None)
    assert not list(folder.path.glob(".*.part"))


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(UserError, match="cannot write results below"):
        ResultsFolder.create(tmp_path / "runs" / "x", {})


def test_the_manifest_records_knobs_but_no_secret(tmp_path: Path) -> None:
    facts = environment_facts({"DXVLA_RT_SPP": "32", "SIM_SERVER_TOKEN": "hush", "HOME": "/root"})
    assert facts["environment"] == {"DXVLA_RT_SPP": "32"}
    assert "numpy" in facts["versions"]  # type: ignore[operator]
    folder = ResultsFolder.create(tmp_path, {"a": 1} | facts)
    folder.finish(planned=2, stopped="why")
    manifest = json.loads((folder.path / "manifest.json").read_text())
    assert (manifest["a"], manifest["planned"], manifest["scored"], manifest["stopped"]) == (1, 2, 0, "why")
    assert manifest["finished"] >= manifest["started"]
