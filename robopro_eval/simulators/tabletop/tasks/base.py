"""What a task consists of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from robopro_eval.simulators.tabletop.catalogue import TASK_CONFIGS, TASK_STEP_LIMITS
from robopro_eval.simulators.tabletop.expert import Expert
from robopro_eval.simulators.tabletop.world import World

# Both grippers must be commanded open by more than this for a placement to count (contract section 5).
OPEN_ABOVE = 0.8
# The least z component of an object's own up axis for it to count as upright.
UPRIGHT = float(np.cos(np.deg2rad(15)))


@dataclass(frozen=True)
class Task:
    """One task.

    `build(world, rng)` places the scene and returns the working side; `success(world)` is asked after every substep, so
    it is cheap; `expert(world, side)` returns an expert for the world as it stands. `targets` are the things to be
    moved, `destinations` the things they go to: touching either with the gripper is no collision. Names shared by tasks
    of one scene mean the same objects, so `success` may be asked in another task of the same scene.
    """

    name: str
    scene: str
    targets: tuple[str, ...]
    destinations: tuple[str, ...]
    wall: tuple[float, float, float]
    table: tuple[float, float, float]
    build: Callable[[World, np.random.Generator], str]
    success: Callable[[World], bool]
    expert: Callable[[World, str], Expert]

    @property
    def config(self) -> str:
        """The name of the task's one configuration."""
        return TASK_CONFIGS[self.name][0]

    @property
    def step_limit(self) -> int:
        """Actions an episode may take."""
        return TASK_STEP_LIMITS[self.name]


def grippers_open(world: World) -> bool:
    """Both grippers commanded open."""
    return all(arm.gripper > OPEN_ABOVE for arm in world.arms.values())
