"""Two simulators at one model: one after the other, or side by side where the policy has sessions; never mixed up."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest
from evaluations import Evaluation, Record, check_whole
from programs import running
from release_report import DONE, RecordProperty

FIRST, SECOND = (30000, 30001), (30002, 30003)


@pytest.mark.parametrize("sessions", ["", "true"], ids=["in turn", "with sessions"])
def test_two_simulators_at_one_model(
    sessions: str, tmp_path: Path, undisturbed: Sequence[Record], record_property: RecordProperty
) -> None:
    """Both find the model at the same moment. Each gets the results it would get alone, whatever the other does."""
    one = Evaluation(tmp_path / "one", FIRST, "model-server")
    two = Evaluation(tmp_path / "two", SECOND, shares_model_of=one, direction="model-server")
    with running(one.simulator(), two.simulator()) as (sim_one, sim_two):
        for sim in (sim_one, sim_two):
            sim.wait_for(f"cannot connect to localhost:{one.port} yet")
        with one.model(think_seconds=0.3, sessions=sessions) as model:
            assert sim_one.exit_code() == 0
            assert sim_two.exit_code() == 0
            assert model.is_running()
    check_whole(one, undisturbed[:2])
    check_whole(two, undisturbed[2:4])
    owners = [str(line["episode"]).rpartition("/")[2].partition("#")[0] in map(str, FIRST) for line in one.diary()]
    changes = sum(before != after for before, after in itertools.pairwise(owners))
    told = [sim for sim in (sim_one, sim_two) if "waiting in line: place 1" in sim.output]
    record_property(DONE, f"2 episodes each; times that the other one was served next: {changes}; all equal")
    if sessions:
        assert changes > 1, "both are served at once"
        assert not told
    else:
        assert changes == 1, "one is served after the other"
        assert len(told) == 1, "the one that waits is told its place"
