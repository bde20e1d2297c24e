"""All checks, in the order in which they run and are reported.

What ends connections comes last, so that a model that dials, and has only one, is asked as much as possible before.

`python -m robopro_eval.checks.catalogue` prints the table of the page about them.
"""

from __future__ import annotations

from robopro_eval.checks import access, errors, replies, sessions, survival, values
from robopro_eval.checks.core import Check, Need

CHECKS: tuple[Check, ...] = (
    *replies.CHECKS,
    *values.CHECKS,
    *sessions.CHECKS,
    *errors.CHECKS,
    *access.CHECKS,
    *survival.CHECKS,
)


NEEDS_IN_SHORT = {
    Need.UPGRADED: "upgraded",
    Need.BINARY: "binary",
    Need.ECHO: "echo or `--method`",
    Need.ECHO_POLICY: "echo",
    Need.LISTENS: "listens",
    Need.DIALS: "dials",
}


def as_table() -> str:
    """The checks as a table for `docs/eval_check.md`."""
    lines = ["| line | proves that | where it fails | needs |", "|---|---|---|---|"]
    for check in CHECKS:
        needs = ", ".join(NEEDS_IN_SHORT[need] for need in Need if need in check.needs)
        lines.append(f"| `{check.name}` | {check.proves} | {check.fix} | {needs} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(as_table())
