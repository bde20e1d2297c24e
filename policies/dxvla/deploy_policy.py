"""The face of the policy, in RoboTwin's convention; loaded by the simulator program and by the model program.

The simulator uses `eval` and needs numpy only. The model program uses `get_model`, which is where torch and the weights
are loaded.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robopro_eval.action_spaces import (
    XVLA_DIM,
    ee_16_from_endpose,
    ee_16_from_xvla_action,
    xvla_proprio_from_ee_16,
)

from .checkpoints import describe_checkpoint, find_checkpoint
from .dxvla_model import DXVLA
from .knobs import read_knobs

PRIMARY_CAM = "DXVLA_PRIMARY_CAM"
DEFAULT_PRIMARY_CAM = "countertop"
WRIST_CAMERAS = ("left_camera", "right_camera")


class TaskEnvFace(Protocol):
    """What `eval` touches of TASK_ENV."""

    take_action_cnt: int
    step_lim: int | None
    eval_success: bool

    def get_instruction(self) -> str | None: ...
    def take_action(self, action: NDArray[np.float64], action_type: str = "qpos") -> None: ...


class ModelFace(Protocol):
    """What `eval` touches of the model: the wrapper itself, or its proxy on the simulator side."""

    @property
    def observation_window(self) -> object | None: ...
    def set_language(self, instruction: str) -> object: ...
    def update_observation_window(
        self,
        rgb_list: list[NDArray[np.uint8]],
        proprio: NDArray[np.float32],
        extrinsics: NDArray[np.float32],
        intrinsics: NDArray[np.float32],
    ) -> object: ...
    def get_action(self) -> object: ...


def get_model(usr_args: Mapping[str, object]) -> DXVLA:
    """Reads the knobs, finds and loads the checkpoint.

    Raises:
        ValueError: a knob has a value that cannot take effect.
        FileNotFoundError: no checkpoint; the message lists the places tried.
        ModuleNotFoundError: torch or safetensors is not installed; the message says what to install.
    """
    knobs = read_knobs(usr_args, os.environ)
    checkpoint = find_checkpoint(usr_args, os.environ)
    try:
        from .network import load_network
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"policy dxvla needs {error.name}: pip install torch safetensors",
            name=error.name,
        ) from None
    return DXVLA(load_network(checkpoint), knobs, describe_checkpoint(checkpoint) | {"knobs": asdict(knobs)})


def reset_model(model: DXVLA) -> None:
    """A new episode begins."""
    model.reset_model()


def primary_camera(environ: Mapping[str, str]) -> str:
    """The camera of the first view: `DXVLA_PRIMARY_CAM` (default countertop), `_camera` appended where it lacks it."""
    name = environ.get(PRIMARY_CAM, "").strip() or DEFAULT_PRIMARY_CAM
    return name if name.endswith("_camera") else f"{name}_camera"


def encode_obs(
    observation: Mapping[str, Mapping[str, Mapping[str, ArrayLike]]], primary: str
) -> tuple[list[NDArray[np.uint8]], NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """`get_obs()` -> rgb_list (primary, left, right), proprio `[20]`, extrinsics `[3, 3, 4]`, intrinsics `[3, 3, 3]`.

    Raises:
        ValueError: a camera is missing (the message lists those there are), or has no rgb.
    """
    cameras = observation["observation"]
    rgb, extrinsics, intrinsics = [], [], []
    for name in (primary, *WRIST_CAMERAS):
        if name not in cameras:
            where = f" ({PRIMARY_CAM})" if name == primary else ""
            raise ValueError(
                f"camera {name!r}{where} is not in the observation; there are {', '.join(sorted(cameras))}"
            )
        camera = cameras[name]
        if "rgb" not in camera:
            raise ValueError(f"camera {name!r} has no rgb; switch the group `rgb` on in data_type")
        rgb.append(np.ascontiguousarray(camera["rgb"], dtype=np.uint8))
        extrinsics.append(np.asarray(camera["extrinsic_cv"], dtype=np.float32))
        intrinsics.append(np.asarray(camera["intrinsic_cv"], dtype=np.float32))
    endpose: Mapping[str, ArrayLike] = observation["endpose"]  # type: ignore[assignment]
    proprio = xvla_proprio_from_ee_16(ee_16_from_endpose(endpose)).astype(np.float32)
    return rgb, proprio, np.stack(extrinsics), np.stack(intrinsics)


def check_chunk(chunk: object) -> NDArray[np.float64]:
    """The model's reply as `[n, 20]` float64.

    Raises:
        ValueError: not numeric, another shape, no row, or NaN or infinity; the message says which.
    """
    try:
        actions = np.asarray(chunk, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the model's actions are not an array of numbers: {type(chunk).__name__} ({error})"
        ) from error
    if actions.ndim != 2 or actions.shape[1] != XVLA_DIM or actions.shape[0] == 0:
        raise ValueError(f"the model's actions have shape {actions.shape}, expected (n, {XVLA_DIM}) with n >= 1")
    bad = np.flatnonzero(~np.isfinite(actions).all(axis=1))
    if bad.size:
        raise ValueError(
            f"the model's actions contain NaN or infinity, first in row {int(bad[0])} of {actions.shape[0]}"
        )
    return actions


def eval(  # the name is RoboTwin's
    TASK_ENV: TaskEnvFace, model: ModelFace, observation: Mapping[str, Mapping[str, Mapping[str, ArrayLike]]]
) -> None:
    """One query: observation to the model, its chunk into the simulator, row by row, until success or the limit.

    Raises:
        ValueError: the chunk has a wrong shape or is not finite, or a camera is missing; the episode counts as failed.
    """
    if model.observation_window is None:
        model.set_language(str(TASK_ENV.get_instruction() or ""))
    rgb_list, proprio, extrinsics, intrinsics = encode_obs(observation, primary_camera(os.environ))
    model.update_observation_window(rgb_list, proprio, extrinsics, intrinsics)
    for row in ee_16_from_xvla_action(check_chunk(model.get_action())):
        TASK_ENV.take_action(row, "ee")
        if TASK_ENV.eval_success or (TASK_ENV.step_lim is not None and TASK_ENV.take_action_cnt >= TASK_ENV.step_lim):
            break
