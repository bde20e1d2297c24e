"""Two hosts on one machine: network namespaces joined by a virtual cable, each knowing the other by name.

``ip netns exec`` shows a process the files of ``/etc/netns/<namespace>/`` in place of those of ``/etc``, so that host
names resolve there as they would on two machines with a common name service. Needs root and iproute2.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import string
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from programs import Program

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
def _unjoined_hosts(first: str, second: str) -> Iterator[tuple[Host, Host]]:
    mark = _free_mark()
    hosts = (Host(first, f"{mark}a", "10.77.29.1"), Host(second, f"{mark}b", "10.77.29.2"))
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
        yield hosts


def _free_mark() -> str:
    """A test may have several pairs of hosts at a time."""
    marks = (f"rpe{os.getpid() % 100000}{letter}" for letter in string.ascii_lowercase)
    return next(mark for mark in marks if not Path(f"/run/netns/{mark}a").exists())


@contextlib.contextmanager
def two_hosts(first: str, second: str) -> Iterator[tuple[Host, Host]]:
    """Create both hosts and the cable between them; everything is removed when the block is left."""
    with _unjoined_hosts(first, second) as hosts:
        here, there = (host.namespace for host in hosts)
        _ip("link", "add", "cable", "netns", here, "type", "veth", "peer", "name", "cable", "netns", there)
        for host in hosts:
            _ip("-n", host.namespace, "addr", "add", f"{host.address}/24", "dev", "cable")
            _ip("-n", host.namespace, "link", "set", "cable", "up")
        yield hosts


class Cable:
    """The cable of :func:`hosts_on_a_cable`: ``tun_link.py``, told what to do."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def cut_after(self, size: int) -> float:
        """Cut it when ``size`` more bytes have passed. Waits for that; when it was, on ``time.monotonic``'s clock."""
        self._program.write(f"cut_after {size}\n")
        return self._program.time_of("cut")

    def heal(self) -> None:
        self._program.write("heal\n")
        self._program.wait_for("heal")


@contextlib.contextmanager
def hosts_on_a_cable(
    first: str, second: str, *, delay_ms: float = 0.0, loss_percent: float = 0.0, rate_mbit: float = 0.0
) -> Iterator[tuple[Host, Host, Cable]]:
    """As :func:`two_hosts`, on a cable with delay (one way), loss, a limited rate (0: none), and a cut at will."""
    with _unjoined_hosts(first, second) as hosts:
        words = [word for host in hosts for word in (host.namespace, host.address)]
        link = [str(delay_ms), str(loss_percent), str(rate_mbit)]
        argv: list[str | Path] = [sys.executable, Path(__file__).with_name("tun_link.py"), *words, *link]
        with Program(argv, reads_commands=True) as program:
            program.wait_for("up")
            yield (*hosts, Cable(program))
