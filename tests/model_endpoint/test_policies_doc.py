"""The examples of docs/policies.md are policies, and what the page says about names and numbers is so."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from framing.session import Request
from model_endpoint.dispatcher import ACT, FINISH, INFER, NEW_SESSION, OTHER_RESETS, PREPARE, Dispatcher
from model_endpoint.loading import load_face, load_model
from model_endpoint.policy import Call, Policy, Seat, answer
from model_endpoint.settings import HANG_SECONDS, MAX_CONNECTIONS, STOP_SECONDS
from robopro_eval.transport.retry import STATUS_EVERY
from sim_endpoint.local_model import LocalModel
from sim_endpoint.model_client import ModelClient

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


SMALLEST, SHARED = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_smallest_policy_runs(write_policy) -> None:
    face = load_face(write_policy("my_policy", SMALLEST))
    source = LocalModel(Dispatcher(face, load_model(face, {"chunk": 20})))
    env = TaskEnv()
    source.call("reset_model")
    face.eval(env, ModelClient(source), {"joint_action": {"vector": np.arange(14.0)}})
    assert np.array_equal(env.actions, [np.arange(14.0)] * 3)


def test_the_policy_for_several_simulators_runs_with_the_eval_of_the_first(write_policy) -> None:
    evaluate = SMALLEST[SMALLEST.index("def eval(") :]
    face = load_face(write_policy("shared_policy", f"{SHARED}\n\n{evaluate}"))
    model = load_model(face, {"chunk": 20})
    source = LocalModel(Dispatcher(face, model))
    env = TaskEnv()
    source.call("reset_model")
    face.eval(env, ModelClient(source), {"joint_action": {"vector": np.arange(14.0)}})
    assert np.array_equal(env.actions, [np.arange(14.0)] * 3)

    policy = Policy(face, model, max_batch=2)
    calls = []
    for number in (1.0, 2.0):
        seat = Seat(f"sim:{number}")
        answer(policy, [Call(seat, Request("update_observation_window", (np.full(14, number),)))])
        calls.append(Call(seat, Request("get_action")))
    assert all(call.may_be_batched for call in calls)
    answer(policy, calls)
    for number, call in zip((1.0, 2.0), calls, strict=True):
        assert np.array_equal(call.value, np.full((20, 14), number))


def test_names_and_numbers_are_those_of_the_code() -> None:
    for name in OTHER_RESETS:
        assert f"`{name}`" in PAGE
    assert f"({HANG_SECONDS:.0f} s)" in PAGE
    assert STOP_SECONDS == 3.0
    assert f"`--status_seconds` ({STATUS_EVERY:.0f})" in PAGE
    assert f"`--max_connections` ({MAX_CONNECTIONS})" in PAGE
    for name in (NEW_SESSION, PREPARE, INFER, FINISH, ACT):
        assert f"`{name}(" in PAGE
