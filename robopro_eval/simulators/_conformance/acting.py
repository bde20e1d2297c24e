"""Checks of `take_action`: contract section 3."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from robopro_eval.action_spaces.rotations import matrix_from_quaternion, wxyz_to_xyzw
from robopro_eval.simulators._conformance.kit import (
    SIDES,
    Bench,
    NotOffered,
    Problem,
    difference,
    distance,
    get_obs,
    hold,
    pose_matrix,
    require,
)

_ARM = {"left": 0, "right": 8}  # where each arm's pose begins in the 16-vector
_GRIPPER = {"left": 7, "right": 15}
_PROBE_METRES = 0.02  # a move every arm at home can make
_PROBE_RADIANS = 0.15
_UNREACHABLE = (30.0, 30.0, 30.0)


def qpos_action(bench: Bench) -> None:
    """take_action(14 numbers) moves the joints there; returns None; takes lists, arrays and a longer tail."""
    env = bench.start()
    obs = get_obs(env)
    goal = np.array(obs["joint_action"]["vector"])
    goal[0] += 0.05
    goal[bench.arm_joints + 1] -= 0.05
    for form in (goal, goal.tolist(), np.concatenate([goal, [7.0, 7.0]]).astype(np.float32)):
        returned = env.take_action(form)
        require(returned is None, f"take_action() returned {returned!r}", "return None; the caller polls eval_success")
    reached = get_obs(env)["joint_action"]["vector"]
    error = float(np.max(np.abs(reached - goal)))
    require(
        error < 1e-4,
        f"after take_action(goal, 'qpos') the drive targets are {error:.3g} rad off the goal",
        "treat the 14 numbers as absolute joint targets [L6, g, R6, g]",
    )


def unknown_action_type(bench: Bench) -> None:
    """An action type other than 'qpos' and 'ee' is refused."""
    env = bench.start()
    action = hold(get_obs(env))
    try:
        env.take_action(action, action_type="delta_ee")
    except Exception:
        return
    raise Problem("take_action(action, 'delta_ee') was accepted", "raise ValueError on any type but 'qpos' and 'ee'")


def ee_identity(bench: Bench) -> None:
    """Sending back the endpose that get_obs() reports leaves the arms where they are."""
    env = bench.start()
    before = get_obs(env)
    after = bench.settle(env, hold(before), max(3, bench.settle_actions))
    for side in SIDES:
        _expect_pose(
            bench,
            after,
            side,
            before["endpose"][f"{side}_endpose"],
            "report and command the same frame (flange or tool point, not one each)",
            "after commanding its own endpose",
        )


def ee_pose(bench: Bench) -> None:
    """A commanded pose nearby is reached and reported, scalar-first, and the wrist camera moves with it."""
    env = bench.start()
    before = get_obs(env)
    wrists = {side: _camera_in_hand(before, side) for side in SIDES}
    for side in SIDES:
        action = hold(before)
        start = _ARM[side]
        action[start + 2] += _PROBE_METRES
        action[start + 3 : start + 7] = _turned(action[start + 3 : start + 7], _PROBE_RADIANS)
        after = bench.settle(env, action)
        for each in SIDES:
            goal = action[_ARM[each] : _ARM[each] + 7]
            _expect_pose(
                bench,
                after,
                each,
                goal,
                "execute 'ee' as absolute world poses [x, y, z, qw, qx, qy, qz] per arm",
                f"after a {side} 'ee' action",
            )
        camera = _camera_in_hand(after, side)
        known = wrists[side]
        if camera is not None and known is not None:
            _, turned = distance(camera, known)
            require(
                turned < max(0.03, bench.rotation_tolerance),
                f"{side}_camera turned by {turned:.2f} rad within the hand when the hand turned by {_PROBE_RADIANS}",
                "order the endpose's quaternion w, x, y, z, and mount the wrist camera on the hand",
            )


def gripper_range(bench: Bench) -> None:
    """Gripper commands -1 and +1 are legal: they close to 0 and open to 1, and [0, 1] is what is reported."""
    env = bench.start()
    obs = get_obs(env)
    for command, expected in ((-1.0, 0.0), (1.0, 1.0), (0.5, 0.5)):
        action = hold(obs)
        action[[7, 15]] = command
        try:
            after = bench.settle(env, action, 1)
        except Exception as error:
            raise Problem(
                f"a gripper command of {command:+g} raised {error!r}", "clip gripper commands to [0, 1] instead"
            ) from error
        for side in SIDES:
            reported = after["endpose"][f"{side}_gripper"]
            require(
                abs(reported - expected) < 1e-6,
                f"after commanding {command:+g} the {side} gripper reports {reported!r}",
                f"report the clipped command, {expected:g}",
            )


def unreachable_pose(bench: Bench) -> None:
    """An unreachable pose holds that arm only, moves both grippers and costs a step; nothing is raised."""
    env = bench.start()
    for side, other in (SIDES, SIDES[::-1]):
        before = get_obs(env)
        action = hold(before)
        action[_ARM[side] : _ARM[side] + 3] = _UNREACHABLE
        action[_ARM[other] + 2] += _PROBE_METRES
        action[_GRIPPER[side]] = 0.0
        count = env.take_action_cnt
        try:
            after = bench.settle(env, action)
        except Exception as error:
            raise Problem(
                f"an unreachable {side} pose raised {error!r}", "hold that arm's targets and consume the step"
            ) from error
        require(
            env.take_action_cnt == count + bench.settle_actions,
            "an unreachable pose did not consume its step",
            "count before planning",
        )
        _expect_pose(
            bench,
            after,
            side,
            before["endpose"][f"{side}_endpose"],
            "hold the targets of the arm whose planning failed",
            "after its own unreachable pose",
        )
        _expect_pose(
            bench,
            after,
            other,
            action[_ARM[other] : _ARM[other] + 7],
            "plan the arms apart: one failing must not stop the other",
            f"when the {side} pose was unreachable",
        )
        require(
            after["endpose"][f"{side}_gripper"] == 0,
            f"the {side} gripper did not move when its arm could not",
            "move the gripper although planning failed",
        )
        require(env.plan_success, "an unreachable action cleared plan_success", "leave plan_success to the expert")


def step_limit(bench: Bench) -> None:
    """Each action counts one; at the limit nothing happens any more, and nothing is raised."""
    env = bench.start()
    action = hold(get_obs(env))
    for expected in (1, 2):
        env.take_action(action, action_type="ee")
        require(
            env.take_action_cnt == expected,
            f"after {expected} actions take_action_cnt is {env.take_action_cnt}",
            "count every take_action() once",
        )
    budget = int(env.step_lim) - 2
    try:
        env.step_lim = 4  # an attribute by contract; waiting for a real limit could take minutes
        budget = 2
    except AttributeError:
        pass
    for _ in range(budget):
        env.take_action(action, action_type="ee")
    _expect_nothing(env, "at the step limit", "return at once when take_action_cnt == step_lim")


def success(bench: Bench) -> None:
    """Success is noticed inside take_action, latched in eval_success, and ends the episode; a new set-up clears it."""
    env = bench.start()
    if not _solve(bench, env):
        raise NotOffered("neither the expert nor an overridden check_success() could bring about a success")
    require(
        env.eval_success,
        "take_action() in a solved scene did not set eval_success",
        "ask check_success() after every physics substep and latch it",
    )
    _expect_nothing(env, "after success", "return at once when eval_success is set")
    require(env.eval_success, "eval_success was cleared again", "latch it until the next setup_demo()")
    env = bench.start()
    require(not env.eval_success, "eval_success survived setup_demo()", "reset it in setup_demo()")


def _solve(bench: Bench, env: Any) -> bool:
    """Bring about a success, by the expert or, where there is none, by overriding the predicate; then act once."""
    try:
        env.play_once()
    except Exception:
        env = bench.start()
    if not env.eval_success and not env.check_success():
        env = bench.start()
        action = hold(get_obs(env))
        env.check_success = lambda: True
        try:
            env.take_action(action, action_type="ee")
        finally:
            del env.check_success
        return bool(env.eval_success)
    if not env.eval_success:
        env.take_action(hold(get_obs(env)), action_type="ee")
    return True


def _expect_nothing(env: Any, when: str, fix: str) -> None:
    """An action with an effect if executed must leave count and observation as they are."""
    before, count = get_obs(env), env.take_action_cnt
    action = hold(before)
    action[2] += _PROBE_METRES
    action[10] += _PROBE_METRES
    action[[7, 15]] = np.where(action[[7, 15]] > 0.5, 0.0, 1.0)
    returned = env.take_action(action, action_type="ee")
    require(returned is None, f"take_action() {when} returned {returned!r}", fix)
    require(env.take_action_cnt == count, f"an action {when} was counted", fix)
    where = difference(before, get_obs(env))
    require(where is None, f"an action {when} changed {where}", fix)


def _expect_pose(bench: Bench, obs: Any, side: str, goal: Any, fix: str, when: str) -> None:
    metres, radians = distance(pose_matrix(obs["endpose"][f"{side}_endpose"]), pose_matrix(goal))
    require(
        metres <= bench.position_tolerance and radians <= bench.rotation_tolerance,
        f"{when} the {side} arm is {metres * 1000:.1f} mm and {radians:.3f} rad from where it should be",
        fix,
    )


def _camera_in_hand(obs: Any, side: str) -> NDArray[np.float64] | None:
    view = obs["observation"].get(f"{side}_camera")
    if view is None:
        return None
    camera = np.asarray(view["cam2world_gl"], dtype=np.float64)
    result: NDArray[np.float64] = np.linalg.inv(pose_matrix(obs["endpose"][f"{side}_endpose"])) @ camera
    return result


def _turned(wxyz: NDArray[np.float64], angle: float) -> NDArray[np.float64]:
    """The attitude turned about the world's vertical, in closed form: (cos, 0, 0, sin) times q."""
    w, x, y, z = wxyz
    c, s = np.cos(angle / 2), np.sin(angle / 2)
    turned = np.array([c * w - s * z, c * x - s * y, c * y + s * x, c * z + s * w])
    assert np.allclose(np.linalg.det(matrix_from_quaternion(wxyz_to_xyzw(turned))), 1.0)
    return turned
