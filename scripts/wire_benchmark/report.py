"""What was measured, as JSON, as a table on the terminal, as the page docs/results/wire_speed.md and in the README."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from wire_benchmark.arms import ARMS, FLOOR
from wire_benchmark.measure import Quartiles, Result
from wire_benchmark.observations import PAYLOADS
from wire_benchmark.stages import spent_on

FORMAT = 1
"""Of the JSON file."""

FIRST = next(iter(PAYLOADS))
"""The payload that the targets are about."""

BEGIN, END = "<!-- bench_wire -->", "<!-- /bench_wire -->"
"""The README's part between these lines is this program's."""

HEADINGS = ("arm", "ms per step", "quartiles", "x floor", "CPU ms", "MB up", "peak memory, frames")


@dataclass(frozen=True)
class Report:
    """One run of the benchmark. `stages`: arm -> stage -> seconds; `about`: machine, commit, versions."""

    about: dict[str, Any]
    results: list[Result]
    stages: dict[str, dict[str, float]]

    def save(self, path: Path) -> None:
        results = [asdict(result) | {"peak_frames": result.peak_frames} for result in self.results]
        everything = {"format": FORMAT, "about": self.about, "results": results, "stages": self.stages}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(everything, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Report:
        everything = json.loads(path.read_text("utf-8"))
        return cls(everything["about"], [_result(raw) for raw in everything["results"]], everything["stages"])

    def of(self, payload: str) -> dict[str, Result]:
        """Results of one payload by arm."""
        return {result.arm: result for result in self.results if result.payload == payload}


@dataclass(frozen=True)
class Target:
    """Something hoped for: `value` should be at most (or at least) `limit`."""

    title: str
    value: float
    limit: float
    at_most: bool

    @property
    def met(self) -> bool:
        return self.value <= self.limit if self.at_most else self.value >= self.limit

    def __str__(self) -> str:
        bound = f"{'at most' if self.at_most else 'at least'} {self.limit:g}"
        return f"{self.title}: {self.value:.2f} ({bound}: {'met' if self.met else 'missed'})"


def targets(results: Mapping[str, Result]) -> Iterator[Target]:
    """The targets that can be judged by these results of the first payload."""
    for arm, limit in (("binary", 1.4), ("json", 2.0)):
        if arm in results and (ratio := results[arm].ratio):
            yield Target(f"{ARMS[arm].title}, times the floor", ratio.median, limit, at_most=True)
    comparisons = [("binary", other, 3.0) for other in ("stock", "openpi", "zeromq")]
    comparisons += [("to-stock", "stock", 10.0), ("from-stock", "stock", 10.0)]
    for arm, other, limit in comparisons:
        if arm in results and other in results:
            faster = results[other].seconds.median / results[arm].seconds.median
            yield Target(f"{ARMS[arm].title}, times faster than {ARMS[other].title}", faster, limit, at_most=False)
    for waiting, paired in (("waiting", "paired"), ("waiting-2ms", "paired-2ms"), ("waiting-far", "paired-far")):
        if waiting in results and paired in results:
            part = results[paired].seconds.median / results[waiting].seconds.median
            yield Target(f"{ARMS[paired].title}: part of the time of waiting", part, 0.9, at_most=True)
    if "binary" in results:
        title = f"{ARMS['binary'].title}, peak memory in frames"
        yield Target(title, results["binary"].peak_frames, 2.0, at_most=True)


def cells(result: Result) -> tuple[str, ...]:
    """One row of the table, as HEADINGS say."""
    seconds = result.seconds
    return (
        ARMS[result.arm].title,
        f"{seconds.median * 1e3:.3f}",
        f"{seconds.low * 1e3:.3f} to {seconds.high * 1e3:.3f}",
        f"{result.ratio.median:.1f}" if result.ratio else "",
        f"{result.cpu_seconds * 1e3:.3f}",
        f"{result.bytes_up / 1e6:.3f}",
        f"{result.peak_frames:.1f}" if result.bytes_up > 1e5 else "",  # beside a tiny frame all memory is large
    )


def table(payload: str, results: Sequence[Result]) -> Table:
    """For the terminal."""
    out = Table(*HEADINGS, title=PAYLOADS[payload].title, title_justify="left")
    for result in results:
        out.add_row(*cells(result))
    return out


def stage_table(title: str, columns: Mapping[str, Mapping[str, float]]) -> Table:
    """Microseconds of every stage (rows) with every payload (columns)."""
    out = Table(f"{title}, microseconds", *columns)
    for name in next(iter(columns.values())):
        out.add_row(name, *(f"{stages[name] * 1e6:.0f}" for stages in columns.values()))
    out.add_row("together", *(f"{sum(stages.values()) * 1e6:.0f}" for stages in columns.values()))
    return out


def page(report: Report) -> str:
    """docs/results/wire_speed.md."""
    about = report.about
    lines = [
        "# What one control step costs on the wire",
        "",
        "One step is one request with the observation and one reply with a [30, 20] float32 action chunk, between two",
        "processes on loopback. The policy answers at once, so what is left is the way there and back. Arms take turns",
        "in short blocks; `x floor` is the median of the ratios of blocks of the same round.",
        "",
        f"Made by `python scripts/bench_wire.py` on {about['date']}, commit `{str(about['commit'])[:12]}`, "
        f"{about['machine']}, Python {about['python']}; load before: {about['load']}.",
        "",
    ]
    for payload in PAYLOADS:
        results = list(report.of(payload).values())
        if results:
            size = results[0].array_bytes_up / 1e6
            lines += [f"## {PAYLOADS[payload].title} ({size:.3f} MB of arrays)", "", *_markdown(results), ""]
    lines += [
        "- *Floor*: two processes with TCP_NODELAY, one `sendall` of an observation that lies ready in one piece, one",
        "  `recv_into` loop on memory that exists, the same for the reply. Nothing is encoded or allocated, no length",
        "  travels, no thread is changed.",
        "- *CPU*: user and system time of both processes. *Peak memory*: the larger of the two processes' peaks above",
        "  what it held when idle, in units of the largest frame.",
        "- Foreign arms run in an environment of their own: " + _versions(about) + ".",
        "",
        "## Targets, for the first payload",
        "",
        *(f"- {target}" for target in targets(report.of(FIRST))),
        "",
        "## Where the time goes",
        "",
    ]
    for arm, stages in report.stages.items():
        sums = ", ".join(f"{value * 1e6:.0f} us for {what}" for what, value in spent_on(stages).items())
        floor = report.of(FIRST)[FLOOR].seconds.median if FLOOR in report.of(FIRST) else math.nan
        lines += [
            f"{ARMS[arm].title}, {PAYLOADS[FIRST].title}; the whole floor takes {floor * 1e6:.0f} us, this arm needs",
            f"{sums}. Medians, while both programs take notes:",
            "",
        ]
        lines += ["| stage | us |", "|---|---|", *(f"| {name} | {value * 1e6:.0f} |" for name, value in stages.items())]
        lines.append("")
    return "\n".join(lines)


def readme_part(report: Report) -> str:
    """What stands between the marks in the README."""
    results = [result for result in report.of(FIRST).values() if ARMS[result.arm].calls == 1]
    return "\n".join([BEGIN, *_markdown(results, columns=(0, 1, 3, 4, 6)), END])


def with_part(readme: str, part: str) -> str:
    """The README with its part replaced. Raises ValueError where the marks are missing."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"README.md lacks the lines {BEGIN} and {END}")
    return before + part + after


def _markdown(results: Sequence[Result], columns: Sequence[int] = range(len(HEADINGS))) -> list[str]:
    rows = [HEADINGS, *(cells(result) for result in results)]
    lines = ["| " + " | ".join(row[column] for column in columns) + " |" for row in rows]
    return [lines[0], "|---" * len(columns) + "|", *lines[1:]]


def _versions(about: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {version}" for name, version in about["foreign_packages"].items()) or "none here"


def _result(raw: dict[str, Any]) -> Result:
    raw = {name: value for name, value in raw.items() if name != "peak_frames"}
    raw["seconds"] = Quartiles(**raw["seconds"])
    raw["ratio"] = Quartiles(**raw["ratio"]) if raw["ratio"] else None
    raw["peak_bytes"] = tuple(raw["peak_bytes"])
    return Result(**raw)
