"""EVAL_RESUME_SEEDS=1: the newest results folder that holds a part of the run that was asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from sim_endpoint.results import MANIFEST

PLAN = ("benchmark", "task", "config", "policy", "ckpt_setting", "instruction_type", "expert_check")
PLAN_SETTINGS = ("step_lim", "collision_metrics", "checkpoint_path")
KNOB_PREFIXES = ("DXVLA_", "XVLA_", "CKPT_NAME")
"""Variables that change what a policy does on the simulator's side, or loads there with ``--local``. (What the model's
side was told is in its provenance, which is not known before it connects.)"""
HARMLESS_KNOBS = frozenset({"DXVLA_VIDEO_CAM"})


class NothingToResume(Exception):
    """No folder holds a part of this run; the sentence says why, where there are others."""


def find(parent: Path, wanted: Mapping[str, object], own_settings: Sequence[str]) -> tuple[Path, dict[str, object]]:
    """The folder to go on in, and its manifest. `wanted` is the manifest that a new run would have; `own_settings`
    are names in its ``usr_args`` that are the program's and not the policy's.

    Raises NothingToResume.
    """
    folders = _by_age(parent)
    for path, manifest in folders:
        if difference(wanted, manifest, own_settings) is None:
            return path, manifest
    if not folders:
        raise NothingToResume(f"nothing to resume below {parent}")
    path, manifest = folders[0]
    other = difference(wanted, manifest, own_settings)
    raise NothingToResume(f"nothing to resume: the newest run, {path}, has another {other}")


def _by_age(parent: Path) -> list[tuple[Path, dict[str, object]]]:
    """Folders with a manifest, newest first."""
    found = []
    for path in parent.glob(f"*/{MANIFEST}"):
        try:
            manifest = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(manifest, dict):
            found.append((path.parent, manifest))
    return sorted(found, key=lambda entry: str(entry[1].get("started")), reverse=True)


def _plan(manifest: Mapping[str, object], own_settings: Sequence[str]) -> dict[str, object]:
    """What must be the same for two runs to be one, as it is after a way through JSON."""
    plan = {name: manifest.get(name) for name in PLAN}
    settings, usr_args, environment = (manifest.get(key) for key in ("settings", "usr_args", "environment"))
    for name in PLAN_SETTINGS:
        plan[name] = settings.get(name) if isinstance(settings, Mapping) else None
    if isinstance(usr_args, Mapping):
        plan |= {name: value for name, value in usr_args.items() if name not in own_settings and name not in plan}
    if isinstance(environment, Mapping):
        plan |= {
            name: value
            for name, value in environment.items()
            if str(name).startswith(KNOB_PREFIXES) and name not in HARMLESS_KNOBS
        }
    plan["seeds"] = manifest.get("seeds")
    if plan["seeds"] is None:
        plan["seed_source"] = manifest.get("seed_source")  # where a scan starts; a list may have been moved
    loaded = json.loads(json.dumps(plan, default=str))
    assert isinstance(loaded, dict)
    return loaded


def difference(one: Mapping[str, object], other: Mapping[str, object], own_settings: Sequence[str]) -> str | None:
    """The name of something that makes two manifests those of different runs; None when they are of one.

    Of two lists of seeds one may go on where the other ends: EVAL_TEST_NUM was raised or lowered.
    """
    one, other = _plan(one, own_settings), _plan(other, own_settings)
    for name in sorted(one.keys() | other.keys()):
        here, there = one.get(name), other.get(name)
        if name == "seeds" and isinstance(here, list) and isinstance(there, list):
            shorter = min(len(here), len(there))
            here, there = here[:shorter], there[:shorter]
        if here != there:
            return name
    return None
