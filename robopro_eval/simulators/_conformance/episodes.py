"""Checks across episodes: expert, closing, seeds, collision metrics (contract section 4), the video sink."""

from __future__ import annotations

import copy
import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from robopro_eval.simulators._conformance.kit import (
    Bench,
    NotOffered,
    difference,
    get_obs,
    hold,
    is_bool,
    require,
)

COUNTERS = ("robot_to_furniture", "robot_to_static_object", "target_to_static_object", "intended_to_static_object")
METRIC_KEYS = frozenset(
    {*COUNTERS, "is_collision", "total_collision_count", *(f"{counter}_names" for counter in COUNTERS)}
)
_ROLLOUT_ACTIONS = 4


def expert(bench: Bench) -> None:
    """play_once() solves the task and returns its info dict or None."""
    env = bench.start()
    info = env.play_once()
    require(
        info is None or isinstance(info, dict),
        f"play_once() returned a {type(info).__name__}",
        "return the info dict or None",
    )
    require(
        env.plan_success,
        "the expert's planning failed (plan_success is False)",
        "offer another seed to the check, or mend the expert",
    )
    solved = env.check_success()
    require(is_bool(solved), f"check_success() returned {solved!r}", "return a bool")
    require(solved, "the expert ended without success", "offer another seed to the check, or mend the expert")


def closing(bench: Bench) -> None:
    """close_env(clear_cache=) may be followed by check_success() and by another setup_demo() of the same instance."""
    for clear in (False, True):
        env = bench.start()
        env.close_env(clear_cache=clear)
        bench._running = False
        solved = env.check_success()
        require(
            is_bool(solved),
            f"after close_env() check_success() returned {solved!r}",
            "keep what it needs: the loop asks after closing",
        )
        require(
            is_bool(env.plan_success),
            "after close_env() plan_success is gone",
            "keep it: the loop reads it after closing",
        )
    env = bench.start()
    require(
        env.take_action_cnt == 0,
        "take_action_cnt is not 0 after closing and setting up again",
        "reset it in setup_demo()",
    )
    get_obs(env)


def same_seed_again(bench: Bench) -> None:
    """The same seed twice: the same state and the same images after set-up and after some actions."""
    first, second = _rollout(bench), _rollout(bench)
    _expect_equal(first, second, "two episodes of one seed", "draw everything from a generator made from the seed")


def same_seed_after_another(bench: Bench) -> None:
    """Another seed run in between, or the state of the global random generators, changes nothing."""
    first = _rollout(bench)
    for seed in bench.seeds[1:]:
        env = bench.start(seed)
        bench.settle(env, hold(get_obs(env)))
    np.random.seed(1)  # a new episode must not listen to the global generators
    random.seed(1)
    _expect_equal(
        first,
        _rollout(bench),
        "two episodes of one seed with another seed between",
        "build a new scene per episode and leave nothing behind",
    )


def same_seed_elsewhere(bench: Bench) -> None:
    """A new instance gives the same episode as the one that has run others before."""
    first = _rollout(bench)
    env = bench.make_env()
    try:
        second = _rollout(bench, env=env)
    finally:
        env.close_env(clear_cache=False)  # type: ignore[attr-defined]
    _expect_equal(first, second, "the same seed in a used and in a new environment", "keep no state between episodes")


def other_seed(bench: Bench) -> None:
    """Different seeds give different episodes."""
    require(len(bench.seeds) > 1, "only one seed was given to the check", "give check_task_env() two seeds or more")
    seen = [copy.deepcopy(get_obs(bench.start(seed))["observation"]) for seed in bench.seeds]
    same = all(difference(seen[0], other) is None for other in seen[1:])
    require(
        not same, f"the seeds {tuple(bench.seeds)} all begin with the same images", "let the seed decide the placement"
    )


def collision_metrics(bench: Bench) -> None:
    """get_collision_metrics(), where offered, has the ten keys, and its counts and flags agree."""
    env = bench.start(enable_collision_metrics=True)
    if not hasattr(env, "get_collision_metrics"):
        raise NotOffered("no get_collision_metrics(): there will be no HSR")
    names = getattr(env, "robot_link_names", None)
    require(
        isinstance(names, set | frozenset) and names and all(isinstance(name, str) for name in names),
        f"robot_link_names is {names!r}",
        "set the names of all robot links when enable_collision_metrics is true; the loop asks for it",
    )
    require(env.enable_collision_metrics, "enable_collision_metrics=True was ignored", "store the argument")
    env.take_action(hold(get_obs(env)), action_type="ee")
    metrics = env.get_collision_metrics()
    require(isinstance(metrics, dict), f"get_collision_metrics() returned a {type(metrics).__name__}", "return a dict")
    keys = set(metrics)
    require(
        keys == METRIC_KEYS,
        f"the metrics lack {sorted(METRIC_KEYS - keys)} and have {sorted(keys - METRIC_KEYS)} too much",
        "return exactly the ten keys",
    )
    for counter in COUNTERS:
        value, named = metrics[counter], metrics[f"{counter}_names"]
        require(isinstance(value, int) and value >= 0, f"{counter} is {value!r}", "count with a plain int")
        require(
            isinstance(named, list) and named == sorted(named), f"{counter}_names is {named!r}", "give a sorted list"
        )
        require(len(named) <= value, f"{counter} is {value} but names {len(named)}", "count what you name")
    total = sum(metrics[counter] for counter in COUNTERS)
    require(
        metrics["total_collision_count"] == total,
        f"total_collision_count is {metrics['total_collision_count']}, the counters add up to {total}",
        "add the four counters",
    )
    require(
        metrics["is_collision"] is (total > 0),
        f"is_collision is {metrics['is_collision']!r} with a total of {total}",
        "make it a bool: total > 0",
    )
    require(
        total == 0,
        f"a robot that holds still at home collides: {metrics}",
        "start counting only when the scene has come to rest",
    )


class _Pipe:
    def __init__(self) -> None:
        self.writes: list[int] = []
        self.closed = False

    def write(self, data: bytes) -> int:
        self.writes.append(memoryview(data).nbytes)
        return self.writes[-1]

    def flush(self) -> None: ...

    def close(self) -> None:
        self.closed = True


class _Encoder:
    """Stands in for the ``subprocess.Popen`` of a video encoder."""

    def __init__(self) -> None:
        self.stdin = _Pipe()
        self.waited = False

    def wait(self, timeout: float | None = None) -> int:
        del timeout
        self.waited = True
        return 0


def video_sink(bench: Bench) -> None:
    """Frames of whole pictures go to the encoder's stdin while one is set, none before, and it is closed at the end."""
    with tempfile.TemporaryDirectory() as folder:
        env = bench.start(eval_video_save_dir=Path(folder))
        if not hasattr(env, "_set_eval_video_ffmpeg"):
            raise NotOffered("no _set_eval_video_ffmpeg(): there will be no videos")
        obs = get_obs(env)
        sizes = {view["rgb"].size for view in obs["observation"].values()}
        encoder = _Encoder()
        env._set_eval_video_ffmpeg(encoder)
        require(not encoder.stdin.writes, "setting the encoder wrote a frame", "write frames in take_action()")
        for _ in range(_ROLLOUT_ACTIONS):
            env.take_action(hold(get_obs(env)), action_type="ee")
        writes = encoder.stdin.writes
        require(
            writes,
            f"{_ROLLOUT_ACTIONS} actions wrote no frame",
            "write a frame (raw rgb24) to eval_video_ffmpeg.stdin in take_action()",
        )
        odd = [size for size in writes if size not in sizes]
        require(
            not odd,
            f"a frame of {max(odd, default=0)} bytes fits no camera (those have {sorted(sizes)})",
            "write height * width * 3 bytes of uint8 per frame",
        )
        env._del_eval_video_ffmpeg()
        require(
            encoder.stdin.closed and encoder.waited,
            "_del_eval_video_ffmpeg() left the encoder running",
            "close its stdin and wait for it",
        )
        require(
            not hasattr(env, "eval_video_ffmpeg"), "_del_eval_video_ffmpeg() kept the encoder", "delete the attribute"
        )
    env = bench.start()
    env.take_action(hold(get_obs(env)), action_type="ee")
    require(
        len(encoder.stdin.writes) == len(writes),
        "the next episode wrote to the last one's encoder",
        "forget the encoder in _del_eval_video_ffmpeg()",
    )


def _rollout(bench: Bench, env: Any = None) -> list[dict[str, Any]]:
    """Observations of a short episode of the first seed: at the start, and after each of a few fixed movements."""
    env = bench.start(env=env)
    obs = get_obs(env)
    seen = [copy.deepcopy(obs)]
    action = hold(obs)
    for i in range(_ROLLOUT_ACTIONS):
        action[[2, 10]] -= 0.01
        action[[7, 15]] = i % 2
        env.take_action(action, action_type="ee")
        seen.append(copy.deepcopy(get_obs(env)))
    return seen


def _expect_equal(first: list[dict[str, Any]], second: list[dict[str, Any]], what: str, fix: str) -> None:
    for i, (a, b) in enumerate(zip(first, second, strict=True)):
        where = difference(a, b)
        moment = "at the start" if i == 0 else f"after action {i}"
        require(where is None, f"{what} differ {moment} at {where}", fix)
