"""Scripted experts as pure functions of what is on the table, and how to record demonstrations with them.

An expert has **no memory**. `decide(state)` maps the present state (tool points, gripper commands, finger openings,
object poses: all of it visible or felt) to the next absolute target, and the phase (approach, descend, close, lift,
carry, lower, open, retreat) is read off that state every time. So it corrects whatever noise was injected into executed
actions, recovers from a dropped object, and two demonstrations never disagree about the same picture.

`chunk(n)` looks ahead: it applies `decide` n times to a kinematic model of the state (tools reach their targets, a held
object moves with its tool, fingers take a few actions to close) and returns the n targets. That is the label a
chunk-predicting policy is trained on. `actions()` yields `decide`'s target for the real state, one at a time.

Recording, clean labels on noisy execution:

    env = get_benchmark().make_env("put_cup_in_box")
    env.setup_demo(seed=seed, now_ep_num=0, is_test=True, cameras=("countertop_camera", "left_camera", "right_camera"))
    while not env.eval_success and steps < limit:
        observation = env.get_obs()
        label = env.expert_chunk(30)              # (30, 16) float64, the clean targets from *here*
        for row in env.expert_chunk(30)[:k]:      # or: action = env.expert_action()
            env.take_action(perturb(row), "ee")

Rows are `ee` actions: `[left x, y, z, qw, qx, qy, qz, gripper, right ...]`, world frame, metres, of the end-effector
frame (`endpose`), 25 Hz, gripper 1 = open and 0 = closed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from robopro_eval.simulators.tabletop.kinematics import Array
from robopro_eval.simulators.tabletop.robot import DOWN_QUATERNION, HOME_TOOL, SIDES, TOOL_OFFSET

# Metres per action (25 Hz): 0.008 is 0.2 m/s. Slow enough that a policy which answers with chunks of 30 actions looks
# again when its hand is above the object.
SPEED = 0.008
VERTICAL_SPEED = 0.006
CARRY_SPEED = 0.0075
# Each action covers this share of the remaining way, so that motions end softly; the floor ends them at all.
GAIN = 0.22
SLOWEST = 0.002
# Horizontal distance (m) from the grasp at which the tool may be fully down, must be fully up, and may close. The
# fingers clear every object here by 14 mm or more on each side.
FUNNEL_INNER, FUNNEL_OUTER = 0.008, 0.035
ALIGNED = 0.010
# Measured: the fingers close within about four actions.
FINGER_SPEED = 0.25
# Fingers within this of the object's width have met it; it is generous because a turned object is wider.
SHUT_MARGIN = 0.10
# Fingers this much further closed than the object's width hold nothing.
EMPTY_MARGIN = 0.15
# A gripper command below this holds something or tries to.
CLOSED_BELOW = 0.5
EE_WIDTH = 16


@dataclass(frozen=True)
class ManipulationState:
    """What an expert looks at. Tool points (3,) m, commanded grippers and measured finger openings in [0, 1], per side;
    object origins (3,) m by name. World frame."""

    tools: Mapping[str, Array]
    grippers: Mapping[str, float]
    fingers: Mapping[str, float]
    objects: Mapping[str, Array]


@dataclass(frozen=True)
class Targets:
    """The next tool point (3,) and gripper command, per side."""

    tools: Mapping[str, Array]
    grippers: Mapping[str, float]

    def as_ee(self) -> Array:
        """As an (16,) `ee` action with both hands pointing straight down."""
        rows = []
        for side in SIDES:
            flange = self.tools[side] + np.array([0.0, 0.0, TOOL_OFFSET])
            rows.append(np.concatenate([flange, DOWN_QUATERNION, [self.grippers[side]]]))
        return np.concatenate(rows)


class Expert(ABC):
    """A memoryless expert: subclasses say what to do now and which objects move with which hand."""

    @abstractmethod
    def decide(self, state: ManipulationState) -> Targets:
        """The next target from `state`."""

    @abstractmethod
    def attached(self, state: ManipulationState) -> Mapping[str, tuple[str, ...]]:
        """Objects that will move with the hands, and the sides that hold them."""

    @abstractmethod
    def closing_stop(self) -> float:
        """Finger opening at which closing fingers meet the object."""

    def chunk(self, state: ManipulationState, rows: int) -> Array:
        """The next `rows` clean targets from `state`, (rows, 16) float64 `ee` actions."""
        result = np.empty((rows, EE_WIDTH))
        for row in range(rows):
            targets = self.decide(state)
            result[row] = targets.as_ee()
            state = self._predict(state, targets)
        return result

    def _predict(self, state: ManipulationState, targets: Targets) -> ManipulationState:
        objects = dict(state.objects)
        for name, sides in self.attached(state).items():
            if all(targets.grippers[side] < CLOSED_BELOW for side in sides):
                moves = [targets.tools[side] - state.tools[side] for side in sides]
                objects[name] = objects[name] + np.mean(moves, axis=0)
        fingers = {}
        for side in SIDES:
            if targets.grippers[side] < CLOSED_BELOW:
                stop = min(self.closing_stop(), state.fingers[side])
                fingers[side] = max(state.fingers[side] - FINGER_SPEED, stop)
            else:
                fingers[side] = min(state.fingers[side] + FINGER_SPEED, 1.0)
        return replace(state, tools=targets.tools, grippers=targets.grippers, fingers=fingers, objects=objects)


@dataclass(frozen=True)
class PickAndPlace(Expert):
    """Pick `item` from above with one arm and put it down at `goal`, a point (3,) where its origin should come to rest.

    Heights are of the item's origin above `goal`'s or its own resting place, metres: `grasp` tool above item, `hover`
    tool above item while aligning, `carry` item above goal on the way, `release` item above goal when the gripper
    opens. `held_opening` is the finger opening with the item between the fingers.
    """

    side: str
    item: str
    goal: Array
    grasp: float
    hover: float
    carry: float
    release: float
    held_opening: float
    reach: float = 0.03

    def closing_stop(self) -> float:
        return self.held_opening

    def attached(self, state: ManipulationState) -> Mapping[str, tuple[str, ...]]:
        holds = self._in_hand(state) and self._fingers_shut(state)
        return {self.item: (self.side,)} if holds else {}

    def _in_hand(self, state: ManipulationState) -> bool:
        offset = state.tools[self.side] - state.objects[self.item]
        near = float(np.hypot(offset[0], offset[1])) < self.reach and abs(offset[2] - self.grasp) < self.reach
        empty = state.fingers[self.side] < self.held_opening - EMPTY_MARGIN
        return near and not empty and state.grippers[self.side] < CLOSED_BELOW

    def _fingers_shut(self, state: ManipulationState) -> bool:
        return state.fingers[self.side] < self.held_opening + SHUT_MARGIN

    def decide(self, state: ManipulationState) -> Targets:
        tool, gripper = self._work(state)
        other = "left" if self.side == "right" else "right"
        return Targets(
            {self.side: tool, other: glide(state.tools[other], np.array(HOME_TOOL[other]), SPEED, SPEED)},
            {self.side: gripper, other: 1.0},
        )

    def _work(self, state: ManipulationState) -> tuple[Array, float]:
        tool, item = state.tools[self.side], state.objects[self.item]
        if self._in_hand(state):
            if not self._fingers_shut(state):
                return item + np.array([0.0, 0.0, self.grasp]), 0.0
            return self._transport(tool, item)
        if self._placed(item):
            up = np.array([tool[0], tool[1], max(float(tool[2]), float(self.goal[2] + self.carry + self.grasp))])
            return glide(tool, up, SPEED, VERTICAL_SPEED), 1.0
        return self._approach(tool, item)

    def _placed(self, item: Array) -> bool:
        offset = item - self.goal
        return float(np.hypot(offset[0], offset[1])) < 0.02 and abs(float(offset[2])) < 0.015

    def _approach(self, tool: Array, item: Array) -> tuple[Array, float]:
        point = item + np.array([0.0, 0.0, self.grasp])
        distance = float(np.hypot(*(point - tool)[:2]))
        height = funnel(distance, self.grasp, self.hover, FUNNEL_INNER, FUNNEL_OUTER)
        needed = float(item[2]) + height
        if distance < ALIGNED and abs(float(tool[2] - point[2])) < 0.005:
            return point, 0.0
        # Sideways only as far as the fingers clear the item.
        freedom = float(np.clip(1.0 - (needed - 0.006 - float(tool[2])) / 0.02, 0.0, 1.0))
        target = np.array([point[0], point[1], needed])
        return glide(tool, target, SPEED * freedom, VERTICAL_SPEED), 1.0

    def _transport(self, tool: Array, item: Array) -> tuple[Array, float]:
        offset = self.goal - item
        distance = float(np.hypot(offset[0], offset[1]))
        height = funnel(distance, self.release, self.carry, 0.008, 0.04)
        needed = float(self.goal[2]) + height
        if distance < 0.010 and float(item[2]) < needed + 0.004:
            return tool, 1.0
        freedom = float(np.clip(1.0 - (needed - 0.006 - float(item[2])) / 0.04, 0.0, 1.0))
        target = tool + np.array([offset[0], offset[1], needed - float(item[2])])
        return glide(tool, target, CARRY_SPEED * freedom, VERTICAL_SPEED), 0.0


@dataclass(frozen=True)
class LiftTogether(Expert):
    """Grasp both handles of `item` from above at once and lift it by `height`.

    `handles` are the grasp points (3,) relative to the item's origin, per side; `hover` is the extra tool height while
    aligning.
    """

    item: str
    rest: float
    handles: Mapping[str, Array]
    hover: float
    height: float
    held_opening: float

    def closing_stop(self) -> float:
        return self.held_opening

    def _offsets(self, state: ManipulationState) -> dict[str, Array]:
        return {side: state.objects[self.item] + self.handles[side] - state.tools[side] for side in SIDES}

    def _in_hands(self, state: ManipulationState) -> bool:
        return all(
            state.grippers[side] < CLOSED_BELOW and float(np.linalg.norm(offset)) < 0.025
            for side, offset in self._offsets(state).items()
        )

    def _fingers_shut(self, state: ManipulationState) -> bool:
        return all(state.fingers[side] < self.held_opening + SHUT_MARGIN for side in SIDES)

    def attached(self, state: ManipulationState) -> Mapping[str, tuple[str, ...]]:
        return {self.item: SIDES} if self._in_hands(state) and self._fingers_shut(state) else {}

    def decide(self, state: ManipulationState) -> Targets:
        offsets = self._offsets(state)
        if self._in_hands(state):
            if not self._fingers_shut(state):
                return Targets({s: state.tools[s] + offsets[s] for s in SIDES}, dict.fromkeys(SIDES, 0.0))
            rise = self.rest + self.height - float(state.objects[self.item][2])
            up = np.array([0.0, 0.0, float(np.clip(GAIN * rise, -VERTICAL_SPEED / 2, VERTICAL_SPEED / 2))])
            # Sideways each hand stays where its handle is, so that the pot is not pulled apart.
            return Targets(
                {s: state.tools[s] + up + 0.3 * offsets[s] * np.array([1.0, 1.0, 0.5]) for s in SIDES},
                dict.fromkeys(SIDES, 0.0),
            )
        ready = all(float(np.hypot(o[0], o[1])) < ALIGNED and abs(float(o[2])) < 0.005 for o in offsets.values())
        if ready:
            return Targets({s: state.tools[s] + offsets[s] for s in SIDES}, dict.fromkeys(SIDES, 0.0))
        tools = {}
        for side in SIDES:
            tool, point = state.tools[side], state.tools[side] + offsets[side]
            distance = float(np.hypot(offsets[side][0], offsets[side][1]))
            needed = float(point[2]) + funnel(distance, 0.0, self.hover, FUNNEL_INNER, FUNNEL_OUTER)
            freedom = float(np.clip(1.0 - (needed - 0.006 - float(tool[2])) / 0.02, 0.0, 1.0))
            tools[side] = glide(tool, np.array([point[0], point[1], needed]), SPEED * freedom, VERTICAL_SPEED)
        return Targets(tools, dict.fromkeys(SIDES, 1.0))


def funnel(distance: float, low: float, high: float, inner: float, outer: float) -> float:
    """Height to keep at a horizontal `distance` from the goal: `low` inside `inner`, `high` beyond `outer`, smooth
    between."""
    share = float(np.clip((distance - inner) / (outer - inner), 0.0, 1.0))
    return low + (high - low) * share * share * (3 - 2 * share)


def glide(tool: Array, target: Array, sideways: float, vertical: float) -> Array:
    """One action's way from `tool` towards `target` (3,), at most `sideways` and `vertical` metres, slowing near the
    end."""
    offset = target - tool
    distance = float(np.hypot(offset[0], offset[1]))
    step = np.zeros(3)
    if distance > 0.0:
        length = min(distance, max(GAIN * distance, SLOWEST), sideways)
        step[:2] = offset[:2] / distance * length
    rise = float(offset[2])
    step[2] = np.sign(rise) * min(abs(rise), max(GAIN * abs(rise), SLOWEST), vertical)
    return np.asarray(tool + step, dtype=np.float64)
