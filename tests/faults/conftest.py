"""What the tests with real processes share: the run that nothing disturbed, made once."""

from __future__ import annotations

from pathlib import Path

import pytest
from counts import EVERY_CHANGE, RELEASE, Counts
from evaluations import Evaluation, Record
from release_report import ReleaseReport

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
    parser.addoption(
        "--release-report",
        type=Path,
        metavar="FILE",
        help="run with the counts of a release and write a table of what was done (only with paths below tests/faults)",
    )


def pytest_configure(config: pytest.Config) -> None:
    if (path := _release_report(config)) is not None:
        config.pluginmanager.register(ReleaseReport(path))


@pytest.fixture(scope="session")
def counts(pytestconfig: pytest.Config) -> Counts:
    return EVERY_CHANGE if _release_report(pytestconfig) is None else RELEASE


def _release_report(config: pytest.Config) -> Path | None:
    path: Path | None = config.getoption("--release-report", default=None)
    return path
