"""Two values compared by key path: where they differ, in words.

NaN equals NaN. Numbers may differ by `atol + rtol * |expected|`; kinds of values, dtypes and shapes may not differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]


@dataclass(frozen=True)
class Tolerance:
    """How far two numbers may be apart: `atol + rtol * |expected|`."""

    rtol: float = 0.0
    atol: float = 0.0

    def holds(self, expected: float, got: float) -> bool:
        if expected == got or (expected != expected and got != got):
            return True
        return math.isfinite(expected) and abs(got - expected) <= self.atol + self.rtol * abs(expected)


EXACT = Tolerance()


@dataclass(frozen=True)
class Difference:
    """`path` leads from the value compared to where it differs; `text` says how, expected first."""

    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


def differences(expected: object, got: object, path: str, tolerance: Tolerance = EXACT) -> Iterator[Difference]:
    """Every place where `got` is not `expected`, in the order of the expected value's keys."""
    if isinstance(expected, dict) and isinstance(got, dict):
        yield from _of_dicts(expected, got, path, tolerance)
    elif isinstance(expected, list) and isinstance(got, list):
        if len(expected) != len(got):
            yield Difference(path, f"a list of {len(expected)} became one of {len(got)}")
        for index, (left, right) in enumerate(zip(expected, got, strict=False)):
            yield from differences(left, right, f"{path}[{index}]", tolerance)
    elif isinstance(expected, np.ndarray) and isinstance(got, np.ndarray):
        yield from _of_arrays(expected, got, path, tolerance)
    elif type(expected) is not type(got):
        yield Difference(path, f"{_described(expected)} became {_described(got)}")
    elif isinstance(expected, float) and isinstance(got, float):
        if not tolerance.holds(expected, got):
            yield Difference(path, f"{expected!r} became {got!r}")
    elif expected != got:
        yield Difference(path, f"{_described(expected)} became {_described(got)}")


def _of_dicts(
    expected: dict[object, object], got: dict[object, object], path: str, tolerance: Tolerance
) -> Iterator[Difference]:
    for key, value in expected.items():
        where = f"{path}.{key}"
        if key in got:
            yield from differences(value, got[key], where, tolerance)
        else:
            yield Difference(where, f"{_described(value)} is missing")
    for key in got:
        if key not in expected:
            yield Difference(f"{path}.{key}", f"{_described(got[key])} was not there before")


def _of_arrays(expected: Array, got: Array, path: str, tolerance: Tolerance) -> Iterator[Difference]:
    if expected.dtype != got.dtype:
        yield Difference(path, f"dtype {expected.dtype} became {got.dtype}")
    if expected.shape != got.shape:
        yield Difference(path, f"shape {list(expected.shape)} became {list(got.shape)}")
        return
    apart = _apart(expected, got, tolerance)
    count = int(np.count_nonzero(apart))
    if not count:
        return
    first = tuple(int(index) for index in np.argwhere(apart)[0])
    where = path + (f"[{', '.join(map(str, first))}]" if first else "")
    text = f"{expected[first]!s} became {got[first]!s}"
    if count > 1:
        text += f"; {count} of {expected.size} values differ{_most(expected, got)}"
    yield Difference(where, text)


def _apart(expected: Array, got: Array, tolerance: Tolerance) -> npt.NDArray[np.bool_]:
    """True where two arrays of one shape differ."""
    same = np.asarray(expected == got) | (np.asarray(expected != expected) & np.asarray(got != got))
    if tolerance != EXACT and {expected.dtype.kind, got.dtype.kind} <= set("iufc"):
        left, right = (
            array.astype(np.complex128 if array.dtype.kind == "c" else np.float64) for array in (expected, got)
        )
        with np.errstate(invalid="ignore", over="ignore"):
            same |= np.isfinite(left) & (np.abs(right - left) <= tolerance.atol + tolerance.rtol * np.abs(left))
    apart: npt.NDArray[np.bool_] = np.logical_not(same)
    return apart


def _most(expected: Array, got: Array) -> str:
    """By how much the farthest two finite numbers are apart."""
    if not {expected.dtype.kind, got.dtype.kind} <= set("iuf"):
        return ""
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.abs(got.astype(np.float64) - expected.astype(np.float64))
    finite = distance[np.isfinite(distance)]
    return f", by up to {finite.max():.3g}" if finite.size else ""


def _described(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} {list(value.shape)}"
    if isinstance(value, dict):
        return f"a dict with the keys {_clipped(', '.join(map(str, value)))}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if value is None:
        return "None"
    return f"{type(value).__name__} {_clipped(repr(value))}"


def _clipped(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
