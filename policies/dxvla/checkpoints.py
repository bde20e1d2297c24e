"""Where the weights are looked for. A checkpoint is a folder with `model.safetensors` and `config.json`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from .knobs import lookup

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
DEFAULT_NAME = "tabletop"
SHIPPED_ROOT = Path(__file__).resolve().parent / "checkpoints"


def _folder(path: Path) -> Path | None:
    """The checkpoint folder `path` names (the folder, or a file in it), or None if there is no checkpoint."""
    folder = path.parent if path.name == WEIGHTS else path
    return folder if (folder / WEIGHTS).is_file() and (folder / CONFIG).is_file() else None


def describe_checkpoint(folder: Path) -> dict[str, object]:
    """What tells these weights from others: where they lie, and the SHA-256 of the file."""
    return {"checkpoint": str(folder), "sha256": hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()}


def find_checkpoint(usr_args: Mapping[str, object], environ: Mapping[str, str], *, cwd: Path | None = None) -> Path:
    """The checkpoint folder to load.

    The first of these that is *set* decides, so that a typo never loads other weights silently:
    `checkpoint_path`; `DXVLA_CKPT`; the name `CKPT_NAME` (default `tabletop`) below `CHECKPOINT_ROOT`, `./checkpoints`,
    and the checkpoints shipped with this policy, in this order.

    Raises:
        FileNotFoundError: lists the places tried.
    """
    explicit = lookup("CHECKPOINT_PATH", usr_args, {}) or lookup("DXVLA_CKPT", usr_args, environ)
    name = str(lookup("CKPT_NAME", usr_args, environ) or DEFAULT_NAME)
    if explicit:
        candidates = [Path(str(explicit)).expanduser()]
    else:
        root = lookup("CHECKPOINT_ROOT", usr_args, environ)
        roots = [Path(str(root)).expanduser()] if root else []
        candidates = [r / name for r in [*roots, (cwd or Path.cwd()) / "checkpoints", SHIPPED_ROOT]]
    for candidate in candidates:
        folder = _folder(candidate)
        if folder is not None:
            return folder
    places = ", ".join(str(c) for c in candidates)
    raise FileNotFoundError(
        f"no dxvla checkpoint ({WEIGHTS} and {CONFIG}) found; tried {places}. "
        f"Give --checkpoint_path FOLDER, or set DXVLA_CKPT, or CKPT_NAME below CHECKPOINT_ROOT"
    )
