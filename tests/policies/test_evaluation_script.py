"""The final evaluation: its log of uses, its refusals, its arithmetic. The programs it starts have their own tests."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))

import eval_tabletop

from robopro_eval.records import EpisodeRecord
from robopro_eval.simulators import get_benchmark
from robopro_eval.simulators.tabletop.seeds import EVALUATION_START, bank_path


def record(seed: int, *, success: bool, hard: bool) -> EpisodeRecord:
    return EpisodeRecord(
        task="lift_pot",
        seed=seed,
        success=success,
        hard_success=hard,
        steps=80 if success else 600,
        episode=seed,
        wall_seconds=2.0,
        sim_seconds=1.5,
        wire_seconds=0.25,
        model_seconds=0.25,
        call_seconds=0.5,
    )


def test_all_tasks_and_their_fifty_seeds_are_evaluated() -> None:
    benchmark = get_benchmark("tabletop")
    assert set(eval_tabletop.SCENES) == set(benchmark.task_names())
    for task, scene in eval_tabletop.SCENES.items():
        path = bank_path(task, f"bench_demo_{scene}_clean")
        assert path is not None
        seeds = [int(word) for word in path.read_text().split()]
        assert len(set(seeds)) == len(seeds) == 50
        assert min(seeds) >= EVALUATION_START


def test_every_use_is_one_more_line(tmp_path: Path) -> None:
    log = tmp_path / "results" / "uses.jsonl"
    for reason in ("first", "second"):
        eval_tabletop.log_use(log, tasks=["lift_pot"], episodes=50, checkpoint="ab" * 32, reason=reason)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["reason"] for line in lines] == ["first", "second"]
    assert lines[0]["checkpoint_sha256"] == "ab" * 32
    assert {"date", "git_commit", "uncommitted_changes", "tasks", "seeds_per_task"} <= set(lines[0])


def test_a_rehearsal_never_touches_the_evaluation_range(tmp_path: Path) -> None:
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("31000 31001")
    assert eval_tabletop.rehearsal_seeds(seeds) == 2
    for text in ("31000 40000", "", "one"):
        seeds.write_text(text)
        with pytest.raises(SystemExit, match="error: "):
            eval_tabletop.rehearsal_seeds(seeds)
    with pytest.raises(SystemExit, match="not a readable list"):
        eval_tabletop.rehearsal_seeds(tmp_path / "missing")


def test_scores_by_hand_and_never_rounded_up(tmp_path: Path) -> None:
    records = [record(40000 + i, success=i != 2, hard=i == 0) for i in range(3)]
    row = eval_tabletop.score("lift_pot", records)
    assert (row.episodes, row.successes, row.hard_successes) == (3, 2, 1)
    assert row.failed_seeds == [40002]
    assert row.mean_steps == pytest.approx((80 + 80 + 600) / 3)
    assert row.seconds_per_episode == 2.0
    # 2/3 is 66.67 %: cut, not rounded.
    assert eval_tabletop.percent_down(2, 3) == "66.6 %"
    assert eval_tabletop.percent_down(0, 0) == "0.0 %"
    # Wilson for 2 of 3 by an independent formula: 0.20765..0.93851; printed outwards.
    assert "20.7 to 93.9" in eval_tabletop.cells(row)
    eval_tabletop.write_results([row], checkpoint="cd" * 32, folder=tmp_path)
    page = (tmp_path / "tabletop_50.md").read_text()
    assert "66.6 % (2/3)" in page
    assert "failed seeds 40002" in page
    assert "not** RoboPRO numbers" in page
    assert json.loads((tmp_path / "tabletop_50.json").read_text())["tasks"][0]["successes"] == 2


def test_a_time_one_episode_does_not_know_is_not_averaged() -> None:
    records = [record(40000, success=True, hard=True), record(40001, success=True, hard=True)]
    records[1].wire_seconds = None
    assert eval_tabletop.score("lift_pot", records).wire_seconds is None
