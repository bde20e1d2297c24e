"""What one control step costs on the wire, beside other ways of doing it: real processes on loopback, arms interleaved.

    python scripts/bench_wire.py --setup               # once: what the foreign arms need, into .bench_venv/
    python scripts/bench_wire.py                       # everything that can run here, in some minutes
    python scripts/bench_wire.py --quick               # the first payload, few rounds: under a minute
    python scripts/bench_wire.py --profile binary      # where the time of one step goes
    python scripts/bench_wire.py --json docs/results/wire_speed.json && python scripts/bench_wire.py --readme

Every arm is checked before it is timed: the model's side tells the checksum of what arrived, and every reply must hold
what the policy gives for that very step.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from checkout import REPO, git_state
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from wire_benchmark import report, stages
from wire_benchmark.arms import ARMS
from wire_benchmark.measure import measure
from wire_benchmark.observations import PAYLOADS
from wire_benchmark.processes import Environments

from robopro_eval.console.errors import UsageError, UserError, run_program

SITTINGS, ROUNDS = 4, 10
QUICK_ROUNDS = 8
FOREIGN = REPO / ".bench_venv"
REQUIREMENTS = REPO / "scripts" / "wire_benchmark" / "requirements.txt"
RESULTS = REPO / "docs" / "results" / "wire_speed.json"
SETUP = "python scripts/bench_wire.py --setup"

# Wide enough for the table where the output is a file.
console = Console(width=None if sys.stdout.isatty() else 160)


def set_up() -> None:
    """Make the environment of the foreign arms."""
    if not (FOREIGN / "bin" / "python").exists():
        venv.create(FOREIGN, with_pip=True)
    command = [str(FOREIGN / "bin" / "python"), "-m", "pip", "install", "--quiet", "-r", str(REQUIREMENTS)]
    if subprocess.run(command, check=False).returncode:
        raise UserError(f"pip could not install {REQUIREMENTS.name}; its own words are above")
    console.print(f"{FOREIGN.name}: ready")


def environments() -> Environments:
    """Ours, and the foreign one where it was set up."""
    python = FOREIGN / "bin" / "python"
    return Environments(foreign=str(python) if python.exists() else None)


def chosen(names: str, known: Sequence[str], what: str) -> list[str]:
    """The comma-separated names, in the order of `known`. Raises UsageError for others."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise UsageError(f"{', '.join(unknown)}: no such {what}; there are {', '.join(known)}")
    return [name for name in known if name in wanted]


def choose_arms(names: str, foreign: bool, quick: bool) -> list[str]:
    """What to run; without names, what can run here, saying what cannot. Raises UsageError."""
    usual = [name for name, arm in ARMS.items() if arm.calls == 1 or not quick]
    arms = chosen(names, list(ARMS), "arm") or usual
    missing = [] if foreign else [name for name in arms if ARMS[name].foreign]
    if missing and names:
        raise UsageError(f"{', '.join(missing)}: these arms need packages of their own; install them with: {SETUP}")
    if missing:
        console.print(f"without {', '.join(missing)}, which need packages of their own; install them with: {SETUP}")
    return [name for name in arms if name not in missing]


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[], None]]:
    """A bar that is drawn between two blocks of steps, never during one: no thread of it may take a core."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as bar:
        task = bar.add_task(title, total=total)

        def tick() -> None:
            bar.advance(task)
            bar.refresh()

        yield tick


def run(arms: list[str], payloads: list[str], sittings: int, rounds: int, profiled: list[str], to: Path | None) -> None:
    """Measure, print, and write `to` where it is given."""
    about, where = describe(), environments()
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > cores - 1:  # the two programs of an arm take turns: together they want one core
        console.print(
            f"note: this machine is busy (load {load:.1f} on {cores} cores); times and ratios will be too high"
        )
    results = []
    for payload in payloads:
        with progress(PAYLOADS[payload].title, sittings * rounds * len(arms)) as tick:
            measured = measure(payload, arms, sittings, rounds, where, tick)
        results += measured
        console.print(report.table(payload, measured))
    split = {arm: stages.profile(ARMS[arm], report.FIRST, where) for arm in profiled if arm in arms}
    outcome = report.Report(about, results, split)
    for target in report.targets(outcome.of(report.FIRST)):
        console.print(str(target), highlight=False)
    if to is not None:
        outcome.save(to)
        console.print(f"written: {to}")


def print_profile(arm: str) -> None:
    """Where the time of one step of `arm` goes, with every payload."""
    if arm not in stages.ARMS:
        raise UsageError(f"{arm}: cannot be profiled; there are {', '.join(stages.ARMS)}")
    columns = {payload: stages.profile(ARMS[arm], payload, environments()) for payload in PAYLOADS}
    console.print(report.stage_table(ARMS[arm].title, columns))


def write_pages(source: Path) -> None:
    """The page and the README's table, from a file of results."""
    if not source.is_file():
        raise UsageError(f"{source} is not there; make it with: python scripts/bench_wire.py --json {source}")
    outcome = report.Report.load(source)
    source.with_suffix(".md").write_text(report.page(outcome), encoding="utf-8")
    readme = REPO / "README.md"
    readme.write_text(report.with_part(readme.read_text("utf-8"), report.readme_part(outcome)), encoding="utf-8")
    console.print(f"written: {source.with_suffix('.md')} and README.md")


def describe() -> dict[str, object]:
    """Which code, which machine, which versions."""
    code = git_state()
    model = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), "")
    pins = [line.split("==") for line in REQUIREMENTS.read_text().splitlines() if "==" in line]
    return {
        "date": datetime.now(timezone.utc).date().isoformat(),
        "commit": code.commit,
        "uncommitted_changes": code.uncommitted_changes,
        "load": round(os.getloadavg()[0], 2),
        "machine": f"{os.cpu_count()} cores of {model.partition(':')[2].strip() or platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: version(name) for name in ("numpy", "pybase64", "trio")},
        "foreign_packages": dict(pins),
    }


def main(
    arms: Annotated[
        str, typer.Option(help=f"Comma-separated, of {', '.join(ARMS)}; default: all that can run here.")
    ] = "",
    payloads: Annotated[str, typer.Option(help="Comma-separated; default: all.")] = "",
    rounds: Annotated[
        int | None, typer.Option(min=1, help=f"Turns of every arm in each of {SITTINGS} sittings (default {ROUNDS}).")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="The first payload, few rounds.")] = False,
    to: Annotated[Path | None, typer.Option("--json", help="The file of results.", metavar="FILE")] = None,
    profile: Annotated[str, typer.Option(help="Only say where the time of this arm goes.", metavar="ARM")] = "",
    readme: Annotated[bool, typer.Option("--readme", help="Only make page and README's table from the file.")] = False,
    setup: Annotated[bool, typer.Option("--setup", help="Only install what the foreign arms need.")] = False,
) -> None:
    """Measures what one control step costs on the wire."""

    def work() -> int:
        if setup:
            set_up()
        elif readme:
            write_pages(to or RESULTS)
        elif profile:
            print_profile(profile)
        else:
            names = choose_arms(arms, environments().foreign is not None, quick)
            kinds = chosen(payloads, list(PAYLOADS), "payload") or ([report.FIRST] if quick else list(PAYLOADS))
            if quick:
                run(names, kinds, 1, rounds or QUICK_ROUNDS, [], to)
            else:
                run(names, kinds, SITTINGS, rounds or ROUNDS, list(stages.ARMS), to)
        return 0

    raise typer.Exit(run_program(work))


if __name__ == "__main__":
    typer.run(main)
