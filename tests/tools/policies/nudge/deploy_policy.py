"""A policy for tests that needs numpy only: it nudges both arms by amounts that depend on every pixel it was sent.

One wrong byte on the wire, one picture that differs, one call lost or out of order, and the arms end elsewhere; so two
runs that end in the same state carried the same observations. Settings (``--overrides --think_seconds 0.5``):

    think_seconds   how long each get_action takes, for tests that interrupt a run
    misbehave       "", "nan", "shape" or "raise": what the reply to the second query is
"""

import hashlib
import time

import numpy as np

CAMERAS = ("countertop_camera", "left_camera", "right_camera")
ROWS = 30
REACH = 0.03  # metres


class Nudge:
    def __init__(self, think_seconds, misbehave):
        self.think_seconds = think_seconds
        self.misbehave = misbehave
        self.observation_window = None
        self.instruction = None
        self.queries = 0

    def reset_model(self):
        self.observation_window = None
        self.instruction = None
        self.queries = 0

    def set_language(self, instruction):
        self.instruction = instruction

    def update_observation_window(self, rgb_list, proprio, extrinsics, intrinsics):
        self.observation_window = {
            "rgb_list": rgb_list,
            "proprio": proprio,
            "extrinsics": extrinsics,
            "intrinsics": intrinsics,
        }

    def get_action(self):
        time.sleep(self.think_seconds)
        self.queries += 1
        if self.queries == 2 and self.misbehave == "raise":
            raise RuntimeError("the nudge policy was asked to raise")
        digest = hashlib.sha256(f"{self.instruction} {self.queries}".encode())
        for image in self.observation_window["rgb_list"]:
            digest.update(np.ascontiguousarray(image).tobytes())
        push = np.frombuffer(digest.digest()[:6], np.uint8).astype(np.float64) / 127.5 - 1.0
        target = np.array(self.observation_window["proprio"], dtype=np.float64)
        target[0:3] += REACH * push[:3]
        target[8:11] += REACH * push[3:]
        chunk = np.tile(target, (ROWS, 1))
        if self.queries == 2 and self.misbehave == "nan":
            chunk[0, 0] = np.nan
        if self.queries == 2 and self.misbehave == "shape":
            chunk = chunk[:, :7]
        return chunk


def get_model(usr_args):
    return Nudge(float(usr_args.get("think_seconds") or 0.0), str(usr_args.get("misbehave") or ""))


def reset_model(model):
    model.reset_model()


def eval(TASK_ENV, model, observation):
    if model.observation_window is None:
        model.set_language(TASK_ENV.get_instruction())
    cameras = [observation["observation"][name] for name in CAMERAS]
    pose = observation["endpose"]
    proprio = np.array(
        [*pose["left_endpose"], pose["left_gripper"], *pose["right_endpose"], pose["right_gripper"]], dtype=np.float64
    )
    model.update_observation_window(
        [camera["rgb"] for camera in cameras],
        proprio,
        np.stack([camera["extrinsic_cv"] for camera in cameras]),
        np.stack([camera["intrinsic_cv"] for camera in cameras]),
    )
    chunk = np.asarray(model.get_action(), dtype=np.float64)
    if chunk.ndim != 2 or chunk.shape[1] != 16:
        raise ValueError(f"the model's actions have shape {chunk.shape}, expected (n, 16)")
    for action in chunk:
        TASK_ENV.take_action(action, action_type="ee")
