"""`joint_abs_14`: absolute joint targets, the row of `take_action(row, 'qpos')` and `joint_action["vector"]`.

`[left arm 6 (rad), left gripper, right arm 6 (rad), right gripper]`; the grippers sit at 6 and 13, 1 open, 0 closed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robopro_eval.action_spaces._check import rows

JOINT_DIM = 14
LEFT_ARM = slice(0, 6)
LEFT_GRIPPER = 6
RIGHT_ARM = slice(7, 13)
RIGHT_GRIPPER = 13


class JointTargets(NamedTuple):
    """The four parts of a row: arms `[..., 6]` in rad, grippers `[...]` as openings."""

    left_arm: NDArray[np.float64]
    left_gripper: NDArray[np.float64]
    right_arm: NDArray[np.float64]
    right_gripper: NDArray[np.float64]


def split_joint_abs_14(row: ArrayLike) -> JointTargets:
    """`[..., 14]` -> its four parts (copies); raises `ValueError` on another width."""
    r = rows(row, JOINT_DIM, "joint_abs_14")
    return JointTargets(
        r[..., LEFT_ARM].copy(), r[..., LEFT_GRIPPER].copy(), r[..., RIGHT_ARM].copy(), r[..., RIGHT_GRIPPER].copy()
    )


def join_joint_abs_14(
    left_arm: ArrayLike, left_gripper: ArrayLike, right_arm: ArrayLike, right_gripper: ArrayLike
) -> NDArray[np.float64]:
    """Arms `[..., 6]` and grippers `[...]` -> `[..., 14]`; raises `ValueError` where the shapes disagree."""
    parts = [
        rows(left_arm, 6, "left_arm"),
        np.asarray(left_gripper, dtype=np.float64)[..., None],
        rows(right_arm, 6, "right_arm"),
        np.asarray(right_gripper, dtype=np.float64)[..., None],
    ]
    return np.concatenate(parts, axis=-1)
