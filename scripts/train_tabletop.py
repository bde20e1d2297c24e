"""Makes the shipped dxvla checkpoint again: demonstrations, training, corrections, training.

    python scripts/train_tabletop.py                      # everything, in well under an hour on two cores
    python scripts/train_tabletop.py --smoke              # the same path in a few minutes; the result is not usable
    python scripts/train_tabletop.py --tasks put_cup_in_box --workdir data/one_task

Rounds: first the expert, with noise on what it executes, shows what to do; then the network so far moves the arm and
the expert says what it should have done from where it got to. After every round the network is trained on everything.
All of it uses training seeds (0..29999); the success printed at the end comes from selection seeds (30000..39999).
The evaluation seeds (40000 and above) are never touched here.

A stopped run goes on where it was: finished shards and finished rounds are kept in the work directory.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import platform
import shlex
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

import typer
from checkout import REPO, git_state
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from tabletop_training.collect import Job, JobReport, run_job
from tabletop_training.instructions import TASKS
from tabletop_training.rollouts import RolloutJob, RolloutResult, run_rollouts

from robopro_eval.simulators.tabletop.seeds import SELECTION

# One job's seeds: small enough that two workers end together and little is lost when a run is stopped.
BLOCK = 10
SHIPPED = REPO / "policies" / "dxvla" / "checkpoints" / "tabletop"


@dataclass(frozen=True)
class Round:
    """Episodes per task from this first training seed on, then training steps on everything so far.

    `expert_share` of the chunks are executed by the noisy expert instead of the network (round 0: all).
    """

    episodes: int
    first_seed: int
    steps: int
    learning_rate: float
    expert_share: float


FULL = (
    Round(episodes=160, first_seed=0, steps=6000, learning_rate=1e-3, expert_share=1.0),
    Round(episodes=100, first_seed=10000, steps=10000, learning_rate=1e-3, expert_share=0.2),
)
SMOKE = (
    Round(episodes=4, first_seed=0, steps=40, learning_rate=1e-3, expert_share=1.0),
    Round(episodes=2, first_seed=10000, steps=20, learning_rate=1e-3, expert_share=0.5),
)

console = Console()


def progress_bar() -> Progress:
    """The same columns for every stage."""
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    return Progress(TextColumn("{task.description}"), *columns, console=console)


@contextmanager
def workers(count: int) -> Iterator[ProcessPoolExecutor]:
    """Fresh processes (a forked renderer does not survive); Ctrl-C ends them at once, finished shards are kept."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(count, mp_context=context, initializer=_die_of_interrupts)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def _die_of_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def collect_round(
    number: int, plan: Round, tasks: Sequence[str], workdir: Path, checkpoint: Path | None, seed: int, processes: int
) -> list[Path]:
    """Makes the missing shards of a round; returns all of them, in a fixed order."""
    jobs = []
    for first in range(plan.first_seed, plan.first_seed + plan.episodes, BLOCK):
        last = min(first + BLOCK, plan.first_seed + plan.episodes)
        for task in tasks:
            shard = workdir / f"round{number}" / f"{task}_{first:05d}.npz"
            jobs.append(Job(task, tuple(range(first, last)), shard, checkpoint, plan.expert_share, seed, number))
    missing = [job for job in jobs if not job.shard.exists()]
    reports: list[JobReport] = []
    with progress_bar() as progress, workers(processes) as pool:
        bar = progress.add_task(f"round {number}: demonstrations", total=len(jobs), completed=len(jobs) - len(missing))
        for future in as_completed([pool.submit(run_job, job) for job in missing]):
            reports.append(future.result())
            progress.advance(bar)
    for task in tasks:
        mine = [report for report in reports if report.job.task == task]
        if mine:
            episodes, successes = sum(r.episodes for r in mine), sum(r.successes for r in mine)
            samples, skipped = sum(r.samples for r in mine), sum(len(r.skipped) for r in mine)
            console.print(
                f"  {task}: {successes}/{episodes} episodes solved, {samples} samples, {skipped} seeds skipped"
            )
    return [job.shard for job in jobs]


def train_round(
    number: int,
    rounds: Sequence[Round],
    tasks: Sequence[str],
    shards: Sequence[Path],
    start: Path | None,
    out: Path,
    seed: int,
) -> None:
    """Trains round `number` on all shards so far, from `start` if there is one; writes the checkpoint folder `out`."""
    import torch
    from tabletop_training.dataset import load_shards
    from tabletop_training.learn import Recipe, set_statistics, train

    from policies.dxvla.network import NetworkConfig, TabletopNetwork, load_torch_network, save_network

    plan = rounds[number]
    torch.manual_seed(seed + number)
    data = load_shards(shards, list(tasks))
    recipe = Recipe(steps=plan.steps, learning_rate=plan.learning_rate)
    if start is None:
        network = TabletopNetwork(NetworkConfig())
        set_statistics(network, data)
    else:
        network = load_torch_network(start)
    notes = describe(tasks, seed, len(data), rounds)

    def keep(step: int, average: TabletopNetwork) -> None:
        save_network(average, out.with_name(f"{out.name}_partial"), {**notes, "stopped_at_step": step})
        console.print(f"  step {step}/{plan.steps}: kept {out.name}_partial")

    with progress_bar() as progress:
        bar = progress.add_task(f"round {number}: training on {len(data)} samples", total=plan.steps)

        def on_step(step: int, loss: float) -> None:
            if step % 20 == 0 or step == plan.steps:
                text = f"round {number}: training on {len(data)} samples, loss {loss:.4f}"
                progress.update(bar, completed=step, description=text)

        average = train(network, data, recipe, seed + number, on_step, keep)
    save_network(average, out, {**notes, "recipe": asdict(recipe)})


def describe(tasks: Sequence[str], seed: int, samples: int, rounds: Sequence[Round]) -> dict[str, object]:
    """What config.json says about the making of a checkpoint."""
    import torch

    code = git_state()
    return {
        "trained_on": "robopro-eval tabletop, scripted expert's demonstrations",
        "instructions": {name: list(TASKS[name].phrasings) for name in tasks},
        "training": {
            "command": shlex.join(["python", "scripts/train_tabletop.py", *sys.argv[1:]]),
            "seed": seed,
            "samples": samples,
            "rounds": [asdict(r) for r in rounds],
            "environment_seeds": "training range 0..29999",
            "git_commit": code.commit,
            "uncommitted_changes": code.uncommitted_changes,
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "python": platform.python_version(),
            "torch": torch.__version__,
            "machine": platform.machine(),
        },
    }


@dataclass(frozen=True)
class Selection:
    """One task on the selection seeds; the `unstable` ones, where things did not come to rest, are no episodes."""

    successes: int
    episodes: int
    mean_actions: float
    unstable: int


def select(checkpoint: Path, tasks: Sequence[str], episodes: int, processes: int) -> dict[str, Selection]:
    """Closed loop, per task, on the first `episodes` selection seeds."""
    block = 5
    jobs = []
    for first in range(SELECTION.start, SELECTION.start + episodes, block):
        seeds = tuple(range(first, min(first + block, SELECTION.start + episodes)))
        jobs += [RolloutJob(checkpoint, task, seeds, instruction_of=task, check_task=task) for task in tasks]
    results: dict[str, list[RolloutResult]] = {task: [] for task in tasks}
    with progress_bar() as progress, workers(processes) as pool:
        bar = progress.add_task("selection seeds", total=len(jobs))
        for future in as_completed([pool.submit(run_rollouts, job) for job in jobs]):
            result = future.result()
            results[result.job.task].append(result)
            progress.advance(bar)
    return {task: summed(blocks) for task, blocks in results.items()}


def summed(blocks: Sequence[RolloutResult]) -> Selection:
    """The blocks of one task together."""
    success = [value for block in blocks for value in block.success]
    steps = [value for block in blocks for value in block.steps]
    unstable = sum(len(block.unstable) for block in blocks)
    return Selection(sum(success), len(success), sum(steps) / max(1, len(steps)), unstable)


def make(
    names: list[str],
    rounds: Sequence[Round],
    workdir: Path,
    out: Path,
    seed: int,
    processes: int,
    selection_episodes: int,
) -> None:
    """All rounds, the copy to `out`, and the selection rollouts."""
    began = time.monotonic()
    checkpoint: Path | None = None
    shards: list[Path] = []
    for number, plan in enumerate(rounds):
        shards += collect_round(number, plan, names, workdir, checkpoint, seed, processes)
        folder = workdir / f"checkpoint{number}"
        if not (folder / "model.safetensors").exists():
            train_round(number, rounds, names, shards, checkpoint, folder, seed)
        checkpoint = folder
        console.print(f"round {number} done after {(time.monotonic() - began) / 60:.1f} minutes: {folder}")
    assert checkpoint is not None
    out.mkdir(parents=True, exist_ok=True)
    for name in ("model.safetensors", "config.json"):
        (out / name).write_bytes((checkpoint / name).read_bytes())
    digest = hashlib.sha256((out / "model.safetensors").read_bytes()).hexdigest()
    console.print(f"checkpoint {out} (sha256 {digest[:16]}...)")
    scores = select(checkpoint, names, selection_episodes, processes)
    table = Table("task", "selection seeds", "success", "mean actions", "unstable seeds")
    for name, score in scores.items():
        solved = f"{score.successes}/{score.episodes}"
        table.add_row(name, str(score.episodes), solved, f"{score.mean_actions:.0f}", str(score.unstable))
    console.print(table)
    summary = {"sha256": digest, "scores": {name: asdict(score) for name, score in scores.items()}}
    (workdir / "selection.json").write_text(json.dumps(summary, indent=2) + "\n")
    console.print(f"all in {(time.monotonic() - began) / 60:.1f} minutes")


def main(
    workdir: Annotated[Path, typer.Option(help="Demonstrations and checkpoints of the rounds.")] = Path(
        "data/tabletop"
    ),
    out: Annotated[Path, typer.Option(help="Where the finished checkpoint goes.")] = SHIPPED,
    tasks: Annotated[str, typer.Option(help="Comma-separated; default all.")] = ",".join(TASKS),
    seed: Annotated[int, typer.Option(help="Of weights, batches and noise.")] = 0,
    processes: Annotated[int, typer.Option(help="Simulators at a time.")] = 2,
    threads: Annotated[int, typer.Option(help="Training threads.")] = 2,
    selection_episodes: Annotated[int, typer.Option(help="Rollouts per task at the end.")] = 50,
    smoke: Annotated[bool, typer.Option(help="A few episodes and steps: does the path work?")] = False,
) -> None:
    """Makes demonstrations, trains, and measures on selection seeds."""
    names = [name.strip() for name in tasks.split(",") if name.strip()]
    unknown = [name for name in names if name not in TASKS]
    if unknown or not names:
        console.print(f"error: unknown task {', '.join(unknown) or '(none given)'}; there are {', '.join(TASKS)}")
        raise typer.Exit(2)
    rounds: tuple[Round, ...] = FULL
    if smoke:
        rounds, selection_episodes = SMOKE, 1
        workdir, out = workdir.with_name(f"{workdir.name}_smoke"), workdir.with_name(f"{workdir.name}_smoke") / "final"
    # Read when torch is loaded: threads that wait asleep. On a machine with other work, waiting in a busy loop made
    # training many times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("GOMP_SPINCOUNT", "0")
    import torch

    torch.set_num_threads(threads)
    # The workers inherit it: each is one thread, whatever numpy's or torch's libraries think.
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        make(names, rounds, workdir, out, seed, processes, selection_episodes)
    except KeyboardInterrupt:
        console.print("stopped; the same command goes on with what is finished")
        raise typer.Exit(130) from None
    except BrokenProcessPool:
        console.print("error: a simulator process died; the same command goes on with what is finished")
        raise typer.Exit(1) from None


if __name__ == "__main__":
    typer.run(main)
