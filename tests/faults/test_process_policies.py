"""What a policy can do wrong, through the real programs: whose fault it is decides what happens to the episode."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from counts import Counts
from evaluations import DIRECTIONS, Direction, Evaluation, Record, check_whole
from programs import running
from release_report import DONE, RecordProperty

FAULTS = "raise@30000,nan@30001,shape@30002,unsendable@30003"
SENTENCES = {
    30000: "the nudge policy was asked to raise",
    30001: "nan at index 0",
    30002: "(30, 7)",
    30003: "res.chunk.left[1]: a set cannot travel",  # the key path of what cannot be sent
}


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_what_a_policy_does_wrong_is_scored_and_costs_nobody_else(
    direction: Direction, tmp_path: Path, undisturbed: Sequence[Record], record_property: RecordProperty
) -> None:
    """Four episodes fail, each for its own reason, on one connection that stays open; the fifth is as if alone."""
    seeds = [*SENTENCES, 30004]
    alone = Evaluation(tmp_path / "alone", seeds)
    with alone.local("--misbehave", FAULTS) as program:
        assert program.exit_code() == 0
    evaluation = Evaluation(tmp_path / "socket", seeds, direction)
    with running(evaluation.simulator(), evaluation.model(misbehave=FAULTS)) as (sim, model):
        assert sim.exit_code() == 0
        assert sum("🔗" in line for line in model.output.splitlines()) == 1
    lines = evaluation.fields()
    assert lines == alone.fields(), "the reasons included: they are the same without a socket"
    assert lines[4] == undisturbed[4]
    for line, (seed, sentence) in zip(lines, SENTENCES.items(), strict=False):
        assert (line["seed"], line["success"], line["steps"]) == (seed, False, 30)
        assert sentence in str(line["reason"])
    assert [line["outcome"] for line in evaluation.attempts()] == ["scored"] * 5
    assert "asked to raise" in str(evaluation.attempts()[0]["traceback"]), "the remote traceback is kept"
    record_property(DONE, "raised, NaN, wrong shape, not to be sent: 4 failed for these reasons, the fifth undisturbed")


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_slow_first_call_does_not_end_a_run(
    direction: Direction,
    tmp_path: Path,
    undisturbed: Sequence[Record],
    counts: Counts,
    record_property: RecordProperty,
) -> None:
    """A policy that compiles in its first call takes longer than any later reply may."""
    evaluation = Evaluation(tmp_path, [30000, 30001], direction)
    later, first = counts.slow_call / 2, counts.slow_call * 30
    deadlines = ["--reply-timeout", str(later), "--first-reply-timeout", str(first)]
    with running(evaluation.simulator(*deadlines), evaluation.model(first_seconds=counts.slow_call)) as (sim, _):
        assert sim.exit_code(first + 60.0) == 0
    check_whole(evaluation, undisturbed[:2])
    assert [line["attempt"] for line in evaluation.metrics()] == [1, 1]
    assert float(str(evaluation.metrics()[0]["model_seconds"])) >= counts.slow_call
    record_property(DONE, f"first call {counts.slow_call:g} s, later replies may take {later:g} s; one attempt each")


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_reply_that_comes_too_late_is_never_taken_for_another(
    direction: Direction, tmp_path: Path, undisturbed: Sequence[Record], record_property: RecordProperty
) -> None:
    """What the first call may do, a later one may not: the attempt is invalid and run again on a new connection."""
    evaluation = Evaluation(tmp_path, [30000, 30001], direction)
    with running(evaluation.simulator("--reply-timeout", "3"), evaluation.model(misbehave="stall@30000#1")) as (sim, _):
        assert sim.exit_code() == 0
    check_whole(evaluation, undisturbed[:2])
    assert [(line["seed"], line["error"]) for line in evaluation.attempts()][:2] == [(30000, "deadline"), (30000, None)]
    record_property(DONE, "one reply 3 s too late; the attempt invalid, the next one equal")


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_policy_that_hangs_is_ended_and_a_supervisor_starts_it_again(
    direction: Direction, tmp_path: Path, undisturbed: Sequence[Record], record_property: RecordProperty
) -> None:
    """Seed 30001 hangs once and is scored; seed 30002 hangs always, and is reported after its attempts."""
    evaluation = Evaluation(tmp_path, [30000, 30001, 30002, 30003], direction)
    ended: list[int] = []
    with evaluation.simulator("--max_attempts", "2") as sim:
        while sim.is_running() and 0 not in ended:
            with evaluation.model("--policy-hang-timeout", "2", misbehave="hang@30001#1,hang@30002") as model:
                while sim.is_running() and model.is_running():
                    time.sleep(0.02)
                if model.is_running():  # it listens, and serves on after the run
                    break
                ended.append(model.exit_code())
                if ended[-1] == 1:
                    assert "--policy-hang-timeout 2" in model.output
                    assert "in get_action" in model.output, "the stacks of all threads say where it hangs"
        assert sim.exit_code() == 0
    assert ended == [1, 1, 1] + [0] * (direction == "sim-server"), "a model that dialed ends with the run"
    assert evaluation.fields() == [undisturbed[0], undisturbed[1], undisturbed[3]]
    outcomes = [(line["seed"], line["attempt"], line["outcome"]) for line in evaluation.attempts()]
    assert outcomes == [
        (30000, 1, "scored"),
        (30001, 1, "invalid"),
        (30001, 2, "scored"),
        (30002, 1, "invalid"),
        (30002, 2, "invalid"),
        (30003, 1, "scored"),
    ]
    assert "coverage" in sim.output, "the rate is printed with its coverage"
    record_property(DONE, "3 hangs, 3 restarts; one seed scored in its second attempt, one reported after two")
