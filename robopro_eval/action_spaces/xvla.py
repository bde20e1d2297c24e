"""`xvla_ee_rot6d_20`: the layout of X-VLA (its `ee6d` action mode), and the way from and to `ee_16`.

`[left xyz 0-2, left rot6d 3-8, left gripper 9, right xyz 10-12, right rot6d 13-18, right gripper 19]`

Three conventions of X-VLA's RoboTwin code are kept exactly, because published checkpoints were trained with them:

1. **The quaternion order is mislabelled.** The simulator's numbers `[w, x, y, z]` are put into SciPy's slots
   `[x, y, z, w]` unchanged, in training and at evaluation. The matrix behind the rot6d is therefore not the hand's
   orientation, but the way back is the identity slot for slot (up to the common sign a quaternion is free in), so
   the numbers may be sent straight back as `[w, x, y, z]`. "Correcting" the order would break those checkpoints.
2. **rot6d is interleaved**: the first two columns of the matrix read row by row (see `rotations`).
3. **The gripper means three things**: in an action it is a probability of *closed* (trained towards 1 - opening);
   in the proprio it is `1 - 2 * opening` (+1 closed, -1 open); on the way to the simulator it is thresholded to
   `1 - 2 * (p > 0.7)`, that is -1 (close) or +1 (open), which `take_action` clips to 0 and 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robopro_eval.action_spaces._check import rows
from robopro_eval.action_spaces.ee_16 import (
    EE_DIM,
    LEFT_GRIPPER,
    LEFT_POSITION,
    LEFT_QUATERNION,
    RIGHT_GRIPPER,
    RIGHT_POSITION,
    RIGHT_QUATERNION,
)
from robopro_eval.action_spaces.rotations import (
    matrix_from_quaternion,
    matrix_from_rot6d,
    quaternion_from_matrix,
    rot6d_from_matrix,
)

XVLA_DIM = 20
XVLA_LEFT_POSITION = slice(0, 3)
XVLA_LEFT_ROT6D = slice(3, 9)
XVLA_LEFT_GRIPPER = 9
XVLA_RIGHT_POSITION = slice(10, 13)
XVLA_RIGHT_ROT6D = slice(13, 19)
XVLA_RIGHT_GRIPPER = 19
# The nine pose numbers of each arm, without the gripper.
XVLA_POSES = (slice(0, 9), slice(10, 19))
XVLA_GRIPPERS = (XVLA_LEFT_GRIPPER, XVLA_RIGHT_GRIPPER)

# X-VLA closes only when it is rather sure: above, not at, this probability.
GRIPPER_CLOSE_THRESHOLD = 0.7


def _poses_from_ee_16(ee: NDArray[np.float64]) -> NDArray[np.float64]:
    out = np.zeros((*ee.shape[:-1], XVLA_DIM))
    out[..., XVLA_LEFT_POSITION] = ee[..., LEFT_POSITION]
    out[..., XVLA_RIGHT_POSITION] = ee[..., RIGHT_POSITION]
    # The scalar-first numbers go into the scalar-last slots as they are: convention 1 above.
    out[..., XVLA_LEFT_ROT6D] = rot6d_from_matrix(matrix_from_quaternion(ee[..., LEFT_QUATERNION]))
    out[..., XVLA_RIGHT_ROT6D] = rot6d_from_matrix(matrix_from_quaternion(ee[..., RIGHT_QUATERNION]))
    return out


def xvla_proprio_from_ee_16(ee: ArrayLike) -> NDArray[np.float64]:
    """`ee_16` `[..., 16]` -> proprio `[..., 20]`, grippers as `1 - 2 * opening`."""
    row = rows(ee, EE_DIM, "ee_16")
    out = _poses_from_ee_16(row)
    out[..., XVLA_LEFT_GRIPPER] = 1 - 2 * row[..., LEFT_GRIPPER]
    out[..., XVLA_RIGHT_GRIPPER] = 1 - 2 * row[..., RIGHT_GRIPPER]
    return out


def xvla_action_from_ee_16(ee: ArrayLike) -> NDArray[np.float64]:
    """`ee_16` `[..., 16]` -> training target `[..., 20]`, grippers as `1 - opening` (1 = closed).

    Openings outside 0..1 are clipped first, as the simulator does.
    """
    row = rows(ee, EE_DIM, "ee_16")
    out = _poses_from_ee_16(row)
    out[..., XVLA_LEFT_GRIPPER] = 1 - np.clip(row[..., LEFT_GRIPPER], 0, 1)
    out[..., XVLA_RIGHT_GRIPPER] = 1 - np.clip(row[..., RIGHT_GRIPPER], 0, 1)
    return out


def ee_16_from_xvla_action(action: ArrayLike) -> NDArray[np.float64]:
    """Action `[..., 20]` -> `ee_16` `[..., 16]` ready for `take_action(row, 'ee')`, grippers -1 (close) or +1 (open).

    Raises:
        ValueError: wrong width, NaN or infinity, or a rot6d without direction.
    """
    row = rows(action, XVLA_DIM, "xvla_ee_rot6d_20")
    if not np.all(np.isfinite(row)):
        raise ValueError("xvla_ee_rot6d_20: the action contains NaN or infinity")
    out = np.empty((*row.shape[:-1], EE_DIM))
    out[..., LEFT_POSITION] = row[..., XVLA_LEFT_POSITION]
    out[..., RIGHT_POSITION] = row[..., XVLA_RIGHT_POSITION]
    out[..., LEFT_QUATERNION] = quaternion_from_matrix(matrix_from_rot6d(row[..., XVLA_LEFT_ROT6D]))
    out[..., RIGHT_QUATERNION] = quaternion_from_matrix(matrix_from_rot6d(row[..., XVLA_RIGHT_ROT6D]))
    out[..., LEFT_GRIPPER] = 1 - 2.0 * (row[..., XVLA_LEFT_GRIPPER] > GRIPPER_CLOSE_THRESHOLD)
    out[..., RIGHT_GRIPPER] = 1 - 2.0 * (row[..., XVLA_RIGHT_GRIPPER] > GRIPPER_CLOSE_THRESHOLD)
    return out
