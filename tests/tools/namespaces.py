"""Two hosts on one machine: network namespaces joined by a virtual cable, each knowing the other by name.

``ip netns exec`` shows a process the files of ``/etc/netns/<namespace>/`` in place of those of ``/etc``, so that host
names resolve there as they would on two machines with a common name service. Needs root and iproute2.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ETC_NETNS = Path("/etc/netns")


@dataclass(frozen=True)
class Host:
    """A namespace with one address; other hosts reach it under ``name``."""

    name: str
    namespace: str
    address: str

    def command(self, *argv: str | Path) -> list[str]:
        """``argv``, to be run on this host."""
        return ["ip", "netns", "exec", self.namespace, *(str(word) for word in argv)]


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")


@contextlib.contextmanager
def two_hosts(first: str, second: str) -> Iterator[tuple[Host, Host]]:
    """Create both hosts and the cable between them; everything is removed when the block is left."""
    mark = f"{os.getpid() % 100000}"
    hosts = (Host(first, f"rpe{mark}a", "10.77.29.1"), Host(second, f"rpe{mark}b", "10.77.29.2"))
    names = "127.0.0.1 localhost\n::1 localhost\n" + "".join(f"{host.address} {host.name}\n" for host in hosts)
    with contextlib.ExitStack() as cleanup:
        for host in hosts:
            _ip("netns", "add", host.namespace)
            cleanup.callback(_ip, "netns", "del", host.namespace)
            folder = ETC_NETNS / host.namespace
            folder.mkdir(parents=True)
            cleanup.callback(shutil.rmtree, folder)
            (folder / "hosts").write_text(names)
            _ip("-n", host.namespace, "link", "set", "lo", "up")
        ends = [f"rpe{mark}v{side}" for side in "ab"]
        _ip(
            "link",
            "add",
            ends[0],
            "netns",
            hosts[0].namespace,
            "type",
            "veth",
            "peer",
            "name",
            ends[1],
            "netns",
            hosts[1].namespace,
        )
        for host, end in zip(hosts, ends, strict=True):
            _ip("-n", host.namespace, "addr", "add", f"{host.address}/24", "dev", end)
            _ip("-n", host.namespace, "link", "set", end, "up")
        yield hosts
