"""What may be handed to `take_action`: one check, for environments and for the loop that decides whose fault it was."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robopro_eval.action_spaces import EE_DIM, JOINT_DIM
from robopro_eval.action_spaces.ee_16 import LEFT_QUATERNION, RIGHT_QUATERNION

ACTION_WIDTHS = {"qpos": JOINT_DIM, "ee": EE_DIM}
# Shorter than this a quaternion says nothing about a rotation; other lengths are normalised by whoever executes it.
_SHORTEST_QUATERNION = 1e-6


def check_action(action: ArrayLike, action_type: str) -> NDArray[np.float64]:
    """The action as a flat float64 vector whose first 14 (`'qpos'`) or 16 (`'ee'`) numbers can be executed.

    Numbers beyond these are kept and, as in RoboPRO, legal; so are gripper values outside [0, 1].

    Raises:
        ValueError: one sentence; an unknown type, no numbers, too few of them, NaN or infinity, a quaternion of length
            zero.
    """
    width = ACTION_WIDTHS.get(action_type)
    if width is None:
        raise ValueError(f"take_action knows the action types 'qpos' and 'ee', not {action_type!r}")
    wanted = f"take_action({action_type!r}) needs a flat array of {width} numbers"
    try:
        vector = np.asarray(action, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{wanted}, but was given {type(action).__name__} ({error})") from None
    if vector.ndim != 1 or vector.shape[0] < width:
        hint = "; where eval() goes through the rows of a chunk, get_action() returns [action], not action"
        raise ValueError(f"{wanted}, but was given shape {vector.shape}{'' if vector.ndim else hint}")
    bad = np.flatnonzero(~np.isfinite(vector[:width]))
    if bad.size:
        raise ValueError(f"take_action({action_type!r}) was given {vector[bad[0]]} at index {bad[0]}")
    if action_type == "ee":
        for side, place in (("left", LEFT_QUATERNION), ("right", RIGHT_QUATERNION)):
            if np.linalg.norm(vector[place]) < _SHORTEST_QUATERNION:
                raise ValueError(
                    f"the {side} arm's quaternion has length zero; an 'ee' action holds rotations [qw, qx, qy, qz]"
                )
    return vector
