"""Throw bytes at the readers of the wire for as long as you like, guided by coverage.

    python scripts/fuzz_wire.py --target all --seconds 1800
    python scripts/fuzz_wire.py --reproduce fuzz_findings/json-crash-0123

It needs atheris, which is no dependency of this project, best in an environment of its own:

    python3 -m venv fuzz_venv && fuzz_venv/bin/pip install atheris numpy pybase64
    PYTHONPATH=. fuzz_venv/bin/python scripts/fuzz_wire.py --target all --seconds 600

Exit code 0: nothing was found; 1: something was, and is written to a file; 2: the command was wrong or atheris is
missing. What counts as a finding is said in `fuzz_wire_targets.py`.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import subprocess
import sys
import tempfile
import tracemalloc
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

MAX_INPUT = 1 << 14
"""Longest input, in bytes: room for a few messages with small arrays. Frames of megabytes would only cost speed."""

SLOWEST = 10
"""Seconds that one input may take before it counts as a finding."""

MISSING = (
    "error: atheris is not installed here; run `python3 -m venv fuzz_venv && fuzz_venv/bin/pip install atheris numpy "
    "pybase64`, then this script with fuzz_venv/bin/python"
)


@dataclass
class Outcome:
    """What became of one target."""

    name: str
    executions: int = 0
    coverage: int = 0
    corpus: int = 0
    worst: float = 0.0
    finding: Path | None = None

    def __str__(self) -> str:
        found = "nothing found" if self.finding is None else f"FOUND {self.finding}"
        return (
            f"{self.name:<10} {self.executions:>11,} executions  coverage {self.coverage:>5}  corpus {self.corpus:>5}  "
            f"worst memory {self.worst:5.1f} bytes per byte  {found}"
        )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--target", default="all", help="frames, json, binary, requester, responder, auth, or all")
    parser.add_argument("--seconds", type=int, default=60, help="in all, shared by the targets (default 60)")
    parser.add_argument("--findings", type=Path, default=Path("fuzz_findings"), help="where inputs that break it go")
    parser.add_argument("--corpus", type=Path, help="keep what was learnt in this folder and begin from it")
    parser.add_argument("--reproduce", type=Path, metavar="FILE", help="run one finding again and let it raise")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)

    from fuzz_wire_seeds import seeds
    from fuzz_wire_targets import TARGETS, measured

    if options.reproduce is not None:
        name = options.reproduce.name.partition("-")[0]
        if name not in TARGETS:
            parser.error(f"{options.reproduce.name} does not begin with the name of a target")
        tracemalloc.start()
        ratio = measured(TARGETS[name], options.reproduce.read_bytes())
        print(f"{name}: no error; {ratio:.1f} bytes of memory per byte of input")
        return 0
    if options.target not in (*TARGETS, "all"):
        parser.error(f"there is no target {options.target!r}; there are {', '.join(TARGETS)} and all")
    try:
        import atheris  # type: ignore[import-untyped]  # noqa: F401
    except ImportError:
        print(MISSING, file=sys.stderr)
        return 2
    names = list(TARGETS) if options.target == "all" else [options.target]
    options.findings.mkdir(parents=True, exist_ok=True)
    outcomes = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in names:
            corpus = (options.corpus or Path(scratch)) / name
            corpus.mkdir(parents=True, exist_ok=True)
            for number, seed in enumerate(seeds(name)):
                (corpus / f"seed-{number:03}").write_bytes(seed)
            outcomes.append(run(name, max(1, options.seconds // len(names)), corpus, options.findings, Path(scratch)))
            print(outcomes[-1], flush=True)
    with contextlib.suppress(OSError):  # there are findings
        options.findings.rmdir()
    return int(any(outcome.finding is not None for outcome in outcomes))


def run(name: str, seconds: int, corpus: Path, findings: Path, scratch: Path) -> Outcome:
    """Fuzz one target in a process of its own: libFuzzer ends its process, whatever happens."""
    worst, words = scratch / f"{name}.worst", scratch / "words"
    words.write_text(dictionary(), encoding="ascii")
    command = [sys.executable, str(Path(__file__).resolve().with_name("fuzz_wire_worker.py")), name, str(worst)]
    command += [str(corpus), f"-max_total_time={seconds}", f"-max_len={MAX_INPUT}", f"-timeout={SLOWEST}"]
    command += [f"-dict={words}", f"-artifact_prefix={findings}/{name}-", "-print_final_stats=1", "-rss_limit_mb=2048"]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False
    )
    outcome = Outcome(name, corpus=sum(1 for _ in corpus.iterdir()))
    if executed := re.search(r"stat::number_of_executed_units:\s*(\d+)", done.stdout):
        outcome.executions = int(executed[1])
    if progress := re.findall(r"cov: (\d+) ft: \d+ corp: (\d+)", done.stdout):
        outcome.coverage, outcome.corpus = int(progress[-1][0]), int(progress[-1][1])
    if worst.exists():
        outcome.worst = float(worst.read_text())
    if written := re.search(r"Test unit written to (\S+)", done.stdout):
        outcome.finding = Path(written[1])
    if done.returncode and outcome.finding is None:
        raise SystemExit(f"error: the fuzzing of {name} did not run:\n{done.stdout[-3000:]}")
    if outcome.finding is not None:
        outcome.finding.with_suffix(".txt").write_text(done.stdout[-6000:], encoding="utf-8")
    return outcome


def dictionary() -> str:
    """Words of the wire, in libFuzzer's format: mutations insert them whole."""
    from fuzz_wire_seeds import WORDS

    return "".join('"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n' for word in WORDS)


if __name__ == "__main__":
    raise SystemExit(main())
