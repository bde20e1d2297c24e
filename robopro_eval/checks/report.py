"""The findings for a person and for a program: a table on a terminal, plain lines elsewhere, JSON in a file."""

from __future__ import annotations

import itertools
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from framing.session import Peer
from robopro_eval.checks.bench import Bench
from robopro_eval.checks.core import Finding, Verdict
from robopro_eval.console.errors import UserError
from robopro_eval.settings.program import package_version

SCHEMA = "robopro-eval/check/1"
"""Written into the file; a change that a reader would stumble over gets another number."""

_STYLES = {Verdict.PASS: "green", Verdict.FAIL: "bold red", Verdict.NOT_OFFERED: "dim", Verdict.SKIPPED: "yellow"}
_WIDTH = max(len(verdict.value) for verdict in Verdict)


class LivePrinter:
    """Shows findings as they come: lines into a file or pipe, a table (all at once, at the end) on a terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stdout
        self._console = Console(file=self._stream)
        self._held: list[Finding] = []
        self.is_terminal = self._stream.isatty()

    def working_on(self, name: str) -> None:
        if self.is_terminal:
            self._console.print(Text(f"  {name} ...".ljust(40), style="dim"), end="\r")

    def add(self, finding: Finding) -> None:
        if self.is_terminal:
            return
        if self._held and _kind(self._held[0]) != _kind(finding):
            self._print_held()
        self._held.append(finding)
        if _kind(finding) == finding.check.name:  # nothing that follows can belong to it
            self._print_held()

    def finish(self, findings: Sequence[Finding], summary: Sequence[str]) -> None:
        if self.is_terminal:
            self._console.print(_table(findings))
        elif self._held:
            self._print_held()
        for line in summary:
            self._print(line)

    def _print_held(self) -> None:
        finding = self._held[0]
        self._print(f"{finding.verdict.value:<{_WIDTH}}  {_names(self._held)}: {finding.detail}")
        if finding.fix:
            self._print(f"{'':<{_WIDTH}}  fix: {finding.fix}")
        self._held.clear()

    def _print(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


def _kind(finding: Finding) -> str:
    """Equal for findings that are told in one line when they follow one another: all missing for the same reason."""
    missing = finding.verdict in (Verdict.NOT_OFFERED, Verdict.SKIPPED)
    return finding.verdict.value + finding.detail if missing else finding.check.name


def _names(findings: Sequence[Finding]) -> str:
    first, last = findings[0].check.name, findings[-1].check.name
    return first if len(findings) == 1 else f"{first} to {last} ({len(findings)} lines)"


def summary(bench: Bench, findings: Sequence[Finding]) -> list[str]:
    """What the server is, then how many lines ended how."""
    known = bench.known
    if known.peer is Peer.UNKNOWN:
        what = "a server of unknown kind"
    elif known.features is None:
        what = "a stock server"
    else:
        what = f"an upgraded server of the policy {known.features.policy_name!r}"
    counts = count(findings)
    told = ", ".join(f"{counts[verdict.value]} {verdict.value}" for verdict in Verdict if counts[verdict.value])
    failed = [finding.check.name for finding in findings if finding.verdict is Verdict.FAIL]
    ending = f"failed: {', '.join(failed)}" if failed else "nothing failed"
    return [f"{bench.link.name} is {what}: {told}", ending]


def count(findings: Sequence[Finding]) -> dict[str, int]:
    """How many findings each verdict has, by its value."""
    counter = Counter(finding.verdict for finding in findings)
    return {verdict.value: counter[verdict] for verdict in Verdict}


def as_dict(bench: Bench, findings: Sequence[Finding]) -> dict[str, object]:
    """The report as it is written by `--report`; `docs/eval_check.md` describes it."""
    known = bench.known
    names = {Peer.STOCK: "stock", Peer.OURS: "upgraded", Peer.UNKNOWN: None}
    return {
        "schema": SCHEMA,
        "version": package_version(),
        "server": bench.link.name,
        "peer": names[known.peer],
        "policy": known.features.policy_name if known.features is not None else None,
        "ok": not any(finding.verdict is Verdict.FAIL for finding in findings),
        "counts": count(findings),
        "seconds": round(sum(finding.seconds for finding in findings), 3),
        "lines": [
            {
                "name": finding.check.name,
                "proves": finding.check.proves,
                "verdict": finding.verdict.value,
                "detail": finding.detail,
                "fix": finding.fix or None,
                "seconds": round(finding.seconds, 3),
            }
            for finding in findings
        ],
    }


def write(path: Path, report: dict[str, object]) -> None:
    """Write the report as JSON. Raises UserError where that is not possible."""
    try:
        path.write_text(json.dumps(report, indent=2) + "\n", "utf-8")
    except OSError as error:
        raise UserError(f"the report cannot be written to {path}: {error.strerror}") from error


def _table(findings: Sequence[Finding]) -> Table:
    table = Table("check", "verdict", "what was seen")
    for _, alike in itertools.groupby(findings, _kind):
        group = list(alike)
        finding = group[0]
        seen = Text(finding.detail)
        if finding.fix:
            seen.append(f"\nfix: {finding.fix}", style="bold")
        table.add_row(_names(group), Text(finding.verdict.value, style=_STYLES[finding.verdict]), seen)
    return table
