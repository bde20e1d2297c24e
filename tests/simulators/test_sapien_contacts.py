"""The same rules on real PhysX contacts: what the engine reports must reach the monitor in the right unit and role."""

from __future__ import annotations

import numpy as np
import pytest
import sapien
from sapien import physx

from robopro_eval.simulators.tabletop.sapien_contacts import SapienCollisions

HOME = (0.0, -0.5, 0.3)


def box(
    scene: sapien.Scene, name: str, half: tuple[float, ...], at: tuple[float, ...], *, static: bool = False
) -> None:
    builder = scene.create_actor_builder()
    builder.add_box_collision(half_size=half, density=300)
    builder.set_initial_pose(sapien.Pose(at))
    (builder.build_static if static else builder.build)(name=name)


class World:
    """A ground, a heavy shelf, a cup (target), a bottle, and a robot of an arm block and a finger block on a gantry."""

    def __init__(self, *, destinations: tuple[str, ...] = ()) -> None:
        self.scene = sapien.Scene([physx.PhysxCpuSystem()])
        self.scene.set_timestep(1 / 250)
        self.scene.add_ground(0.0, render=False)
        box(self.scene, "shelf", (0.05, 0.05, 0.1), (0.5, 0.0, 0.1), static=True)
        box(self.scene, "bottle", (0.02, 0.02, 0.08), (0.0, 0.0, 0.08))
        box(self.scene, "cup", (0.03, 0.03, 0.03), (-0.3, 0.0, 0.03))
        self.robot = self._robot()
        for _ in range(100):
            self.scene.step()
        self.collisions = SapienCollisions(
            self.scene,
            robots=[self.robot],
            gripper_links={"finger"},
            furniture={"ground", "shelf"},
            targets={"cup"},
            destinations=destinations,
        )

    def _robot(self) -> physx.PhysxArticulation:
        """Two blocks side by side (arm at the joint position, finger 0.15 m along +y) on an x slide."""
        builder = self.scene.create_articulation_builder()
        base = builder.create_link_builder()
        base.set_name("base")
        along = builder.create_link_builder(base)
        along.set_name("arm")
        along.set_joint_name("x")
        along.set_joint_properties("prismatic", [[-2, 2]], sapien.Pose(), sapien.Pose())
        along.add_box_collision(half_size=[0.02, 0.02, 0.02])
        finger = builder.create_link_builder(along)
        finger.set_name("finger")
        finger.set_joint_name("fixed")
        finger.set_joint_properties("fixed", [], sapien.Pose([0, 0.15, 0]), sapien.Pose())
        finger.add_box_collision(half_size=[0.02, 0.02, 0.02])
        builder.set_initial_pose(sapien.Pose([0.0, 0.0, 0.13]))
        robot = builder.build(fix_root_link=True)
        for link in robot.get_links():
            link.disable_gravity = True
        joint = robot.get_active_joints()[0]
        joint.set_drive_properties(2000, 200, force_limit=60)
        self.place(robot, -0.12)
        return robot

    def place(self, robot: physx.PhysxArticulation, x: float) -> None:
        robot.set_qpos([x])
        robot.get_active_joints()[0].set_drive_target(x)

    def drive(self, x: float, substeps: int = 150) -> World:
        """Move the slide to ``x`` (m) at an even pace and wait a little."""
        joint = self.robot.get_active_joints()[0]
        start = float(joint.get_drive_target()[0])
        for target in [*np.linspace(start, x, substeps), *[x] * 50]:
            joint.set_drive_target(target)
            self.scene.step()
            self.collisions.after_step()
        return self

    def counts(self) -> tuple[int, int, int]:
        m = self.collisions.metrics()
        return m["robot_to_furniture"], m["robot_to_static_object"], m["target_to_static_object"]


def move(scene: sapien.Scene, name: str, at: tuple[float, ...]) -> None:
    (entity,) = [e for e in scene.get_entities() if e.name == name]
    entity.set_pose(sapien.Pose(at))


def test_only_the_bottle_is_a_static_object() -> None:
    (label,) = World().collisions.statics
    name, _, number = label.partition("#")
    assert name == "bottle"
    assert int(number) > 0


def test_an_idle_scene_has_no_collision() -> None:
    assert World().drive(-0.12).counts() == (0, 0, 0)


def test_a_bottle_knocked_over_by_the_arm() -> None:
    world = World().drive(0.05)
    assert world.counts() == (0, 1, 0)
    assert world.collisions.metrics()["robot_to_static_object_names"] == list(world.collisions.statics)


@pytest.mark.parametrize(("y", "expected"), [(0.0, (1, 0, 0)), (-0.15, (0, 0, 0))])
def test_the_arm_but_not_the_finger_presses_on_the_shelf(y: float, expected: tuple[int, int, int]) -> None:
    """With the robot shifted by -0.15 m in y it is the finger that meets the shelf."""
    world = World()
    move(world.scene, "bottle", (-1.0, 0.0, 0.08))
    world.robot.set_root_pose(sapien.Pose([0.0, y, 0.13]))
    world.drive(0.46)
    assert float(world.robot.get_qpos()[0]) < 0.435  # it really was stopped by the shelf
    assert world.counts() == expected


@pytest.mark.parametrize(("destinations", "expected"), [((), (0, 0, 1)), (("cup",), (0, 0, 0))])
def test_a_cup_pushed_into_the_bottle(destinations: tuple[str, ...], expected: tuple[int, int, int]) -> None:
    world = World(destinations=destinations)
    world.place(world.robot, -0.4)
    world.robot.set_root_pose(sapien.Pose([0.0, 0.0, 0.04]))
    assert world.drive(-0.01).counts() == expected


def test_the_scene_is_read_at_the_cost_of_microseconds() -> None:
    """Not a benchmark: a guard against reading every contact point of every resting object (the cap is 20x)."""
    import time

    world = World()
    start = time.perf_counter()
    for _ in range(200):
        world.collisions.after_step()
    assert (time.perf_counter() - start) / 200 < 1e-3
