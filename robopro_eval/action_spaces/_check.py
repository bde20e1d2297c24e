"""One shape check for the whole room, so that every layout complains in the same words."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def rows(values: ArrayLike, width: int, name: str) -> NDArray[np.float64]:
    """`values` as float64 with last axis `width`.

    Raises:
        ValueError: the last axis has another length, or the input is not numeric.
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: expected numbers, got something else ({error})") from error
    if array.ndim == 0 or array.shape[-1] != width:
        raise ValueError(f"{name}: expected a last axis of {width} numbers, got shape {array.shape}")
    return array
