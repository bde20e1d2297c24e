"""Names and limits that must be known without importing SAPIEN."""

from __future__ import annotations

STATIC_CAMERA_NAMES = ("head_camera", "countertop_camera")
WRIST_CAMERA_SIDES = {"left_camera": "left", "right_camera": "right"}
CAMERA_NAMES = (*STATIC_CAMERA_NAMES, *WRIST_CAMERA_SIDES)

TASK_SCENES = {
    "put_cup_in_box": "study",
    "put_cup_on_coaster": "study",
    "put_mouse_on_pad": "office",
    "lift_pot": "kitchens",
}
TASK_CONFIGS = {task: (f"bench_demo_{scene}_clean",) for task, scene in TASK_SCENES.items()}
# RoboPRO's usual limit, in actions.
STEP_LIMIT = 600
TASK_STEP_LIMITS = dict.fromkeys(TASK_SCENES, STEP_LIMIT)
