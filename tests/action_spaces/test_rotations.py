"""Rotations against SciPy (the witness), against rotations worked out by hand, and by their properties."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from robopro_eval.action_spaces import rotations

slots = st.floats(-1, 1, allow_nan=False, width=64)
quaternions = st.tuples(slots, slots, slots, slots).filter(lambda q: np.linalg.norm(q) > 1e-3)


def random_quaternions(count: int, seed: int = 0) -> np.ndarray:
    q = np.random.default_rng(seed).normal(size=(count, 4))
    return q / np.linalg.norm(q, axis=1, keepdims=True)


@given(quaternions)
def test_matrix_agrees_with_scipy(q: tuple[float, ...]) -> None:
    np.testing.assert_allclose(rotations.matrix_from_quaternion(q), Rotation.from_quat(q).as_matrix(), atol=1e-12)


@given(quaternions)
def test_quaternion_agrees_with_scipy_in_value_and_sign(q: tuple[float, ...]) -> None:
    matrix = Rotation.from_quat(q).as_matrix()
    ours = rotations.quaternion_from_matrix(matrix)
    theirs = Rotation.from_matrix(matrix).as_quat()
    # At a tie between two pivots either sign is right; away from ties the sign is SciPy's.
    pivots = np.sort([*np.diag(matrix), np.trace(matrix)])
    if pivots[-1] - pivots[-2] > 1e-9:
        np.testing.assert_allclose(ours, theirs, atol=1e-9)
    else:
        assert min(np.abs(ours - theirs).max(), np.abs(ours + theirs).max()) < 1e-9


def test_half_turns_take_every_branch() -> None:
    # A half turn about each axis has trace -1: the scalar branch would divide by zero.
    for axis in range(3):
        q = np.zeros(4)
        q[axis] = 1.0
        np.testing.assert_allclose(rotations.quaternion_from_matrix(rotations.matrix_from_quaternion(q)), q, atol=1e-15)


def test_a_quarter_turn_about_z_by_hand() -> None:
    q = [0, 0, math.sin(math.pi / 4), math.cos(math.pi / 4)]
    expected = np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1]])
    np.testing.assert_allclose(rotations.matrix_from_quaternion(q), expected, atol=1e-15)


def test_a_turn_of_a_third_about_the_diagonal_permutes_the_axes() -> None:
    np.testing.assert_allclose(
        rotations.matrix_from_quaternion([0.5, 0.5, 0.5, 0.5]), [[0, 0, 1], [1, 0, 0], [0, 1, 0]], atol=1e-15
    )


def test_rot6d_interleaves_the_first_two_columns() -> None:
    matrix = np.arange(9.0).reshape(3, 3)  # r_ij = 3i + j
    assert rotations.rot6d_from_matrix(matrix).tolist() == [0, 1, 3, 4, 6, 7]


def test_rot6d_agrees_with_scipy_on_a_chunk() -> None:
    q = random_quaternions(200)
    expected = Rotation.from_quat(q).as_matrix()[:, :, :2].reshape(-1, 6)
    np.testing.assert_allclose(rotations.rot6d_from_matrix(rotations.matrix_from_quaternion(q)), expected, atol=1e-12)


def test_gram_schmidt_by_hand() -> None:
    # First column (2, 0, 0) -> x; second (1, 3, 0) loses its x part -> y; third = x cross y = z.
    np.testing.assert_allclose(rotations.matrix_from_rot6d([2, 1, 0, 3, 0, 0]), np.eye(3), atol=1e-15)
    np.testing.assert_allclose(rotations.orthonormal_rot6d([2, 1, 0, 3, 0, 0]), [1, 0, 0, 1, 0, 0], atol=1e-15)


@given(st.lists(slots, min_size=6, max_size=6))
def test_gram_schmidt_gives_a_rotation_or_refuses(values: list[float]) -> None:
    try:
        matrix = rotations.matrix_from_rot6d(values)
    except ValueError:
        first, second = np.array(values[0::2]), np.array(values[1::2])
        assert np.linalg.norm(np.cross(first, second)) < 1e-5
        return
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(3), atol=1e-8)
    assert np.linalg.det(matrix) == pytest.approx(1.0, abs=1e-8)


@given(quaternions)
def test_rot6d_round_trip(q: tuple[float, ...]) -> None:
    matrix = rotations.matrix_from_quaternion(q)
    np.testing.assert_allclose(rotations.matrix_from_rot6d(rotations.rot6d_from_matrix(matrix)), matrix, atol=1e-12)


def test_slot_orders() -> None:
    assert rotations.wxyz_to_xyzw([1, 2, 3, 4]).tolist() == [2, 3, 4, 1]
    assert rotations.xyzw_to_wxyz([1, 2, 3, 4]).tolist() == [4, 1, 2, 3]


@pytest.mark.parametrize("bad", [[0, 0, 0, 0], [math.nan, 0, 0, 1]])
def test_a_quaternion_without_direction_is_refused(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="direction"):
        rotations.matrix_from_quaternion(bad)


def test_parallel_columns_and_wrong_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="direction"):
        rotations.matrix_from_rot6d([1, 2, 0, 0, 0, 0])
    with pytest.raises(ValueError, match=r"last axis of 6 numbers, got shape \(5,\)"):
        rotations.matrix_from_rot6d([1] * 5)
    with pytest.raises(ValueError, match=r"\(3, 3\)"):
        rotations.quaternion_from_matrix(np.eye(4))
    with pytest.raises(ValueError, match="expected numbers"):
        rotations.matrix_from_quaternion(["a", "b", "c", "d"])
