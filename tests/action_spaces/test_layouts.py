"""The layouts, against SciPy used the way X-VLA's client uses it, and against rows worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from robopro_eval import action_spaces as spaces
from robopro_eval.action_spaces.joint_abs_14 import LEFT_GRIPPER, RIGHT_GRIPPER


def random_ee(count: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    ee = rng.uniform(-1, 1, size=(count, 16))
    for quaternion in (slice(3, 7), slice(11, 15)):
        ee[:, quaternion] /= np.linalg.norm(ee[:, quaternion], axis=1, keepdims=True)
    ee[:, [7, 15]] = rng.integers(0, 2, size=(count, 2))
    return ee


def witness_proprio(ee: np.ndarray) -> np.ndarray:
    """One row, as X-VLA does it: SciPy's default slot order on numbers that are scalar first."""
    arms = []
    for start in (0, 8):
        rot6d = Rotation.from_quat(ee[start + 3 : start + 7]).as_matrix()[:, :2].reshape(6)
        arms.append(np.concatenate([ee[start : start + 3], rot6d, [1 - 2 * ee[start + 7]]]))
    return np.concatenate(arms)


def test_proprio_is_x_vlas() -> None:
    ee = random_ee(100)
    np.testing.assert_allclose(spaces.xvla_proprio_from_ee_16(ee), [witness_proprio(row) for row in ee], atol=1e-12)


def test_proprio_by_hand_shows_the_mislabelled_order() -> None:
    # Scalar-first identity (1, 0, 0, 0) read scalar-last is a half turn about x: diag(1, -1, -1).
    ee = np.array([0.1, 0.2, 0.3, 1, 0, 0, 0, 1.0, 0.4, 0.5, 0.6, 0, 0, 0, 1, 0.25])
    expected = [0.1, 0.2, 0.3, 1, 0, 0, -1, 0, 0, -1, 0.4, 0.5, 0.6, 1, 0, 0, 1, 0, 0, 0.5]
    np.testing.assert_allclose(spaces.xvla_proprio_from_ee_16(ee), expected, atol=1e-15)


def test_round_trip_is_the_identity_slot_for_slot() -> None:
    ee = random_ee(300, seed=1)
    back = spaces.ee_16_from_xvla_action(spaces.xvla_action_from_ee_16(ee))
    for quaternion in (slice(3, 7), slice(11, 15)):
        sign = np.sign(np.sum(back[:, quaternion] * ee[:, quaternion], axis=1, keepdims=True))
        np.testing.assert_allclose(sign * back[:, quaternion], ee[:, quaternion], atol=1e-12)
    np.testing.assert_allclose(back[:, [0, 1, 2, 8, 9, 10]], ee[:, [0, 1, 2, 8, 9, 10]], atol=0)
    # Opening 1 -> p 0 -> +1 (open); opening 0 -> p 1 -> -1 (close).
    np.testing.assert_array_equal(back[:, [7, 15]], 2 * ee[:, [7, 15]] - 1)


def test_quaternions_back_are_scipys() -> None:
    action = np.random.default_rng(2).normal(size=(50, 20))
    ours = spaces.ee_16_from_xvla_action(action)
    for start, out in ((3, 3), (13, 11)):
        rot6d = action[:, start : start + 6]
        first = rot6d[:, 0::2] / np.linalg.norm(rot6d[:, 0::2], axis=1, keepdims=True)
        second = rot6d[:, 1::2] - first * np.sum(first * rot6d[:, 1::2], axis=1, keepdims=True)
        second /= np.linalg.norm(second, axis=1, keepdims=True)
        matrices = np.stack([first, second, np.cross(first, second)], axis=-1)
        np.testing.assert_allclose(ours[:, out : out + 4], Rotation.from_matrix(matrices).as_quat(), atol=1e-9)


@pytest.mark.parametrize(("p", "expected"), [(0.0, 1), (0.5, 1), (0.7, 1), (0.7000001, -1), (1.0, -1)])
def test_gripper_threshold(p: float, expected: int) -> None:
    action = np.tile([0, 0, 0, 1, 0, 0, 1, 0, 0, p], 2)
    assert spaces.ee_16_from_xvla_action(action)[[7, 15]].tolist() == [expected, expected]


def test_training_target_is_one_minus_the_clipped_opening() -> None:
    ee = random_ee(1)[0]
    ee[[7, 15]] = [0.25, -1.0]
    assert spaces.xvla_action_from_ee_16(ee)[[9, 19]].tolist() == [0.75, 1.0]


@given(st.integers(0, 5), st.integers(0, 2**31))
def test_a_chunk_is_its_rows(count: int, seed: int) -> None:
    ee = random_ee(count, seed)
    chunk = spaces.xvla_action_from_ee_16(ee)
    assert chunk.shape == (count, 20)
    back = spaces.ee_16_from_xvla_action(chunk)
    assert back.shape == (count, 16)
    for single, row, returned in zip(ee, chunk, back, strict=True):
        np.testing.assert_array_equal(row, spaces.xvla_action_from_ee_16(single))
        np.testing.assert_array_equal(returned, spaces.ee_16_from_xvla_action(row))


def test_arguments_stay_unchanged() -> None:
    ee = random_ee(4)
    before = ee.copy()
    action = spaces.xvla_action_from_ee_16(ee)
    action_before = action.copy()
    spaces.ee_16_from_xvla_action(action)
    np.testing.assert_array_equal(ee, before)
    np.testing.assert_array_equal(action, action_before)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_not_finite_is_refused(bad: float) -> None:
    action = spaces.xvla_action_from_ee_16(random_ee(3))
    action[1, 2] = bad
    with pytest.raises(ValueError, match="NaN or infinity"):
        spaces.ee_16_from_xvla_action(action)


def test_wrong_width_is_named() -> None:
    with pytest.raises(ValueError, match=r"xvla_ee_rot6d_20: expected a last axis of 20 numbers, got shape \(30, 16\)"):
        spaces.ee_16_from_xvla_action(np.zeros((30, 16)))
    with pytest.raises(ValueError, match=r"ee_16: .* got shape \(\)"):
        spaces.xvla_proprio_from_ee_16(0.0)


def test_endpose_group() -> None:
    endpose = {
        "left_endpose": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0],
        "left_gripper": np.float64(0.5),
        "right_endpose": [8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0],
        "right_gripper": 1.0,
    }
    expected = [1, 2, 3, 4, 5, 6, 7, 0.5, 8, 9, 10, 11, 12, 13, 14, 1]
    assert spaces.ee_16_from_endpose(endpose).tolist() == expected
    with pytest.raises(ValueError, match="'left_endpose' is missing; switch the group `endpose` on"):
        spaces.ee_16_from_endpose({})
    with pytest.raises(ValueError, match="right_endpose has shape"):
        spaces.ee_16_from_endpose({**endpose, "right_endpose": [1.0]})


def test_joints_split_and_join() -> None:
    row = np.arange(28.0).reshape(2, 14)
    parts = spaces.split_joint_abs_14(row)
    assert parts.left_gripper.tolist() == [LEFT_GRIPPER, 14 + LEFT_GRIPPER]
    assert parts.right_gripper.tolist() == [RIGHT_GRIPPER, 14 + RIGHT_GRIPPER] == [13, 27]
    assert parts.right_arm[0].tolist() == [7, 8, 9, 10, 11, 12]
    np.testing.assert_array_equal(spaces.join_joint_abs_14(*parts), row)
    parts.left_arm[:] = -1
    assert row[0, 0] == 0
    with pytest.raises(ValueError, match="left_arm"):
        spaces.join_joint_abs_14([0] * 5, 0, [0] * 6, 0)
