"""The final evaluation of a checkpoint on the tabletop: 50 evaluation seeds per task, over a real socket.

    python scripts/eval_tabletop.py --reason "release of the checkpoint"

For each task it starts `eval-sim` (listening) and `eval-model` (dialing) as two programs, as a user would, reads the
records they leave, and writes docs/results/tabletop_50.md and .json. A rate is a rate of all planned seeds: if one of
them has no scored episode, nothing is written. The evaluation seeds are for final numbers only: every use of them is
appended to docs/results/evaluation_range_uses.jsonl *before* the first episode, with the reason.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

import typer
from checkout import REPO, GitState, git_state
from rich.console import Console
from rich.table import Table

from robopro_eval.console.errors import UsageError
from robopro_eval.records import EpisodeRecord, read_jsonl, wilson_interval
from robopro_eval.simulators.tabletop.catalogue import TASK_CONFIGS
from robopro_eval.simulators.tabletop.seeds import EVALUATION_START, bank_path
from sim_endpoint.seeds import read_seed_file

DEFAULT_CHECKPOINT = REPO / "policies" / "dxvla" / "checkpoints" / "tabletop"
RESULTS = REPO / "docs" / "results"
# How long a program may take to notice that the run is over, and again to obey an interrupt.
GOODBYE_SECONDS = 20.0
POLL_SECONDS = 0.2

# Wide enough for the table where the output is a file.
console = Console(width=None if sys.stdout.isatty() else 160)


@dataclass(frozen=True)
class TaskScore:
    """What came out for one task; seconds are means per episode."""

    task: str
    episodes: int
    successes: int
    hard_successes: int
    success_interval: tuple[float, float]
    hard_success_interval: tuple[float, float]
    mean_steps: float
    seconds_per_episode: float
    sim_seconds: float
    wire_seconds: float | None
    """All of the calls that is not inference: encoding, the wire itself, queueing."""
    model_seconds: float | None
    failed_seeds: list[int]


def free_port() -> int:
    """A port that was free a moment ago, in the range the clusters leave open."""
    for port in range(29700, 30000):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise SystemExit("error: no free port between 29700 and 29999")


def log_use(path: Path, *, tasks: Sequence[str], episodes: int, checkpoint: str, code: GitState, reason: str) -> None:
    """Appends one line: who looks at evaluation seeds is written down before looking."""
    line = {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "git_commit": code.commit,
        "uncommitted_changes": code.uncommitted_changes,
        "checkpoint_sha256": checkpoint,
        "tasks": list(tasks),
        "seeds_per_task": episodes,
        "reason": reason,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def planned_seeds(task: str, episodes: int) -> tuple[int, ...]:
    """The first `episodes` seeds of the shipped list of a task.

    Raises:
        SystemExit: the list is not that long.
    """
    path = bank_path(task, TASK_CONFIGS[task][0])
    seeds = read_seed_file(path) if path else ()
    if not 1 <= episodes <= len(seeds):
        raise SystemExit(
            f"error: {task}: --episodes must be 1 to {len(seeds)}, the seeds shipped for it; got {episodes}"
        )
    return seeds[:episodes]


def rehearsal_seeds(path: Path) -> tuple[int, ...]:
    """The seeds of a rehearsal file.

    Raises:
        SystemExit: the file cannot be read, or holds a seed of the evaluation range.
    """
    try:
        seeds = read_seed_file(path)
    except UsageError as error:
        raise SystemExit(f"error: {error}") from None
    if max(seeds) >= EVALUATION_START:
        raise SystemExit(f"error: {path}: a rehearsal uses seeds below {EVALUATION_START}")
    return seeds


def stop(process: subprocess.Popen[bytes], patience: float = GOODBYE_SECONDS) -> None:
    """Interrupts a program if it still runs, and kills it if it does not obey."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    try:
        process.wait(timeout=patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def run_both(
    simulator: subprocess.Popen[bytes], model: subprocess.Popen[bytes], patience: float = GOODBYE_SECONDS
) -> str | None:
    """Waits for the end of the run; returns what went wrong, or None. Neither program runs on afterwards.

    The simulator would wait for ever for a model that died before it connected, and the model for a simulator.
    """
    try:
        model_ended = None
        while simulator.poll() is None:
            if model.poll() is not None:
                model_ended = model_ended or time.monotonic()
                # One that ended well has been told that the run is over; the simulator is about to end too.
                if model.returncode or time.monotonic() - model_ended > patience:
                    return f"eval-model ended with {model.returncode} while eval-sim still ran"
            time.sleep(POLL_SECONDS)
        if simulator.returncode:
            return f"eval-sim ended with {simulator.returncode}"
        try:
            code = model.wait(timeout=patience)
        except subprocess.TimeoutExpired:
            return f"eval-model still ran {patience:.0f} s after eval-sim had ended"
        return f"eval-model ended with {code}" if code else None
    finally:
        try:
            stop(simulator, patience)
        finally:
            stop(model, patience)


def run_task(
    task: str, seeds: Sequence[int], checkpoint: Path, run: str, runs_root: Path, seed_file: Path | None = None
) -> list[EpisodeRecord]:
    """Two programs, one socket, one task. Returns the episodes, one for each of `seeds`.

    `seeds` is what is expected of the programs, which read the shipped list themselves, or `seed_file`.

    Raises:
        SystemExit: one of the programs failed, or not every seed was scored; their output is in the run's folder.
    """
    port = str(free_port())
    logs = runs_root / run / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    common = {**os.environ, "SIM_SERVER_PORT": port, "OMP_NUM_THREADS": "1"}
    simulator_environment = {
        **common,
        "SIM_AS_SERVER": "1",
        "SIM_SERVER_BIND": "127.0.0.1",
        "STUDY_RUN": run,
        "RUNS_ROOT": str(runs_root),
        "EVAL_TEST_NUM": str(len(seeds)),
        **({"EVAL_SEED_FILE": str(seed_file.resolve())} if seed_file else {"USE_EVAL_SEEDS": "1"}),
    }
    model_environment = {**common, "MODEL_AS_CLIENT": "1", "SIM_SERVER_HOST": "127.0.0.1"}
    arguments = ["--policy_name", "dxvla", "--ckpt_setting", "tabletop"]
    programs = Path(sys.executable).parent
    simulator: list[str | Path] = [programs / "eval-sim", "--task_name", task]
    simulator += ["--task_config", TASK_CONFIGS[task][0], *arguments]
    model: list[str | Path] = [programs / "eval-model", *arguments, "--checkpoint_path", checkpoint.resolve()]
    with (logs / f"{task}_sim.log").open("wb") as sim_log, (logs / f"{task}_model.log").open("wb") as model_log:
        sim_process = subprocess.Popen(
            simulator, env=simulator_environment, cwd=REPO, stdout=sim_log, stderr=subprocess.STDOUT
        )
        try:
            model_process = subprocess.Popen(
                model, env=model_environment, cwd=REPO, stdout=model_log, stderr=subprocess.STDOUT
            )
        except BaseException:
            stop(sim_process)
            raise
        wrong = run_both(sim_process, model_process)
    if wrong:
        raise SystemExit(f"error: {task}: {wrong}; see {logs / task}_sim.log and {task}_model.log beside it")
    found = sorted((runs_root / run / "eval_result" / task).glob("**/_metrics.jsonl"))
    if not found:
        raise SystemExit(f"error: {task}: no _metrics.jsonl below {runs_root / run}; see {logs}")
    records = [EpisodeRecord.model_validate(line) for line in read_jsonl(found[-1])]
    check_complete(task, records, seeds)
    return records


def check_complete(task: str, records: Sequence[EpisodeRecord], seeds: Sequence[int]) -> None:
    """A rate over fewer episodes than planned would leave out just the ones that went wrong.

    Raises:
        SystemExit: a planned seed has no episode, or there is an episode nobody planned.
    """
    scored = [record.seed for record in records]
    missing = [seed for seed in seeds if seed not in scored]
    if missing:
        raise SystemExit(
            f"error: {task}: only {len(seeds) - len(missing)} of {len(seeds)} seeds were scored; "
            f"missing: {', '.join(map(str, missing))}"
        )
    if sorted(scored) != sorted(seeds):
        extra = sorted(seed for seed in set(scored) if scored.count(seed) > seeds.count(seed))
        raise SystemExit(f"error: {task}: episodes of seeds that were not planned: {', '.join(map(str, extra))}")


def score(task: str, records: Sequence[EpisodeRecord]) -> TaskScore:
    """Sums up the records of one task."""
    count = len(records)
    successes = sum(r.success for r in records)
    hard = sum(bool(r.hard_success) for r in records)

    def mean(values: Sequence[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return sum(known) / len(known) if len(known) == count and count else None

    return TaskScore(
        task=task,
        episodes=count,
        successes=successes,
        hard_successes=hard,
        success_interval=wilson_interval(successes, count),
        hard_success_interval=wilson_interval(hard, count),
        mean_steps=mean([float(r.steps) for r in records]) or 0.0,
        seconds_per_episode=mean([r.wall_seconds for r in records]) or 0.0,
        sim_seconds=mean([r.sim_seconds for r in records]) or 0.0,
        wire_seconds=mean([None if r.model_seconds is None else r.call_seconds - r.model_seconds for r in records]),
        model_seconds=mean([r.model_seconds for r in records]),
        failed_seeds=[r.seed for r in records if not r.success],
    )


def percent_down(successes: int, episodes: int) -> str:
    """A percentage that is never rounded up."""
    return f"{int(1000 * successes / max(1, episodes)) / 10:.1f} %"


HEADINGS = ("task", "SR", "95 % interval", "HSR", "95 % interval", "mean steps", "s/episode", "sim/wire/model (s)")


def cells(row: TaskScore) -> tuple[str, ...]:
    """One row of the table, as text."""

    def interval(bounds: tuple[float, float]) -> str:
        # Outwards, so that the interval printed holds the one computed.
        return f"{math.floor(1000 * bounds[0]) / 10:.1f} to {math.ceil(1000 * bounds[1] - 1e-9) / 10:.1f}"

    def rate(successes: int) -> str:
        return f"{percent_down(successes, row.episodes)} ({successes}/{row.episodes})"

    parts = (row.sim_seconds, row.wire_seconds, row.model_seconds)
    split = " / ".join("?" if part is None else f"{part:.2f}" for part in parts)
    return (
        row.task,
        rate(row.successes),
        interval(row.success_interval),
        rate(row.hard_successes),
        interval(row.hard_success_interval),
        f"{row.mean_steps:.1f}",
        f"{row.seconds_per_episode:.2f}",
        split,
    )


def write_results(scores: Sequence[TaskScore], *, checkpoint: str, code: GitState, folder: Path) -> None:
    """docs/results/tabletop_50.md and .json; `code` is the state of the checkout before the first episode."""
    commit = f"commit `{code.commit[:12]}`" if code.commit else "an unknown commit"
    changes = " **with uncommitted changes**" if code.uncommitted_changes else ""
    date = datetime.now(timezone.utc).date().isoformat()
    lines = [
        "# The shipped checkpoint on the tabletop benchmark",
        "",
        "Over a real socket (`eval-sim` listening, `eval-model` dialing, on one machine), on the evaluation seeds,",
        "which were used neither for training nor for choosing anything. These are **not** RoboPRO numbers: the",
        "tabletop is another, smaller benchmark with its own physics, objects and robot.",
        "",
        f"Made by `python scripts/eval_tabletop.py` on {date}, {commit}{changes},",
        f"checkpoint sha256 `{checkpoint[:16]}`.",
        "Percentages are cut, never rounded up; intervals are Wilson's, rounded outwards. Times are means per episode.",
        "",
        "| " + " | ".join(HEADINGS) + " |",
        "|" + "---|" * len(HEADINGS),
        *("| " + " | ".join(cells(row)) + " |" for row in scores),
        "",
        *(f"- {row.task}: failed seeds {', '.join(map(str, row.failed_seeds)) or 'none'}" for row in scores),
        "",
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tabletop_50.md").write_text("\n".join(lines), encoding="utf-8")
    summary = {
        "date": date,
        "git_commit": code.commit,
        "uncommitted_changes": code.uncommitted_changes,
        "checkpoint_sha256": checkpoint,
        "tasks": [asdict(s) for s in scores],
    }
    (folder / "tabletop_50.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")


def main(
    reason: Annotated[str, typer.Option(help="Why the evaluation seeds are used; it is written down.")],
    checkpoint: Annotated[Path, typer.Option(help="Checkpoint folder.")] = DEFAULT_CHECKPOINT,
    tasks: Annotated[str, typer.Option(help="Comma-separated; default all.")] = ",".join(TASK_CONFIGS),
    episodes: Annotated[int, typer.Option(help="Seeds per task, from the shipped lists.")] = 50,
    runs_root: Annotated[Path, typer.Option(help="Where the runs go.")] = REPO / "runs",
    rehearsal: Annotated[
        Path | None, typer.Option(help="A file of other seeds, to try this; writes no result.")
    ] = None,
) -> None:
    """Runs the final evaluation and writes its table."""
    names = [name.strip() for name in tasks.split(",") if name.strip()]
    unknown = [name for name in names if name not in TASK_CONFIGS]
    if unknown or not names:
        console.print(
            f"error: unknown task {', '.join(unknown) or '(none given)'}; there are {', '.join(TASK_CONFIGS)}"
        )
        raise typer.Exit(2)
    weights = checkpoint / "model.safetensors"
    if not weights.is_file():
        console.print(f"error: no checkpoint at {weights}; train one with scripts/train_tabletop.py")
        raise typer.Exit(1)
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    code = git_state()
    if rehearsal is not None:
        seeds = dict.fromkeys(names, rehearsal_seeds(rehearsal))
        episodes = len(seeds[names[0]])
    else:
        seeds = {task: planned_seeds(task, episodes) for task in names}
        log = RESULTS / "evaluation_range_uses.jsonl"
        log_use(log, tasks=names, episodes=episodes, checkpoint=digest, code=code, reason=reason)
    run = f"tabletop_{episodes}_{time.strftime('%Y%m%d_%H%M%S')}"
    scores = []
    for task in names:
        with console.status(f"{task}: {episodes} episodes over the socket"):
            scores.append(score(task, run_task(task, seeds[task], checkpoint, run, runs_root.resolve(), rehearsal)))
        row = scores[-1]
        console.print(f"{task}: {row.successes}/{row.episodes}, {row.seconds_per_episode:.2f} s per episode")
    table = Table(*HEADINGS)
    for row in scores:
        table.add_row(*cells(row))
    console.print(table)
    if rehearsal is None and names == list(TASK_CONFIGS) and episodes == 50:
        write_results(scores, checkpoint=digest, code=code, folder=RESULTS)
        console.print(f"written: {RESULTS / 'tabletop_50.md'} and .json")


if __name__ == "__main__":
    typer.run(main)
