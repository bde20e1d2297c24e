"""Are our packages the ones Python finds? Checked first, because a wrong ``framing`` fails in confusing ways later.

Only the standard library is imported here, so that the check works exactly when something is shadowed.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

OWN_PACKAGES = ("framing", "sim_endpoint", "model_endpoint", "policies", "robopro_eval")


class ShadowedPackage(ImportError):
    """Another file on the path carries the name of one of our packages; the message says which file."""


def check_own_packages() -> None:
    """Raise :class:`ShadowedPackage` if Python would take one of our packages from somewhere else.

    All of them stand side by side, in a checkout as in site-packages: the folder of this file decides.
    """
    home = Path(__file__).resolve().parent.parent
    for name in OWN_PACKAGES:
        found = _where(name)
        if found != home / name:
            place = "nowhere" if found is None else str(found)
            raise ShadowedPackage(
                f"the package {name!r} is found in {place} instead of {home / name}: "
                f"rename that folder or file, or take its place out of PYTHONPATH"
            )


def _where(name: str) -> Path | None:
    """Folder of the package (or the file of a plain module of that name), None if there is none."""
    loaded = sys.modules.get(name)
    spec = loaded.__spec__ if loaded is not None and loaded.__spec__ is not None else importlib.util.find_spec(name)
    if spec is None:
        return None
    if spec.submodule_search_locations is None:
        return Path(spec.origin).resolve() if spec.origin else None
    if spec.origin is None:  # a namespace package: a folder of that name without __init__.py
        return Path(next(iter(spec.submodule_search_locations))).resolve()
    return Path(spec.origin).resolve().parent
