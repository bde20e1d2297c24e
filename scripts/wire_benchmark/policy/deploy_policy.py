"""The policy of the benchmark: it answers at once, so that all that is measured is the way there and back."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from wire_benchmark.observations import Chunks, digest, flatten


class BenchmarkPolicy:
    """`compute` seconds are spent in every step, busy, as an inference on the CPU would."""

    def __init__(self, compute: float = 0.0) -> None:
        self._chunks = Chunks()
        self._compute = compute
        self._window: tuple[object, ...] = ()

    def reset_model(self) -> None:
        """Nothing to forget."""

    def step(self, *args: object) -> npt.NDArray[np.float32]:
        """One whole step in one call: the observation's arguments in, the chunk out."""
        if self._compute:
            until = time.perf_counter() + self._compute
            while time.perf_counter() < until:
                pass
        proprio = args[1]
        assert isinstance(proprio, np.ndarray)
        return self._chunks.of(proprio)

    def update_observation_window(self, *args: object) -> None:
        """The first of the two calls that a step takes with most policies."""
        self._window = args

    def get_action(self) -> npt.NDArray[np.float32]:
        """The second."""
        return self.step(*self._window)

    def digest(self, *args: object) -> str:
        """The checksum of what arrived."""
        return digest(dict(flatten(list(args))))


def get_model(usr_args: Mapping[str, object]) -> BenchmarkPolicy:
    """`compute_ms` in the overrides makes it busy."""
    return BenchmarkPolicy(float(str(usr_args.get("compute_ms", 0))) / 1000)
