"""Knobs and what they do to a chunk, by values worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from policies.dxvla.execution import ChunkExecution
from policies.dxvla.knobs import Knobs, read_knobs

IDENTITY = [1, 0, 0, 1, 0, 0]
QUARTER_ABOUT_Z = [0, -1, 1, 0, 0, 0]


def row(x: float, *, rot6d: list[float] = IDENTITY, gripper: float = 0.0) -> list[float]:
    """A row whose arms are at (x, 2x, 3x) and (-x, -2x, -3x)."""
    return [x, 2 * x, 3 * x, *rot6d, gripper, -x, -2 * x, -3 * x, *rot6d, gripper]


def chunk(*rows: list[float]) -> np.ndarray:
    return np.array(rows, dtype=np.float32)


def test_defaults_are_off() -> None:
    assert read_knobs({}, {}) == Knobs(0, 0.0, False, False)


def test_a_misspelt_knob_is_refused_and_not_taken_for_something_else() -> None:
    with pytest.raises(ValueError, match="dxvla_action_smoth: no such knob; was dxvla_action_smooth meant"):
        read_knobs({"dxvla_action_smoth": 0.7}, {})
    assert read_knobs({"dxvla_ckpt": "x", "dxvla_denoiser": "oidn", "smooth": 1}, {}) == Knobs()


def test_environment_and_stronger_arguments() -> None:
    environ = {
        "DXVLA_EXEC_ACTIONS": "20",
        "DXVLA_ACTION_SMOOTH": "0.7",
        "DXVLA_SMOOTH_ROT": "1",
        "DXVLA_FAKE_PROPRIO": "1",
    }
    assert read_knobs({}, environ) == Knobs(20, 0.7, True, True)
    stronger = {"dxvla-exec-actions": 10, "DXVLA_FAKE_PROPRIO": False, "dxvla_action_smooth": None}
    assert read_knobs(stronger, environ) == Knobs(10, 0.7, True, False)
    assert read_knobs({}, {"DXVLA_EXEC_ACTIONS": "", "DXVLA_FAKE_PROPRIO": ""}) == Knobs()
    assert read_knobs({"dxvla_exec_actions": ""}, {"DXVLA_EXEC_ACTIONS": "20"}) == Knobs()


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"DXVLA_EXEC_ACTIONS": "-1"}, "DXVLA_EXEC_ACTIONS=-1: expected a whole number >= 0"),
        ({"DXVLA_EXEC_ACTIONS": "2.5"}, "DXVLA_EXEC_ACTIONS=2.5: expected a whole number"),
        ({"DXVLA_EXEC_ACTIONS": "all"}, "DXVLA_EXEC_ACTIONS=all: expected a number"),
        ({"DXVLA_ACTION_SMOOTH": "1"}, "DXVLA_ACTION_SMOOTH=1: expected 0"),
        ({"DXVLA_ACTION_SMOOTH": "-0.1"}, "DXVLA_ACTION_SMOOTH=-0.1"),
        ({"DXVLA_ACTION_SMOOTH": "nan"}, "DXVLA_ACTION_SMOOTH=nan: expected a number"),
        ({"DXVLA_SMOOTH_ROT": "1"}, "DXVLA_SMOOTH_ROT=1 has no effect while DXVLA_ACTION_SMOOTH is 0"),
        ({"DXVLA_FAKE_PROPRIO": "maybe"}, "DXVLA_FAKE_PROPRIO=maybe: expected 1 or 0"),
    ],
)
def test_a_value_that_cannot_take_effect_is_refused(environ: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match="^" + message.replace(".", r"\.").replace("(", r"\(")):
        read_knobs({}, environ)


def test_more_rows_than_predicted_are_refused() -> None:
    with pytest.raises(ValueError, match=r"DXVLA_EXEC_ACTIONS=31: this checkpoint predicts 30"):
        Knobs(exec_actions=31).check_against(30)
    Knobs(exec_actions=30).check_against(30)


def test_whole_chunk_unless_told_otherwise() -> None:
    rows = chunk(row(0), row(1), row(2))
    np.testing.assert_array_equal(ChunkExecution(Knobs()).rows_to_execute(rows), rows)
    np.testing.assert_array_equal(ChunkExecution(Knobs(exec_actions=2)).rows_to_execute(rows), rows[:2])


def test_smoothing_runs_over_the_chunk_and_across_chunks() -> None:
    execution = ChunkExecution(Knobs(action_smooth=0.75))
    # First row: nothing to smooth with. Then 0.75 * 0 + 0.25 * 4 = 1, 0.75 * 1 + 0.25 * 4 = 1.75.
    first = execution.rows_to_execute(chunk(row(0, gripper=0.0), row(4, gripper=1.0), row(4, gripper=1.0)))
    np.testing.assert_allclose(first[:, 0], [0, 1, 1.75])
    np.testing.assert_allclose(first[:, 2], [0, 3, 5.25])
    np.testing.assert_allclose(first[:, 10], [0, -1, -1.75])
    np.testing.assert_array_equal(first[:, [9, 19]], [[0, 0], [1, 1], [1, 1]])
    # The next chunk starts from the last executed row: 0.75 * 1.75 + 0.25 * 0 = 1.3125.
    second = execution.rows_to_execute(chunk(row(0)))
    np.testing.assert_allclose(second[0, 0], 1.3125)
    execution.reset()
    np.testing.assert_allclose(execution.rows_to_execute(chunk(row(9)))[0, 0], 9)


def test_smoothing_continues_from_the_last_executed_row_of_a_cut_chunk() -> None:
    execution = ChunkExecution(Knobs(exec_actions=2, action_smooth=0.5))
    execution.rows_to_execute(chunk(row(0), row(2), row(100)))  # executed: 0, 1
    np.testing.assert_allclose(execution.rows_to_execute(chunk(row(2)))[0, 0], 1.5)


def test_rotation_is_smoothed_only_on_request_and_stays_a_rotation() -> None:
    rows = chunk(row(0), row(0, rot6d=QUARTER_ABOUT_Z))
    plain = ChunkExecution(Knobs(action_smooth=0.5)).rows_to_execute(rows)
    np.testing.assert_array_equal(plain[1, 3:9], QUARTER_ABOUT_Z)
    smooth = ChunkExecution(Knobs(action_smooth=0.5, smooth_rot=True)).rows_to_execute(rows)
    # Halfway between identity and a quarter turn about z, made orthonormal, is an eighth turn.
    c = math.sqrt(0.5)
    for rotation in (slice(3, 9), slice(13, 19)):
        np.testing.assert_allclose(smooth[1, rotation], [c, -c, c, c, 0, 0], atol=1e-6)


def test_the_chunk_itself_is_not_changed() -> None:
    rows = chunk(row(0), row(4))
    before = rows.copy()
    ChunkExecution(Knobs(action_smooth=0.5)).rows_to_execute(rows)
    np.testing.assert_array_equal(rows, before)


def test_fake_proprio_tells_the_commanded_poses_and_the_real_grippers() -> None:
    execution = ChunkExecution(Knobs(fake_proprio=True))
    real = np.array(row(7, gripper=-1.0), dtype=np.float32)
    np.testing.assert_array_equal(execution.proprio_for_network(real), real)  # first query: real
    execution.rows_to_execute(chunk(row(1), row(2, rot6d=QUARTER_ABOUT_Z, gripper=1.0)))
    told = execution.proprio_for_network(real)
    np.testing.assert_array_equal(told, np.array(row(2, rot6d=QUARTER_ABOUT_Z, gripper=-1.0), dtype=np.float32))
    execution.reset()
    np.testing.assert_array_equal(execution.proprio_for_network(real), real)
    honest = ChunkExecution(Knobs())
    honest.rows_to_execute(chunk(row(1)))
    np.testing.assert_array_equal(honest.proprio_for_network(real), real)


@pytest.mark.parametrize("bad", [np.zeros((3, 19)), np.zeros(20), np.zeros((0, 20)), np.full((2, 20), np.nan)])
def test_a_broken_chunk_passes_through_and_is_not_remembered(bad: np.ndarray) -> None:
    execution = ChunkExecution(Knobs(exec_actions=1, action_smooth=0.5, fake_proprio=True))
    np.testing.assert_array_equal(execution.rows_to_execute(bad.astype(np.float32)), bad)
    real = np.array(row(7), dtype=np.float32)
    np.testing.assert_array_equal(execution.proprio_for_network(real), real)
