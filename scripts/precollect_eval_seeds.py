#!/usr/bin/env python
"""Collect a bank of seeds: from a start seed upwards, those whose scene is stable and whose expert succeeds.

Writes `<root>/<bank>/<task>/<config>.txt` in RoboPRO's format: the seeds on one line, separated by spaces, no newline.

    python scripts/precollect_eval_seeds.py                     # the shipped banks of all tasks again
    python scripts/precollect_eval_seeds.py --task lift_pot --bank my_bank --count 20 --root my_seeds
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from robopro_eval.simulators import Benchmark, TaskEnv, get_benchmark
from robopro_eval.simulators.tabletop.seeds import EVALUATION_START, SELECTION

# The banks that ship: by the first seed tried, name and number of seeds.
SHIPPED_BANKS = {
    EVALUATION_START: {"eval_seeds": 50, "k320_first10_seeds": 10},
    SELECTION.start: {"try_out_seeds": 50},
}
# Give up on a task when this many seeds in a row are no good: something is wrong with it, not with the seeds.
HOPELESS = 50


def acceptable(env: TaskEnv, setup: dict[str, object], seed: int, number: int) -> bool:
    """Whether this seed's objects come to rest and the expert solves it."""
    try:
        env.setup_demo(**{**setup, "seed": seed, "now_ep_num": number, "is_test": True, "eval_mode": True})  # type: ignore[arg-type]
    except Exception as reason:
        if type(reason).__name__ != "UnStableError":
            raise
        return False
    env.play_once()
    env.close_env()
    return env.plan_success and env.check_success()


def collect(benchmark: Benchmark, task: str, config: str, start: int, count: int) -> list[int]:
    """The first `count` acceptable seeds from `start` upwards."""
    env = benchmark.make_env(task)
    setup = benchmark.setup_kwargs(task, config)
    seeds: list[int] = []
    seed = start
    while len(seeds) < count:
        if acceptable(env, setup, seed, len(seeds)):
            seeds.append(seed)
        elif seed - (seeds[-1] if seeds else start) > HOPELESS:
            raise SystemExit(
                f"error: {task}: no acceptable seed among the {HOPELESS} before {seed}; is the expert broken?"
            )
        seed += 1
    return seeds


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", action="append", help="a task (may be repeated; default: all)")
    parser.add_argument("--bank", help="name of one bank to write (default: the shipped ones)")
    parser.add_argument("--count", type=int, default=50, help="seeds in it, with --bank (default 50)")
    parser.add_argument(
        "--start",
        type=int,
        default=EVALUATION_START,
        help="first seed tried, with --bank (default %(default)s)",
    )
    parser.add_argument("--root", type=Path, help="where the banks go (default: the installed package's)")
    options = parser.parse_args(argv)

    benchmark = get_benchmark()
    root = options.root or benchmark.seeds_root()
    wanted = {options.start: {options.bank: options.count}} if options.bank else SHIPPED_BANKS
    for task in options.task or benchmark.task_names():
        for config in benchmark.config_names(task):
            for start, banks in wanted.items():
                seeds = collect(benchmark, task, config, start, max(banks.values()))
                for bank, count in banks.items():
                    path = root / bank / task / f"{config}.txt"
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(" ".join(str(seed) for seed in seeds[:count]), encoding="utf-8")
                    print(f"{path}: {count} seeds, {seeds[0]}..{seeds[count - 1]}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
