"""Feeds a :class:`~robopro_eval.simulators.tabletop.collisions.CollisionMonitor` from a SAPIEN scene.

:class:`SapienCollisions` sorts the scene's bodies into roles once, when it is built, and then turns each substep's
``scene.get_contacts()`` and object poses into the monitor's plain form. Contacts of no interest (an object resting on
the table) are dropped by two dictionary look-ups, before their points are read.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from robopro_eval.simulators.tabletop.collisions import CollisionMetrics, CollisionMonitor, Contact

if TYPE_CHECKING:
    import sapien


class SapienCollisions:
    """The collision monitor of one episode in one SAPIEN scene (CPU PhysX).

    Build it when the scene is complete and at rest; call :meth:`after_step` after each ``scene.step()`` of an action
    and before the success check.

    * ``robots``: the articulations that are the robot; all their links are robot links.
    * ``gripper_links``: names of the links that may press on furniture (the fingers, and whatever counts as gripper).
    * ``furniture``, ``targets``, ``destinations``: entity names. All entities of a name get the role.

    Every other rigid body that can move is a static object, labelled ``name#per_scene_id``. Links of articulations
    other than the robot (doors, drawers) are no statics; they may be furniture by name.
    """

    def __init__(
        self,
        scene: sapien.Scene,
        *,
        robots: Sequence[sapien.physx.PhysxArticulation],
        gripper_links: Collection[str],
        furniture: Collection[str],
        targets: Collection[str],
        destinations: Collection[str] = (),
    ) -> None:
        import sapien.physx as physx

        self._scene = scene
        self._touchers: dict[int, str] = {}  # per-scene id -> body name: robot links and targets
        self._touchable: dict[int, str] = {}  # per-scene id -> body name: furniture and statics
        self._bodies: list[sapien.physx.PhysxRigidDynamicComponent] = []
        robot_links = []
        for robot in robots:
            for link in robot.get_links():
                self._touchers[link.entity.per_scene_id] = link.entity.name
                robot_links.append(link.entity.name)
        labels = []
        for entity in scene.get_entities():
            key, name = entity.per_scene_id, entity.name
            if key in self._touchers:
                continue
            body = entity.find_component_by_type(physx.PhysxRigidBaseComponent)
            if body is None:
                continue
            if name in furniture:
                self._touchable[key] = name
            elif name in targets:
                self._touchers[key] = name
            elif name not in destinations and isinstance(body, physx.PhysxRigidDynamicComponent):
                label = f"{name}#{key}"
                self._touchable[key] = label
                labels.append(label)
                self._bodies.append(body)
        self._poses: NDArray[np.float64] = np.empty((len(labels), 7))
        self._monitor = CollisionMonitor(
            furniture=furniture,
            robot_links=robot_links,
            gripper_links=gripper_links,
            targets=targets,
            destinations=destinations,
            statics=labels,
            static_poses=self._read_poses(),
        )

    @property
    def statics(self) -> tuple[str, ...]:
        """Labels ``name#per_scene_id`` of the objects that must not be displaced."""
        return self._monitor.statics

    def after_step(self) -> None:
        """Take in the substep the scene has just made."""
        contacts = []
        touchers, touchable = self._touchers, self._touchable
        for contact in self._scene.get_contacts():
            body_a, body_b = contact.bodies
            a, b = body_a.entity.per_scene_id, body_b.entity.per_scene_id
            if a not in touchers:
                a, b = b, a
            name_a, name_b = touchers.get(a), touchable.get(b)
            if name_a is not None and name_b is not None:
                impulse = np.zeros(3)
                for point in contact.points:
                    impulse += point.impulse
                contacts.append(Contact(name_a, name_b, impulse))
        self._monitor.step(contacts, self._read_poses())

    def metrics(self) -> CollisionMetrics:
        """See :meth:`CollisionMonitor.metrics`."""
        return self._monitor.metrics()

    def _read_poses(self) -> NDArray[np.float64]:
        for row, body in zip(self._poses, self._bodies, strict=True):
            pose = body.entity.pose
            row[:3] = pose.p
            row[3:] = pose.q
        return self._poses
