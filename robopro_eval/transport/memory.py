"""Keeping the memory of one message for the next one.

The C library gives large freed blocks back to the system at once. A program that exchanges a message of a megabyte at
every step then asks for the same pages again at every step, and the system has to map and zero each: hundreds of page
faults, in the JSON format a third of the whole exchange (`scripts/bench_wire.py` measures it).
"""

from __future__ import annotations

import ctypes
import os

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # <malloc.h>

KEPT_AT_MOST = 64 << 20
"""Free memory at the top of the heap beyond which it goes back to the system: a few of the largest usual messages."""

FROM_THE_HEAP = 32 << 20
"""Blocks below this come from the heap, which is kept; the most that the C library takes. Weights stay above it."""

_USERS_OWN = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def keep_freed_memory() -> bool:
    """Let this process reuse the memory of its messages; call it once, early. False where that is not to be had.

    It changes nothing where the environment already tunes the allocator, and where the C library is not glibc.
    """
    if any(name in os.environ for name in _USERS_OWN):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, FROM_THE_HEAP)) and bool(mallopt(_M_TRIM_THRESHOLD, KEPT_AT_MOST))
