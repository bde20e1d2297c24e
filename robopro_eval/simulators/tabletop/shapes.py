"""Building tabletop objects from boxes and cylinders. Every origin is at the middle of the object's
underside."""

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
        self._scene = scene
        self._density = density
        self._meshes: list[sapien.render.RenderShape] = []
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

    def dome(self, size: Sequence[float], color: Color, *, rings: int = 10, spokes: int = 24) -> ShapeBuilder:
        """A smooth rounded body of full `size` (m) standing on its flat underside; looks only, no collision shape."""
        length, depth, height = size
        vertices = []
        for ring in range(rings + 1):
            tilt = np.pi / 2 * ring / rings
            # Exponents below 1 keep the sides steep and the top flat.
            radius, lift = np.cos(tilt) ** 0.6, np.sin(tilt) ** 0.8
            for spoke in range(spokes):
                angle = 2 * np.pi * spoke / spokes
                vertices.append(
                    (radius * np.cos(angle) * length / 2, radius * np.sin(angle) * depth / 2, lift * height)
                )
        triangles = []
        for ring in range(rings):
            for spoke in range(spokes):
                a, b = ring * spokes + spoke, ring * spokes + (spoke + 1) % spokes
                triangles += [(a, b, a + spokes), (b, b + spokes, a + spokes)]
        points = np.array(vertices, dtype=np.float32)
        normals = points / (np.array(size, dtype=np.float32) ** 2 / np.array([1, 1, 0.25], dtype=np.float32))
        normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-9)
        self._meshes.append(
            sapien.render.RenderShapeTriangleMesh(
                points, np.array(triangles, dtype=np.uint32), normals, np.zeros((len(points), 2), np.float32),
                material(color)
            )
        )  # fmt: skip
        return self

    def build(self, pose: sapien.Pose, *, fixed: bool = False) -> sapien.Entity:
        """Put the object into the scene; a `fixed` one never moves."""
        self._builder.set_name(self._name)
        self._builder.set_physx_body_type("static" if fixed else "dynamic")
        entity = sapien.Entity()
        entity.name = self._name
        looks = self._builder.build_render_component()
        for mesh in self._meshes:
            looks.attach(mesh)
        entity.add_component(looks)
        entity.add_component(self._builder.build_physx_component())
        entity.pose = pose
        self._scene.add_entity(entity)
        return entity


def upright(x: float, y: float, z: float, yaw: float = 0.0) -> sapien.Pose:
    """An upright pose turned by `yaw` (rad) about the vertical."""
    return sapien.Pose([x, y, z], [float(np.cos(yaw / 2)), 0.0, 0.0, float(np.sin(yaw / 2))])
