"""Checks of members, set-up and `get_obs()`: contract sections 1.1, 1.3 and 2."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from robopro_eval.simulators._conformance.kit import (
    SIDES,
    Bench,
    NotOffered,
    Problem,
    difference,
    get_obs,
    is_bool,
    is_number,
    require,
)

METHODS = (
    "setup_demo",
    "play_once",
    "check_success",
    "get_obs",
    "take_action",
    "set_instruction",
    "get_instruction",
    "close_env",
)
# Present once setup_demo has run.
ATTRIBUTES = ("take_action_cnt", "step_lim", "eval_success", "plan_success", "info")
GROUPS = ("observation", "pointcloud", "joint_action", "endpose")
CAMERA_MATRICES = {"intrinsic_cv": (3, 3), "extrinsic_cv": (3, 4), "cam2world_gl": (4, 4)}
_GL_FROM_CV = np.diag([1.0, -1.0, -1.0, 1.0])
_MATRIX_TOLERANCE = 1e-3  # single precision, positions of a few metres


def members(bench: Bench) -> None:
    """All methods of the contract are there."""
    missing = [name for name in METHODS if not callable(getattr(bench.env, name, None))]
    require(not missing, f"missing methods: {', '.join(missing)}", "add them; wrappers and the loop call each of these")


def setup(bench: Bench) -> None:
    """setup_demo(now_ep_num=, seed=, is_test=, eval_mode=, ...) works and leaves the attributes of an episode."""
    env = bench.at_rest()
    missing = [name for name in ATTRIBUTES if not hasattr(env, name)]
    require(not missing, f"after setup_demo() missing: {', '.join(missing)}", "set them in setup_demo()")
    for name in ("suc", "test_num", "render_freq"):
        try:
            setattr(env, name, 0)
        except AttributeError:
            raise Problem(f"{name} cannot be assigned", "make it a plain attribute; the loop writes it") from None
    require(isinstance(env.info, dict), f"info is a {type(env.info).__name__}", "make it a dict")


def initial_state(bench: Bench) -> None:
    """A new episode starts at count 0, without success, with a step limit, arms at rest and grippers open."""
    env = bench.at_rest()
    require(
        env.take_action_cnt == 0, f"take_action_cnt starts at {env.take_action_cnt}", "reset it to 0 in setup_demo()"
    )
    require(
        is_bool(env.eval_success) and not env.eval_success,
        "eval_success does not start False",
        "reset it in setup_demo()",
    )
    require(
        is_bool(env.plan_success) and env.plan_success, "plan_success does not start True", "reset it in setup_demo()"
    )
    limit = env.step_lim
    require(
        isinstance(limit, int | np.integer) and limit > 0,
        f"with eval_mode=True step_lim is {limit!r}",
        "set the task's positive step limit when eval_mode is true",
    )
    success = env.check_success()
    require(is_bool(success), f"check_success() returned {success!r}", "return a bool")
    require(
        not success, "the task is solved before it begins", "place the objects unsolved, or correct check_success()"
    )
    obs = get_obs(env)
    for side in SIDES:
        gripper = obs["endpose"][f"{side}_gripper"]
        require(gripper == 1, f"the {side} gripper starts at {gripper!r}", "open both grippers to 1.0 during set-up")


def no_limit_without_eval_mode(bench: Bench) -> None:
    """step_lim is None unless eval_mode is true."""
    env = bench.start(eval_mode=False)
    require(
        env.step_lim is None,
        f"with eval_mode=False step_lim is {env.step_lim!r}",
        "leave it None: data collection has no limit",
    )


def observation_keys(bench: Bench) -> None:
    """The groups are there, switched-off ones empty rather than absent."""
    obs = get_obs(bench.at_rest())
    missing = [key for key in GROUPS if key not in obs]
    require(
        not missing,
        f"get_obs() lacks {', '.join(missing)}",
        "include the key; a group that is off stays as {} (pointcloud: [])",
    )
    pointcloud = obs["pointcloud"]
    empty = isinstance(pointcloud, list) and not pointcloud
    require(
        empty or (isinstance(pointcloud, np.ndarray) and pointcloud.ndim == 2 and pointcloud.shape[1] == 6),
        f"pointcloud is a {_kind(pointcloud)}",
        "make it [] when off, else (N, 6): xyz in metres and rgb 0..1",
    )


def cameras(bench: Bench) -> None:
    """Every camera has its three matrices and, unless switched off, an uint8 RGB picture; the wrists are there."""
    views = get_obs(bench.at_rest())["observation"]
    require(isinstance(views, dict) and views, "observation holds no camera", "render rgb by default")
    for name, view in views.items():
        for key, shape in CAMERA_MATRICES.items():
            value = view.get(key)
            require(
                isinstance(value, np.ndarray) and value.shape == shape and value.dtype == np.float32,
                f"{name}.{key} is {_kind(value)}, expected {shape} float32",
                "give the camera's matrices with every observation, also when rgb is off",
            )
        rgb = view.get("rgb")
        require(
            isinstance(rgb, np.ndarray) and rgb.ndim == 3 and rgb.shape[2] == 3 and rgb.dtype == np.uint8,
            f"{name}.rgb is {_kind(rgb)}, expected (H, W, 3) uint8",
            "convert to 8-bit RGB and drop the alpha channel",
        )
        require(
            int(np.ptp(rgb)) > 0,
            f"{name}.rgb is a single flat colour",
            "update the renderer's transforms before taking the picture",
        )
    missing = [f"{side}_camera" for side in SIDES if f"{side}_camera" not in views]
    require(not missing, f"no {' and no '.join(missing)}", "name the wrist cameras left_camera and right_camera")
    require(len(views) > 2, "there is no camera besides the wrists", "add a static one, such as head_camera")


def camera_matrices(bench: Bench) -> None:
    """intrinsic_cv fits the picture; extrinsic_cv (world to camera, OpenCV) and cam2world_gl describe one camera."""
    for name, view in get_obs(bench.at_rest())["observation"].items():
        height, width = view["rgb"].shape[:2]
        k = view["intrinsic_cv"]
        require(
            k[0, 0] > 0 and k[1, 1] > 0 and 0 < k[0, 2] < width and 0 < k[1, 2] < height and k[2, 2] == 1,
            f"{name}.intrinsic_cv has its principal point at ({k[0, 2]:.0f}, {k[1, 2]:.0f}) of {width}x{height}",
            "give pixels: [[fx, 0, cx], [0, fy, cy], [0, 0, 1]]",
        )
        world_to_cv = np.eye(4)
        world_to_cv[:3] = view["extrinsic_cv"]
        require(
            np.allclose(world_to_cv[:3, :3] @ world_to_cv[:3, :3].T, np.eye(3), atol=_MATRIX_TOLERANCE),
            f"{name}.extrinsic_cv is not a rotation and a translation",
            "give [R | t] with p_camera = R p_world + t",
        )
        require(
            np.allclose(world_to_cv @ view["cam2world_gl"] @ _GL_FROM_CV, np.eye(4), atol=_MATRIX_TOLERANCE),
            f"{name}: extrinsic_cv and cam2world_gl describe different cameras",
            "extrinsic_cv: world to camera, z forward, y down; cam2world_gl: camera to world, z backward, y up",
        )


def depth(bench: Bench) -> None:
    """depth, where given, is float64 millimetres of the picture's size."""
    views = get_obs(bench.at_rest())["observation"]
    if not any("depth" in view for view in views.values()):
        raise NotOffered("no camera gives depth with these set-up arguments")
    for name, view in views.items():
        value = view.get("depth")
        require(
            isinstance(value, np.ndarray) and value.shape == view["rgb"].shape[:2] and value.dtype == np.float64,
            f"{name}.depth is {_kind(value)}, expected {view['rgb'].shape[:2]} float64",
            "give float64 millimetres, 0 for the background",
        )
        near, far = float(np.min(value)), float(np.max(value))
        require(near >= 0 and far > 50, f"{name}.depth lies in {near:.3g}..{far:.3g}", "give millimetres, not metres")


def joint_action(bench: Bench) -> None:
    """joint_action: lists of drive targets, scalar grippers in [0, 1], and their 14-vector in the order L, g, R, g."""
    _joints(get_obs(bench.at_rest())["joint_action"], "joint_action", bench.arm_joints)


def joint_state(bench: Bench) -> None:
    """joint_state, where given, is laid out like joint_action, with measured values."""
    obs = get_obs(bench.at_rest())
    if "joint_state" not in obs:
        raise NotOffered("no joint_state (RoboTwin has none either)")
    _joints(obs["joint_state"], "joint_state", bench.arm_joints)


def endpose(bench: Bench) -> None:
    """endpose: lists of x, y, z, qw, qx, qy, qz in the world, and the same commanded grippers as joint_action."""
    obs = get_obs(bench.at_rest())
    group = obs["endpose"]
    for side in SIDES:
        pose = group.get(f"{side}_endpose")
        require(
            isinstance(pose, list) and len(pose) == 7 and all(is_number(v) for v in pose),
            f"endpose.{side}_endpose is {_kind(pose)}, expected a list of 7 numbers",
            "return a Python list [x, y, z, qw, qx, qy, qz]: wrappers concatenate it with +",
        )
        length = float(np.linalg.norm(pose[3:]))
        require(
            abs(length - 1) < 1e-3, f"endpose.{side}_endpose has a quaternion of length {length:.3f}", "normalise it"
        )
        gripper, commanded = group.get(f"{side}_gripper"), obs["joint_action"].get(f"{side}_gripper")
        require(is_number(gripper), f"endpose.{side}_gripper is {_kind(gripper)}", "return a scalar in [0, 1]")
        require(
            gripper == commanded,
            f"endpose.{side}_gripper is {gripper}, joint_action's is {commanded}",
            "report the last commanded opening in both",
        )


def observing_changes_nothing(bench: Bench) -> None:
    """Two looks in a row are equal, and looking costs no step."""
    env = bench.at_rest()
    first = copy.deepcopy(get_obs(env))
    where = difference(first, get_obs(env))
    require(
        where is None,
        f"two get_obs() in a row differ at {where}",
        "do not advance physics or draw random numbers in get_obs()",
    )
    require(env.take_action_cnt == 0, "get_obs() changed take_action_cnt", "count only in take_action()")


def observation_is_a_snapshot(bench: Bench) -> None:
    """An observation handed out stays as it was, and writing into it harms nobody."""
    env = bench.start()
    obs = get_obs(env)
    kept = copy.deepcopy(obs)
    env.take_action([0.3] * (2 * bench.arm_joints + 2), action_type="qpos")
    get_obs(env)
    where = difference(kept, obs)
    require(
        where is None,
        f"an observation handed out earlier changed at {where} when the robot moved",
        "copy arrays out of the engine's buffers",
    )
    present = get_obs(env)
    expected = copy.deepcopy(env.now_obs)
    for view in present["observation"].values():
        if view["rgb"].flags.writeable:
            view["rgb"][:] = 0
    present["endpose"]["left_endpose"][0] = 99.0
    where = difference(expected, env.now_obs)
    require(where is None, f"writing into an observation changed now_obs at {where}", "keep a deep copy in now_obs")


def now_obs(bench: Bench) -> None:
    """now_obs is the last observation."""
    env = bench.at_rest()
    obs = get_obs(env)
    where = difference(obs, env.now_obs)
    require(
        where is None,
        f"now_obs differs from the last get_obs() at {where}",
        "store a deep copy at the end of get_obs()",
    )


def instruction(bench: Bench) -> None:
    """set_instruction / get_instruction keep the text, also as numpy.str_ and None."""
    env = bench.at_rest()
    for text in ("put the cup in the box", np.str_("lift the pot"), None):
        env.set_instruction(instruction=text)
        got = env.get_instruction()
        require(
            got == text,
            f"after set_instruction({text!r}) get_instruction() returned {got!r}",
            "store it and give it back as it is",
        )


def _joints(group: Any, name: str, arm_joints: int) -> None:
    values: list[float] = []
    for side in SIDES:
        arm, gripper = group.get(f"{side}_arm"), group.get(f"{side}_gripper")
        require(
            isinstance(arm, list) and len(arm) == arm_joints and all(is_number(v) for v in arm),
            f"{name}.{side}_arm is {_kind(arm)}, expected a list of {arm_joints} numbers",
            "return a Python list of radians (array.tolist()): wrappers concatenate it with +",
        )
        require(
            is_number(gripper) and 0 <= gripper <= 1,
            f"{name}.{side}_gripper is {_kind(gripper)} {gripper!r}",
            "return a scalar in [0, 1], 1 = open",
        )
        values += [*arm, gripper]
    vector, size = group.get("vector"), 2 * arm_joints + 2
    require(
        isinstance(vector, np.ndarray) and vector.shape == (size,) and vector.dtype == np.float64,
        f"{name}.vector is {_kind(vector)}, expected ({size},) float64",
        "concatenate left arm, left gripper, right arm, right gripper",
    )
    require(
        np.array_equal(vector, values),
        f"{name}.vector is not its parts in the order left arm, left gripper, right arm, right gripper",
        f"put the grippers at {arm_joints} and {size - 1}",
    )


def _kind(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.shape} {value.dtype}"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__} of {len(value)}"
    return "absent" if value is None else type(value).__name__
