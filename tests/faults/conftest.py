"""What the tests with real processes share: the run that nothing disturbed, made once."""

from __future__ import annotations

import pytest
from counts import EVERY_CHANGE, RELEASE, Counts
from evaluations import Evaluation, Record

SEEDS = tuple(range(30000, 30010))
"""From the range for choosing things; the evaluation range is for final numbers only."""


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    """The deterministic fields of all ``SEEDS``, from a run in one process."""
    evaluation = Evaluation(tmp_path_factory.mktemp("undisturbed"), SEEDS)
    with evaluation.local() as program:
        assert program.exit_code() == 0
    fields = evaluation.fields()
    assert [line["seed"] for line in fields] == list(SEEDS)
    assert len({line["state_hash"] for line in fields}) == len(SEEDS), "equal results must mean equal observations"
    return fields


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="the counts of a release; give the path tests/faults with it")


@pytest.fixture
def counts(request: pytest.FixtureRequest) -> Counts:
    return RELEASE if request.config.getoption("--full", default=False) else EVERY_CHANGE
