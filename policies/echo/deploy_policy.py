"""A policy that gives back what it is sent, for `eval-check`: `eval-model --policy_name echo`.

It has nothing to do with robots (in a simulator it holds the arms still); it needs numpy only. Each connection has a
memory of its own, through `new_session()`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

MAX_SLEEP = 60.0
"""Seconds. Whoever reaches the port may call `sleep`; it should not stop a server for good."""

MAX_BLOB = 64 << 20
"""Bytes, for the same reason."""

CHUNK_ROWS = 30
JOINTS = 14


class Echo:
    """The policy and, at the same time, one session of it: its whole state is what `remember` was given."""

    def __init__(self) -> None:
        self.remembered: object = None

    def new_session(self) -> Echo:
        return Echo()

    def reset_model(self) -> None:
        self.remembered = None

    def eval_check_methods(self) -> list[str]:
        """Tells `eval-check` that these methods do here what it expects; no other policy has this name by chance."""
        return ["blob", "echo", "echo_args", "fail", "recall", "remember", "sleep", "unsendable"]

    def echo(self, value: object) -> object:
        return value

    def echo_args(self, *args: object, **kwargs: object) -> dict[str, object]:
        return {"args": list(args), "kwargs": kwargs}

    def remember(self, value: object) -> None:
        self.remembered = value

    def recall(self) -> object:
        """What `remember` was given last in this session; None after a reset."""
        return self.remembered

    def sleep(self, seconds: float) -> float:
        """Take `seconds` for a call, at most `MAX_SLEEP`, and return them."""
        seconds = max(0.0, min(float(seconds), MAX_SLEEP))
        time.sleep(seconds)
        return seconds

    def fail(self, message: str) -> None:
        raise ValueError(message)

    def unsendable(self) -> dict[str, object]:
        """Something that no wire carries: a set, at the key path `found.items[1]`."""
        return {"found": {"items": [1, {2, 3}]}}

    def blob(self, nbytes: int) -> npt.NDArray[np.uint8]:
        """`nbytes` bytes 0, 1, ... 250, 0, 1, ... as a flat uint8 array; at most `MAX_BLOB`."""
        if not 0 <= int(nbytes) <= MAX_BLOB:
            raise ValueError(f"a blob has 0 to {MAX_BLOB} bytes, not {nbytes}")
        return np.resize(np.arange(251, dtype=np.uint8), int(nbytes))

    def get_action(self) -> npt.NDArray[np.float32]:
        """The remembered joint positions, `CHUNK_ROWS` times: a [30, 14] float32 chunk that holds still."""
        still = np.zeros(JOINTS) if self.remembered is None else np.asarray(self.remembered, dtype=np.float64)
        return np.tile(still, (CHUNK_ROWS, 1)).astype(np.float32)


def get_model(usr_args: Mapping[str, object]) -> Echo:  # noqa: ARG001 - the face of a policy
    return Echo()


def reset_model(model: Echo) -> None:
    model.reset_model()


def eval(TASK_ENV: Any, model: Any, observation: Any) -> None:
    """Hold still: one chunk of the joint positions as they are."""
    model.remember(observation["joint_action"]["vector"])
    for action in model.get_action():
        TASK_ENV.take_action(action, "qpos")
        if TASK_ENV.eval_success:
            break
