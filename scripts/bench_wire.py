"""What one control step costs on the wire, beside other ways of doing it: real processes on loopback, interleaved.

    python scripts/bench_wire.py                       # everything that can run here: a few minutes
    python scripts/bench_wire.py --quick               # the first payload, few steps: under a minute
"""

from __future__ import annotations

import sys
from pathlib import Path

import typer
from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from wire_benchmark.arms import ARMS
from wire_benchmark.measure import measure
from wire_benchmark.observations import PAYLOADS
from wire_benchmark.processes import Environments

console = Console(width=None if sys.stdout.isatty() else 160)


def main(arms: str = ",".join(ARMS), payloads: str = ",".join(PAYLOADS), rounds: int = 20) -> None:
    for payload in payloads.split(","):
        for result in measure(payload, arms.split(","), rounds, Environments()):
            console.print(result)


if __name__ == "__main__":
    typer.run(main)
