"""A policy for tests that needs numpy only: it nudges both arms by amounts that depend on everything it was sent.

Every action depends on every byte of every observation since ``reset_model``, and a model that never was reset adds
noise of its own. So one wrong byte on the wire, one call lost, repeated or out of order, or an episode of which a model
saw only the second half, and the arms end elsewhere; two runs that end in the same state carried the same observations.
Settings (``--overrides --think_seconds 0.5``):

    think_seconds   how long each get_action takes, for tests that interrupt a run
    first_seconds   how much longer the first get_action of the process takes: a policy that compiles
    misbehave       what the second query of an episode does: "nan", "shape", "raise", "hang", "stall" or "unsendable",
                    in every episode, or only in some: "nan@30001,hang@30002#1" (a seed, or one attempt at it)
    sessions        true: the model offers new_session()
    diary           a file that gets a line for every begin, observation and action, with process and episode
"""

import hashlib
import json
import os
import time

import numpy as np

CAMERAS = ("countertop_camera", "left_camera", "right_camera")
ROWS = 30
REACH = 0.03  # metres
FOR_EVER = 3600.0  # seconds; no test waits that long
STALL = 6.0  # seconds


class Nudge:
    def __init__(self, settings):
        self._settings = settings
        self._first_seconds = settings["first_seconds"]
        self._diary = os.open(settings["diary"], os.O_WRONLY | os.O_APPEND | os.O_CREAT) if settings["diary"] else None
        self._coming = None
        self._episode = None
        self._memory = hashlib.sha256(os.urandom(16))  # until the first reset: no two models agree
        self.observation_window = None
        self.observations = 0
        self.queries = 0

    def begin_episode(self, info):
        self._coming = info["id"]

    def reset_model(self):
        self._episode, self._coming = self._coming, None  # None: a simulator that connects resets before any episode
        self._memory = hashlib.sha256()
        self.observation_window = None
        self.observations = 0
        self.queries = 0
        self._note("begin", 0)

    def set_language(self, instruction):
        self._memory.update(instruction.encode())

    def update_observation_window(self, rgb_list, proprio, extrinsics, intrinsics):
        self.observation_window = {
            "rgb_list": rgb_list,
            "proprio": proprio,
            "extrinsics": extrinsics,
            "intrinsics": intrinsics,
        }
        for array in (*rgb_list, proprio, extrinsics, intrinsics):
            self._memory.update(np.ascontiguousarray(array).tobytes())
        self.observations += 1
        self._note("observation", self.observations)

    def get_action(self):
        time.sleep(self._settings["think_seconds"] + self._first_seconds)
        self._first_seconds = 0.0
        self.queries += 1
        misbehave = self._misbehaviour()
        if misbehave == "raise":
            raise RuntimeError("the nudge policy was asked to raise")
        if misbehave in ("hang", "stall"):
            time.sleep(FOR_EVER if misbehave == "hang" else STALL)
        if misbehave == "unsendable":
            return {"chunk": {"left": [1.0, {2.0}]}}
        self._memory.update(f"query {self.queries}".encode())
        push = np.frombuffer(self._memory.digest()[:6], np.uint8).astype(np.float64) / 127.5 - 1.0
        target = np.array(self.observation_window["proprio"], dtype=np.float64)
        target[0:3] += REACH * push[:3]
        target[8:11] += REACH * push[3:]
        chunk = np.tile(target, (ROWS, 1))
        if misbehave == "nan":
            chunk[0, 0] = np.nan
        if misbehave == "shape":
            chunk = chunk[:, :7]
        self._note("action", self.queries)
        return chunk

    def _misbehaviour(self):
        attempt = (self._episode or "").rpartition("/")[2]
        for word in self._settings["misbehave"].split(",") if self.queries == 2 else ():
            how, _, where = word.partition("@")
            if not where or attempt == where or attempt.startswith(where + "#"):
                return how
        return ""

    def _note(self, event, count):
        if self._diary is not None:
            line = {"process": os.getpid(), "episode": self._episode, "event": event, "count": count}
            os.write(self._diary, json.dumps(line).encode() + b"\n")  # one write: no line is ever half there


class NudgeWithSessions(Nudge):
    def new_session(self):
        return Nudge(self._settings)


def get_model(usr_args):
    settings = {name: float(usr_args.get(name) or 0.0) for name in ("think_seconds", "first_seconds")}
    settings |= {name: str(usr_args.get(name) or "") for name in ("misbehave", "diary")}
    return (NudgeWithSessions if usr_args.get("sessions") else Nudge)(settings)


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
