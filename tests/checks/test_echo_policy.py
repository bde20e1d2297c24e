"""The echo policy: what `eval-check` relies on, and the limits that keep a stranger from stopping a server with it."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest
from programs import BIN, Program, clean_environ

from policies.echo import deploy_policy
from policies.echo.deploy_policy import Echo


def test_the_methods_it_promises_are_there() -> None:
    echo = Echo()
    for name in echo.eval_check_methods():
        assert inspect.ismethod(getattr(echo, name))


def test_sessions_share_nothing() -> None:
    echo = Echo()
    first, second = echo.new_session(), echo.new_session()
    first.remember(1)
    second.remember(2)
    assert (first.recall(), second.recall(), echo.recall()) == (1, 2, None)
    first.reset_model()
    assert (first.recall(), second.recall()) == (None, 2)


def test_a_blob_is_what_it_says_and_has_an_end() -> None:
    assert Echo().blob(253).tolist() == [*range(251), 0, 1]
    assert Echo().blob(0).shape == (0,)
    for size in (-1, deploy_policy.MAX_BLOB + 1):
        with pytest.raises(ValueError, match="a blob has 0 to"):
            Echo().blob(size)


def test_nobody_can_make_it_sleep_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(deploy_policy.time, "sleep", slept.append)
    assert Echo().sleep(0.25) == 0.25
    assert Echo().sleep(1e9) == deploy_policy.MAX_SLEEP
    assert Echo().sleep(-1.0) == 0.0
    assert slept == [0.25, deploy_policy.MAX_SLEEP, 0.0]


def test_an_action_chunk_holds_the_pose_that_was_remembered() -> None:
    echo = Echo()
    assert not echo.get_action().any()
    echo.remember(np.arange(14.0))
    chunk = echo.get_action()
    assert (chunk.shape, chunk.dtype) == ((30, 14), np.float32)
    assert (chunk == np.arange(14)).all()


def test_in_a_simulator_it_holds_still_to_the_step_limit(tmp_path: Path) -> None:
    (tmp_path / "seeds").write_text("30000")
    words = ["--local", "--policy_name", "echo", "--step_lim", "30", "--test_num", "1", "--no-video"]
    words += ["--task_name", "put_cup_in_box", "--task_config", "bench_demo_study_clean"]
    environ = clean_environ(RUNS_ROOT=str(tmp_path / "runs"), EVAL_SEED_FILE=str(tmp_path / "seeds"))
    with Program([BIN / "eval-sim", *words], env=environ) as sim:
        assert sim.exit_code() == 0, sim.output
    assert "FAIL (steps=30, step_limit)" in sim.output
