"""One episode's world: physics scene, room, arms, cameras, objects. Built anew for every episode.

World frame: z up, +x to the robot's right, +y away from the robot, origin on the floor below the middle of the table.
Re-using a scene is not bit-reproducible (solver state survives), a new one is.
"""

from __future__ import annotations

import hashlib

import numpy as np
import sapien

from robopro_eval.simulators.tabletop.cameras import CameraRig
from robopro_eval.simulators.tabletop.kinematics import Array
from robopro_eval.simulators.tabletop.render_pack import prepare_renderer
from robopro_eval.simulators.tabletop.robot import TABLE_Z, load_arms
from robopro_eval.simulators.tabletop.shapes import Color, ShapeBuilder, upright

SUBSTEP = 1 / 250
TABLE_SIZE = (1.2, 0.9, 0.04)
SOLVER_POSITION_ITERATIONS, SOLVER_VELOCITY_ITERATIONS = 15, 1
CONTACT_OFFSET = 0.01
SHADOW_MAP = 1024
_FLOOR: Color = (0.45, 0.47, 0.50)


class UnStableError(Exception):
    """The objects did not come to rest after being placed: this seed has no valid episode."""


class World:
    """Everything that exists in one episode. `objects` maps names to entities, in the order they were added."""

    def __init__(self, *, wall: Color, table: Color) -> None:
        prepare_renderer()
        sapien.physx.set_scene_config(gravity=[0, 0, -9.81], bounce_threshold=2.0, enable_pcm=True, enable_tgs=True)
        sapien.physx.set_body_config(SOLVER_POSITION_ITERATIONS, SOLVER_VELOCITY_ITERATIONS, 0.005)
        sapien.physx.set_shape_config(CONTACT_OFFSET, 0.0)
        self.physics = sapien.physx.PhysxCpuSystem()
        self.scene = sapien.Scene([self.physics, sapien.render.RenderSystem()])
        self.scene.timestep = SUBSTEP
        self.objects: dict[str, sapien.Entity] = {}
        self.furniture: dict[str, sapien.Entity] = {}
        self._bodies: dict[str, sapien.physx.PhysxRigidDynamicComponent] = {}
        self._build_room(wall, table)
        self.arms = load_arms(self.scene)
        self.cameras = CameraRig(self.scene, self.arms)
        self.closed = False

    def _build_room(self, wall: Color, table: Color) -> None:
        scene = self.scene
        scene.set_ambient_light([0.35, 0.35, 0.36])
        # From behind the robot's left shoulder: shadows fall forward, where the cameras see them.
        scene.add_directional_light(
            [0.25, 0.35, -1.0], [2.2, 2.15, 2.05], shadow=True, position=[0, 0, TABLE_Z], shadow_scale=0.9,
            shadow_near=-2.0, shadow_far=2.0, shadow_map_size=SHADOW_MAP,
        )  # fmt: skip
        width, depth, thickness = TABLE_SIZE
        self.add_furniture(
            ShapeBuilder(scene, "table").box((0, 0, -thickness / 2), TABLE_SIZE, table), "table", upright(0, 0, TABLE_Z)
        )
        legs = ShapeBuilder(scene, "table_legs")
        for x in (-width / 2 + 0.04, width / 2 - 0.04):
            for y in (-depth / 2 + 0.04, depth / 2 - 0.04):
                legs.box((x, y, (TABLE_Z - thickness) / 2), (0.05, 0.05, TABLE_Z - thickness), _FLOOR)
        self.add_furniture(legs, "table_legs", upright(0, 0, 0))
        self.add_furniture(
            ShapeBuilder(scene, "ground").box((0, 0, -0.05), (6, 6, 0.1), _FLOOR), "ground", upright(0, 0, 0)
        )
        self.add_furniture(
            ShapeBuilder(scene, "wall").box((0, 0, 1.5), (6, 0.05, 3.0), wall), "wall", upright(0, 1.0, 0)
        )

    def add_furniture(self, shape: ShapeBuilder, name: str, pose: sapien.Pose) -> None:
        """A thing that never moves; a robot link that hits it hard counts as a collision."""
        self.furniture[name] = shape.build(pose, fixed=True)

    def add_object(self, shape: ShapeBuilder, name: str, pose: sapien.Pose) -> None:
        """A free object."""
        entity = shape.build(pose)
        self.objects[name] = entity
        self._bodies[name] = entity.find_component_by_type(sapien.physx.PhysxRigidDynamicComponent)

    def position(self, name: str) -> Array:
        """Origin (3,) of an object or a piece of furniture, m."""
        entity = self.objects[name] if name in self.objects else self.furniture[name]
        return np.asarray(entity.pose.p, dtype=np.float64)

    def up(self, name: str) -> Array:
        """The object's own z axis (3,) in the world frame."""
        w, x, y, z = (float(v) for v in self.objects[name].pose.q)
        return np.array([2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)])

    def yaw(self, name: str) -> float:
        """The object's heading about the vertical, rad, for an upright object."""
        w, x, y, z = (float(v) for v in self.objects[name].pose.q)
        return float(np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)))

    def step(self) -> None:
        """Advance the physics by one substep (1/250 s)."""
        self.physics.step()

    def settle(self, substeps: int, watch: int) -> None:
        """Let the objects come to rest.

        Raises UnStableError when, over the last `watch` substeps, one of them turned by more than 3 degrees or moved by
        more than 5 mm.
        """
        for _ in range(substeps - watch):
            self.step()
        before = {name: (self.position(name), self.up(name)) for name in self.objects}
        for _ in range(watch):
            self.step()
        for name, (position, up) in before.items():
            turned = np.degrees(np.arccos(np.clip(float(up @ self.up(name)), -1.0, 1.0)))
            moved = float(np.linalg.norm(position - self.position(name)))
            if turned > 3.0 or moved > 0.005:
                raise UnStableError(
                    f"{name} did not come to rest: it moved {moved * 1000:.1f} mm, {turned:.1f} degrees"
                )

    def state_hash(self) -> str:
        """sha256 of every joint position, joint velocity, body pose and body velocity, as bytes."""
        digest = hashlib.sha256()
        for side in self.arms:
            articulation = self.arms[side].articulation
            digest.update(np.ascontiguousarray(articulation.get_qpos(), dtype=np.float32).tobytes())
            digest.update(np.ascontiguousarray(articulation.get_qvel(), dtype=np.float32).tobytes())
        for name, entity in self.objects.items():
            digest.update(name.encode())
            body = self._bodies[name]
            for values in (entity.pose.p, entity.pose.q, body.linear_velocity, body.angular_velocity):
                digest.update(np.ascontiguousarray(values, dtype=np.float32).tobytes())
        return digest.hexdigest()

    def close(self) -> None:
        """Release the scene; object poses stay readable, nothing can be stepped or rendered any more."""
        self.closed = True
