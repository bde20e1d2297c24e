"""The keyword arguments of `setup_demo`, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from robopro_eval.simulators.names import UnknownName
from robopro_eval.simulators.tabletop.catalogue import CAMERA_NAMES
from robopro_eval.simulators.tabletop.observation import DEFAULT_DATA_TYPE

DEFAULT_VIDEO_CAMERA = "countertop_camera"


@dataclass(frozen=True)
class SetupOptions:
    """What this benchmark makes of a configuration's fields.

    - `task_config`: must be one of the task's configurations
    - `data_type`: mapping of switches (`rgb`, `depth`, `qpos`, `endpose`, `actor_segmentation`, `mesh_segmentation`)
    - `cameras`: names rendered by `get_obs`, default all; `camera.collect_head_camera` and `.collect_wrist_camera` set
      to False leave those out
    - `video_camera`: the camera that feeds an attached encoder
    - `enable_collision_metrics`, `eval_video_save_dir`, `render_freq`: as in the TASK_ENV contract
    """

    task_config: str
    data_type: Mapping[str, bool]
    cameras: tuple[str, ...]
    video_camera: str
    enable_collision_metrics: bool
    eval_video_save_dir: Path | None
    render_freq: int


def parse_options(task: str, configs: Sequence[str], given: Mapping[str, object]) -> SetupOptions:
    """Read the fields this benchmark knows and ignore the others.

    Raises UnknownName for a configuration or camera that does not exist, TypeError for a field of the wrong kind.
    """
    config = given.get("task_config") or configs[0]
    if config not in configs:
        raise UnknownName(f"config of task {task}", config, configs)
    video_camera = given.get("video_camera") or DEFAULT_VIDEO_CAMERA
    save_dir = given.get("eval_video_save_dir")
    frequency = given.get("render_freq") or 0
    if not isinstance(frequency, int):
        raise TypeError(f"render_freq must be a whole number, not {frequency!r}")
    return SetupOptions(
        task_config=str(config),
        data_type=_switches("data_type", given.get("data_type"), DEFAULT_DATA_TYPE),
        cameras=_cameras(given),
        video_camera=_checked_camera(video_camera),
        enable_collision_metrics=bool(given.get("enable_collision_metrics", False)),
        eval_video_save_dir=None if save_dir is None else Path(str(save_dir)),
        render_freq=frequency,
    )


def _switches(name: str, value: object, default: Mapping[str, bool]) -> Mapping[str, bool]:
    if value is None:
        return dict(default)
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a mapping of switches such as {{rgb: true}}, not {value!r}")
    return {str(key): bool(switch) for key, switch in value.items()}


def _cameras(given: Mapping[str, object]) -> tuple[str, ...]:
    names = given.get("cameras")
    if names is None:
        wanted = _switches("camera", given.get("camera"), {})
        left_out = {"head_camera"} if not wanted.get("collect_head_camera", True) else set()
        if not wanted.get("collect_wrist_camera", True):
            left_out |= {"left_camera", "right_camera"}
        return tuple(name for name in CAMERA_NAMES if name not in left_out)
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise TypeError(f"cameras must be a list of camera names, not {names!r}")
    return tuple(_checked_camera(name) for name in names)


def _checked_camera(name: object) -> str:
    if name not in CAMERA_NAMES:
        raise UnknownName("camera", name, CAMERA_NAMES)
    return str(name)
