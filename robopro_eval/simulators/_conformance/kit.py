"""What the checks share: how they say what is wrong, and the environment they put through its paces.

A check is a function of a :class:`Bench` that returns if all is well, raises :class:`Problem` with what is wrong and
how to mend it, or raises :class:`NotOffered` where the contract leaves something to choice. The environment under
test may be anything, so it is typed ``Any`` here and nowhere else.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from robopro_eval.action_spaces import ee_16_from_endpose
from robopro_eval.action_spaces.rotations import matrix_from_quaternion, wxyz_to_xyzw

SIDES: Final = ("left", "right")


class Problem(Exception):
    """The contract is broken: ``what`` is wrong, and the ``fix``."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.what = what
        self.fix = fix


class NotOffered(Exception):
    """The environment does not offer something it may leave out."""


def require(condition: object, what: str, fix: str) -> None:
    """Raise :class:`Problem` unless ``condition`` is true."""
    if not condition:
        raise Problem(what, fix)


@dataclass
class Bench:
    """One environment under test, reused for many episodes as an evaluation reuses it.

    ``arm_joints``: joints per arm. ``position_tolerance`` (m) and ``rotation_tolerance`` (rad): how far an arm may
    end from a commanded pose nearby. ``settle_actions``: how often a pose is commanded before it must be reached.
    """

    make_env: Callable[[], object]
    setup_kwargs: Mapping[str, object]
    seeds: Sequence[int]
    arm_joints: int
    position_tolerance: float
    rotation_tolerance: float
    settle_actions: int
    _env: Any = field(default=None, init=False)
    _running: bool = field(default=False, init=False)
    _untouched: bool = field(default=False, init=False)

    @property
    def env(self) -> Any:
        if self._env is None:
            self._env = self.make_env()
        return self._env

    def start(self, seed: int | None = None, *, env: Any = None, **extra: object) -> Any:
        """Set up an episode (of the first seed unless told), as the evaluation loop does, and return the environment.

        ``env``: another instance than the bench's own, which the caller then closes.
        """
        if env is None:
            self.stop()
            env = self.env
            self._running = True
            self._untouched = False
        kwargs = {"eval_mode": True, **self.setup_kwargs, **extra}
        env.setup_demo(now_ep_num=0, seed=self.seeds[0] if seed is None else seed, is_test=True, **kwargs)
        return env

    def at_rest(self) -> Any:
        """The environment in an episode in which nothing has been done; for checks that only look."""
        if not (self._running and self._untouched):
            self.start()
            self._untouched = True
        return self._env

    def stop(self) -> None:
        """Close the running episode, if any."""
        if self._running:
            self._running = False
            self._env.close_env(clear_cache=False)

    def settle(self, env: Any, action: NDArray[np.float64], times: int | None = None) -> dict[str, Any]:
        """Command one ``ee`` action ``times`` times (or ``settle_actions``) and observe."""
        for _ in range(self.settle_actions if times is None else times):
            env.take_action(action, action_type="ee")
        return get_obs(env)


def get_obs(env: Any) -> dict[str, Any]:
    """``env.get_obs()``, which must be a dict."""
    obs = env.get_obs()
    require(isinstance(obs, dict), f"get_obs() returned a {type(obs).__name__}", "return a dict")
    assert isinstance(obs, dict)
    return obs


def hold(obs: Mapping[str, Any]) -> NDArray[np.float64]:
    """The 16-vector that commands the poses and grippers this observation reports."""
    return np.array(ee_16_from_endpose(obs["endpose"]), dtype=np.float64)


def pose_matrix(pose: Sequence[float]) -> NDArray[np.float64]:
    """``[x, y, z, qw, qx, qy, qz]`` (m, world) -> (4, 4)."""
    matrix = np.eye(4)
    matrix[:3, :3] = matrix_from_quaternion(wxyz_to_xyzw(np.asarray(pose[3:7], dtype=np.float64)))
    matrix[:3, 3] = pose[:3]
    return matrix


def distance(a: NDArray[np.float64], b: NDArray[np.float64]) -> tuple[float, float]:
    """Metres and radians between two (4, 4) poses."""
    cosine = (np.trace(a[:3, :3].T @ b[:3, :3]) - 1) / 2
    return float(np.linalg.norm(a[:3, 3] - b[:3, 3])), float(np.arccos(np.clip(cosine, -1, 1)))


def is_number(value: object) -> bool:
    """A real scalar: Python or numpy, but not a bool, not an array."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def is_bool(value: object) -> bool:
    return isinstance(value, bool | np.bool_)


def difference(a: object, b: object, path: str = "obs") -> str | None:
    """The path of the first place where two observations differ in type, shape, dtype or value; None if equal."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        if set(a) != set(b):
            return f"{path} (keys {sorted(map(str, set(a) ^ set(b)))})"
        return next((d for key in a if (d := difference(a[key], b[key], f"{path}.{key}"))), None)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        if type(a) is not type(b) or len(a) != len(b):
            return path
        pairs = enumerate(zip(a, b, strict=True))
        return next((d for i, (x, y) in pairs if (d := difference(x, y, f"{path}[{i}]"))), None)
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        same = a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        return None if same else path
    if type(a) is not type(b):
        return path
    return None if a == b or (a != a and b != b) else path
