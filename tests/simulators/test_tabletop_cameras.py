"""The matrices, the pixels and the depth of a camera agree about where a thing is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from robopro_eval.simulators.tabletop.cameras import HEIGHT, WIDTH
from robopro_eval.simulators.tabletop.catalogue import CAMERA_NAMES
from robopro_eval.simulators.tabletop.env import TabletopEnv
from robopro_eval.simulators.tabletop.robot import TABLE_Z
from robopro_eval.simulators.tabletop.seeds import SELECTION

EVERYTHING = {"rgb": True, "qpos": True, "endpose": True, "depth": True, "actor_segmentation": True}
CUP = np.array([0.0, 0.0, 0.04])  # half way up, from its foot


def project(view: dict[str, Any], point: np.ndarray) -> tuple[int, int, float]:
    """Column, row and depth (m) of a world point in a camera's picture."""
    camera = view["extrinsic_cv"].astype(float) @ np.append(point, 1.0)
    u, v, _ = view["intrinsic_cv"].astype(float) @ (camera / camera[2])
    return round(u), round(v), float(camera[2])


@pytest.fixture(scope="module")
def carrying() -> tuple[dict[str, Any], np.ndarray]:
    """An observation while the cup is being lifted, and the middle of the cup (m, world)."""
    env = TabletopEnv("put_cup_in_box")
    env.setup_demo(seed=SELECTION[0], data_type=EVERYTHING)
    for action in env.expert_actions():
        env.take_action(action, "ee")
        cup = np.array(env.manipulation_state().objects["cup"])
        if cup[2] > TABLE_Z + 0.03:
            return env.get_obs()["observation"], cup + CUP
    raise AssertionError("the expert never lifted the cup")


@pytest.fixture(scope="module")
def waiting() -> tuple[dict[str, Any], np.ndarray]:
    """The first observation, and the middle of the cup."""
    env = TabletopEnv("put_cup_in_box")
    env.setup_demo(seed=SELECTION[0], data_type=EVERYTHING)
    return env.get_obs()["observation"], np.array(env.manipulation_state().objects["cup"]) + CUP


@pytest.mark.parametrize("camera", ["head_camera", "countertop_camera"])
def test_a_static_camera_sees_the_cup_where_its_matrices_say(
    camera: str, waiting: tuple[dict[str, Any], np.ndarray]
) -> None:
    views, cup = waiting
    view = views[camera]
    u, v, depth = project(view, cup)
    red, green, blue = (int(c) for c in view["rgb"][v, u])
    assert blue > 1.7 * max(red, green), (red, green, blue)  # the cup is the blue thing on a beige table
    # The pixel shows the cup's near side, or from above the inside of its far one: within its diameter of its middle.
    assert abs(depth * 1000 - view["depth"][v, u]) < 60
    ids = view["actor_segmentation"]
    assert ids[v, u] != 0
    assert 50 < np.count_nonzero(ids == ids[v, u]) < 5000


def test_the_working_wrist_camera_sees_the_cup_in_the_gripper(carrying: tuple[dict[str, Any], np.ndarray]) -> None:
    views, cup = carrying
    side = "left" if cup[0] < 0 else "right"
    view = views[f"{side}_camera"]
    rim = cup - CUP + [0.0, 0.0, 0.08]
    u, v, _ = project(view, rim)
    assert 0 <= u < WIDTH
    assert 0 <= v < HEIGHT
    window = view["rgb"][max(v - 25, 0) : v + 25, max(u - 25, 0) : u + 25].astype(int)
    assert np.mean(window[..., 2] > window[..., 0] + 20) > 0.2


@pytest.mark.parametrize("camera", CAMERA_NAMES)
def test_depth_is_the_distance_along_the_optical_axis(camera: str, waiting: tuple[dict[str, Any], np.ndarray]) -> None:
    """Every pixel of the bare table, taken back to the world by its depth, lies at the table's height."""
    view = waiting[0][camera]
    v, u = np.mgrid[0:HEIGHT, 0:WIDTH]
    z = view["depth"] / 1000
    k = view["intrinsic_cv"].astype(float)
    in_camera = np.stack([(u - k[0, 2]) / k[0, 0] * z, (v - k[1, 2]) / k[1, 1] * z, z, np.ones_like(z)], axis=-1)
    world = in_camera @ np.linalg.inv(np.vstack([view["extrinsic_cv"].astype(float), [0, 0, 0, 1]])).T
    (ids, sizes) = np.unique(view["actor_segmentation"], return_counts=True)
    table = view["actor_segmentation"] == ids[np.argmax(sizes)]  # what fills most of each picture
    assert abs(float(np.median(world[table][:, 2])) - TABLE_Z) < 0.004
    assert float(np.percentile(np.abs(world[table][:, 2] - TABLE_Z), 95)) < 0.008
