"""Rounds: every arm takes a short block of steps, then the next round begins. Some rounds are a sitting.

Whatever else the machine does hits all arms alike, and a ratio is made of two blocks of the same round. The first step
of a block is not counted: the arm's data have to come back into the caches first.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from wire_benchmark import linux
from wire_benchmark.arms import ARMS, FLOOR
from wire_benchmark.observations import PAYLOADS, Observation
from wire_benchmark.processes import ArmFailed, Environments, Pair

BLOCK_SECONDS = 0.05
"""Roughly what a block should take: long beside the switch between arms, short beside the drift of a machine."""

BLOCK_STEPS = (2, 40)
"""Fewest and most counted steps of a block."""


@dataclass(frozen=True)
class Quartiles:
    """Median and quartiles."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Quartiles:
        if len(values) == 1:
            return cls(values[0], values[0], values[0])
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(low, median, high)


@dataclass(frozen=True)
class Result:
    """One arm with one payload. Bytes and seconds are per step."""

    arm: str
    payload: str
    steps: int
    seconds: Quartiles
    ratio: Quartiles | None
    """To the floor, one ratio per round."""
    cpu_seconds: float
    """Both processes, user and system."""
    array_bytes_up: int
    bytes_up: float
    bytes_down: float
    peak_bytes: tuple[int, int]
    """Of the simulator's and the model's process, above what they held before the first observation."""

    @property
    def peak_frames(self) -> float:
        """The larger peak in units of the largest frame."""
        return max(self.peak_bytes) / max(self.bytes_up, self.bytes_down)


@dataclass
class _Sitting:
    """One arm in one pair of processes. `resident` is what they hold before the first observation."""

    pair: Pair
    resident: tuple[int, int]
    bytes_up: float = 0.0
    bytes_down: float = 0.0
    block: int = 0
    blocks: list[list[float]] = field(default_factory=list)
    cpu: float = 0.0
    peaks: tuple[int, int] = (0, 0)


def measure(
    payload: str,
    arms: Sequence[str],
    sittings: int,
    rounds: int,
    environments: Environments,
    tick: Callable[[], None] = lambda: None,
) -> list[Result]:
    """Measure `arms` side by side: `rounds` in each of `sittings`. `tick` is called once for every block.

    Every sitting has fresh processes, because where a process lies in memory and where the system lets it run make it
    faster or slower for as long as it lives.

    Raises ArmFailed if a program fails, a digest differs or a reply is wrong.
    """
    taken: dict[str, list[_Sitting]] = {name: [] for name in arms}
    for _ in range(sittings):
        with ExitStack() as stack:
            running = [_prepare(stack.enter_context(Pair(ARMS[name], payload, environments))) for name in arms]
            for turn in range(rounds):
                first = turn % len(running)  # no arm always follows the same one
                for one in running[first:] + running[:first]:
                    _take_block(one)
                    tick()
            for name, one in zip(arms, running, strict=True):
                client, server = one.pair.client.pid, one.pair.server.pid
                one.peaks = linux.peak(client) - one.resident[0], linux.peak(server) - one.resident[1]
                taken[name].append(one)
    return [_result(name, payload, taken[name], taken.get(FLOOR)) for name in arms]


def _prepare(pair: Pair) -> _Sitting:
    """Check that the arm carries the observation whole, count its bytes, and choose its block's length."""
    pids = (pair.client.pid, pair.server.pid)
    one = _Sitting(pair, (linux.reset_peak(pids[0]), linux.reset_peak(pids[1])))
    seen = pair.client.order("digest")
    if seen["here"] != seen["there"]:
        raise ArmFailed(f"arm {pair.arm.name!r} does not deliver the observation that was sent: {seen}")
    before = pair.client.order("bytes")
    times = _nanoseconds(pair.client.order("run", steps=3))
    after = pair.client.order("bytes")
    one.bytes_up, one.bytes_down = ((_number(after[way]) - _number(before[way])) / 3 for way in ("sent", "received"))
    fewest, most = BLOCK_STEPS
    one.block = max(fewest, min(most, round(BLOCK_SECONDS / (min(times) / 1e9))))
    return one


def _take_block(one: _Sitting) -> None:
    one.pair.client.order("run", steps=1)
    server = one.pair.cpu_seconds()
    answer = one.pair.client.order("run", steps=one.block)
    one.cpu += one.pair.cpu_seconds() - server + _number(answer["cpu_nanoseconds"]) / 1e9
    one.blocks.append([value / 1e9 for value in _nanoseconds(answer)])


def _result(arm: str, payload: str, sittings: Sequence[_Sitting], floors: Sequence[_Sitting] | None) -> Result:
    blocks = [block for one in sittings for block in one.blocks]
    times = [seconds for block in blocks for seconds in block]
    ratio = None
    if floors is not None:
        pairs = zip(blocks, (block for one in floors for block in one.blocks), strict=True)
        ratio = Quartiles.of([statistics.median(ours) / statistics.median(least) for ours, least in pairs])
    return Result(
        arm=arm,
        payload=payload,
        steps=len(times),
        seconds=Quartiles.of(times),
        ratio=ratio,
        cpu_seconds=sum(one.cpu for one in sittings) / len(times),
        array_bytes_up=Observation(PAYLOADS[payload]).nbytes,
        bytes_up=sittings[0].bytes_up,
        bytes_down=sittings[0].bytes_down,
        peak_bytes=(max(one.peaks[0] for one in sittings), max(one.peaks[1] for one in sittings)),
    )


def _nanoseconds(answer: dict[str, object]) -> list[int]:
    times = answer["nanoseconds"]
    assert isinstance(times, list)
    return times


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value
