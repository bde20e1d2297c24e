"""The shipped checkpoint in the simulator: it needs its pictures, and it does what it is told.

Seeds are of the selection range; the evaluation range is for final numbers only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from policies.dxvla import deploy_policy
from robopro_eval.simulators import get_benchmark

SEEDS = (39000, 39001, 39002, 39003)
CAMERAS = ("countertop_camera", "left_camera", "right_camera")
# An episode that goes well takes about 75 actions.
STEP_LIMIT = 240
INSTRUCTIONS = {"put_cup_in_box": "put the cup in the box", "put_cup_on_coaster": "put the cup on the coaster"}


@pytest.fixture(scope="module")
def model() -> Any:
    return deploy_policy.get_model({})


class GreyPictures:
    """A model in front of which somebody hung grey paper."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def update_observation_window(self, rgb_list: list[np.ndarray], *rest: np.ndarray) -> None:
        self._model.update_observation_window([np.full_like(view, 128) for view in rgb_list], *rest)


def roll_out(model: Any, task: str, seed: int, instruction: str, *, also: str | None = None) -> str | None:
    """One episode; the name of the task that was done, `task` or `also`, or None."""
    env: Any = get_benchmark("tabletop").make_env(task)
    env.setup_demo(seed=seed, now_ep_num=0, is_test=True, cameras=CAMERAS)
    env.step_lim = STEP_LIMIT
    env.set_instruction(instruction)
    model.reset_model()
    done = None
    while env.take_action_cnt < STEP_LIMIT and done is None:
        deploy_policy.eval(env, model, env.get_obs())
        if env.eval_success:
            done = task
        elif also is not None and env.check_task(also):
            done = also
    env.close_env()
    return done


def test_it_solves_the_task(model: Any) -> None:
    done = [roll_out(model, "put_cup_in_box", seed, INSTRUCTIONS["put_cup_in_box"]) for seed in SEEDS]
    assert done.count("put_cup_in_box") >= len(SEEDS) - 1, done


def test_without_pictures_it_fails(model: Any) -> None:
    grey = GreyPictures(model)
    done = [roll_out(grey, "put_cup_in_box", seed, INSTRUCTIONS["put_cup_in_box"]) for seed in SEEDS]
    assert done == [None] * len(SEEDS)


@pytest.mark.parametrize(
    ("task", "told"), [("put_cup_in_box", "put_cup_on_coaster"), ("put_cup_on_coaster", "put_cup_in_box")]
)
def test_with_the_other_instruction_it_does_the_other_task(model: Any, task: str, told: str) -> None:
    done = [roll_out(model, task, seed, INSTRUCTIONS[told], also=told) for seed in SEEDS]
    assert done.count(told) >= len(SEEDS) - 1, done
    assert task not in done


def test_the_same_episode_twice_ends_the_same(model: Any) -> None:
    def final_state() -> str:
        env: Any = get_benchmark("tabletop").make_env("put_cup_in_box")
        env.setup_demo(seed=SEEDS[0], now_ep_num=0, is_test=True, cameras=CAMERAS)
        env.set_instruction(INSTRUCTIONS["put_cup_in_box"])
        model.reset_model()
        for _ in range(3):
            deploy_policy.eval(env, model, env.get_obs())
        state: str = env.state_hash()
        env.close_env()
        return state

    assert final_state() == final_state()
