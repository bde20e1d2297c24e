"""Collision rules, by hand-written sequences: where each counter must and must not fire."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from robopro_eval.simulators.tabletop.collisions import CollisionMonitor, Contact

BOTTLE, CAN = "bottle#7", "can#8"
HARD = (0.0, 0.0, 0.05)  # N s in one substep: 12.5 N
SOFT = (0.0, 0.03, 0.0)  # 7.5 N
GRAZE = (0.0, 0.0, 1e-7)  # engines report close pairs with next to no impulse


def at(x: float = 0.0, tilt: float = 0.0, y: float = 0.0) -> list[float]:
    """A pose moved along x and y (m) and turned by ``tilt`` (rad) about the world's y."""
    return [x, y, 0.8, np.cos(tilt / 2), 0.0, np.sin(tilt / 2), 0.0]


class Play:
    """A monitor and the present poses of its two statics; ``run`` plays some substeps."""

    def __init__(
        self,
        targets: Sequence[str] = ("cup",),
        destinations: Sequence[str] = (),
        statics: Sequence[str] = (BOTTLE, CAN),
    ) -> None:
        self.poses = {name: at(y=0.3 * i) for i, name in enumerate(statics)}
        self.monitor = CollisionMonitor(
            furniture={"bookcase", "box", "table"},
            robot_links={"link4", "link6"},
            gripper_links={"finger"},
            targets=targets,
            destinations=destinations,
            statics=tuple(statics),
            static_poses=list(self.poses.values()),
        )

    def run(self, *contacts: tuple[str, str, tuple[float, ...]], n: int = 1, **poses: list[float]) -> Play:
        """``n`` substeps with these contacts; ``bottle=`` / ``can=`` move an object first."""
        for key, pose in poses.items():
            self.poses[{"bottle": BOTTLE, "can": CAN}[key]] = pose
        for _ in range(n):
            self.monitor.step([Contact(*c) for c in contacts], list(self.poses.values()))
        return self

    def counts(self) -> tuple[int, int, int]:
        m = self.monitor.metrics()
        assert m["intended_to_static_object"] == 0
        assert m["total_collision_count"] == sum(
            (m["robot_to_furniture"], m["robot_to_static_object"], m["target_to_static_object"])
        )
        assert m["is_collision"] is (m["total_collision_count"] > 0)
        return m["robot_to_furniture"], m["robot_to_static_object"], m["target_to_static_object"]


def test_the_ten_keys_are_plain_json() -> None:
    play = Play().run(("link4", "bookcase", HARD)).run(("finger", BOTTLE, SOFT), bottle=at(0.02))
    metrics = play.monitor.metrics()
    assert json.loads(json.dumps(metrics)) == {
        "robot_to_furniture": 1,
        "robot_to_static_object": 1,
        "target_to_static_object": 0,
        "intended_to_static_object": 0,
        "is_collision": True,
        "total_collision_count": 2,
        "robot_to_furniture_names": ["bookcase"],
        "robot_to_static_object_names": [BOTTLE],
        "target_to_static_object_names": [],
        "intended_to_static_object_names": [],
    }


# --- robot against furniture -----------------------------------------------------------------------------------


def test_a_finger_may_press_on_furniture() -> None:
    assert Play().run(("finger", "box", (0.0, 0.0, 5.0)), n=20).counts() == (0, 0, 0)


@pytest.mark.parametrize("pair", [("link4", "bookcase"), ("bookcase", "link4")])
def test_a_forearm_through_the_bookcase_counts_once_per_name(pair: tuple[str, str]) -> None:
    play = Play().run((*pair, HARD), n=50).run(n=200).run((*pair, HARD), n=50)
    assert play.counts() == (1, 0, 0)
    play.run(("link6", "box", HARD))
    assert play.counts() == (2, 0, 0)
    assert play.monitor.metrics()["robot_to_furniture_names"] == ["bookcase", "box"]


def test_leaning_on_furniture_below_ten_newton_does_not_count() -> None:
    assert Play().run(("link4", "bookcase", (0.0, 0.0, 0.0399)), n=500).counts() == (0, 0, 0)
    assert Play().run(("link4", "bookcase", (0.0, 0.0, 0.0401))).counts() == (1, 0, 0)


def test_the_force_is_the_length_of_the_vector() -> None:
    assert Play().run(("link4", "bookcase", (0.03, 0.03, 0.0))).counts() == (1, 0, 0)


def test_targets_and_strangers_may_hit_furniture() -> None:
    assert Play().run(("cup", "table", HARD), ("drawer", "table", HARD), n=5).counts() == (0, 0, 0)


# --- statics displaced by the robot or by a target -------------------------------------------------------------


@pytest.mark.parametrize("link", ["finger", "link4"])
def test_a_bottle_pushed_by_any_robot_link_counts(link: str) -> None:
    assert Play().run((link, BOTTLE, SOFT), bottle=at(0.011)).counts() == (0, 1, 0)


def test_a_touch_that_displaces_nothing_does_not_count() -> None:
    assert Play().run(("finger", BOTTLE, HARD), n=300).counts() == (0, 0, 0)


@pytest.mark.parametrize(
    ("pose", "counted"),
    [
        (at(0.0099), 0),
        (at(0.0101), 1),
        (at(tilt=0.099), 0),
        (at(tilt=0.101), 1),
        (at(tilt=-0.101), 1),
        ([-v if i > 2 else v for i, v in enumerate(at(tilt=0.05))], 0),  # -q is the same attitude
        ([-v if i > 2 else v for i, v in enumerate(at(tilt=0.15))], 1),
    ],
)
def test_the_displacement_thresholds(pose: list[float], counted: int) -> None:
    assert Play().run(("finger", BOTTLE, SOFT), bottle=pose).counts() == (0, counted, 0)


def test_zero_impulse_pairs_are_no_touch() -> None:
    assert Play().run(("finger", BOTTLE, GRAZE), bottle=at(0.05)).counts() == (0, 0, 0)


def test_a_bottle_knocked_over_by_the_cup_in_the_gripper() -> None:
    """The touch is brief, the bottle tips slowly afterwards: the watch follows its motion."""
    play = Play().run(("cup", BOTTLE, SOFT), ("finger", "cup", HARD))
    for tilt in np.linspace(0.0, 0.09, 60):
        play.run(bottle=at(tilt=tilt))
    assert play.counts() == (0, 0, 0)
    for tilt in np.linspace(0.09, np.pi / 2, 100):
        play.run(bottle=at(tilt=tilt))
    assert play.run(n=300, bottle=at(tilt=np.pi / 2)).counts() == (0, 0, 1)
    assert play.monitor.metrics()["target_to_static_object_names"] == [BOTTLE]


def test_clutter_settling_by_itself_does_not_count() -> None:
    play = Play()
    for x in np.linspace(0.0, 0.2, 100):
        play.run(("table", BOTTLE, SOFT), bottle=at(x))
    assert play.run(n=200).counts() == (0, 0, 0)


def test_where_clutter_came_to_rest_by_itself_is_its_new_baseline() -> None:
    play = Play().run(n=200)
    for x in np.linspace(0.0, 0.05, 50):
        play.run(bottle=at(x))
    assert play.run(n=200).run(("finger", BOTTLE, HARD), n=10).counts() == (0, 0, 0)
    assert play.run(("finger", BOTTLE, HARD), bottle=at(0.061)).counts() == (0, 1, 0)


@pytest.mark.parametrize(("amplitude", "counted"), [(6e-5, 1), (3e-5, 0)])
def test_rattling_in_place_is_motion(amplitude: float, counted: int) -> None:
    """0.12 mm to and fro every substep is motion (though it creeps nowhere) and keeps the watch; 0.06 mm is not."""
    play = Play().run(("finger", BOTTLE, SOFT))
    for i in range(200):
        play.run(bottle=at(amplitude * (-1) ** i))
    assert play.run(bottle=at(0.02)).counts() == (0, counted, 0)


def test_object_pushing_object_is_not_followed() -> None:
    play = Play().run(("finger", BOTTLE, SOFT), bottle=at(0.02))
    play.run((BOTTLE, CAN, HARD), can=at(0.1, y=0.3))
    assert play.counts() == (0, 1, 0)
    assert play.monitor.metrics()["robot_to_static_object_names"] == [BOTTLE]


def test_the_last_toucher_gets_it() -> None:
    assert Play().run(("finger", BOTTLE, SOFT)).run(("cup", BOTTLE, SOFT)).run(bottle=at(0.02)).counts() == (0, 0, 1)
    assert Play().run(("cup", BOTTLE, SOFT)).run(("finger", BOTTLE, SOFT)).run(bottle=at(0.02)).counts() == (0, 1, 0)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_touched_by_both_in_one_substep_the_robot_gets_it(order: tuple[int, int]) -> None:
    both = (("cup", BOTTLE, HARD), ("finger", BOTTLE, SOFT))
    assert Play().run(*(both[i] for i in order), bottle=at(0.02)).counts() == (0, 1, 0)


def test_a_watch_dies_after_90_quiet_substeps() -> None:
    assert Play().run(("finger", BOTTLE, SOFT)).run(n=89).run(bottle=at(0.02)).counts() == (0, 1, 0)
    assert Play().run(("finger", BOTTLE, SOFT)).run(n=90).run(bottle=at(0.02)).counts() == (0, 0, 0)


def test_a_touch_renews_a_watch() -> None:
    play = Play().run(("finger", BOTTLE, SOFT)).run(n=60).run(("finger", BOTTLE, SOFT)).run(n=60)
    assert play.run(bottle=at(0.02)).counts() == (0, 1, 0)


@pytest.mark.parametrize(
    ("per_substep", "counted"),
    [
        (1.1e-4, 1),  # moving now
        (4e-5, 1),  # 1.2 mm in 30 substeps: creeping
        (2e-5, 0),  # 0.6 mm in 30 substeps: quiet, and the baseline follows
    ],
)
def test_slow_motion_keeps_a_watch_alive(per_substep: float, counted: int) -> None:
    play = Play().run(("finger", BOTTLE, SOFT))
    for i in range(1, 1200):
        play.run(bottle=at(i * per_substep))
    assert play.counts() == (0, counted, 0)


@pytest.mark.parametrize(("per_substep", "counted"), [(1.1e-3, 1), (4e-4, 1), (2e-4, 0)])
def test_slow_tilting_keeps_a_watch_alive(per_substep: float, counted: int) -> None:
    play = Play().run(("finger", BOTTLE, SOFT))
    for i in range(1, 1200):
        play.run(bottle=at(tilt=i * per_substep))
    assert play.counts() == (0, counted, 0)


def test_one_long_slide_counts_once() -> None:
    play = Play()
    for x in np.linspace(0.0, 0.3, 300):
        play.run(("finger", BOTTLE, SOFT), bottle=at(x))
    assert play.counts() == (0, 1, 0)


@pytest.mark.parametrize(("still", "counted"), [(70, 1), (140, 2)])
def test_counts_again_only_after_90_still_substeps(still: int, counted: int) -> None:
    # A jump is seen by the 30-substep window for 30 substeps; stillness begins after that.
    play = Play().run(("finger", BOTTLE, SOFT), bottle=at(0.02)).run(n=still)
    assert play.run(("finger", BOTTLE, SOFT), bottle=at(0.04)).counts() == (0, counted, 0)


def test_an_object_counted_for_both_is_named_under_the_later_one() -> None:
    play = Play().run(("finger", BOTTLE, SOFT), bottle=at(0.02)).run(n=200)
    play.run(("cup", BOTTLE, SOFT), bottle=at(0.04))
    assert play.counts() == (0, 1, 1)
    metrics = play.monitor.metrics()
    assert metrics["robot_to_static_object_names"] == []
    assert metrics["target_to_static_object_names"] == [BOTTLE]


def test_a_target_that_is_also_a_destination_never_arms() -> None:
    play = Play(targets=("cup", "pad"), destinations=("pad",))
    assert play.run(("pad", BOTTLE, HARD), bottle=at(0.05)).counts() == (0, 0, 0)
    assert play.run(n=200).run(("cup", BOTTLE, HARD), bottle=at(0.1)).counts() == (0, 0, 1)


def test_touching_target_and_destination_is_no_collision() -> None:
    play = Play(destinations=("pad",))
    assert play.run(("finger", "cup", HARD), ("link4", "pad", HARD), n=100).counts() == (0, 0, 0)


# --- the monitor itself ----------------------------------------------------------------------------------------


def test_no_statics_at_all() -> None:
    play = Play(statics=())
    assert play.run(("link4", "box", HARD), n=3).counts() == (1, 0, 0)


def test_episodes_share_nothing() -> None:
    Play().run(("link4", "box", HARD), ("finger", BOTTLE, SOFT), bottle=at(0.1))
    assert Play().run().counts() == (0, 0, 0)


def test_the_monitor_keeps_no_reference_to_the_pose_array() -> None:
    """The environment may refill one buffer every substep."""
    poses = np.array([at()])
    monitor = CollisionMonitor(
        furniture=(), robot_links=("link",), gripper_links=(), targets=(), destinations=(), statics=("a#1",),
        static_poses=poses,
    )  # fmt: skip
    monitor.step([Contact("link", "a#1", SOFT)], poses)
    poses[0, 0] += 0.02
    monitor.step([], poses)
    assert monitor.metrics()["robot_to_static_object"] == 1


def test_single_precision_poses_at_rest_are_still() -> None:
    """Rounding of a resting float32 quaternion must not look like 1e-3 rad of motion and keep watches alive."""
    rng = np.random.default_rng(0)
    quaternion = rng.normal(size=4)
    quaternion /= np.linalg.norm(quaternion)
    resting = [np.float32([0.3, 0.2, 0.8, *(quaternion + rng.normal(size=4) * 6e-8)]) for _ in range(100)]
    monitor = CollisionMonitor(
        furniture=(), robot_links=("link",), gripper_links=(), targets=(), destinations=(), statics=("a#1",),
        static_poses=resting[:1],
    )  # fmt: skip
    monitor.step([Contact("link", "a#1", SOFT)], resting[:1])
    for _, pose in pairwise(resting):
        monitor.step([], [pose])
    monitor.step([], [resting[-1] + np.float32([0.02, 0, 0, 0, 0, 0, 0])])
    assert monitor.metrics()["robot_to_static_object"] == 0


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="'box' is named as a static object and in another role"):
        Play(statics=("box",))
    with pytest.raises(ValueError, match="same label"):
        CollisionMonitor(
            furniture=(), robot_links=(), gripper_links=(), targets=(), destinations=(), statics=("a", "a"),
            static_poses=[at(), at()],
        )  # fmt: skip
    with pytest.raises(ValueError, match=r"shape \(1, 7\), expected \(2, 7\)"):
        Play().monitor.step([], [at()])
