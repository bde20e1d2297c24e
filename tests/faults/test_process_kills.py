"""Either program killed at random moments, again and again: the run completes with the undisturbed run's results."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from counts import Counts
from evaluations import DIRECTIONS, EVENTS, QUERIES, Direction, Evaluation, Record, check_whole, wait_until
from programs import NUDGE, Program
from release_report import DONE, RecordProperty

from model_endpoint.loading import load_face, load_model

LONGEST_DELAY = 0.1
"""Seconds after an observed event at which a kill may strike: about as long as the robot moves between two queries."""

MANY_ATTEMPTS = "20"
"""Chance may let most kills strike the same seed; that a seed is given up after five attempts is another test."""


class Killer:
    """Chooses when to kill: after a number of events in the model's diary, and then a random moment later."""

    def __init__(self, evaluation: Evaluation, kills: int, chance: random.Random) -> None:
        self._evaluation = evaluation
        self._left = kills
        self._chance = chance

    def wait(self, *alive: Program) -> None:
        """Wait for the next moment. It is drawn so that all kills find the run unfinished."""
        begun = len(self._evaluation.diary())
        episodes_left = len(self._evaluation.seeds) - self._nearly_done()
        events = self._chance.randint(1, len(EVENTS) - 1)
        delay = self._chance.uniform(0.0, LONGEST_DELAY)
        if episodes_left <= 1:
            events, delay = min(events, len(EVENTS) - 4), delay / 4
        elif self._chance.random() * self._left < episodes_left - 1:
            events += len(EVENTS)  # let one episode be scored before
        self._left -= 1
        wait_until(lambda: len(self._evaluation.diary()) >= begun + events, f"{events} more events", *alive)
        time.sleep(delay)

    def _nearly_done(self) -> int:
        """Episodes that need no model any more: once it has its last actions, the simulator plays on without."""
        last = [line for line in self._evaluation.diary() if line["event"] == "action" and line["count"] == QUERIES]
        return len({str(line["episode"]).partition("#")[0] for line in last})


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_model_killed_in_the_middle_of_episodes(
    direction: Direction,
    tmp_path: Path,
    undisturbed: Sequence[Record],
    counts: Counts,
    record_property: RecordProperty,
) -> None:
    kills, expected = counts.kills, undisturbed[: counts.episodes]
    evaluation = Evaluation(tmp_path, [int(str(line["seed"])) for line in expected], direction)
    killer = Killer(evaluation, kills, random.Random(f"model {direction}"))
    with evaluation.simulator("--max_attempts", MANY_ATTEMPTS) as sim:
        for _ in range(kills):
            with evaluation.model(think_seconds=0.02) as model:
                killer.wait(sim, model)
                model.send(signal.SIGKILL)
                assert model.exit_code() == -signal.SIGKILL
        with evaluation.model() as model:
            assert sim.exit_code() == 0
    check_whole(evaluation, expected)
    invalid = [line for line in evaluation.attempts() if line["outcome"] == "invalid"]
    assert 1 <= len(invalid) <= kills
    assert {line["error"] for line in invalid} == {"peer_gone"}
    record_property(
        DONE, f"{kills} kills, {counts.episodes} episodes; {len(invalid)} attempts invalid and run again; all equal"
    )


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_simulator_killed_in_the_middle_of_episodes(
    direction: Direction,
    tmp_path: Path,
    undisturbed: Sequence[Record],
    counts: Counts,
    record_property: RecordProperty,
) -> None:
    """Started again with EVAL_RESUME_SEEDS=1 every time, beside one model that lives through all of it."""
    kills, expected = counts.kills, undisturbed[: counts.episodes]
    evaluation = Evaluation(tmp_path, [int(str(line["seed"])) for line in expected], direction)
    killer = Killer(evaluation, kills, random.Random(f"simulator {direction}"))
    resume = {"EVAL_RESUME_SEEDS": "1"}
    with evaluation.model(think_seconds=0.02) as model:
        for _ in range(kills):
            with evaluation.simulator(**resume) as sim:
                killer.wait(sim, model)
                sim.send(signal.SIGKILL)
                assert sim.exit_code() == -signal.SIGKILL
            assert model.is_running()
        with evaluation.simulator(**resume) as sim:
            assert sim.exit_code() == 0
        if direction == "sim-server":
            assert model.exit_code() == 0, "a model that dialed ends when the simulator is done"
        else:
            assert model.is_running(), "a model that listens serves on"
    check_whole(evaluation, expected)
    invalid = [line for line in evaluation.attempts() if line["outcome"] == "invalid"]
    assert 1 <= len(invalid) <= kills
    assert {line["error"] for line in invalid} == {"simulator"}, "the next process wrote down who died"
    record_property(
        DONE, f"{kills} kills, {counts.episodes} episodes; {len(invalid)} attempts invalid and run again; all equal"
    )


def test_the_policy_would_show_an_episode_that_was_seen_in_part(record_property: RecordProperty) -> None:
    """What the comparisons rest on: one observation more or less, or a model never reset, and it acts otherwise."""
    face = load_face(NUDGE)

    def last_action(*pictures: int, reset: bool = True) -> bytes:
        model: Any = load_model(face, {})
        if reset:
            model.reset_model()
        for value in pictures:
            rgb = [np.full((4, 4, 3), value, np.uint8)] * 3
            model.update_observation_window(rgb, np.zeros(16), np.zeros((3, 3, 4)), np.zeros((3, 3, 3)))
            action = np.asarray(model.get_action())
        return action.tobytes()

    whole = last_action(1, 2)
    assert last_action(1, 2) == whole
    others = {last_action(2), last_action(2, 2), last_action(2, 1, 2), last_action(1, 2, reset=False)}
    assert len({whole, *others}) == 5
    record_property(DONE, "an observation lost, repeated or more, or no reset: each gives another action")
