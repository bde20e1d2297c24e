"""Task configurations: RoboPRO's yml files, reduced to what means something here."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path

import yaml

from robopro_eval.simulators.names import UnknownName


def config_path(name: str) -> Path:
    """The yml file of a configuration; raises UnknownName."""
    folder = Path(str(resources.files(__package__))) / "task_config"
    path = folder / f"{name}.yml"
    if "/" in name or not path.is_file():
        raise UnknownName("config", name, sorted(p.stem for p in folder.glob("*.yml")))
    return path


def load_config(name: str) -> dict[str, object]:
    """The fields of a configuration; raises UnknownName."""
    content = yaml.safe_load(config_path(name).read_text(encoding="utf-8"))
    if not isinstance(content, Mapping):
        raise ValueError(f"{config_path(name)} does not hold a mapping")
    return {str(key): value for key, value in content.items()}
