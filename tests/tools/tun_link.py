"""A cable between two network namespaces that can be slow, lossy, or cut: a program of its own, for tests.

    tun_link.py NAMESPACE ADDRESS NAMESPACE ADDRESS DELAY_MS LOSS_PERCENT RATE_MBIT

It puts a TUN device with its /24 address into each namespace and carries packets between the two, because not every
kernel has a queueing discipline for that. Delay is one way; rate 0 means unlimited. It prints ``up`` when it is ready
and reads commands from standard input: ``cut`` drops everything, ``cut_after BYTES`` does so once that many more bytes
were carried, ``heal`` undoes both; each is answered with its first word when it is done. End of input ends it.
Needs root.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import fcntl
import os
import random
import select
import struct
import subprocess
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
CLONE_NEWNET = 0x40000000

QUEUE_LIMIT = 1000  # packets on their way per direction; what comes on top is dropped, as a router would
BATCH = 64  # packets read from one side before the other gets its turn
LARGEST_PACKET = 65536
IDLE_SECONDS = 1.0  # the longest sleep; everything that matters wakes it earlier


def open_tun(namespace: str, address: str) -> int:
    """Create the device of one end; its file descriptor."""
    libc = ctypes.CDLL(None, use_errno=True)
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    if libc.setns(there, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), f"cannot enter namespace {namespace}")
    try:
        tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH", b"cable", IFF_TUN | IFF_NO_PI))
        subprocess.run(["ip", "addr", "add", f"{address}/24", "dev", "cable"], check=True)
        subprocess.run(["ip", "link", "set", "cable", "up"], check=True)
    finally:
        libc.setns(home, CLONE_NEWNET)
        os.close(home)
        os.close(there)
    return tun


class Cable:
    """What happens to packets between one end and the other. Times are seconds, the rate is bytes per second."""

    def __init__(self, delay: float, loss: float, rate: float) -> None:
        self._delay = delay
        self._loss = loss
        self._rate = rate
        self._on_their_way: tuple[collections.deque[tuple[float, bytes]], ...] = (
            collections.deque(),
            collections.deque(),
        )
        self._busy_until = [0.0, 0.0]
        self._is_cut = False
        self._cut_after: int | None = None

    def take(self, side: int, packet: bytes, now: float) -> bool:
        """A packet enters at ``side``. True if with it the cable is cut."""
        queue = self._on_their_way[side]
        if self._is_cut or random.random() < self._loss or len(queue) >= QUEUE_LIMIT:
            return False
        serialisation = len(packet) / self._rate if self._rate else 0.0
        self._busy_until[side] = max(self._busy_until[side], now) + serialisation
        queue.append((self._busy_until[side] + self._delay, packet))
        if self._cut_after is None:
            return False
        self._cut_after -= len(packet)
        if self._cut_after > 0:
            return False
        self.cut()
        return True

    def leave(self, side: int, now: float) -> bytes | None:
        """The next packet that entered at ``side`` and has arrived."""
        queue = self._on_their_way[side]
        return queue.popleft()[1] if queue and queue[0][0] <= now else None

    def seconds_to_next(self, now: float) -> float:
        return max(0.0, min([IDLE_SECONDS, *(queue[0][0] - now for queue in self._on_their_way if queue)]))

    def command(self, words: list[str]) -> str | None:
        """Obey; the answer to print now, if any."""
        if words[0] == "cut_after":
            self._cut_after = int(words[1])
            return None
        if words[0] == "cut":
            self.cut()
        elif words[0] == "heal":
            self._is_cut = False
        return words[0]

    def cut(self) -> None:
        self._is_cut, self._cut_after = True, None
        for queue in self._on_their_way:
            queue.clear()


def main() -> None:
    first, first_address, second, second_address, delay, loss, rate = sys.argv[1:8]
    cable = Cable(float(delay) / 1e3, float(loss) / 100, float(rate) * 1e6 / 8)
    ends = [open_tun(first, first_address), open_tun(second, second_address)]
    print("up", flush=True)
    while True:
        now = time.monotonic()
        for side in (0, 1):
            while (packet := cable.leave(side, now)) is not None:
                with contextlib.suppress(BlockingIOError):  # its queue is full: a packet lost like any other
                    os.write(ends[1 - side], packet)
        ready, _, _ = select.select([*ends, 0], [], [], cable.seconds_to_next(now))
        now = time.monotonic()
        for descriptor in ready:
            if descriptor == 0:
                text = os.read(0, 4096).decode()
                if not text:
                    return
                for line in text.splitlines():
                    if (answer := cable.command(line.split())) is not None:
                        print(answer, flush=True)
                continue
            with contextlib.suppress(BlockingIOError):
                for _ in range(BATCH):
                    if cable.take(ends.index(descriptor), os.read(descriptor, LARGEST_PACKET), now):
                        print("cut", flush=True)


if __name__ == "__main__":
    main()
