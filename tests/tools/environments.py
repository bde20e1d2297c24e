"""The two Python environments that users have: the simulator's old one without torch, the model's without sapien.

Both get the built wheel, not the checkout, so that whatever the wheel lacks is missed. They lie in ``.venvs/`` of the
checkout and are built again only when what they are built from changes; the wheel itself is new in every test session.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from programs import REPO, clean_environ

VENVS = REPO / ".venvs"
TORCH = "torch==2.13.0"


@dataclass(frozen=True)
class Environment:
    """One virtual environment; ``before`` is installed first, on its own, then the wheel with ``extra``."""

    name: str
    extra: str
    constraints: tuple[str, ...]
    before: tuple[str, ...] = ()
    python: str = sys.executable

    @property
    def folder(self) -> Path:
        return VENVS / self.name

    def program(self, name: str) -> Path:
        return self.folder / "bin" / name


def _oldest_python() -> str:
    """Python 3.10 where there is one that runs: the simulator side must keep working on it."""
    candidate = shutil.which("python3.10")
    if candidate is not None:
        check = [candidate, "-c", "import ensurepip, sys; sys.exit(sys.version_info[:2] != (3, 10))"]
        if subprocess.run(check, capture_output=True).returncode == 0:
            return candidate
    return sys.executable


SIMULATOR = Environment("simulator-numpy1", "sim", ("numpy==1.26.4", "opencv-python<5"), python=_oldest_python())
MODEL = Environment("model-numpy2", "model", ("numpy>=2",), before=(TORCH,))


def run(*argv: str | Path, cwd: Path = REPO) -> str:
    """Run a command that must succeed; its output."""
    done = subprocess.run(
        [str(word) for word in argv],
        cwd=cwd,
        env=clean_environ(PYTHONDONTWRITEBYTECODE="1"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, f"{' '.join(map(str, argv))} ended with {done.returncode}:\n{done.stdout[-4000:]}"
    return done.stdout


def build_wheel(folder: Path) -> Path:
    """The wheel of this checkout as it is now."""
    run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, REPO)
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(environment: Environment, wheel: Path) -> Environment:
    """Make the environment if it is missing or outdated, and put this very wheel into it."""
    wanted = hashlib.sha256(
        f"{environment} {REPO}".encode() + (REPO / "pyproject.toml").read_bytes() + Path(__file__).read_bytes()
    ).hexdigest()
    stamp = environment.folder / ".built-from"
    python = environment.program("python")
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(environment.folder, ignore_errors=True)
        run(environment.python, "-m", "venv", environment.folder)
        for requirement in environment.before:
            run(python, "-m", "pip", "install", "-q", requirement)
        run(python, "-m", "pip", "install", "-q", f"{wheel}[{environment.extra}]", *environment.constraints)
        stamp.write_text(wanted)
    else:
        run(python, "-m", "pip", "install", "-q", "--no-deps", "--force-reinstall", wheel)
    return environment
