"""JSON lines that survive a crash: one line per record, on disk before the next episode starts."""

from __future__ import annotations

import json
import os
from pathlib import Path

from pydantic import BaseModel


def append_jsonl(path: Path, record: BaseModel) -> None:
    """Append one record and fsync it.

    The line goes out in a single write. If an earlier writer died in the middle of a line, that torn line is first
    closed with a newline, so that it cannot swallow this record. Raises OSError.
    """
    line = record.model_dump_json().encode("utf-8") + b"\n"
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            line = b"\n" + line
        written = 0
        while written < len(line):
            written += os.write(descriptor, line[written:])
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_jsonl(path: Path) -> list[dict[str, object]]:
    """Read every whole line of a JSON lines file; a line torn by a crash is left out.

    Returns the objects in file order, an empty list when the file does not exist. Raises OSError.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    records: list[dict[str, object]] = []
    for line in data.split(b"\n"):
        if not line.strip():
            continue
        try:
            value = json.loads(line.decode("utf-8"))
        except ValueError:
            continue
        if isinstance(value, dict):
            records.append(value)
    return records
