"""What a check is, and how it can end."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from robopro_eval.checks.bench import Bench


class Verdict(enum.Enum):
    """How a line of the report can end. Only `FAIL` makes the program exit with 1."""

    PASS = "pass"
    FAIL = "fail"
    NOT_OFFERED = "not offered"
    SKIPPED = "skipped"


class Need(enum.Enum):
    """What a check needs of the server under test. The value says why its line is empty where that is missing."""

    UPGRADED = "a stock server knows nothing of this"
    BINARY = "the server reads JSON only"
    ECHO = "needs a method that returns its argument: serve --policy_name echo, or name one with --method"
    ECHO_POLICY = "needs the methods of the echo policy: serve --policy_name echo"
    LISTENS = "needs connections of its own, and a model that dials opens only one"
    DIALS = "is about a model that dials; this one listens"


NOTHING_LOST = frozenset({Need.UPGRADED, Need.BINARY, Need.ECHO, Need.ECHO_POLICY})
"""Needs whose absence means `not offered`; the others mean `skipped`."""


class CheckFailed(Exception):
    """The server does not do what the check proves. The message is what it did instead."""


class NotOffered(Exception):
    """The server does without; nothing is wrong with that. The message says what."""


class Skipped(Exception):
    """The check could not be made. The message says why."""


@dataclass(frozen=True)
class Check:
    """One line of the report. `run` returns what was seen, or raises one of the three above (or a `WireError`).

    `fundamental`: where it fails, no later line can be trusted, and none is tried.
    """

    name: str
    proves: str
    fix: str
    run: Callable[[Bench], str]
    needs: frozenset[Need] = frozenset()
    fundamental: bool = False


@dataclass(frozen=True)
class Finding:
    """How a check ended. `fix` is empty unless it failed; `seconds` are of wall clock."""

    check: Check
    verdict: Verdict
    detail: str
    fix: str = ""
    seconds: float = 0.0
