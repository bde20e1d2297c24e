"""The final evaluation: its log of uses, its refusals, its arithmetic, and that it always ends.

The programs it starts have their own tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))

import checkout
import eval_tabletop

from robopro_eval.records import EpisodeRecord
from robopro_eval.simulators import get_benchmark
from robopro_eval.simulators.tabletop.seeds import EVALUATION_START

CLEAN = checkout.GitState("0123456789abcdef", uncommitted_changes=False)
DIRTY = checkout.GitState("0123456789abcdef", uncommitted_changes=True)


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
        encode_seconds=0.0625,
        wire_seconds=0.125,
        queue_seconds=0.0625,
        model_seconds=0.25,
        call_seconds=0.5,
    )


def test_all_tasks_and_their_fifty_seeds_are_evaluated() -> None:
    for task in get_benchmark("tabletop").task_names():
        seeds = eval_tabletop.planned_seeds(task, 50)
        assert len(set(seeds)) == len(seeds) == 50
        assert min(seeds) >= EVALUATION_START
        assert eval_tabletop.planned_seeds(task, 3) == seeds[:3]
        for episodes in (0, 51):
            with pytest.raises(SystemExit, match=f"{task}: --episodes must be 1 to 50"):
                eval_tabletop.planned_seeds(task, episodes)


def test_every_use_is_one_more_line(tmp_path: Path) -> None:
    log = tmp_path / "results" / "uses.jsonl"
    for reason in ("first", "second"):
        eval_tabletop.log_use(log, tasks=["lift_pot"], episodes=50, checkpoint="ab" * 32, code=DIRTY, reason=reason)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["reason"] for line in lines] == ["first", "second"]
    assert lines[0]["checkpoint_sha256"] == "ab" * 32
    assert lines[0]["git_commit"] == DIRTY.commit
    assert lines[0]["uncommitted_changes"] is True
    assert {"date", "tasks", "seeds_per_task"} <= set(lines[0])


def test_a_rehearsal_never_touches_the_evaluation_range(tmp_path: Path) -> None:
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("31000 31001")
    assert eval_tabletop.rehearsal_seeds(seeds) == (31000, 31001)
    for text in ("31000 40000", "", "one", "31000 31000"):
        seeds.write_text(text)
        with pytest.raises(SystemExit, match="error: "):
            eval_tabletop.rehearsal_seeds(seeds)
    with pytest.raises(SystemExit, match="missing: no such file"):
        eval_tabletop.rehearsal_seeds(tmp_path / "missing")


def test_a_rate_is_of_all_planned_seeds() -> None:
    records = [record(seed, success=True, hard=True) for seed in (40000, 40002)]
    eval_tabletop.check_complete("lift_pot", records, (40002, 40000))
    with pytest.raises(SystemExit, match=r"lift_pot: only 2 of 4 seeds were scored; missing: 40001, 40003$"):
        eval_tabletop.check_complete("lift_pot", records, (40000, 40001, 40002, 40003))
    with pytest.raises(SystemExit, match=r"not planned: 40002$"):
        eval_tabletop.check_complete("lift_pot", records, (40000,))
    with pytest.raises(SystemExit, match=r"not planned: 40000$"):
        eval_tabletop.check_complete("lift_pot", [*records, records[0]], (40000, 40002))


def program(code: str) -> subprocess.Popen[bytes]:
    """A program that is up when this returns; it runs `code` after saying so."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"import signal, sys, time; print('up', flush=True); {code}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    process.stdout.close()
    return process


FOR_EVER = "time.sleep(60)"
STUBBORN = "signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(60)"


@pytest.mark.parametrize(
    ("simulator", "model", "wrong"),
    [
        ("sys.exit(0)", "time.sleep(0.5)", None),
        ("time.sleep(0.5)", "sys.exit(0)", None),
        (FOR_EVER, "sys.exit(3)", "eval-model ended with 3 while eval-sim still ran"),
        (FOR_EVER, "sys.exit(0)", "eval-model ended with 0 while eval-sim still ran"),
        ("sys.exit(2)", FOR_EVER, "eval-sim ended with 2"),
        ("sys.exit(0)", FOR_EVER, "eval-model still ran 1 s after eval-sim had ended"),
        ("sys.exit(0)", "time.sleep(0.5); sys.exit(4)", "eval-model ended with 4"),
        (STUBBORN, "sys.exit(3)", "eval-model ended with 3 while eval-sim still ran"),
    ],
)
def test_whichever_program_ends_first_the_other_is_not_waited_for(
    simulator: str, model: str, wrong: str | None
) -> None:
    processes = program(simulator), program(model)
    began = time.monotonic()
    assert eval_tabletop.run_both(*processes, patience=1.0) == wrong
    assert time.monotonic() - began < 20
    assert None not in [process.returncode for process in processes]


def test_changes_are_those_of_this_checkout_and_results_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = tmp_path / "checkout"
    (repository / checkout.RESULTS).mkdir(parents=True)
    result, code = repository / checkout.RESULTS / "log", repository / "code"
    for path in (result, code):
        path.write_text("before")

    def git(*arguments: str) -> str:
        who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        return subprocess.run(
            ["git", *who, *arguments], cwd=repository, check=True, capture_output=True, text=True
        ).stdout.strip()

    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    # Where the program was started does not matter.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(checkout, "REPO", repository)
    clean = checkout.GitState(git("rev-parse", "HEAD"), uncommitted_changes=False)
    assert checkout.git_state() == clean
    result.write_text("after")
    assert checkout.git_state() == clean
    code.write_text("after")
    assert checkout.git_state() == checkout.GitState(clean.commit, uncommitted_changes=True)
    monkeypatch.setenv("PATH", os.devnull)
    assert checkout.git_state() == checkout.GitState(None, uncommitted_changes=False)


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
    eval_tabletop.write_results([row], checkpoint="cd" * 32, code=CLEAN, folder=tmp_path)
    page = (tmp_path / "tabletop_50.md").read_text()
    assert "66.6 % (2/3)" in page
    assert "failed seeds 40002" in page
    assert "not** RoboPRO numbers" in page
    assert "commit `0123456789ab`,\n" in page
    assert json.loads((tmp_path / "tabletop_50.json").read_text())["tasks"][0]["successes"] == 2
    eval_tabletop.write_results([row], checkpoint="cd" * 32, code=DIRTY, folder=tmp_path)
    assert "commit `0123456789ab` **with uncommitted changes**," in (tmp_path / "tabletop_50.md").read_text()
    assert json.loads((tmp_path / "tabletop_50.json").read_text())["uncommitted_changes"] is True


def test_a_time_one_episode_does_not_know_is_not_averaged() -> None:
    records = [record(40000, success=True, hard=True), record(40001, success=True, hard=True)]
    records[1].model_seconds = None  # a stock model does not tell
    assert eval_tabletop.score("lift_pot", records).wire_seconds is None
