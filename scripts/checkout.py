"""Which code made a result: the state of the checkout that these scripts belong to."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
# Results are what is made, not what makes them: a line just added to a log there does not change the code.
RESULTS = "docs/results"


@dataclass(frozen=True)
class GitState:
    """The commit (None where this is no git checkout), and whether tracked files outside the results differ from it."""

    commit: str | None
    uncommitted_changes: bool


def git_state() -> GitState:
    """The state of this checkout, wherever the program was started."""
    commit = _git("rev-parse", "HEAD")
    changes = _git("status", "--porcelain", "--untracked-files=no", "--", ".", f":(exclude){RESULTS}")
    return GitState(commit or None, bool(changes))


def _git(*arguments: str) -> str:
    """What git says; nothing where there is no git."""
    try:
        done = subprocess.run(["git", *arguments], cwd=REPO, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip()
