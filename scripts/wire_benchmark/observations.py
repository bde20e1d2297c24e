"""What travels in one step: the observation up, the action chunk down.

A payload is the list of positional arguments of the policy's `step`. The second is always the proprio, whose first
number is the step's own and comes back in the reply: a reply of an earlier step cannot pass for this one.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.generic]

CHUNK_SHAPE = (30, 20)
PROPRIO = "1"
"""The proprio's key in the flat form."""


@dataclass(frozen=True)
class Payload:
    """One kind of observation. `build` makes the arguments; they are the same in every process."""

    name: str
    title: str
    build: Callable[[], list[object]]


class Observation:
    """The arguments of `step`, as the simulator holds them."""

    def __init__(self, payload: Payload) -> None:
        self.args = payload.build()
        proprio = self.args[1]
        assert isinstance(proprio, np.ndarray)
        self._proprio = proprio
        self.step = 0

    def number(self, step: int) -> None:
        """From now on this is the observation of step `step`."""
        self._proprio[0] = self.step = step

    @property
    def flat(self) -> dict[str, Array]:
        """The same arrays without nesting, for protocols whose observation is a flat dict."""
        return dict(flatten(self.args))

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.flat.values())


def flatten(tree: object, path: str = "") -> Iterator[tuple[str, Array]]:
    """Every array of `tree` with its key path, dotted."""
    if isinstance(tree, np.ndarray):
        yield path, tree
    elif isinstance(tree, (dict, list, tuple)):
        pairs = tree.items() if isinstance(tree, dict) else enumerate(tree)
        for key, value in pairs:
            yield from flatten(value, f"{path}.{key}" if path else str(key))


def digest(arrays: dict[str, Array]) -> str:
    """A checksum over names, dtypes, shapes and bytes."""
    value = 0
    for name in sorted(arrays):
        array = arrays[name]
        value = zlib.crc32(f"{name} {array.dtype.str} {array.shape}".encode(), value)
        value = zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, value)
    return f"{value:08x}"


class Chunks:
    """The action chunks: what the policy answers, and what the simulator expects."""

    def __init__(self) -> None:
        self._base = np.random.default_rng(30000).standard_normal(CHUNK_SHAPE).astype(np.float32)

    def of(self, proprio: Array) -> npt.NDArray[np.float32]:
        """The reply to an observation with this proprio."""
        return np.add(self._base, proprio[0], dtype=np.float32)

    def fault(self, reply: object, step: int) -> str | None:
        """What is wrong with the reply to step `step`; None if nothing is."""
        if not isinstance(reply, np.ndarray):
            return f"the reply to step {step} is {type(reply).__name__}, not an array"
        if reply.dtype != np.float32 or reply.shape != CHUNK_SHAPE:
            return f"the reply to step {step} is {reply.dtype} {reply.shape}, not float32 {CHUNK_SHAPE}"
        if not np.array_equal(reply, self._base + np.float32(step)):
            return f"the reply to step {step} holds other numbers than the policy gave"
        return None


def _views(height: int, width: int) -> list[object]:
    random = np.random.default_rng(30001)
    return [
        [random.integers(0, 256, (height, width, 3), dtype=np.uint8) for _ in range(3)],
        np.zeros(20, np.float32),
        random.standard_normal((3, 3, 4)).astype(np.float32),
        random.standard_normal((3, 3, 3)).astype(np.float32),
    ]


def _seven_cameras() -> list[object]:
    random = np.random.default_rng(30002)
    cameras = {
        f"camera_{index}": {
            "rgb": random.integers(0, 256, (240, 320, 3), dtype=np.uint8),
            "depth": random.uniform(0.2, 2.0, (240, 320)),
            "intrinsic_cv": random.standard_normal((3, 3)),
            "extrinsic_cv": random.standard_normal((3, 4)),
        }
        for index in range(7)
    }
    return [{"observation": cameras}, np.zeros(20, np.float32)]


PAYLOADS = {
    payload.name: payload
    for payload in (
        Payload("views", "3 views of 240x320x3", lambda: _views(240, 320)),
        Payload("large", "3 views of 480x640x3", lambda: _views(480, 640)),
        Payload("depth", "7 cameras with float64 depth", _seven_cameras),
        Payload("chunk", "proprio up, chunk down", lambda: [[], np.zeros(20, np.float32)]),
    )
}
"""What can be measured, by name. The first is the one that targets are about: three uint8 views, proprio, cameras."""
