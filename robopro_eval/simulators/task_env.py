"""TASK_ENV: what an evaluation loop and a policy wrapper may ask of an environment.

The contract is RoboPRO's and RoboTwin's, written down as a Protocol: anything that satisfies it runs under the same
loop and the same wrappers. `simulators.conformance` puts an environment through it.

Units and frames, throughout: metres, radians, seconds; the world frame has z up; quaternions are **scalar first**
`[qw, qx, qy, qz]`; gripper values are 1 = open, 0 = closed; colours are RGB.

**`endpose`** is the flange of an arm: local +x along the approach, and the tool point between the fingers 0.12 m
further along that +x. Sending an `endpose` back through `take_action(..., "ee")` is the identity command.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from numpy.typing import ArrayLike


class TaskEnv(Protocol):
    """One task, reused for many episodes. Life of an episode: `setup_demo`, then `get_obs` and `take_action` in turn
    until `eval_success` or `take_action_cnt == step_lim`, then `close_env`.

    There is no other end-of-episode signal: `take_action` returns None and silently does nothing once the episode is
    over.
    """

    task_name: str
    """The task's name, e.g. `put_cup_in_box`."""
    plan_success: bool
    """True until the scripted expert fails; `take_action` never touches it."""
    eval_success: bool
    """Latched True by `take_action` as soon as the task is solved; reset by `setup_demo`."""
    take_action_cnt: int
    """Actions taken in this episode; a call that did nothing is not counted."""
    step_lim: int | None
    """Most actions an episode may take; None unless `setup_demo(eval_mode=True)`."""
    instruction: str | None
    """What was last given to `set_instruction`."""
    eval_video_path: Path | None
    """Where videos go, from setup's `eval_video_save_dir`; None: no video."""
    render_freq: int
    """Viewer refresh rate; 0: no viewer."""
    suc: int
    """Successes so far; the loop assigns it."""
    test_num: int
    """Index of the episode; the loop assigns it."""
    ep_num: int
    """The `now_ep_num` of the last setup."""
    seed: int
    """The seed of the last setup."""
    info: dict[str, object]
    """`cluttered_table_info`, `texture_info`, and `info`: placeholder -> value for instruction templates."""
    enable_collision_metrics: bool
    """Whether collisions are watched in this episode."""
    robot_link_names: set[str]
    """Names of all robot links, grippers included."""

    def setup_demo(
        self, *, seed: int = 0, now_ep_num: int = 0, is_test: bool = False, eval_mode: bool = False, **kwargs: object
    ) -> None:
        """Build the scene of `seed` and leave it at rest, arms at home, grippers open (1.0).

        Further keyword arguments are the fields of the task configuration and what the loop adds (`task_name`,
        `task_config`, `data_type`, `enable_collision_metrics`, `eval_video_save_dir`, ...); unknown ones are ignored.
        Raises the environment's `UnStableError` (an Exception of that name) when the objects do not come to rest.
        """

    def close_env(self, clear_cache: bool = False) -> None:
        """End the episode. `check_success()` and `plan_success` still answer afterwards; a second call does nothing."""

    def get_obs(self) -> Mapping[str, object]:
        """The present observation, a dict with these keys (groups that `data_type` switches off stay, empty):

        - `observation`: camera name -> dict of
            - `intrinsic_cv` (3, 3) float32, pixels; always present
            - `extrinsic_cv` (3, 4) float32, world -> camera, OpenCV axes (x right, y down, z forward); always present
            - `cam2world_gl` (4, 4) float32, camera -> world, OpenGL axes (x right, y up, z backward); always present
            - `rgb` (H, W, 3) uint8, not necessarily contiguous; when `data_type["rgb"]`
            - `depth` (H, W) float64, **millimetres** along the optical axis, background 0; when `data_type["depth"]`
            - `actor_segmentation`, `mesh_segmentation` (H, W) uint16 ids, background 0; when asked for
        - `pointcloud`: `[]` when off, else (N, 6) float: xyz and rgb in 0..1
        - `joint_action`: drive targets. `left_arm`, `right_arm`: **Python lists** of 6 floats (rad); `left_gripper`,
          `right_gripper`: float in [0, 1], the last *commanded* value; `vector`: (14,) float64, `[L6, Lg, R6, Rg]`
        - `joint_state`: the same layout, measured
        - `endpose`: `left_endpose`, `right_endpose`: **Python lists** `[x, y, z, qw, qx, qy, qz]` (world, m), measured;
          `left_gripper`, `right_gripper`: as in `joint_action`
        """

    def take_action(self, action: ArrayLike, action_type: str = "qpos") -> None:
        """Execute one absolute action.

        `'qpos'`: (14,) `[L6, g, R6, g]`, rad. `'ee'`: (16,) `[x, y, z, qw, qx, qy, qz, g]` for left, then right: the
        `endpose` to reach, world frame. Numbers beyond these are ignored.

        Grippers ramp linearly from the commanded value to the asked one over the action, clipped to [0, 1] as they are
        commanded, so -1 and +1 are legal and mean close and open. A pose out of reach makes that arm hold where it is;
        its gripper still moves, the action is consumed and nothing is raised. Success is checked after every physics
        substep; on success the rest of the action is dropped and `eval_success` latched.
        """

    def check_success(self) -> bool:
        """Whether the task is solved in the present state."""

    def play_once(self) -> dict[str, object] | None:
        """Run the scripted expert; returns `info` or None and sets `plan_success` to False when it fails."""

    def get_collision_metrics(self) -> Mapping[str, object]:
        """Collisions so far in this episode.

        Counters `robot_to_furniture`, `robot_to_static_object`, `target_to_static_object`, `intended_to_static_object`
        (always 0); for each a sorted list of names `..._names`; `is_collision`: bool; `total_collision_count`: int.
        """

    def set_instruction(self, instruction: str | None = None) -> None:
        """Set what policies read as the instruction."""

    def get_instruction(self, instruction: str | None = None) -> str | None:
        """The instruction set last; the argument is ignored."""

    def _set_eval_video_ffmpeg(self, ffmpeg: object) -> None:
        """Attach an encoder (`.stdin.write(bytes)`); `take_action` then writes raw rgb24 frames to it."""

    def _del_eval_video_ffmpeg(self) -> None:
        """Close the encoder's input, wait for it, and forget it."""
