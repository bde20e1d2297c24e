"""EVAL_RESUME_SEEDS=1: which folder is gone on in, and that no seed is lost or counted twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from programs import NUDGE
from sim_fakes import UNSOLVABLE_SEED, UNSTABLE_SEED, FakeSource, Rig

from framing.errors import PeerGone
from robopro_eval.console.errors import UserError
from robopro_eval.records import AttemptRecord, EpisodeRecord, read_jsonl
from robopro_eval.settings.program import parse_program
from sim_endpoint.fresh_process import CONTINUE, Continuation, FreshProcessNeeded
from sim_endpoint.preflight import Prepared, prepare
from sim_endpoint.results import ResultsFolder
from sim_endpoint.resume import NothingToResume, find
from sim_endpoint.settings import SimSettings

OWN = ["port", "task_name", "checkpoint_path"]  # settings of the program, as they stand in usr_args too


def manifest(**changes: Any) -> dict[str, Any]:
    plan: dict[str, Any] = {
        "benchmark": "tabletop",
        "task": "cup",
        "config": "clean",
        "policy": "dxvla",
        "ckpt_setting": "demo",
        "instruction_type": "unseen",
        "expert_check": False,
        "seeds": [1, 2, 3],
        "seed_source": "seeds.txt",
        "settings": {"step_lim": None, "collision_metrics": True, "checkpoint_path": None, "port": 29761},
        "usr_args": {"port": 29761, "exec_actions": 20},
        "environment": {"DXVLA_ACTION_SMOOTH": "0.7", "DXVLA_VIDEO_CAM": "head", "OMP_NUM_THREADS": "1"},
    }
    return plan | changes


def earlier(parent: Path, name: str, **changes: Any) -> Path:
    folder = parent / name
    folder.mkdir(parents=True)
    text = json.dumps(manifest(**changes) | {"started": f"2026-11-{name}T00:00:00+00:00"})
    (folder / "manifest.json").write_text(text)
    return folder


def test_the_newest_folder_of_the_same_plan(tmp_path: Path) -> None:
    earlier(tmp_path, "01")
    newest = earlier(tmp_path, "02")
    earlier(tmp_path, "03", task="lever")
    (tmp_path / "04").mkdir()
    (tmp_path / "05").mkdir()
    (tmp_path / "05" / "manifest.json").write_text("{torn")
    path, found = find(tmp_path, manifest(), OWN)
    assert path == newest
    assert found["task"] == "cup"


@pytest.mark.parametrize(
    "changes",
    [
        {"seeds": [1, 2, 3, 4, 5]},
        {"seeds": [1, 2]},
        {"seed_source": "moved/seeds.txt"},
        {"usr_args": {"port": 1, "exec_actions": 20}},
        {"settings": {"step_lim": None, "collision_metrics": True, "checkpoint_path": None, "port": 1}},
        {"environment": {"DXVLA_ACTION_SMOOTH": "0.7", "OMP_NUM_THREADS": "8"}},
    ],
)
def test_what_may_differ(tmp_path: Path, changes: dict[str, Any]) -> None:
    folder = earlier(tmp_path, "01", **changes)
    assert find(tmp_path, manifest(), OWN)[0] == folder


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"seeds": [1, 7, 3]}, "seeds"),
        ({"seeds": None, "seed_source": "scan from 100000"}, "seed"),
        ({"instruction_type": "seen"}, "instruction_type"),
        ({"expert_check": True}, "expert_check"),
        ({"settings": {"step_lim": 31, "collision_metrics": True}}, "step_lim"),
        ({"settings": {"step_lim": None, "collision_metrics": True, "checkpoint_path": "other"}}, "checkpoint_path"),
        ({"usr_args": {"port": 29761, "exec_actions": 0}}, "exec_actions"),
        ({"environment": {"DXVLA_ACTION_SMOOTH": "0"}}, "DXVLA_ACTION_SMOOTH"),
        ({"environment": {}}, "DXVLA_ACTION_SMOOTH"),
        ({"environment": {"DXVLA_ACTION_SMOOTH": "0.7", "CKPT_NAME": "other"}}, "CKPT_NAME"),
    ],
)
def test_what_makes_it_another_run(tmp_path: Path, changes: dict[str, Any], name: str) -> None:
    folder = earlier(tmp_path, "01", **changes)
    with pytest.raises(NothingToResume, match=f"{folder}, has another {name}"):
        find(tmp_path, manifest(), OWN)


def test_a_scan_goes_on_where_it_started_only(tmp_path: Path) -> None:
    scan = {"seeds": None, "seed_source": "scan from 100000"}
    folder = earlier(tmp_path, "01", **scan)
    assert find(tmp_path, manifest(**scan), OWN)[0] == folder
    with pytest.raises(NothingToResume, match="seed_source"):
        find(tmp_path, manifest(seeds=None, seed_source="scan from 200000"), OWN)


def test_no_folder_at_all(tmp_path: Path) -> None:
    with pytest.raises(NothingToResume, match="nothing to resume below"):
        find(tmp_path / "nowhere", manifest(), OWN)


# ---------------------------------------------------------------- the folder itself
def reopen(rig: Rig, attempts_before: int | None = None, seeds: list[int] | None = None) -> None:
    rig.results.release()
    rig.results = ResultsFolder.reopen(rig.results.path, {"instruction_type": "unseen"}, seeds, attempts_before)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def metrics(rig: Rig) -> list[Any]:
    return [(line["seed"], line["attempt"]) for line in read_jsonl(rig.results.path / "_metrics.jsonl")]


def attempts(rig: Rig) -> list[Any]:
    lines = read_jsonl(rig.results.path / "_attempts.jsonl")
    return [(line["seed"], line["attempt"], line["outcome"]) for line in lines]


def test_only_the_missing_seeds_are_played(rig: Rig) -> None:
    rig.play([1, 2])
    reopen(rig)
    assert rig.play([1, 2, 3, 4]) is None
    assert metrics(rig) == [(1, 1), (2, 1), (3, 1), (4, 1)]
    assert [record.episode for record in rig.results.scored] == [0, 1, 2, 3]
    assert rig.env.setups == [1, 2, 3, 4]
    assert "[3/4] push_button seed 3: SUCCESS (steps=3) SR 3/3" in rig.out.getvalue()


def test_a_torn_line_is_played_again(rig: Rig) -> None:
    rig.play([1, 2])
    path = rig.results.path / "_metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    reopen(rig)
    rig.play([1, 2])
    assert metrics(rig) == [(1, 1), (2, 2)]
    assert len(path.read_text().splitlines()) == 3, "the torn line is closed, not swallowed"


def test_scored_of_other_seeds_does_not_count(rig: Rig) -> None:
    rig.play([1, 2, 3])
    reopen(rig, seeds=[2, 3, 4])
    assert [record.seed for record in rig.results.scored] == [2, 3]


@pytest.mark.parametrize("scored", [False, True])
def test_a_process_that_died_in_an_attempt_leaves_its_trace(rig: Rig, scored: bool) -> None:
    """Between two lines too: the result is on disk, but not yet the attempt."""
    rig.play([1])
    lines = (rig.results.path / "_attempts.jsonl").read_text()
    (rig.results.path / "_attempts.jsonl").unlink()
    if not scored:
        (rig.results.path / "_metrics.jsonl").unlink()
    begun = AttemptRecord.model_validate_json(lines).model_copy(update={"outcome": "invalid", "error": "simulator"})
    rig.results.begin_attempt(begun)
    for name in (".seed1.part.mp4", ".seed1.log"):
        (rig.results.path / name).write_text("half a video")
    reopen(rig)
    rig.play([1])
    assert metrics(rig) == ([(1, 1)] if scored else [(1, 2)])
    assert attempts(rig) == ([(1, 1, "scored")] if scored else [(1, 1, "invalid"), (1, 2, "scored")])
    assert not [path.name for path in rig.results.path.iterdir() if path.name.startswith(".")]


def test_a_person_who_goes_on_gives_every_seed_its_attempts_again(rig: Rig) -> None:
    rig.play([UNSTABLE_SEED, 1])
    reopen(rig)
    rig.play([UNSTABLE_SEED, 1])
    assert attempts(rig) == [(UNSTABLE_SEED, 1, "invalid"), (1, 1, "scored"), (UNSTABLE_SEED, 2, "invalid")]


def test_rejected_seeds_of_a_scan_stay_rejected(rig: Rig) -> None:
    source = FakeSource()
    rig.play(None, source=source, episodes=1, expert_check=True)
    rejected = AttemptRecord(
        task="t", seed=100_001, episode=1, attempt=1, outcome="rejected", reason="no", wall_seconds=0, started="x"
    )
    rig.results.add_attempt(rejected)
    reopen(rig)
    rig.env.setups.clear()
    rig.play(None, source=source, episodes=2, expert_check=True)
    assert metrics(rig) == [(100_000, 1), (100_002, 1)]
    assert 100_001 not in rig.env.setups
    assert UNSOLVABLE_SEED not in rig.env.setups


def test_two_programs_never_write_in_one_folder(rig: Rig, tmp_path: Path) -> None:
    folder = ResultsFolder.create(tmp_path / "runs", {})
    with pytest.raises(UserError, match="another eval-sim is writing in"):
        ResultsFolder.reopen(folder.path, {}, None)
    folder.finish(planned=1, stopped="enough")
    ResultsFolder.reopen(folder.path, {}, None).finish(planned=1, stopped="enough")


# ---------------------------------------------------------------- fresh processes
def test_attempts_of_all_processes_count_against_the_limit(rig: Rig) -> None:
    """Each plays until its simulator fails; the fifth time is the last for the seed, and the third seed for the run.

    The last of them does not ask for another: the model would wait for it, though the run is over.
    """

    def crash(env: Any, model: Any, observation: Any) -> None:
        rig.env.crash_in = "take_action"
        env.take_action(observation["vector"])

    continuations = 0
    before = 0
    while True:
        reopen(rig, before)
        rig.env.crash_in = None
        try:
            stopped = rig.play([1, 2, 3, 4], evaluate=crash, may_renew=True)
            break
        except FreshProcessNeeded as needed:
            continuations += 1
            before = needed.continuation.attempts_before
    assert continuations == 14
    assert stopped is not None
    assert "3 seeds in a row" in stopped
    assert attempts(rig) == [(seed, number, "invalid") for seed in (1, 2, 3) for number in range(1, 6)]
    assert rig.run.simulator_failed


def test_a_run_begun_behind_a_failed_simulator_is_played_elsewhere(rig: Rig) -> None:
    """--serve_forever: the next model must not get the simulator that failed the last one."""
    with pytest.raises(FreshProcessNeeded):
        rig.play([1], may_renew=True, simulator_failed=True)
    assert rig.env.setups == []
    assert attempts(rig) == []


@pytest.mark.parametrize("faults", [["simulator"] * 5, ["unstable"]])
def test_what_an_earlier_process_gave_up_is_not_even_checked(rig: Rig, faults: list[str]) -> None:
    """An expert that hangs at a seed would otherwise hang in every fresh process, for ever."""
    for number, fault in enumerate(faults, 1):
        record = AttemptRecord(
            task="t", seed=1, episode=0, attempt=number, outcome="invalid", error=fault, wall_seconds=0, started="x"
        )
        rig.results.add_attempt(record)
    reopen(rig, 0)
    assert rig.play([1, 2], expert_check=True) is None
    assert metrics(rig) == [(2, 1)]
    assert set(rig.env.setups) == {2}


def test_a_lost_model_needs_no_fresh_process(rig: Rig) -> None:
    def lost(*_: object) -> Any:
        raise PeerGone("gone")

    stopped = rig.play([1, 2, 3], source=FakeSource(lost), may_renew=True)
    assert stopped is not None
    assert "3 seeds in a row" in stopped


def test_a_call_that_does_not_return_is_on_record_before_the_process_is_replaced(rig: Rig) -> None:
    def hang(env: Any, model: Any, observation: Any) -> None:
        needed = rig.run.hung("get_obs", 1800.0)  # as the watching thread does it
        assert needed.continuation.folder == rig.results.path
        raise KeyboardInterrupt  # the process is gone

    with pytest.raises(KeyboardInterrupt):
        rig.play([1], evaluate=hang, may_renew=True)
    (line,) = read_jsonl(rig.results.path / "_attempts.jsonl")
    assert (line["seed"], line["attempt"], line["outcome"], line["error"]) == (1, 1, "invalid", "simulator")
    assert line["reason"] == "get_obs() had not returned after 1800 s (--sim_hang_timeout)"
    reopen(rig, 0)
    assert rig.play([1]) is None
    assert metrics(rig) == [(1, 2)]


def test_what_a_fresh_process_is_told(tmp_path: Path) -> None:
    continuation = Continuation(tmp_path / "a:b", 7)
    environ = {CONTINUE: continuation.text, "HOME": "/root"}
    assert Continuation.take(environ) == continuation
    assert environ == {"HOME": "/root"}, "what it starts itself is not told"
    assert Continuation.take(environ) is None
    assert Continuation.take({CONTINUE: "x:/tmp"}) is None


def test_a_fresh_process_does_not_go_on_with_other_settings(tmp_path: Path) -> None:
    """It reads the files of settings and seeds again, and somebody may have edited them for the next run."""
    seeds = tmp_path / "seeds.txt"

    def prepared(listed: str) -> Prepared:
        seeds.write_text(listed)
        command = ["--policy_name", str(NUDGE), "--eval_seed_file", str(seeds), "--runs_root", str(tmp_path)]
        return prepare(*parse_program(SimSettings, command, {}, prog="eval-sim"), {})

    results = prepared("30000 30001").new_results()
    results.note_peer({"peer": "fake"})
    results.release()
    with pytest.raises(UserError, match="seeds is no longer what it was when the run began"):
        prepared("30000 30002").continued_results(results.continuation)
    again = prepared("30000 30001").continued_results(results.continuation)
    assert again.path == results.path
    assert json.loads((again.path / "manifest.json").read_text())["models"] == [{"peer": "fake"}]


def test_another_checkpoint_behind_the_same_name_is_told(rig: Rig) -> None:
    def source(weights: str) -> FakeSource:
        return FakeSource(attributes={"provenance": {"weights": weights}})

    rig.play([1], source=source("a"))
    rig.results.manifest = json.loads(json.dumps(rig.results.manifest))
    restarted = source("a")
    restarted.peer = "the same model at another port"
    rig.play([1, 2], source=restarted)
    assert "not the one that played before" not in rig.out.getvalue()
    rig.play([1, 2, 3, 4], source=source("b"))
    assert rig.out.getvalue().count("not the one that played before") == 1


def test_records_of_other_programs_are_read_too(rig: Rig) -> None:
    line = EpisodeRecord(
        task="t", seed=1, success=True, steps=3, episode=0, wall_seconds=1, sim_seconds=1, call_seconds=0
    )
    text = line.model_dump_json(exclude={"encode_seconds", "queue_seconds"})
    (rig.results.path / "_metrics.jsonl").write_text(text + '\n{"seed": "not a record"}\n')
    reopen(rig)
    assert rig.results.has(1)
    assert not rig.results.has(2)
