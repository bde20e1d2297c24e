"""The table of what the tests did when they ran with the counts of a release: one row per test, for docs/results."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from programs import REPO

DONE = "done"
"""The name under which a test records, by pytest's ``record_property``, what it did."""

RecordProperty = Callable[[str, object], None]


class ReleaseReport:
    """A pytest plugin that writes its table when the session ends, whether or not everything passed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: list[str] = []
        self._failures = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.outcome == "passed":
            return
        test = report.location[2].removeprefix("test_").replace("_", " ").replace("[", " (").replace("]", ")")
        what = "; ".join(str(text) for name, text in report.user_properties if name == DONE)
        self._failures += report.outcome == "failed"
        self._rows.append(f"| {test} | {what} | {report.outcome} | {report.duration:.0f} |")

    def pytest_sessionfinish(self) -> None:
        verdict = "all passed" if not self._failures else f"**{self._failures} failed**"
        head = [
            "# Both programs under faults, with the counts of a release",
            "",
            "Made by `scripts/full_check.sh faults`: real processes, the real simulator with short episodes on seeds",
            "that are not for evaluation, and a policy whose every action depends on everything it was sent since the",
            "episode began. Results are compared field by field with a run that nothing disturbed.",
            "",
            f"On {date.today().isoformat()}, commit `{_commit()}`, {_machine()}: {len(self._rows)} checks, {verdict}.",
            "",
            "| check | what was done | result | seconds |",
            "|---|---|---|---|",
        ]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text("\n".join([*head, *self._rows]) + "\n", encoding="utf-8")


def _commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=REPO, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def _machine() -> str:
    """The kind of machine, in words; never which one."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0))
    software = f"{platform.system()}, Python {platform.python_version()}"
    return f"{cores} cores ({platform.machine()}), {memory:.0f} GiB, {software}"
