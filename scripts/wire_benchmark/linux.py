"""What Linux knows about a process: its CPU time, its memory's peak, and the bytes its sockets carried."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from pathlib import Path

_CPUCLOCK_SCHED = 2  # <linux/posix-timers.h>: the kernel's own accounting of all threads, in nanoseconds
_TCP_BYTES = struct.Struct("=QQ")  # tcpi_bytes_acked, tcpi_bytes_received of <linux/tcp.h>
_TCP_BYTES_AT = 120


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads of `pid`, ended ones included."""
    return time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED)


def reset_peak(pid: int) -> int:
    """Let the peak of resident memory begin anew; the resident bytes now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return _status(pid, "VmRSS")


def peak(pid: int) -> int:
    """The most resident bytes since `reset_peak`."""
    return _status(pid, "VmHWM")


def _status(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) << 10
    raise OSError(f"/proc/{pid}/status has no {field}")


def socket_bytes() -> tuple[int, int]:
    """(sent and acknowledged, received) bytes of all TCP connections of this process, as the kernel counted them."""
    sent = received = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the listing's own descriptor is gone, a listener has no peer
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(name))) as sock:
                if sock.family not in (socket.AF_INET, socket.AF_INET6):
                    continue
                sock.getpeername()
                info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
            acknowledged, arrived = _TCP_BYTES.unpack_from(info, _TCP_BYTES_AT)
            sent, received = sent + acknowledged, received + arrived
    return sent, received
