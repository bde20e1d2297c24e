"""Where things are, computed a second time without the simulator's own tools."""

from __future__ import annotations

from importlib import resources
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from robopro_eval.simulators.tabletop.catalogue import CAMERA_NAMES
from robopro_eval.simulators.tabletop.env import TabletopEnv

SEED = 30_400


@pytest.fixture(scope="module")
def env() -> TabletopEnv:
    made = TabletopEnv("put_cup_on_coaster")
    kinds = {"rgb": True, "depth": True, "actor_segmentation": True, "qpos": True, "endpose": True}
    made.setup_demo(seed=SEED, data_type=kinds)
    return made


def forward_kinematics(angles: list[float], base: np.ndarray) -> np.ndarray:
    """The end-effector frame from the URDF file and the joint angles alone."""
    path = resources.files("robopro_eval.simulators.tabletop") / "assets" / "arm.urdf"
    root = ElementTree.fromstring(path.read_text())
    frame = base
    for number, angle in enumerate(angles, 1):
        joint = root.find(f"joint[@name='arm_joint{number}']")
        assert joint is not None
        origin, axis = joint.find("origin"), joint.find("axis")
        assert origin is not None
        assert axis is not None
        step = np.eye(4)
        step[:3, 3] = [float(v) for v in origin.attrib["xyz"].split()]
        turn = np.eye(4)
        turn[:3, :3] = Rotation.from_rotvec(
            angle * np.array([float(v) for v in axis.attrib["xyz"].split()])
        ).as_matrix()
        frame = frame @ step @ turn
    return frame


def base_of(side: str) -> np.ndarray:
    base = np.eye(4)
    base[:3, :3] = Rotation.from_euler("z", 90, degrees=True).as_matrix()
    base[:3, 3] = [-0.22 if side == "left" else 0.22, -0.42, 0.75]
    return base


@pytest.mark.parametrize("side", ["left", "right"])
def test_endpose_agrees_with_forward_kinematics_from_the_urdf(env: TabletopEnv, side: str) -> None:
    for offset in (np.zeros(6), np.array([0.2, 0.1, -0.1, 0.3, 0.2, -0.4])):
        target = np.array(env.get_obs()["joint_action"]["vector"])
        target[:6] += offset
        target[7:13] -= offset
        for _ in range(6):
            env.take_action(target)
        obs = env.get_obs()
        expected = forward_kinematics(obs["joint_state"][f"{side}_arm"], base_of(side))
        pose = obs["endpose"][f"{side}_endpose"]
        assert np.abs(np.array(pose[:3]) - expected[:3, 3]).max() < 1e-4
        measured = Rotation.from_quat(np.roll(pose[3:], -1))
        assert (measured * Rotation.from_matrix(expected[:3, :3]).inv()).magnitude() < 1e-3
    env.setup_demo(seed=SEED, data_type=dict(env.data_type))


def test_hands_start_at_home_pointing_down_with_fingers_along_x(env: TabletopEnv) -> None:
    obs = env.get_obs()
    for side, sign in (("left", -1), ("right", 1)):
        pose = obs["endpose"][f"{side}_endpose"]
        assert pose[:3] == pytest.approx([sign * 0.25, -0.26, 0.97 + 0.12], abs=1e-3)
        axes = Rotation.from_quat(np.roll(pose[3:], -1)).as_matrix()
        assert axes[:, 0] == pytest.approx([0, 0, -1], abs=1e-3)  # the approach
        assert abs(axes[0, 1]) == pytest.approx(1, abs=1e-3)  # the fingers


@pytest.mark.parametrize("camera", CAMERA_NAMES)
def test_camera_matrices_project_the_world_where_the_pixels_are(env: TabletopEnv, camera: str) -> None:
    """Unproject every pixel of the cup by depth and matrices: the points must form the cup where it stands."""
    world = env._open_world()
    cup = world.objects["cup"]
    side_camera = f"{env._side}_camera"
    if camera in ("left_camera", "right_camera") and camera != side_camera:
        name = "table"  # the idle arm's camera does not see the cup
        entity = world.furniture["table"]
    else:
        name, entity = "cup", cup
    view = env.get_obs()["observation"][camera]
    mask = view["actor_segmentation"] == entity.per_scene_id
    assert mask.sum() > 100, f"{camera} does not see the {name}"
    rows, columns = np.nonzero(mask)
    depth = np.asarray(view["depth"], dtype=float)[mask] / 1000
    intrinsic = np.asarray(view["intrinsic_cv"], dtype=float)
    rays = np.linalg.inv(intrinsic) @ np.stack([columns + 0.5, rows + 0.5, np.ones(len(rows))])
    extrinsic = np.asarray(view["extrinsic_cv"], dtype=float)
    points = extrinsic[:, :3].T @ (rays * depth - extrinsic[:, 3:])
    if name == "table":
        assert np.abs(np.median(points[2]) - 0.75) < 0.004
        return
    position = np.asarray(cup.pose.p, dtype=float)
    height = points[2] - position[2]
    assert height.min() > -0.004
    assert height.max() == pytest.approx(0.085, abs=0.006)
    # From the axis to the outermost point of the handle 49 mm, from the axis to the wall 29 mm.
    radii = np.hypot(points[0] - position[0], points[1] - position[1])
    assert radii.max() < 0.056
    assert np.mean(radii < 0.034) > 0.75


@pytest.mark.parametrize("camera", CAMERA_NAMES)
def test_the_opengl_matrix_is_the_inverse_of_the_opencv_one(env: TabletopEnv, camera: str) -> None:
    view = env.get_obs()["observation"][camera]
    opencv = np.vstack([np.asarray(view["extrinsic_cv"], dtype=float), [0, 0, 0, 1]])
    flip = np.diag([1.0, -1.0, -1.0, 1.0])
    assert np.allclose(np.asarray(view["cam2world_gl"], dtype=float), np.linalg.inv(opencv) @ flip, atol=1e-5)


def test_depth_is_zero_only_where_nothing_is(env: TabletopEnv) -> None:
    view = env.get_obs()["observation"]["countertop_camera"]
    depth, ids = np.asarray(view["depth"]), view["actor_segmentation"]
    assert np.all((depth == 0) == (ids == 0))
    middle = float(np.median(depth))
    assert 700 < middle < 1200  # the camera is a metre above the table


def test_the_cup_is_blue_where_the_segmentation_says_cup(env: TabletopEnv) -> None:
    view = env.get_obs()["observation"]["countertop_camera"]
    pixels = np.asarray(view["rgb"])[view["actor_segmentation"] == env._open_world().objects["cup"].per_scene_id]
    red, green, blue = pixels.astype(float).mean(axis=0)
    assert blue > 1.5 * red
    assert blue > 1.5 * green
