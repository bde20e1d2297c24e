"""The folder of a run: metrics, attempts, videos and manifest."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from robopro_eval.console.errors import UserError
from robopro_eval.records import AttemptRecord, EpisodeRecord, append_jsonl
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
