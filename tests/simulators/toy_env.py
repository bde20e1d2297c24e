"""A small environment that keeps the TASK_ENV contract without physics, to try the conformance check on.

Its arm's six joints are the tool position (m) and the rotation vector (rad), so that kinematics is exact and short.
The tests break it in one place at a time.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

HOME = {"left": [-0.25, -0.17, 0.95, 0.0, 1.4, 0.3], "right": [0.25, -0.17, 0.95, 0.0, 1.4, -0.3]}
SIDES = ("left", "right")
HEIGHT, WIDTH = 12, 16
REACH = 2.0  # m from the origin


def rotation_of(wxyz: NDArray[np.float64]) -> Rotation:
    return Rotation.from_quat(np.roll(wxyz, -1))


class ToyEnv:
    """Task: left tool within 1 cm of a point, gripper closed. Ten kinematic substeps per action."""

    def setup_demo(self, now_ep_num: int = 0, seed: int = 0, is_test: bool = False, **kwargs: Any) -> None:
        del now_ep_num, is_test
        self.kwargs = kwargs
        self.take_action_cnt = 0
        self.step_lim: int | None = 50 if kwargs.get("eval_mode") else None
        self.eval_success = False
        self.plan_success = True
        self.suc = self.test_num = self.render_freq = 0
        self.info: dict[str, Any] = {"info": {}}
        self.instruction: str | None = None
        self.eval_video_path = kwargs.get("eval_video_save_dir")
        self.enable_collision_metrics = bool(kwargs.get("enable_collision_metrics"))
        self.robot_link_names = {"left_link1", "right_link1"}
        self.targets = {side: np.array(HOME[side]) for side in SIDES}
        self.grippers = dict.fromkeys(SIDES, 1.0)
        self.goal = self.place(seed)

    def place(self, seed: int) -> NDArray[np.float64]:
        return np.random.default_rng(seed).uniform([-0.3, 0.0, 0.8], [-0.1, 0.1, 0.9])

    def play_once(self) -> dict[str, Any]:
        self.targets["left"][:3] = self.goal
        self.grippers["left"] = 0.0
        return self.info

    def check_success(self) -> bool:
        near = np.linalg.norm(self.targets["left"][:3] - self.goal) < 0.01
        return bool(near and self.grippers["left"] < 0.2)

    # --- observation

    def endpose(self, side: str) -> list[float]:
        joints = self.targets[side]
        wxyz = np.roll(Rotation.from_rotvec(joints[3:]).as_quat(), 1)
        return [*joints[:3].tolist(), *wxyz.tolist()]

    def camera(self, cam2world_cv: NDArray[np.float64]) -> dict[str, Any]:
        world2cam = np.linalg.inv(cam2world_cv)
        signature = sum(self.targets[side].sum() + self.grippers[side] for side in SIDES) + self.goal.sum()
        rgb = np.arange(HEIGHT * WIDTH * 3).reshape(HEIGHT, WIDTH, 3) + int(signature * 1e4)
        return {
            "intrinsic_cv": np.array([[20, 0, WIDTH / 2], [0, 20, HEIGHT / 2], [0, 0, 1]], dtype=np.float32),
            "extrinsic_cv": world2cam[:3].astype(np.float32),
            "cam2world_gl": (cam2world_cv @ np.diag([1.0, -1.0, -1.0, 1.0])).astype(np.float32),
            "rgb": (rgb % 256).astype(np.uint8),
        }

    def wrist(self, side: str) -> NDArray[np.float64]:
        pose, mount = np.eye(4), np.eye(4)
        pose[:3, :3] = Rotation.from_rotvec(self.targets[side][3:]).as_matrix()
        pose[:3, 3] = self.targets[side][:3]
        mount[:3, :3] = Rotation.from_euler("xyz", [0.2, 0.4, 0.1]).as_matrix()
        mount[:3, 3] = [0.05, 0.0, 0.03]
        return pose @ mount

    def get_obs(self) -> dict[str, Any]:
        head = np.eye(4)
        head[:3, :3] = Rotation.from_euler("x", 2.5).as_matrix()
        head[:3, 3] = [0, -0.5, 1.4]
        joints: dict[str, Any] = {}
        poses: dict[str, Any] = {}
        for side in SIDES:
            joints[f"{side}_arm"] = self.targets[side].tolist()
            joints[f"{side}_gripper"] = self.grippers[side]
            poses[f"{side}_endpose"] = self.endpose(side)
            poses[f"{side}_gripper"] = self.grippers[side]
        joints["vector"] = np.concatenate([[*self.targets[side], self.grippers[side]] for side in SIDES])
        obs = {
            "observation": {
                "head_camera": self.camera(head),
                "left_camera": self.camera(self.wrist("left")),
                "right_camera": self.camera(self.wrist("right")),
            },
            "pointcloud": [],
            "joint_action": joints,
            "endpose": poses,
        }
        self.now_obs = self.keep(obs)
        return obs

    def keep(self, obs: dict[str, Any]) -> dict[str, Any]:
        return copy.deepcopy(obs)

    # --- action

    def finished(self) -> bool:
        return self.take_action_cnt == self.step_lim or self.eval_success

    def take_action(self, action: Any, action_type: str = "qpos") -> None:
        if self.finished():
            return
        self.film()
        self.take_action_cnt += 1
        action = np.asarray(action, dtype=np.float64)
        goals, openings = self.decode(action, action_type)
        starts = {side: self.targets[side].copy() for side in SIDES}
        for i in range(1, 11):
            for side in SIDES:
                goal = goals[side]
                if goal is not None:
                    self.targets[side] = goal if i == 10 else starts[side] + (goal - starts[side]) * i / 10
                self.grippers[side] = self.gripper(openings[side])
            if self.check_success():
                self.latch()
                return

    def latch(self) -> None:
        self.eval_success = True

    def gripper(self, opening: float) -> float:
        return float(np.clip(opening, 0.0, 1.0))

    def decode(self, action: NDArray[np.float64], action_type: str) -> tuple[dict[str, Any], dict[str, float]]:
        if action_type == "qpos":
            goals: dict[str, Any] = {"left": action[:6], "right": action[7:13]}
            return goals, {"left": action[6], "right": action[13]}
        if action_type == "ee":
            return {
                "left": self.solve(action[:7]),
                "right": self.solve(action[8:15]),
            }, {"left": action[7], "right": action[15]}
        raise ValueError(f"action_type {action_type!r}: use 'qpos' or 'ee'")

    def solve(self, pose: NDArray[np.float64]) -> NDArray[np.float64] | None:
        if np.linalg.norm(pose[:3]) > REACH:
            return None
        return np.concatenate([pose[:3], rotation_of(pose[3:]).as_rotvec()])

    # --- the rest

    def set_instruction(self, instruction: str | None = None) -> None:
        self.instruction = instruction

    def get_instruction(self, instruction: str | None = None) -> str | None:
        del instruction
        return self.instruction

    def close_env(self, clear_cache: bool = False) -> None:
        del clear_cache

    def get_collision_metrics(self) -> dict[str, Any]:
        counters = (
            "robot_to_furniture",
            "robot_to_static_object",
            "target_to_static_object",
            "intended_to_static_object",
        )
        return {
            **dict.fromkeys(counters, 0),
            **{f"{counter}_names": [] for counter in counters},
            "is_collision": False,
            "total_collision_count": 0,
        }

    def film(self) -> None:
        if hasattr(self, "eval_video_ffmpeg"):
            self.eval_video_ffmpeg.stdin.write(self.now_obs["observation"]["head_camera"]["rgb"].tobytes())

    def _set_eval_video_ffmpeg(self, encoder: Any) -> None:
        self.eval_video_ffmpeg = encoder

    def _del_eval_video_ffmpeg(self) -> None:
        self.eval_video_ffmpeg.stdin.close()
        self.eval_video_ffmpeg.wait()
        del self.eval_video_ffmpeg
