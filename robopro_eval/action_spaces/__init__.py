"""Action and proprio layouts: the only place where a quaternion order, a rot6d order or a gripper sign is written down.

* `rotations`    quaternions, matrices and the six-number rotation, as plain numpy functions
* `ee_16`        what `take_action(row, 'ee')` eats: absolute end-effector poses, quaternion scalar first
* `xvla`         `xvla_ee_rot6d_20`, the X-VLA layout, and its conversion from and to `ee_16`
* `joint_abs_14` absolute joint targets, what `take_action(row, 'qpos')` eats

Every function is vectorised over leading axes (a single row `[16]` or a chunk `[n, 16]`), computes in float64,
never changes its argument, and raises `ValueError` on a wrong last axis.
"""

from robopro_eval.action_spaces.ee_16 import EE_DIM, ee_16_from_endpose
from robopro_eval.action_spaces.joint_abs_14 import JOINT_DIM, join_joint_abs_14, split_joint_abs_14
from robopro_eval.action_spaces.xvla import (
    GRIPPER_CLOSE_THRESHOLD,
    XVLA_DIM,
    ee_16_from_xvla_action,
    xvla_action_from_ee_16,
    xvla_proprio_from_ee_16,
)

__all__ = [
    "EE_DIM",
    "GRIPPER_CLOSE_THRESHOLD",
    "JOINT_DIM",
    "XVLA_DIM",
    "ee_16_from_endpose",
    "ee_16_from_xvla_action",
    "join_joint_abs_14",
    "split_joint_abs_14",
    "xvla_action_from_ee_16",
    "xvla_proprio_from_ee_16",
]
