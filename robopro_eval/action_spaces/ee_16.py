"""`ee_16`: absolute end-effector poses, the row of `take_action(row, 'ee')` and the content of `get_obs()["endpose"]`.

`[left x y z, left qw qx qy qz, left gripper, right x y z, right qw qx qy qz, right gripper]`

Positions are metres in the world frame, quaternions are **scalar first**, the gripper is an opening: 1 open, 0 closed.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

EE_DIM = 16
LEFT_POSITION = slice(0, 3)
LEFT_QUATERNION = slice(3, 7)
LEFT_GRIPPER = 7
RIGHT_POSITION = slice(8, 11)
RIGHT_QUATERNION = slice(11, 15)
RIGHT_GRIPPER = 15


def ee_16_from_endpose(endpose: Mapping[str, ArrayLike]) -> NDArray[np.float64]:
    """The `endpose` group of an observation -> `[16]` float64.

    Args:
        endpose: `left_endpose` and `right_endpose` (7 numbers each), `left_gripper` and `right_gripper` (scalars).

    Raises:
        ValueError: a key is missing or has another length.
    """
    row = np.empty(EE_DIM)
    for side, start in (("left", 0), ("right", 8)):
        try:
            pose = np.asarray(endpose[f"{side}_endpose"], dtype=np.float64)
            gripper = float(np.asarray(endpose[f"{side}_gripper"], dtype=np.float64))
        except KeyError as error:
            raise ValueError(
                f"endpose: {error.args[0]!r} is missing; switch the group `endpose` on in data_type"
            ) from error
        if pose.shape != (7,):
            raise ValueError(f"endpose: {side}_endpose has shape {pose.shape}, expected 7 numbers")
        row[start : start + 7] = pose
        row[start + 7] = gripper
    return row
