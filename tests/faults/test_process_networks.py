"""Networks as they are: slow and lossy, or cut in the middle of a message."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from evaluations import DIRECTIONS, Direction, Evaluation, Record, check_whole, wait_until
from namespaces import hosts_on_a_cable
from programs import running
from release_report import DONE, RecordProperty

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/dev/net/tun").exists(), reason="needs root and TUN devices"
)

A_MINUTE = 60.0
"""What is promised: a dead host is noticed within it, on both sides."""

HALF_AN_OBSERVATION = 350_000
"""Bytes: three pictures of 320x240 weigh 691 200."""


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_slow_and_lossy_link_gives_the_same_results(
    direction: Direction, tmp_path: Path, undisturbed: Sequence[Record], record_property: RecordProperty
) -> None:
    with hosts_on_a_cable("sim-node", "model-node", delay_ms=10, loss_percent=1, rate_mbit=50) as (here, there, _):
        evaluation = Evaluation(tmp_path, [30000, 30001], direction, sim_host=here, model_host=there)
        with running(evaluation.simulator(), evaluation.model()) as (sim, _):
            assert sim.exit_code() == 0
    check_whole(evaluation, undisturbed[:2])
    assert [line["attempt"] for line in evaluation.metrics()] == [1, 1], "slow is not dead"
    record_property(DONE, "2 episodes at 10 ms delay each way, 1 % loss, 50 Mbit/s; one attempt each")


class CutRun:
    """An evaluation over a cable that can be cut."""

    def __init__(self, folder: Path, direction: Direction, stack: contextlib.ExitStack) -> None:
        here, there, self.cable = stack.enter_context(hosts_on_a_cable("sim-node", "model-node", rate_mbit=20))
        self.evaluation = Evaluation(folder, [30000, 30001], direction, sim_host=here, model_host=there)
        self.sim = stack.enter_context(self.evaluation.simulator())
        self.model = stack.enter_context(self.evaluation.model("-v"))

    def cut(self) -> float:
        """Cut it while an observation is half way to the model; when that was."""
        wait_until(lambda: bool(self.evaluation.diary()), "episode", self.sim, self.model)
        wait_until(lambda: self.evaluation.diary()[-1]["event"] == "action", "action", self.sim, self.model)
        return self.cable.cut_after(HALF_AN_OBSERVATION)


def test_a_cable_cut_in_the_middle_of_a_message_is_noticed_within_a_minute_on_both_sides(
    tmp_path: Path, undisturbed: Sequence[Record], record_property: RecordProperty
) -> None:
    """Nothing more arrives, no reset and no end: only TCP's own patience can tell. Both directions wait together."""
    with contextlib.ExitStack() as stack:
        runs = [CutRun(tmp_path / direction, direction, stack) for direction in DIRECTIONS]
        for run, cut_at in [(run, run.cut()) for run in runs]:
            told = {
                "simulator": run.sim.time_of("attempt 1 is invalid (peer_gone"),
                "model": run.model.time_of("in the middle of a message"),
            }
            seconds = {who: when - cut_at for who, when in told.items()}
            assert max(seconds.values()) <= A_MINUTE, run.evaluation.direction
            noticed = " and ".join(f"{value:.0f} s at the {who}" for who, value in seconds.items())
            record_property(DONE, f"{run.evaluation.direction}: noticed after {noticed}, healed, completed")
        for run in runs:
            run.cable.heal()
        for run in runs:
            assert run.sim.exit_code() == 0
            check_whole(run.evaluation, undisturbed[:2])
            assert [line["attempt"] for line in run.evaluation.metrics()] == [2, 1]
