"""The example of docs/policies.md is a policy, and what the page says about names and numbers is so."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from model_endpoint.dispatcher import OTHER_RESETS, Dispatcher
from model_endpoint.loading import load_face, load_model
from model_endpoint.settings import HANG_SECONDS, STOP_SECONDS
from sim_endpoint.model_client import ModelClient
from sim_endpoint.model_source import LocalModel

PAGE = (Path(__file__).parents[2] / "docs" / "policies.md").read_text(encoding="utf-8")


class TaskEnv:
    def __init__(self) -> None:
        self.actions: list[object] = []

    @property
    def eval_success(self) -> bool:
        return len(self.actions) == 3

    def take_action(self, action: object, action_type: str) -> None:
        assert action_type == "qpos"
        self.actions.append(action)


def test_the_example_runs(write_policy) -> None:
    match = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert match is not None
    face = load_face(write_policy("my_policy", match[1]))
    source = LocalModel(Dispatcher(face, load_model(face, {"chunk": 20})))
    env = TaskEnv()
    source.call("reset_model")
    face.eval(env, ModelClient(source), {"joint_action": {"vector": np.arange(14.0)}})
    assert np.array_equal(env.actions, [np.arange(14.0)] * 3)


def test_names_and_numbers_are_those_of_the_code() -> None:
    for name in OTHER_RESETS:
        assert f"`{name}`" in PAGE
    assert f"({HANG_SECONDS:.0f} s)" in PAGE
    assert STOP_SECONDS == 3.0
