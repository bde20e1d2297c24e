"""Rotations: quaternions, 3x3 matrices, and the six-number form ("rot6d") that networks predict.

Quaternion slots here are **scalar last**, `[x, y, z, w]`, as in SciPy. Whoever holds `[w, x, y, z]` converts with
`wxyz_to_xyzw`; the one place that deliberately does *not* convert is `xvla` (see there).

rot6d is the first two columns of the matrix, read row by row: `[r00, r01, r10, r11, r20, r21]`. That is X-VLA's order
(the two columns interleaved), not the two columns one after the other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robopro_eval.action_spaces._check import rows

# Below this length a vector has no direction worth trusting: float32 network outputs carry about 1e-7 of noise.
_MIN_LENGTH = 1e-6


def _unit(vectors: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    if not np.all(lengths > _MIN_LENGTH):  # also catches NaN
        raise ValueError(f"{name}: a rotation needs vectors with a direction, got one of length zero or NaN")
    return np.asarray(vectors / lengths, dtype=np.float64)


def wxyz_to_xyzw(quaternion: ArrayLike) -> NDArray[np.float64]:
    """`[..., 4]` scalar first -> `[..., 4]` scalar last."""
    return np.roll(rows(quaternion, 4, "quaternion"), -1, axis=-1)


def xyzw_to_wxyz(quaternion: ArrayLike) -> NDArray[np.float64]:
    """`[..., 4]` scalar last -> `[..., 4]` scalar first."""
    return np.roll(rows(quaternion, 4, "quaternion"), 1, axis=-1)


def matrix_from_quaternion(quaternion: ArrayLike) -> NDArray[np.float64]:
    """Scalar-last quaternions `[..., 4]` (any length but zero) -> rotation matrices `[..., 3, 3]`.

    Raises:
        ValueError: a quaternion of length zero, or NaN.
    """
    x, y, z, w = np.moveaxis(_unit(rows(quaternion, 4, "quaternion"), "quaternion"), -1, 0)
    entries = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in entries], axis=-2)


def quaternion_from_matrix(matrix: ArrayLike) -> NDArray[np.float64]:
    """Rotation matrices `[..., 3, 3]` -> unit scalar-last quaternions `[..., 4]`.

    The branch is the one with the largest pivot (F. L. Markley, "Unit Quaternion from Rotation Matrix", J. Guidance
    2008), which is also SciPy's choice: the pivot slot comes out positive, so the sign agrees with SciPy's too.
    """
    m = np.asarray(matrix, dtype=np.float64)
    if m.ndim < 2 or m.shape[-2:] != (3, 3):
        raise ValueError(f"matrix: expected last axes (3, 3), got shape {m.shape}")
    trace = m[..., 0, 0] + m[..., 1, 1] + m[..., 2, 2]
    pivots = np.stack([m[..., 0, 0], m[..., 1, 1], m[..., 2, 2], trace], axis=-1)
    candidates = np.empty((*m.shape[:-2], 4, 4))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        candidates[..., i, i] = 1 - trace + 2 * m[..., i, i]
        candidates[..., i, j] = m[..., j, i] + m[..., i, j]
        candidates[..., i, k] = m[..., k, i] + m[..., i, k]
        candidates[..., i, 3] = m[..., k, j] - m[..., j, k]
        candidates[..., 3, i] = m[..., k, j] - m[..., j, k]
    candidates[..., 3, 3] = 1 + trace
    choice = np.argmax(pivots, axis=-1)[..., None, None]
    return _unit(np.take_along_axis(candidates, choice, axis=-2)[..., 0, :], "matrix")


def rot6d_from_matrix(matrix: ArrayLike) -> NDArray[np.float64]:
    """Rotation matrices `[..., 3, 3]` -> rot6d `[..., 6]` = `[r00, r01, r10, r11, r20, r21]`."""
    m = np.asarray(matrix, dtype=np.float64)
    if m.ndim < 2 or m.shape[-2:] != (3, 3):
        raise ValueError(f"matrix: expected last axes (3, 3), got shape {m.shape}")
    columns: NDArray[np.float64] = m[..., :, :2].reshape(*m.shape[:-2], 6).copy()
    return columns


def matrix_from_rot6d(rot6d: ArrayLike) -> NDArray[np.float64]:
    """rot6d `[..., 6]` (need not be orthonormal) -> rotation matrices `[..., 3, 3]` by Gram-Schmidt.

    The first column keeps its direction, the second is made orthogonal to it, the third is their cross product
    (Zhou et al., "On the Continuity of Rotation Representations in Neural Networks", CVPR 2019).

    Raises:
        ValueError: a column is zero or NaN, or the two are parallel.
    """
    r = rows(rot6d, 6, "rot6d")
    first = _unit(r[..., 0::2], "rot6d")
    second_raw = r[..., 1::2]
    second = _unit(second_raw - first * np.sum(first * second_raw, axis=-1, keepdims=True), "rot6d")
    return np.stack([first, second, np.cross(first, second)], axis=-1)


def orthonormal_rot6d(rot6d: ArrayLike) -> NDArray[np.float64]:
    """The nearest-in-Gram-Schmidt valid rot6d `[..., 6]`; raises as `matrix_from_rot6d`."""
    return rot6d_from_matrix(matrix_from_rot6d(rot6d))
