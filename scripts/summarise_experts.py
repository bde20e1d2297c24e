#!/usr/bin/env python3
"""Write docs/results/experts_100.md from the runs that scripts/full_check.sh made.

python scripts/summarise_experts.py RUNS_FOLDER TARGET.md
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

from robopro_eval.records import EpisodeRecord, read_jsonl, wilson_interval

MINIMUM = 0.95
"""What the benchmark promises of its experts."""

HEAD = """# The scripted experts on 100 seeds

Made by `scripts/full_check.sh experts` with sapien {sapien}; seeds {first} to {last}, which are for choosing things and
not for evaluation.

| task | solved | 95 % interval | without collision | mean actions | seconds per episode |
|---|---|---|---|---|---|
"""


def main(runs: Path, target: Path) -> int:
    """Returns 1 if an expert misses the promise; the table is written all the same."""
    rows, seeds, missed = [], set[int](), []
    for metrics in sorted(runs.rglob("_metrics.jsonl")):
        records = [EpisodeRecord.model_validate(line) for line in read_jsonl(metrics)]
        seeds |= {record.seed for record in records}
        task, count = records[0].task, len(records)
        solved = sum(record.success for record in records)
        clean = sum(bool(record.hard_success) for record in records)
        low, high = wilson_interval(solved, count)
        steps = sum(record.steps for record in records) / count
        seconds = sum(record.wall_seconds for record in records) / count
        rows.append(
            f"| `{task}` | {solved}/{count} | {100 * low:.1f} % to {100 * high:.1f} % | {clean}/{count} "
            f"| {steps:.0f} | {seconds:.2f} |\n"
        )
        if solved < MINIMUM * count:
            missed.append(task)
    target.parent.mkdir(parents=True, exist_ok=True)
    head = HEAD.format(first=min(seeds), last=max(seeds), sapien=version("sapien"))
    target.write_text(head + "".join(rows), "utf-8")
    print(target.read_text("utf-8"))
    if missed:
        print(f"error: fewer than {MINIMUM:.0%} solved: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
