"""Episode records: what a run writes, one line each, and how results are read and compared."""

from robopro_eval.records.files import append_jsonl, read_jsonl
from robopro_eval.records.intervals import coverage_bounds, wilson_interval
from robopro_eval.records.models import DETERMINISTIC_FIELDS, AttemptRecord, EpisodeRecord, deterministic

__all__ = [
    "DETERMINISTIC_FIELDS",
    "AttemptRecord",
    "EpisodeRecord",
    "append_jsonl",
    "coverage_bounds",
    "deterministic",
    "read_jsonl",
    "wilson_interval",
]
