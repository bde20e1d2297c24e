"""Which process listens on a TCP port, as far as Linux's /proc tells this user."""

from __future__ import annotations

import os
from pathlib import Path

_LISTENING = "0A"


def holder_of(port: int, proc: Path = Path("/proc")) -> str | None:
    """`process 4711 (eval-sim --port 29761)`, or None if /proc does not say (another user's, another system)."""
    inodes = _listening_inodes(port, proc)
    if not inodes:
        return None
    targets = {f"socket:[{inode}]" for inode in inodes}
    try:
        processes = sorted(int(entry.name) for entry in proc.iterdir() if entry.name.isdigit())
    except OSError:
        return None
    for process in processes:
        if _has_open(proc / str(process) / "fd", targets):
            return f"process {process} ({_command(proc / str(process))})"
    return None


def _listening_inodes(port: int, proc: Path) -> set[str]:
    inodes: set[str] = set()
    for table in ("net/tcp", "net/tcp6"):
        try:
            lines = (proc / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if len(fields) > 9 and fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                inodes.add(fields[9])
    return inodes


def _has_open(descriptors: Path, targets: set[str]) -> bool:
    try:
        return any(os.readlink(entry.path) in targets for entry in os.scandir(descriptors))
    except OSError:  # not ours to look into, or gone meanwhile
        return False


def _command(process: Path) -> str:
    try:
        words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return "?"
    return words if len(words) <= 80 else words[:77] + "..."
