"""The table at the end of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from robopro_eval.console.tables import percent, seconds, two_columns
from robopro_eval.records import EpisodeRecord, coverage_bounds, wilson_interval

DOMINANT = 2 / 3
"""Share of the time from which one side is said to starve the other: it then takes twice as long as all the rest."""

MORE_SIMULATORS = ": it could serve more at a time if its policy has new_session()"
MORE_MODELS = ": more models would be faster, or eval-model --max_batch where the policy can batch"
FASTER_MODEL = ": more simulators per model would not be faster, a faster model would"
NOT_TOLD = " (a stock model does not tell them apart)"


def summary(
    records: Sequence[EpisodeRecord],
    *,
    benchmark: str,
    task: str,
    config: str,
    planned: int,
    wall_seconds: float | None,
    step_lim: int | None = None,
    local: bool = False,
) -> str:
    """The whole table. `step_lim`: episodes were cut there, not at the task's own limit. `wall_seconds` of this
    process, None where it has played nothing or only the rest. `local`: the model was in this process."""
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
        rows.append(("per episode", f"{sum(record.wall_seconds for record in records) / n:.2f} s"))
        shares = Shares.of(records)
        rows.append(("time split", shares.split()))
        if shares.asked and any(record.steps for record in records):  # what never acted says nothing of speed
            rows.append(("waiting", shares.verdict(advise=not local)))
    if wall_seconds is not None:
        rows.append(("run took", seconds(wall_seconds)))
    return two_columns(f"{benchmark}: {task}", rows)


class Shares:
    """Where the time of the episodes went, as fractions of it. None: the models did not tell."""

    def __init__(
        self, simulate: float, call: float, encode: float, wire: float | None, queue: float | None, infer: float | None
    ) -> None:
        self.asked = call > 0.0
        self._simulate = simulate
        self._call = call
        self._encode = encode
        self._told = None if wire is None or queue is None or infer is None else (wire, queue, infer)

    @classmethod
    def of(cls, records: Sequence[EpisodeRecord]) -> Shares:
        total = sum(record.wall_seconds for record in records) or 1.0

        def share(values: Sequence[float | None]) -> float | None:
            known = [value for value in values if value is not None]
            return sum(known) / total if len(known) == len(values) else None

        return cls(
            sum(record.sim_seconds for record in records) / total,
            sum(record.call_seconds for record in records) / total,
            share([record.encode_seconds for record in records]) or 0.0,
            share([record.wire_seconds for record in records]),
            share([record.queue_seconds for record in records]),
            share([record.model_seconds for record in records]),
        )

    def split(self) -> str:
        """``simulate 50.0 %, encode 1.0 %, wire 11.5 %, queue 0.0 %, infer 37.5 %``."""
        if not self.asked:
            return "simulator only, no model was asked"
        parts = [("simulate", self._simulate), ("encode", self._encode)]
        if self._told is None:
            rest = percent(self._call - self._encode)
            return ", ".join(_parts(parts)) + f", wire and model {rest}{NOT_TOLD}"
        wire, queue, infer = self._told
        return ", ".join(_parts([*parts, ("wire", wire), ("queue", queue), ("infer", infer)]))

    def verdict(self, *, advise: bool) -> str:
        """Which side starves the other, in one line. `advise`: and what would help, where more or fewer simulators can
        be had for a model."""
        if self._simulate >= DOMINANT:
            # A model that tells no times waits at least as long as the simulator is at work. It is a stock model, and
            # serves no second simulator meanwhile.
            least = "at least " if self._told is None else ""
            waits = f"model waits {least}{percent(self._simulate)} of the time for this simulator"
            return f"{waits}{MORE_SIMULATORS if advise and self._told is not None else ''}"
        if self._told is not None:
            wire, queue, infer = self._told
            if self._encode + wire >= DOMINANT:
                return f"both wait {percent(self._encode + wire)} of the time for the link and its encoding"
            if queue + infer >= DOMINANT:
                waits = f"simulator waits {percent(queue + infer)} of the time for the model"
                if queue > infer:
                    return f"{waits}, mostly in line behind others{MORE_MODELS}"
                return f"{waits}{FASTER_MODEL if advise else ''}"
        if self._call >= DOMINANT:
            unknown = NOT_TOLD if self._told is None else ""
            return f"simulator waits {percent(self._call)} of the time for the model and the link{unknown}"
        unknown = ", as far as a stock model tells" if self._told is None else ""
        return f"neither side clearly waits for the other{unknown}"


def _parts(parts: Sequence[tuple[str, float]]) -> list[str]:
    return [f"{name} {percent(share)}" for name, share in parts]


def _rate(successes: int, n: int) -> str:
    low, high = wilson_interval(successes, n)
    if n == 0:
        return "no episode was scored"
    return f"{percent(successes / n)} ({successes}/{n}), 95 % interval {percent(low)} to {percent(high)}"


def _reasons(records: Sequence[EpisodeRecord]) -> str:
    """``3 step_limit, 2 policy_error``: whether the policy was not good enough or did not run at all."""
    reasons = [(record.reason or "no reason given").split(":")[0] for record in records if not record.success]
    return ", ".join(f"{count} {reason}" for reason, count in Counter(reasons).most_common())
