"""docs/eval_check.md: its table is the code's, its numbers are the constants, its recording format is real."""

from __future__ import annotations

import re

from programs import REPO

from robopro_eval.checks import bench, link, replay, running
from robopro_eval.checks.catalogue import CHECKS, as_table
from robopro_eval.checks.core import Verdict
from robopro_eval.checks.report import SCHEMA
from robopro_eval.checks.settings import ReplaySettings

PAGE = (REPO / "docs" / "eval_check.md").read_text("utf-8")


def test_the_table_of_lines_is_made_from_the_code() -> None:
    assert as_table() in PAGE, "run: python -m robopro_eval.checks.catalogue, and put it between the markers"


def test_names_of_lines_are_unique_and_those_in_the_text_exist() -> None:
    names = [check.name for check in CHECKS]
    assert len(set(names)) == len(names)
    themes = "|".join(sorted({name.partition(".")[0] for name in names}))
    assert set(re.findall(rf"`((?:{themes})\.[a-z_]+)`", PAGE)) <= set(names)


def test_every_line_says_what_it_proves_and_how_to_mend_it() -> None:
    for check in CHECKS:
        assert check.proves
        assert check.fix
        assert "|" not in check.proves + check.fix, "it would break the table"


def test_numbers_in_the_text_are_the_constants() -> None:
    assert (bench.REPLY_SECONDS, bench.FIRST_REPLY_FACTOR, bench.CHECK_FACTOR) == (10.0, 6, 4)
    assert "`--timeout` seconds (10), the first of all six times as long, a whole check four times as long" in PAGE
    assert running.RUN_SECONDS == 15 * 60
    assert link.COME_SECONDS == 300
    assert replay.MAX_SHOWN == 200
    fields = ReplaySettings.model_fields
    assert (fields["rtol"].default, fields["atol"].default) == (1e-4, 1e-6)
    assert "`--rtol 1e-4 --atol 1e-6`" in PAGE
    assert f'`"{SCHEMA}"`' in PAGE
    for verdict in Verdict:
        assert f"| `{verdict.value}` | " in PAGE
