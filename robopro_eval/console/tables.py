"""Two-column tables that read the same on a terminal and in a log file."""

from __future__ import annotations

from collections.abc import Sequence


def two_columns(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """Return a plain text table: a title, a rule, one aligned ``name  value`` line per row."""
    width = max((len(name) for name, _ in rows), default=0)
    lines = [f"{name.ljust(width)}  {value}" for name, value in rows]
    rule = "─" * max(len(title), *(len(line) for line in lines)) if lines else "─" * len(title)
    return "\n".join([title, rule, *lines, rule])


def percent(fraction: float) -> str:
    """``0.5`` -> ``50.0 %``."""
    return f"{100.0 * fraction:.1f} %"


def seconds(value: float) -> str:
    """A duration for a person: ``3.2 s``, ``4 min 05 s``, ``2 h 03 min``."""
    if value < 120:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 120:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"
