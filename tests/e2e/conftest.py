"""What the end-to-end tests share: one built wheel, the two environments users have, a seed file."""

from __future__ import annotations

from pathlib import Path

import environments
import pytest

SEEDS = (30000, 30001)
"""From the range for choosing things; the evaluation range is for final numbers only."""


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environments.build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def simulator_environment(wheel: Path) -> environments.Environment:
    return environments.install(environments.SIMULATOR, wheel)


@pytest.fixture(scope="session")
def model_environment(wheel: Path) -> environments.Environment:
    return environments.install(environments.MODEL, wheel)


@pytest.fixture
def seed_file(tmp_path: Path) -> Path:
    """Two seeds, as ``--eval_seed_file`` reads them."""
    path = tmp_path / "seeds.txt"
    path.write_text("\n".join(map(str, SEEDS)))
    return path
