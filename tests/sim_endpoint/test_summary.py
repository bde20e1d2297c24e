"""The table at the end."""

from __future__ import annotations

from typing import Any

import pytest

from robopro_eval.records import EpisodeRecord
from sim_endpoint.summary import summary


def record(success: bool, **fields: Any) -> EpisodeRecord:
    base: dict[str, Any] = {
        "task": "t", "seed": 1, "success": success, "hard_success": success, "steps": 88, "episode": 0,
        "wall_seconds": 2.0, "sim_seconds": 1.0, "encode_seconds": 0.0625, "wire_seconds": 0.125,
        "queue_seconds": 0.0625, "model_seconds": 0.75, "call_seconds": 1.0,
        "calls": 3,
    }  # fmt: skip
    return EpisodeRecord(**base | fields)


def table(records: list[EpisodeRecord], planned: int, *, local: bool = False) -> str:
    return summary(records, benchmark="tabletop", task="t", config="c", planned=planned, wall_seconds=10.0, local=local)


def test_a_whole_run() -> None:
    text = table([record(True), record(False), record(True, hard_success=False)], 3)
    assert "66.7 % (2/3), 95 % interval 20.8 % to 93.9 %" in text  # scipy.stats.binomtest(2, 3), method wilson
    assert "33.3 % (1/3)" in text
    assert "simulate 50.0 %, encode 3.1 %, wire 6.2 %, queue 3.1 %, infer 37.5 %" in text
    assert "2.00 s" in text
    assert "coverage" not in text


def test_why_episodes_failed() -> None:
    reasons = ["step_limit", "policy_error: ValueError: nan", "policy_error: KeyError: 'x'", None]
    text = table([record(True), *(record(False, reason=reason) for reason in reasons)], 5)
    assert "2 policy_error, 1 step_limit, 1 no reason given" in text
    assert "failed" not in table([record(True)], 1)


def test_what_is_missing_is_bounded() -> None:
    text = table([record(True)], 4)
    assert "1 of 4" in text
    assert "25.0 %; SR 25.0 % if every missing episode failed" in text


def test_a_stock_model_does_not_split_its_time() -> None:
    assert "encode 3.1 %, wire and model 46.9 %" in table([record(True, wire_seconds=None, model_seconds=None)], 1)


def test_collisions_not_measured_and_nothing_scored() -> None:
    assert "not measured" in table([record(True, hard_success=None)], 1)
    assert "no episode was scored" in table([], 2)


def test_a_step_limit_set_by_hand_is_told_beside_the_rates() -> None:
    text = summary([record(True)], benchmark="tabletop", task="t", config="c", planned=1, wall_seconds=1.0, step_lim=31)
    assert "31, set by hand" in text
    assert "set by hand" not in table([record(True)], 1)


def split(
    simulate: float,
    encode: float,
    wire: float | None,
    queue: float | None,
    infer: float | None,
    *,
    local: bool = False,
) -> str:
    """The line about waiting for an episode of a second whose parts are these, in percent."""
    call = 100 - simulate
    fields = {"sim_seconds": simulate, "encode_seconds": encode, "wire_seconds": wire, "queue_seconds": queue}
    fields |= {"model_seconds": infer, "call_seconds": call, "wall_seconds": 100}
    lines = table([record(True, **fields)] * 2, 2, local=local).splitlines()
    (line,) = [line for line in lines if line.startswith("waiting")]
    return line.removeprefix("waiting").strip()


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        ((81, 1, 2, 0, 16), "model waits 81.0 % of the time for this simulator: it could serve more at a time if its "
         "policy has new_session()"),
        ((10, 1, 2, 7, 80), "simulator waits 87.0 % of the time for the model: more simulators per model would not be "
         "faster, a faster model would"),
        ((10, 1, 2, 60, 27), "simulator waits 87.0 % of the time for the model, mostly in line behind others: more "
         "models would be faster, or eval-model --max_batch where the policy can batch"),
        ((10, 30, 50, 0, 10), "both wait 80.0 % of the time for the link and its encoding"),
        ((50, 1, 4, 0, 45), "neither side clearly waits for the other"),
        ((81, 1, None, None, None), "model waits at least 81.0 % of the time for this simulator"),
        ((20, 5, 35, 0, 40), "simulator waits 80.0 % of the time for the model and the link"),
        ((10, 1, None, None, None), "simulator waits 90.0 % of the time for the model and the link (a stock model does "
         "not tell them apart)"),
        ((50, 1, None, None, None), "neither side clearly waits for the other, as far as a stock model tells"),
    ],
)  # fmt: skip
def test_which_side_starves_the_other(parts: Any, line: str) -> None:
    assert split(*parts) == line


def test_in_one_process_there_is_no_other_simulator_to_add() -> None:
    assert split(81, 1, 0, 0, 18, local=True) == "model waits 81.0 % of the time for this simulator"
    assert split(10, 1, 0, 0, 89, local=True) == "simulator waits 89.0 % of the time for the model"


def test_where_nothing_ever_moved_the_speed_says_nothing() -> None:
    assert "waiting" not in table([record(False, steps=0), record(False, steps=0)], 2)
    assert "waiting" in table([record(False, steps=0), record(False, steps=1)], 2)


def test_without_a_model_nobody_waits() -> None:
    fields = {"sim_seconds": 2.0, "call_seconds": 0.0, "calls": 0}
    text = table([record(True, **fields)], 1)
    assert "simulator only, no model was asked" in text
    assert "waiting" not in text
