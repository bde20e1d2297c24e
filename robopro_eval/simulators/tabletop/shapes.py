"""Building tabletop objects from boxes, cylinders and spheres. Every origin is at the middle of the object's underside."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import sapien

Color = tuple[float, float, float]

# High enough that a squeezed object neither slips nor creeps.
STATIC_FRICTION, DYNAMIC_FRICTION, RESTITUTION = 1.0, 0.9, 0.0


def material(color: Color, *, roughness: float = 0.7, specular: float = 0.3) -> sapien.render.RenderMaterial:
    """A plain painted surface."""
    paint = sapien.render.RenderMaterial()
    # The shader works in linear light; colours here are written as they should appear.
    paint.base_color = [*(float(c) ** 2.2 for c in color), 1.0]
    paint.roughness = roughness
    paint.specular = specular
    return paint


class ShapeBuilder:
    """A SAPIEN actor builder with a density and a few composite shapes."""

    def __init__(self, scene: sapien.Scene, name: str, density: float = 500.0) -> None:
        self._builder = scene.create_actor_builder()
        self._name = name
        self._density = density
        self._physical = sapien.physx.PhysxMaterial(STATIC_FRICTION, DYNAMIC_FRICTION, RESTITUTION)

    def box(
        self,
        center: Sequence[float],
        size: Sequence[float],
        color: Color,
        *,
        yaw: float = 0.0,
        solid: bool = True,
        visible: bool = True,
    ) -> ShapeBuilder:
        """A box with full `size` (m) at `center` in the object's frame."""
        pose = sapien.Pose(list(center), [float(np.cos(yaw / 2)), 0.0, 0.0, float(np.sin(yaw / 2))])
        half = [float(s) / 2 for s in size]
        if solid:
            self._builder.add_box_collision(pose, half, self._physical, self._density)
        if visible:
            self._builder.add_box_visual(pose, half, material(color))
        return self

    def disc(
        self,
        height: float,
        radius: float,
        thickness: float,
        color: Color,
        *,
        center: Sequence[float] = (0.0, 0.0),
        solid: bool = True,
    ) -> ShapeBuilder:
        """An upright cylinder whose underside is at `height` (m) in the object's frame."""
        upright = [float(np.sqrt(0.5)), 0.0, float(np.sqrt(0.5)), 0.0]  # SAPIEN's cylinders lie along x
        pose = sapien.Pose([center[0], center[1], height + thickness / 2], upright)
        if solid:
            self._builder.add_cylinder_collision(pose, radius, thickness / 2, self._physical, self._density)
        self._builder.add_cylinder_visual(pose, radius, thickness / 2, material(color))
        return self

    def ball(self, center: Sequence[float], radius: float, color: Color, *, solid: bool = True) -> ShapeBuilder:
        """A sphere."""
        pose = sapien.Pose(list(center))
        if solid:
            self._builder.add_sphere_collision(pose, radius, self._physical, self._density)
        self._builder.add_sphere_visual(pose, radius, material(color))
        return self

    def tube(
        self, radius: float, height: float, wall: float, color: Color, inside: Color, *, plates: int = 16
    ) -> ShapeBuilder:
        """An open round vessel with outer `radius`: a floor and a ring of wall plates, darker inside."""
        self.disc(0.0, radius - wall / 2, wall, inside)
        middle = radius - wall / 2
        width = 2 * radius * np.tan(np.pi / plates)
        for number in range(plates):
            angle = 2 * np.pi * number / plates
            direction = np.array([np.cos(angle), np.sin(angle)])
            self.box((*(direction * middle), height / 2), (wall, width, height), color, yaw=angle)
            inner = direction * (radius - wall - 0.0004)
            self.box((*inner, height / 2), (0.0006, width * 0.9, height - 0.002), inside, yaw=angle, solid=False)
        return self

    def build(self, pose: sapien.Pose, *, fixed: bool = False) -> sapien.Entity:
        """Put the object into the scene; a `fixed` one never moves."""
        self._builder.set_initial_pose(pose)
        return self._builder.build_static(self._name) if fixed else self._builder.build(self._name)


def upright(x: float, y: float, z: float, yaw: float = 0.0) -> sapien.Pose:
    """An upright pose turned by `yaw` (rad) about the vertical."""
    return sapien.Pose([x, y, z], [float(np.cos(yaw / 2)), 0.0, 0.0, float(np.sin(yaw / 2))])
