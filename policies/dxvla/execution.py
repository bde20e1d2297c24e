"""What happens to a chunk between network and simulator, and what the network is told about the robot. numpy only.

`ChunkExecution` holds the one piece of state an episode has on the model side: the last row handed out for execution.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from robopro_eval.action_spaces.rotations import orthonormal_rot6d
from robopro_eval.action_spaces.xvla import (
    XVLA_DIM,
    XVLA_LEFT_POSITION,
    XVLA_LEFT_ROT6D,
    XVLA_POSES,
    XVLA_RIGHT_POSITION,
    XVLA_RIGHT_ROT6D,
)

from .knobs import Knobs

_POSITIONS = (XVLA_LEFT_POSITION, XVLA_RIGHT_POSITION)
_ROTATIONS = (XVLA_LEFT_ROT6D, XVLA_RIGHT_ROT6D)


class ChunkExecution:
    """Truncates and smooths chunks, and remembers the last commanded row; one instance per model, reset per episode."""

    def __init__(self, knobs: Knobs) -> None:
        self.knobs = knobs
        self._last_row: NDArray[np.float64] | None = None

    def reset(self) -> None:
        """Forgets the last row: the next query is the first of an episode."""
        self._last_row = None

    def proprio_for_network(self, proprio: NDArray[np.float32]) -> NDArray[np.float32]:
        """Proprio `[20]` from the simulator -> what the network is told.

        With `fake_proprio` the eighteen pose numbers are those of the last commanded row; the grippers stay the
        simulator's, and the first query of an episode stays real.
        """
        if not self.knobs.fake_proprio or self._last_row is None:
            return proprio
        told: NDArray[np.float32] = proprio.copy()
        for pose in XVLA_POSES:
            told[pose] = self._last_row[pose]
        return told

    def rows_to_execute(self, chunk: NDArray[np.float32]) -> NDArray[np.float32]:
        """Predicted chunk `[n, 20]` -> rows to execute `[m, 20]` float32, m = `exec_actions` or n.

        A chunk that is not `[n >= 1, 20]` and finite passes through untouched, so that the simulator side, which scores
        the episode, sees and reports what the network really said.
        """
        if chunk.ndim != 2 or chunk.shape[0] == 0 or chunk.shape[1] != XVLA_DIM or not np.all(np.isfinite(chunk)):
            return chunk
        count = self.knobs.exec_actions or chunk.shape[0]
        rows = chunk[:count].astype(np.float64)
        if self.knobs.action_smooth > 0:
            self._smooth(rows)
        self._last_row = rows[-1].copy()
        return rows.astype(np.float32)

    def _smooth(self, rows: NDArray[np.float64]) -> None:
        """In place: row i := s * row i-1 + (1 - s) * row i, starting from the last executed row if there is one."""
        s = self.knobs.action_smooth
        previous = self._last_row
        for row in rows:
            if previous is not None:
                for position in _POSITIONS:
                    row[position] = s * previous[position] + (1 - s) * row[position]
                if self.knobs.smooth_rot:
                    for rotation in _ROTATIONS:
                        row[rotation] = orthonormal_rot6d(s * previous[rotation] + (1 - s) * row[rotation])
            previous = row
