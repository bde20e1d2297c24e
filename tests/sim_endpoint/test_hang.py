"""A call into the environment that does not return is noticed; everything else is not."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from sim_endpoint.hang import HangWatch


class Robot:
    def __call__(self) -> None: ...


class Env:
    def __init__(self) -> None:
        self.step_lim = 20
        self.release = threading.Event()
        self.robot = Robot()

    def get_obs(self) -> dict[str, int]:
        return {"step": 1}

    def take_action(self, action: object, action_type: str = "qpos") -> None:
        self.release.wait(30.0)


def watched(env: Env, watch: HangWatch) -> Any:
    return watch.over(env)  # type: ignore[arg-type]


def test_a_call_that_does_not_return_is_named_once() -> None:
    env, watch = Env(), HangWatch(0.5)
    told: list[tuple[str, float]] = []

    def on_hang(name: str, seconds: float) -> None:
        told.append((name, seconds))
        env.release.set()

    with watch.telling(on_hang):
        watched(env, watch).get_obs()
        watched(env, watch).take_action([0.0])
    assert len(told) == 1
    assert told[0][0] == "take_action"
    assert told[0][1] > 0.5


def test_the_end_is_set_before_anything_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """The very first call may hang with Python's lock, before the watching thread has run for the first time."""
    switch: list[str] = []
    monkeypatch.setattr("faulthandler.dump_traceback_later", lambda *_, **__: switch.append("set"))
    monkeypatch.setattr("faulthandler.cancel_dump_traceback_later", lambda: switch.append("cancelled"))
    with HangWatch(3600.0).telling(lambda *_: None):
        assert switch == ["set"]
    assert switch == ["set", "cancelled"]


def test_the_environment_is_as_it_was() -> None:
    env = Env()
    proxy = watched(env, HangWatch(5.0))
    assert proxy.get_obs() == {"step": 1}
    assert proxy.step_lim == 20
    proxy.step_lim = 3
    assert env.step_lim == 3
    assert not hasattr(proxy, "state_hash")
    proxy.get_obs = lambda: {"step": 9}
    assert proxy.get_obs() == {"step": 9}, "what a policy puts in its place is called"
    del proxy.get_obs
    assert proxy.get_obs() == {"step": 1}
    with pytest.raises(AttributeError):
        _ = proxy.nothing
    assert proxy.robot is env.robot, "an object that merely can be called is no method"


def test_a_limit_of_nothing_watches_nothing() -> None:
    env, watch = Env(), HangWatch(0.0)
    assert watched(env, watch) is env
    before = threading.active_count()
    with watch.telling(lambda *_: None):
        assert threading.active_count() == before


def test_a_call_inside_a_call_is_the_outer_ones_time() -> None:
    env, watch = Env(), HangWatch(0.5)
    told = threading.Event()
    names: list[str] = []

    def on_hang(name: str, seconds: float) -> None:
        names.append(name)
        told.set()

    with watch.telling(on_hang), watch.call("play_once"):
        while not told.is_set():
            watched(env, watch).get_obs()
    assert names == ["play_once"]
