"""All checks, in the order in which they run and are reported.

What ends connections comes last, so that a model that dials, and has only one, is asked as much as possible before.
"""

from __future__ import annotations

from robopro_eval.checks import access, errors, replies, sessions, survival, values
from robopro_eval.checks.core import Check

CHECKS: tuple[Check, ...] = (
    *replies.CHECKS,
    *values.CHECKS,
    *sessions.CHECKS,
    *errors.CHECKS,
    *access.CHECKS,
    *survival.CHECKS,
)
