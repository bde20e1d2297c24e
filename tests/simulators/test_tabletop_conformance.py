"""The tabletop environments keep the contract that users' environments are checked against."""

from __future__ import annotations

import pytest

from robopro_eval.simulators.benchmark import get_benchmark
from robopro_eval.simulators.conformance import Verdict, check_task_env
from robopro_eval.simulators.tabletop.seeds import SELECTION

BENCHMARK = get_benchmark("tabletop")


# All tasks share one environment class: one task for a single arm and one for both arms cover it.
@pytest.mark.parametrize("task", ["put_cup_in_box", "lift_pot"])
def test_the_task_env_contract(task: str) -> None:
    (config, *_) = BENCHMARK.config_names(task)
    kwargs = dict(BENCHMARK.setup_kwargs(task, config, overrides={}))
    for own in ("seed", "now_ep_num", "is_test"):
        kwargs.pop(own, None)
    report = check_task_env(lambda: BENCHMARK.make_env(task), kwargs, seeds=SELECTION[:2])
    assert report.ok, f"\n{report}"
    offered = {line.name for line in report.lines if line.verdict is Verdict.PASS}
    assert offered >= {"expert", "success", "joint_state", "collision metrics", "video sink"}, f"\n{report}"
