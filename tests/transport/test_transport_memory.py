"""Freed memory is kept: a program that exchanges a message after the other takes no new pages from the system."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]

# What encoding and receiving three camera images does to memory, twenty times; prints the page faults of the last ten.
EXCHANGE = """
import resource, sys
from robopro_eval.transport.memory import keep_freed_memory
print(keep_freed_memory() if sys.argv[1] == "kept" else None)
def exchange():
    texts = [bytes(b"x" * 307_200) for _ in range(3)]
    return bytearray(b"".join(texts))
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    exchange()
before = faults()
for _ in range(10):
    exchange()
print(faults() - before)
"""


def exchange(how: str, **environment: str) -> list[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC", "GLIBC"))}
    done = subprocess.run(
        [sys.executable, "-c", EXCHANGE, how],
        env=inherited | environment,
        cwd=REPO,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has the settings")
def test_the_memory_of_one_message_serves_the_next() -> None:
    said, faults = exchange("kept")
    assert said == "True"
    assert int(faults) < 10
    # 1.8 MB freed and taken again are 450 pages, ten times; else the test above shows nothing.
    assert int(exchange("as it is")[1]) > 1000


def test_what_the_user_has_tuned_is_left_alone() -> None:
    assert exchange("kept", MALLOC_TRIM_THRESHOLD_="131072")[0] == "False"
