"""Where two values differ, by key path, and what counts as different."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from robopro_eval.checks.difference import EXACT, Tolerance, differences

LOOSE = Tolerance(rtol=0.01, atol=0.001)
NAN = float("nan")


def told(expected: object, got: object, tolerance: Tolerance = EXACT) -> list[str]:
    return [str(difference) for difference in differences(expected, got, "res", tolerance)]


@pytest.mark.parametrize(
    "value",
    [
        {"a": [1, 2.5, None, "x", True, b"b"], "b": {"c": np.arange(3)}},
        [NAN, float("inf"), float("-inf")],
        np.array([NAN, 1.0]),
        np.array(["a", "b"]),
        np.array(["2026-01-01", "NaT"], "datetime64[D]"),
        np.zeros((0, 3)),
        np.array(2.5),
        np.array([1 + 2j, NAN]),
    ],
)
def test_the_same_is_the_same(value: Any) -> None:
    for tolerance in (EXACT, LOOSE):
        assert told(value, value, tolerance) == []


@pytest.mark.parametrize(
    ("expected", "got", "words"),
    [
        (1, 2, ["res: int 1 became int 2"]),
        (1, 1.0, ["res: int 1 became float 1.0"]),
        (1, True, ["res: int 1 became bool True"]),
        (0.5, NAN, ["res: 0.5 became nan"]),
        (None, [], ["res: None became a list of 0"]),
        ([1, 2], [1, 3, 4], ["res: a list of 2 became one of 3", "res[1]: int 2 became int 3"]),
        ({"a": 1, "b": 2}, {"b": 2, "c": 3}, ["res.a: int 1 is missing", "res.c: int 3 was not there before"]),
        ({"a": [{"b": "x"}]}, {"a": [{"b": "y"}]}, ["res.a[0].b: str 'x' became str 'y'"]),
        (np.zeros(3, "f4"), np.zeros(3, "f8"), ["res: dtype float32 became float64"]),
        (np.zeros(3, ">f4"), np.zeros(3, "<f4"), ["res: dtype >f4 became float32"]),
        (np.zeros((2, 3)), np.zeros((3, 2)), ["res: shape [2, 3] became [3, 2]"]),
        (np.zeros(3), [0.0] * 3, ["res: an array of float64 [3] became a list of 3"]),
        (np.array(1.5), np.array(2.5), ["res: 1.5 became 2.5"]),
        (
            np.array([[1.0, 2.0], [3.0, 4.0]]),
            np.array([[1.0, 2.5], [3.0, 8.0]]),
            ["res[0, 1]: 2.0 became 2.5; 2 of 4 values differ, by up to 4"],
        ),
        (np.array(["a", "b"]), np.array(["a", "c"]), ["res[1]: b became c"]),
    ],
)
def test_a_difference_names_its_place(expected: object, got: object, words: list[str]) -> None:
    assert told(expected, got) == words


def test_numbers_may_differ_within_the_tolerance_and_not_beyond() -> None:
    assert told(1.0, 1.0109, LOOSE) == []  # 0.001 + 0.01 * 1
    assert told(1.0, 1.0111, LOOSE) == ["res: 1.0 became 1.0111"]
    assert told(np.array([1.0, 0.0]), np.array([1.0109, 0.0009]), LOOSE) == []
    assert told(np.array([1.0, 0.0]), np.array([1.0, 0.0011]), LOOSE) == ["res[1]: 0.0 became 0.0011"]
    assert told(np.array([1, 200]), np.array([1, 202]), LOOSE) == []
    assert told(np.array([NAN, 1.0]), np.array([1.0, NAN]), Tolerance(1e9, 1e9)) != []
    assert told(float("inf"), 5.0, LOOSE) == ["res: inf became 5.0"]
    assert told(np.array([np.inf]), np.array([5.0]), LOOSE) == ["res[0]: inf became 5.0"]


def test_whole_numbers_that_floats_cannot_tell_apart_still_differ() -> None:
    assert told(np.array([2**53]), np.array([2**53 + 1])) != []
    assert told(2**53, 2**53 + 1) != []
