"""The `DXVLA_*` knobs the model side owns: read from the arguments, else from the environment, and checked once.

Each refuses, in one sentence that names the variable, a value that cannot take effect.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass

_YES = frozenset({"1", "true", "yes", "on"})
_NO = frozenset({"", "0", "false", "no", "off", "none"})

EXEC_ACTIONS = "DXVLA_EXEC_ACTIONS"
ACTION_SMOOTH = "DXVLA_ACTION_SMOOTH"
SMOOTH_ROT = "DXVLA_SMOOTH_ROT"
FAKE_PROPRIO = "DXVLA_FAKE_PROPRIO"
KNOBS = (EXEC_ACTIONS, ACTION_SMOOTH, SMOOTH_ROT, FAKE_PROPRIO)


@dataclass(frozen=True)
class Knobs:
    """How a predicted chunk is executed.

    Attributes:
        exec_actions: rows of a chunk that are executed before the next query; 0 means all of them.
        action_smooth: s in [0, 1); every row becomes s * previous row + (1 - s) * new row. 0 is off.
        smooth_rot: smooth the rot6d too (re-orthonormalised), not only the positions.
        fake_proprio: from the second query on the network is told the last commanded poses instead of the real ones.
    """

    exec_actions: int = 0
    action_smooth: float = 0.0
    smooth_rot: bool = False
    fake_proprio: bool = False

    def check_against(self, num_actions: int) -> None:
        """Raises `ValueError` if more rows are to be executed than the network predicts."""
        if self.exec_actions > num_actions:
            raise ValueError(
                f"{EXEC_ACTIONS}={self.exec_actions}: this checkpoint predicts {num_actions} actions per query; "
                f"use 1..{num_actions}, or 0 for the whole chunk"
            )


def lookup(name: str, usr_args: Mapping[str, object], environ: Mapping[str, str]) -> object | None:
    """The value of `name` in `usr_args` (whatever its case, `-` like `_`), else in `environ`, else None.

    An empty argument is a value: it switches off what the environment switched on. None is none.
    """
    for key, value in usr_args.items():
        if str(key).replace("-", "_").upper() == name and value is not None:
            return value
    return environ.get(name)


def _number(name: str, value: object) -> float:
    try:
        number = float(str(value).strip() or "0")
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{name}={value}: expected a number")
    return number


def _flag(name: str, value: object) -> bool:
    text = str(value).strip().lower()
    if text in _YES:
        return True
    if text in _NO:
        return False
    raise ValueError(f"{name}={value}: expected 1 or 0")


def read_knobs(usr_args: Mapping[str, object], environ: Mapping[str, str]) -> Knobs:
    """Reads the four knobs; a value in `usr_args` beats the environment.

    Raises:
        ValueError: one sentence naming the variable; also for an argument that is a knob but for a typing mistake.
    """
    for key in usr_args:
        name = str(key).replace("-", "_").upper()
        close = difflib.get_close_matches(name, KNOBS, n=1, cutoff=0.9)
        if close and name not in KNOBS:
            raise ValueError(f"{key}: no such knob; was {close[0].lower()} meant?")

    def value(name: str) -> object:
        found = lookup(name, usr_args, environ)
        return "" if found is None else found

    exec_actions = _number(EXEC_ACTIONS, value(EXEC_ACTIONS))
    if exec_actions < 0 or exec_actions != int(exec_actions):
        raise ValueError(f"{EXEC_ACTIONS}={value(EXEC_ACTIONS)}: expected a whole number >= 0 (0 = the whole chunk)")
    smooth = _number(ACTION_SMOOTH, value(ACTION_SMOOTH))
    if not 0 <= smooth < 1:
        raise ValueError(
            f"{ACTION_SMOOTH}={value(ACTION_SMOOTH)}: expected 0 (off) up to, not including, 1 (at 1 no row would move)"
        )
    smooth_rot = _flag(SMOOTH_ROT, value(SMOOTH_ROT))
    if smooth_rot and smooth == 0:
        raise ValueError(f"{SMOOTH_ROT}=1 has no effect while {ACTION_SMOOTH} is 0; set both, or neither")
    return Knobs(int(exec_actions), smooth, smooth_rot, _flag(FAKE_PROPRIO, value(FAKE_PROPRIO)))
