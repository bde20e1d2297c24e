"""Lines on disk and intervals."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from robopro_eval.records import (
    DETERMINISTIC_FIELDS,
    EpisodeRecord,
    append_jsonl,
    coverage_bounds,
    deterministic,
    read_jsonl,
    wilson_interval,
)


def record(seed: int) -> EpisodeRecord:
    return EpisodeRecord(
        task="t", seed=seed, success=True, steps=3, episode=0, wall_seconds=1, sim_seconds=1, call_seconds=0
    )


def test_lines_come_back(tmp_path: Path) -> None:
    path = tmp_path / "_metrics.jsonl"
    assert read_jsonl(path) == []
    append_jsonl(path, record(1))
    append_jsonl(path, record(2))
    assert [line["seed"] for line in read_jsonl(path)] == [1, 2]
    assert path.read_text().count("\n") == 2


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_torn_line_is_left_out_and_swallows_nothing(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "_metrics.jsonl"
    append_jsonl(path, record(1))
    append_jsonl(path, record(2))
    path.write_bytes(path.read_bytes()[:-cut] if cut > 1 else path.read_bytes()[:-2])
    append_jsonl(path, record(3))
    assert [line["seed"] for line in read_jsonl(path)] == [1, 3]


def test_deterministic_fields_exist_and_hold_no_wall_time() -> None:
    chosen = deterministic(record(1))
    assert set(chosen) == set(DETERMINISTIC_FIELDS)
    assert "wall_seconds" not in chosen
    json.dumps(chosen)


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_agrees_with_scipy(case: tuple[int, int]) -> None:
    k, n = case
    theirs = binomtest(k, n).proportion_ci(confidence_level=0.95, method="wilson")
    low, high = wilson_interval(k, n)
    assert math.isclose(low, theirs.low, abs_tol=1e-9)
    assert math.isclose(high, theirs.high, abs_tol=1e-9)


def test_interval_edges() -> None:
    assert wilson_interval(0, 0) == (0.0, 1.0)
    assert coverage_bounds(3, 4, 5) == (0.6, 0.8)
    with pytest.raises(ValueError, match=r"0\.\.2"):
        wilson_interval(3, 2)
