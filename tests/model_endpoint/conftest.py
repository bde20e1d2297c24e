"""Tiny policies, written as folders the way a user would."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from program_process import Program

WritePolicy = Callable[..., Path]
StartProgram = Callable[..., Program]


@pytest.fixture
def write_policy(tmp_path: Path) -> WritePolicy:
    """``write_policy("name", face_source, **{"sibling.py": source})`` -> the folder, under ``tmp_path/policy/``."""

    def write(name: str, face: str, parent: str = "policy", **siblings: str) -> Path:
        folder = tmp_path / parent / name
        folder.mkdir(parents=True)
        (folder / "deploy_policy.py").write_text(textwrap.dedent(face), encoding="utf-8")
        for file, source in siblings.items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(source), encoding="utf-8")
        return folder

    return write


@pytest.fixture(autouse=True)
def _clean_imports() -> Iterator[None]:
    """Policies add modules, finders and paths; the next test starts without them."""
    modules, path, finders = set(sys.modules), list(sys.path), list(sys.meta_path)
    yield
    for name in set(sys.modules) - modules:
        file = getattr(sys.modules[name], "__file__", None)
        if name.startswith("_robopro_eval_policy_") or (file and "pytest" in file and "/policy/" in file):
            del sys.modules[name]
    sys.path[:] = path
    sys.meta_path[:] = finders


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartProgram]:
    programs: list[Program] = []

    def run(*arguments: str, script: Sequence[str] = (), **environ: str) -> Program:
        programs.append(Program(arguments, tmp_path, script, **environ))
        return programs[-1]

    yield run
    for program in programs:
        if program.process.poll() is None:
            program.process.kill()
            program.process.wait()
