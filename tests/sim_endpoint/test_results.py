"""The folder of a run and its manifest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from robopro_eval.console.errors import UserError
from robopro_eval.records import EpisodeRecord
from sim_endpoint.results import ResultsFolder, environment_facts


def record(success: bool, **fields: Any) -> EpisodeRecord:
    base: dict[str, Any] = {
        "task": "t", "seed": 1, "success": success, "hard_success": success, "steps": 88, "episode": 0,
        "wall_seconds": 2.0, "sim_seconds": 1.0, "wire_seconds": 0.25, "model_seconds": 0.75, "call_seconds": 1.0,
        "calls": 3,
    }  # fmt: skip
    return EpisodeRecord(**base | fields)


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
