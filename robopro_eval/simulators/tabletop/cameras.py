"""The four cameras: where they hang and what they return."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import sapien
from numpy.typing import NDArray

from robopro_eval.simulators.names import UnknownName
from robopro_eval.simulators.tabletop.catalogue import WRIST_CAMERA_SIDES
from robopro_eval.simulators.tabletop.robot import Arm

WIDTH, HEIGHT = 320, 240
NEAR, FAR = 0.02, 10.0


@dataclass(frozen=True)
class StaticCamera:
    """A camera fixed in the room: eye and look-at point (m, world), vertical field of view (degrees)."""

    eye: tuple[float, float, float]
    look_at: tuple[float, float, float]
    fov: float


STATIC_CAMERAS = {
    "head_camera": StaticCamera((0.0, -0.62, 1.47), (0.0, -0.10, 0.75), 54.0),
    "countertop_camera": StaticCamera((0.0, -0.40, 1.75), (0.0, -0.03, 0.75), 36.0),
}
# On the hand, in its frame (x approach, z towards the camera): above the palm, pitched towards the tool point so that
# the fingertips are in view near the lower edge and the palm is just outside.
WRIST_POSITION = (0.02, 0.0, 0.10)
WRIST_PITCH = 0.33
WRIST_FOV = 70.0


class CameraRig:
    """All cameras of one scene. Nothing is rendered until asked for."""

    def __init__(self, scene: sapien.Scene, arms: dict[str, Arm]) -> None:
        self._scene = scene
        self._cameras: dict[str, sapien.render.RenderCameraComponent] = {}
        for name, static in STATIC_CAMERAS.items():
            camera = scene.add_camera(name, WIDTH, HEIGHT, np.deg2rad(static.fov), NEAR, FAR)
            camera.entity.set_pose(_look_at(static.eye, static.look_at))
            self._cameras[name] = camera
        half = WRIST_PITCH / 2
        local = sapien.Pose(list(WRIST_POSITION), [float(np.cos(half)), 0.0, float(np.sin(half)), 0.0])
        for name, side in WRIST_CAMERA_SIDES.items():
            self._cameras[name] = scene.add_mounted_camera(
                name, arms[side].hand.entity, local, WIDTH, HEIGHT, np.deg2rad(WRIST_FOV), NEAR, FAR
            )

    def __getitem__(self, name: str) -> sapien.render.RenderCameraComponent:
        if name not in self._cameras:
            raise UnknownName("camera", name, self._cameras)
        return self._cameras[name]

    def names(self) -> tuple[str, ...]:
        return tuple(self._cameras)

    def render(self, names: tuple[str, ...]) -> None:
        """Take pictures with these cameras of the scene as it is now."""
        self._scene.update_render()
        for name in names:
            self[name].take_picture()

    def matrices(self, name: str) -> dict[str, NDArray[np.float32]]:
        """`intrinsic_cv` (3, 3), `extrinsic_cv` (3, 4) world to camera (OpenCV axes), `cam2world_gl` (4, 4);
        float32."""
        camera = self[name]
        return {
            "intrinsic_cv": np.array(camera.get_intrinsic_matrix(), dtype=np.float32),
            "extrinsic_cv": np.array(camera.get_extrinsic_matrix(), dtype=np.float32)[:3, :4],
            "cam2world_gl": np.array(camera.get_model_matrix(), dtype=np.float32),
        }

    def rgb(self, name: str) -> NDArray[np.uint8]:
        """The last picture of a camera, (240, 320, 3) uint8."""
        picture = np.asarray(self[name].get_picture("Color"))[..., :3]
        if picture.dtype != np.uint8:  # a SAPIEN that does not know the requested format
            picture = np.clip(picture, 0.0, 1.0) * 255.0 + 0.5
        return np.ascontiguousarray(picture, dtype=np.uint8)

    def depth(self, name: str) -> NDArray[np.float64]:
        """Distance along the optical axis in millimetres, (240, 320) float64; 0 where nothing was hit."""
        position, _ = self._position_segmentation(name)
        return np.asarray(-position[..., 2], dtype=np.float64)

    def segmentation(self, name: str) -> NDArray[np.uint16]:
        """Per-scene id of the thing at each pixel, (240, 320) uint16; 0 where nothing was hit."""
        _, ids = self._position_segmentation(name)
        return ids.astype(np.uint16)

    def _position_segmentation(self, name: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Camera-frame position in millimetres (OpenGL axes) and per-scene ids."""
        camera = self[name]
        if "PositionSegmentation" in camera.get_picture_names():  # the light pack: int millimetres
            picture = np.asarray(camera.get_picture("PositionSegmentation"))
            return picture[..., :3].astype(np.float64), picture[..., 3].astype(np.int64)
        position = np.asarray(camera.get_picture("Position"), dtype=np.float64)[..., :3] * 1000.0
        return position, np.asarray(camera.get_picture("Segmentation"))[..., 1].astype(np.int64)


def _look_at(eye: tuple[float, float, float], target: tuple[float, float, float]) -> sapien.Pose:
    """SAPIEN cameras look along +x with y to the left and z up."""
    forward = np.subtract(target, eye)
    forward = forward / np.linalg.norm(forward)
    left = np.cross([0.0, 0.0, 1.0], forward)
    left = left / np.linalg.norm(left)
    matrix = np.eye(4)
    matrix[:3, :3] = np.stack([forward, left, np.cross(forward, left)], axis=1)
    matrix[:3, 3] = eye
    return sapien.Pose(matrix)
