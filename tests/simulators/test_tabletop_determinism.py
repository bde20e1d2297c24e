"""Same seed, same bits: whatever ran before, and in another process."""

from __future__ import annotations

import gc
import hashlib
import json
import subprocess
import sys

import numpy as np
import pytest

from robopro_eval.simulators.tabletop.env import TabletopEnv

EPISODES = [("put_cup_in_box", 30_201), ("lift_pot", 30_202), ("put_mouse_on_pad", 30_203)]


def fingerprint(env: TabletopEnv, seed: int) -> list[str]:
    """Hashes of the initial images and state, and of both after 25 expert actions."""
    env.setup_demo(seed=seed, enable_collision_metrics=True)
    hashes = []
    for actions in (0, 25):
        for _ in range(actions):
            env.take_action(env.expert_action(), "ee")
        views = env.get_obs()["observation"]
        pixels = b"".join(view["rgb"].tobytes() for view in views.values())
        hashes += [hashlib.sha256(pixels).hexdigest(), env.state_hash()]
    return hashes


def fingerprints(order: list[tuple[str, int]]) -> dict[str, list[str]]:
    """In this order, re-using one environment a task."""
    envs = {task: TabletopEnv(task) for task, _ in EPISODES}
    return {f"{task} {seed}": fingerprint(envs[task], seed) for task, seed in order}


@pytest.fixture(scope="module")
def reference() -> dict[str, list[str]]:
    return fingerprints(EPISODES)


def test_the_order_of_episodes_does_not_matter(reference: dict[str, list[str]]) -> None:
    assert fingerprints(EPISODES[::-1]) == reference


def test_another_process_gets_the_same_bits(reference: dict[str, list[str]]) -> None:
    command = [sys.executable, __file__]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert json.loads(output.splitlines()[-1]) == reference


def test_seeds_differ(reference: dict[str, list[str]]) -> None:
    env = TabletopEnv("put_cup_in_box")
    other = fingerprint(env, 30_204)
    assert not set(other) & set(reference["put_cup_in_box 30201"])


def test_the_hash_notices_a_tenth_of_a_millimetre() -> None:
    env = TabletopEnv("put_cup_in_box")
    env.setup_demo(seed=30_205, cameras=[])
    before = env.state_hash()
    assert env.state_hash() == before
    cup = env._open_world().objects["cup"]
    pose = cup.pose
    pose.p = pose.p + np.array([1e-4, 0, 0])
    cup.pose = pose
    assert env.state_hash() != before


def test_memory_stays_flat_over_many_scenes() -> None:
    def resident_megabytes() -> float:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096 / 1e6

    env = TabletopEnv("put_cup_in_box")

    def run(episodes: int) -> float:
        for seed in range(30_300, 30_300 + episodes):
            env.setup_demo(seed=seed, cameras=["left_camera"])
            env.get_obs()
        gc.collect()
        return resident_megabytes()

    before = run(10)
    assert run(30) - before < 60, "a scene is some 10 MB: 30 kept ones would show"


if __name__ == "__main__":
    print(json.dumps(fingerprints([EPISODES[1], EPISODES[0], EPISODES[2]])))
