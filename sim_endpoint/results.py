"""The folder of a run: metrics, attempts, videos, manifest, and the summary for a person."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from robopro_eval.console.errors import UserError
from robopro_eval.console.tables import percent, seconds, two_columns
from robopro_eval.records import AttemptRecord, EpisodeRecord, append_jsonl, coverage_bounds, wilson_interval
from robopro_eval.settings.program import package_version

METRICS, ATTEMPTS, RESULT, MANIFEST = "_metrics.jsonl", "_attempts.jsonl", "_result.txt", "manifest.json"
TIMESTAMP = "%Y-%m-%d_%H-%M-%S"  # RoboTwin's has a blank and colons, which rsync and Windows shares stumble over
WITNESSES = ("numpy", "sapien", "torch", "trio", "pydantic", "imageio-ffmpeg", "pybase64")
RECORDED_PREFIXES = ("DXVLA_", "XVLA_", "BENCH_", "EVAL_", "SIM_", "MODEL_", "VK_ICD_", "OMP_", "CUDA_VISIBLE_")
RECORDED_NAMES = ("USE_EVAL_SEEDS", "SEEDS_ROOT", "STUDY_RUN", "CKPT_NAME", "WORKERS_PER_GPU", "EXPERT_CHECK")
SECRET_WORDS = ("TOKEN", "SECRET", "PASSWORD", "KEY")


def timestamp() -> str:
    """Now, UTC, ISO 8601."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


@dataclass
class ResultsFolder:
    """Writes one run's files. Every line is on disk before the next episode starts."""

    path: Path
    manifest: dict[str, object]
    scored: list[EpisodeRecord] = field(default_factory=list)
    attempts: int = 0

    @classmethod
    def create(cls, parent: Path, manifest: dict[str, object]) -> ResultsFolder:
        """Make ``<parent>/<timestamp>``; a second run in the same second gets ``_2``. Raises UserError."""
        stamp = datetime.now().strftime(TIMESTAMP)
        for count in range(1, 1000):
            path = parent / (stamp if count == 1 else f"{stamp}_{count}")
            try:
                path.mkdir(parents=True)
            except FileExistsError:
                if path.is_dir():
                    continue
                raise UserError(f"cannot write results below {parent}: a file is in the way") from None
            except OSError as error:
                raise UserError(f"cannot write results below {parent}: {error.strerror or error}") from error
            folder = cls(path, manifest | {"started": timestamp(), "finished": None})
            folder.write_manifest()
            return folder
        raise UserError(f"too many runs below {parent} in one second")

    def add_attempt(self, record: AttemptRecord) -> None:
        self.attempts += 1
        self._append(ATTEMPTS, record)

    def add_episode(self, record: EpisodeRecord) -> None:
        self._append(METRICS, record)
        self.scored.append(record)

    def note_peer(self, peer: Mapping[str, object]) -> None:
        """Add a model that took part to the manifest."""
        peers = self.manifest.setdefault("models", [])
        if isinstance(peers, list) and dict(peer) not in peers:
            peers.append(dict(peer))
            self.write_manifest()

    def finish(self, *, planned: int, stopped: str | None) -> None:
        """Write the end of the manifest, and of a whole run ``_result.txt``. Raises UserError.

        RoboTwin's scripts write that file at the very end only, and those who read it take its rate as final.
        """
        if stopped is None and len(self.scored) == planned:
            self._write_result()
        self.manifest |= {
            "finished": timestamp(),
            "planned": planned,
            "scored": len(self.scored),
            "successes": sum(record.success for record in self.scored),
            "stopped": stopped,
        }
        self.write_manifest()

    def _write_result(self) -> None:
        kinds = self.manifest.get("instruction_type", "")
        seeds = " ".join(str(record.seed) for record in self.scored)
        successes = sum(record.success for record in self.scored)
        rate = successes / len(self.scored)
        text = f"Timestamp: {self.path.name}\n\nInstruction Type: {kinds}\n\nEval seeds: {seeds}\n\n{rate}"
        try:
            (self.path / RESULT).write_text(text, encoding="utf-8")
        except OSError as error:
            raise UserError(f"cannot write {self.path / RESULT}: {error.strerror or error}") from error

    def write_manifest(self) -> None:
        """Replace the manifest in one step: a reader never sees half of it. Raises UserError."""
        part = self.path / f".{MANIFEST}.part"
        text = json.dumps(self.manifest, indent=2, default=str, ensure_ascii=False) + "\n"
        try:
            part.write_text(text, encoding="utf-8")
            os.replace(part, self.path / MANIFEST)
        except OSError as error:
            with contextlib.suppress(OSError):
                part.unlink()
            raise UserError(f"cannot write {self.path / MANIFEST}: {error.strerror or error}") from error

    def _append(self, name: str, record: EpisodeRecord | AttemptRecord) -> None:
        try:
            append_jsonl(self.path / name, record)
        except OSError as error:
            raise UserError(f"cannot write {self.path / name}: {error.strerror or error}") from error


def environment_facts(environ: Mapping[str, str]) -> dict[str, object]:
    """Versions, machine, and the variables that may have mattered; never a secret."""
    versions = {"robopro-eval": package_version(), "python": platform.python_version()}
    for name in WITNESSES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    variables = {
        name: value
        for name, value in sorted(environ.items())
        if (name.startswith(RECORDED_PREFIXES) or name in RECORDED_NAMES)
        and not any(word in name for word in SECRET_WORDS)
    }
    return {
        "versions": versions,
        "machine": {"platform": platform.platform(), "processor": platform.machine(), "host": platform.node()},
        "command": sys.argv,
        "environment": variables,
    }


def summary(
    records: Sequence[EpisodeRecord],
    *,
    benchmark: str,
    task: str,
    config: str,
    planned: int,
    wall_seconds: float,
    step_lim: int | None = None,
) -> str:
    """The table at the end of a run. `step_lim`: episodes were cut there, not at the task's own limit."""
    n = len(records)
    rows = [("task", f"{task} ({config})"), ("episodes", f"{n}" if n == planned else f"{n} of {planned}")]
    if step_lim is not None:
        rows.append(("step limit", f"{step_lim}, set by hand: not comparable with runs under the task's own limit"))
    successes = sum(record.success for record in records)
    rows.append(("SR", _rate(successes, n)))
    hard = [record.hard_success for record in records if record.hard_success is not None]
    rows.append(("HSR", _rate(sum(hard), len(hard)) if hard else "not measured"))
    if successes < n:
        rows.append(("failed", _reasons(records)))
    if n < planned:
        low, high = coverage_bounds(successes, n, planned)
        rows.append(("coverage", f"{percent(n / planned)}; SR {percent(low)} if every missing episode failed"))
        rows.append(("", f"(at most {percent(high)})"))
    if n:
        rows.append(("mean steps", f"{sum(record.steps for record in records) / n:.1f}"))
        total = sum(record.wall_seconds for record in records)
        rows.append(("per episode", f"{total / n:.2f} s"))
        rows.append(("time split", _split(records, total)))
    rows.append(("run took", seconds(wall_seconds)))
    return two_columns(f"{benchmark}: {task}", rows)


def _rate(successes: int, n: int) -> str:
    low, high = wilson_interval(successes, n)
    if n == 0:
        return "no episode was scored"
    return f"{percent(successes / n)} ({successes}/{n}), 95 % interval {percent(low)} to {percent(high)}"


def _reasons(records: Sequence[EpisodeRecord]) -> str:
    """``3 step_limit, 2 policy_error``: whether the policy was not good enough or did not run at all."""
    reasons = [(record.reason or "no reason given").split(":")[0] for record in records if not record.success]
    return ", ".join(f"{count} {reason}" for reason, count in Counter(reasons).most_common())


def _split(records: Sequence[EpisodeRecord], total: float) -> str:
    if not any(record.calls for record in records):
        return "simulator only, no model was asked"
    simulator = sum(record.sim_seconds for record in records)
    parts = [f"simulator {percent(simulator / total)}"]
    wires = [record.wire_seconds for record in records if record.wire_seconds is not None]
    models = [record.model_seconds for record in records if record.model_seconds is not None]
    if len(wires) == len(models) == len(records):
        parts += [f"wire {percent(sum(wires) / total)}", f"model {percent(sum(models) / total)}"]
    else:
        calls = sum(record.call_seconds for record in records)
        parts.append(f"wire and model {percent(calls / total)} (a stock model does not tell them apart)")
    return ", ".join(parts)
