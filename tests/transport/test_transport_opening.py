"""Opening the connection: addresses, listening, dialing, accepting, and the sentence for each way in which it fails."""

from __future__ import annotations

import errno
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
from transport_helpers import reset
from trio.testing import MockClock

from robopro_eval.transport import aio, sockets
from robopro_eval.transport.addresses import Address, check_address, check_host, parse_port
from robopro_eval.transport.errors import (
    AddressError,
    CannotListen,
    ConnectionRefused,
    NameNotFound,
    NobodyCame,
    PortInUse,
    TransportError,
)
from robopro_eval.transport.occupant import holder_of
from robopro_eval.transport.retry import Retry, describe

NOWHERE = "no-such-host.invalid"


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


# ---------------------------------------------------------------- addresses
@pytest.mark.parametrize("text", ["29761", 29761, " 29761 "])
def test_ports(text: str | int) -> None:
    assert parse_port(text) == 29761


@pytest.mark.parametrize("text", ["", "0", "65536", "-1", "29761x", "29.5", "1e3", "²", "99999999999", True])
def test_what_is_no_port_is_refused_in_one_sentence(text: Any) -> None:
    with pytest.raises(ValueError, match="is not a port; give a number from 1 to 65535"):
        parse_port(text)


def test_port_zero_is_for_listening() -> None:
    assert parse_port("0", zero=True) == 0


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("localhost", "localhost"),
        ("trt-gb10-3", "trt-gb10-3"),
        ("node_1.cluster.example.", "node_1.cluster.example."),
        ("0.0.0.0", "0.0.0.0"),
        ("::1", "::1"),
        ("[::1]", "::1"),
        (" node-1 ", "node-1"),
    ],
)
def test_hosts(text: str, host: str) -> None:
    assert check_host(text) == host


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("tcp://node-1", "URL"),
        ("node-1/path", "URL"),
        ("node-1:29761", "holds a port"),
        ("node 1", "not a host name"),
        ("-node", "not a host name"),
        ("a..b", "not a host name"),
        ("x" * 300, "not a host name"),
        ("256.1.1.1", "IPv4"),
        ("10.0.0", "IPv4"),
        ("nöde", "not a host name"),
        ("node\n1", "not a host name"),
        (":::", "not a host name"),
    ],
)
def test_what_is_no_host_is_refused_in_one_sentence(text: str, word: str) -> None:
    with pytest.raises(AddressError, match=word) as caught:
        check_host(text)
    assert len(str(caught.value)) < 200


def test_addresses_print_as_people_write_them() -> None:
    assert str(check_address(("localhost", 29761))) == "localhost:29761"
    assert str(Address("::1", 29761)) == "[::1]:29761"


# ---------------------------------------------------------------- listening
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])
def test_port_zero_gives_a_port_and_says_which(host: str) -> None:
    with sockets.listen(host, 0) as listener:
        port = sockets.bound_address(listener).port
        assert port > 0
        with sockets.dial(("127.0.0.1", port), attempts=1) as dialed:
            accepted, peer = sockets.accept(listener)
            with accepted:
                assert peer == sockets.bound_address(dialed)


def test_ipv6_where_the_host_says_so() -> None:
    if not Path("/proc/net/if_inet6").exists():
        with pytest.raises(TransportError):
            sockets.listen("::1", 0)
        return
    with sockets.listen("::1", 0) as listener:
        assert listener.family is socket.AF_INET6
        with sockets.dial(("::1", sockets.bound_address(listener).port), attempts=1):
            accepted, peer = sockets.accept(listener)
            accepted.close()
            assert peer.host == "::1"


def test_a_port_in_use_is_named_with_the_process_that_has_it() -> None:
    code = """
import socket, sys
sock = socket.socket()
sock.bind(("127.0.0.1", 0))
sock.listen()
print(sock.getsockname()[1], flush=True)
sys.stdin.read()
"""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as other:
        assert other.stdout is not None
        port = int(other.stdout.readline())
        with pytest.raises(PortInUse) as caught:
            sockets.listen("127.0.0.1", port)
        other.communicate("")
    message = str(caught.value)
    assert message.startswith(f"port {port} is in use by process {other.pid} (")
    assert "import socket" in message
    assert "29500-29999" in message
    sockets.listen("127.0.0.1", port).close()


def test_a_port_in_use_on_ipv6_is_found_too() -> None:
    if not Path("/proc/net/if_inet6").exists():
        assert holder_of(1) is None
        return
    with sockets.listen("::", 0) as listener:
        holder = holder_of(sockets.bound_address(listener).port)
    assert holder is not None
    assert f"process {os.getpid()} " in holder


def test_where_proc_does_not_tell_the_sentence_still_stands(tmp_path: Path) -> None:
    assert holder_of(29761, tmp_path) is None
    error = sockets.cannot_listen(Address("127.0.0.1", free_port()), OSError(errno.EADDRINUSE, "in use"))
    assert "in use by another process; stop it or choose another one" in str(error)


def test_a_port_is_free_again_at_once_after_a_run() -> None:
    listener = sockets.listen("127.0.0.1", 0)
    port = sockets.bound_address(listener).port
    dialed = sockets.dial(("127.0.0.1", port), attempts=1)
    accepted, _ = sockets.accept(listener)
    accepted.close()  # the listening side closes first: its address stays in TIME_WAIT
    dialed.close()
    listener.close()
    sockets.listen("127.0.0.1", port).close()


def test_an_address_of_another_machine() -> None:
    with pytest.raises(CannotListen, match=r"no interface of this machine has that address; try 0[.]0[.]0[.]0$"):
        sockets.listen("192.0.2.1", 0)


def test_a_name_that_does_not_resolve_cannot_be_listened_on() -> None:
    with pytest.raises(NameNotFound, match="does not resolve"):
        sockets.listen(NOWHERE, 0)


@pytest.mark.parametrize(("host", "port"), [("localhost:1", 5), ("localhost", 70000), ("", 5)])
def test_malformed_addresses_are_refused_before_anything_is_tried(host: str, port: int) -> None:
    with pytest.raises(AddressError):
        sockets.listen(host, port)
    with pytest.raises(AddressError):
        sockets.dial((host, port))


# ---------------------------------------------------------------- dialing
class FakeTime:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def test_refused_again_and_again() -> None:
    time_, lines = FakeTime(), list[str]()
    port = free_port()
    with pytest.raises(ConnectionRefused) as caught:
        sockets.dial(("127.0.0.1", port), attempts=20, on_wait=lines.append, sleep=time_.sleep, clock=time_.clock)
    assert str(caught.value) == (
        f"could not connect to 127.0.0.1:{port} (connection refused), after 20 attempts; "
        "is the other program running and listening there?"
    )
    assert time_.slept == [5.0] * 19
    assert len(lines) == 4  # at once, and in 95 s: after 30, 60 and 90
    assert lines[0] == f"⏳ cannot connect to 127.0.0.1:{port} yet (connection refused); trying again every 5 s"
    assert lines[1] == f"⏳ still trying to connect to 127.0.0.1:{port} (connection refused; attempt 7 of 20, 30 s)"


def test_a_name_that_does_not_resolve_is_given_up_after_twelve_tries() -> None:
    time_ = FakeTime()
    with pytest.raises(NameNotFound, match=rf"'{NOWHERE}' does not resolve .* after 12 tries; check the spelling"):
        sockets.dial((NOWHERE, 29761), sleep=time_.sleep, clock=time_.clock)
    assert time_.slept == [5.0] * 11


def test_a_name_that_resolves_meanwhile_starts_its_count_again() -> None:
    retry = Retry(Address("node-1", 1), 0.0, attempts=100, name_attempts=3)
    for _ in range(10):
        retry.failed(OSError("no name"), 0.0, resolving=True)
        retry.failed(OSError("no name"), 0.0, resolving=True)
        retry.failed(ConnectionRefusedError(), 0.0, resolving=False)


@pytest.mark.parametrize(
    "error",
    [
        socket.gaierror(-2, "Name or service not known"),  # Linux
        socket.gaierror(8, "Name or service not known"),  # macOS, where 8 is also "exec format error"
    ],
)
def test_the_words_of_a_name_that_does_not_resolve(error: OSError) -> None:
    assert describe(error) == "name or service not known"


def test_fewer_attempts_than_name_attempts() -> None:
    with pytest.raises(NameNotFound, match="at the first try"):
        sockets.dial((NOWHERE, 29761), attempts=1)


def test_whoever_starts_first_waits() -> None:
    port = free_port()
    opened: list[socket.socket] = []

    def late() -> None:
        time.sleep(0.3)
        opened.append(sockets.listen("127.0.0.1", port))

    thread = threading.Thread(target=late)
    thread.start()
    with sockets.dial(("127.0.0.1", port), attempts=100, interval=0.05) as sock:
        thread.join()
        assert sock.getpeername()[1] == port
    opened[0].close()


def test_an_attempt_that_nobody_answers_ends_with_its_own_timeout() -> None:
    """A full backlog drops connections silently: the closest thing to a host that is down."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        fillers = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
            fillers.append(filler)
        begun = time.monotonic()
        with pytest.raises(ConnectionRefused, match="no answer"):
            sockets.dial(listener.getsockname(), attempts=1, timeout=0.2)
        assert time.monotonic() - begun < 5
        for filler in fillers:
            filler.close()


def test_connected_sockets_are_configured() -> None:
    with sockets.listen("127.0.0.1", 0) as listener:
        dialed = sockets.dial(sockets.bound_address(listener), attempts=1)
        accepted, _ = sockets.accept(listener)
    for sock in (dialed, accepted):
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 20
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) == 5
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT) == 4
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 45_000
        sock.close()


def test_macos_has_another_name_for_the_seconds_before_the_first_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "TCP_KEEPIDLE")
    monkeypatch.delattr(socket, "TCP_USER_TIMEOUT")
    monkeypatch.setattr(socket, "TCP_KEEPALIVE", 16, raising=False)
    assert (socket.IPPROTO_TCP, 16, 20) in sockets.options()


class SelfConnecting(socket.socket):
    """Leaves from the very port that it wants to reach, as the system lets one socket in some ten thousand."""

    def connect(self, target: Any) -> None:
        if self.getsockname()[1] != target[1]:  # else it was asked before: trio connects in several steps
            self.bind(target)
        super().connect(target)


async def test_a_socket_connected_to_itself_is_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    ports = free_port(), free_port()
    monkeypatch.setattr(socket, "socket", SelfConnecting)
    with pytest.raises(ConnectionRefused, match=r"\(connection refused\), at the only attempt"):
        sockets.dial(("127.0.0.1", ports[0]), attempts=1)
    with pytest.raises(ConnectionRefused, match=r"\(connection refused\), at the only attempt"):
        await aio.dial(("127.0.0.1", ports[1]), attempts=1)


# ---------------------------------------------------------------- accepting
def test_nobody_comes() -> None:
    lines: list[str] = []
    with sockets.listen("127.0.0.1", 0) as listener:
        port = sockets.bound_address(listener).port
        with pytest.raises(NobodyCame, match=f"nobody connected to 127.0.0.1:{port} within 0.35 s"):
            sockets.accept(listener, timeout=0.35, status_every=0.1, on_wait=lines.append)
    assert len(lines) == 3
    assert lines[0].startswith(f"⏳ still waiting on 127.0.0.1:{port} for a peer to connect (")


def gone_already(listener: socket.socket) -> Address:
    """Where somebody came from who left before being accepted."""
    dialed = sockets.dial(sockets.bound_address(listener), attempts=1)
    came_from = sockets.bound_address(dialed)
    reset(dialed)
    return came_from


async def test_a_peer_that_has_gone_already_is_still_named() -> None:
    with sockets.listen("127.0.0.1", 0) as listener, trio.socket.from_stdlib_socket(listener.dup()) as twin:
        came_from = gone_already(listener)
        accepted, peer = sockets.accept(listener, timeout=5)
        accepted.close()
        assert peer == came_from
        came_from = gone_already(listener)
        trio_accepted, peer = await aio.accept(twin, timeout=5)
        trio_accepted.close()
        assert peer == came_from


_WAITING = """
import sys, socket
from robopro_eval.transport import sockets
from robopro_eval.transport.blocking import BlockingChannel
listener = sockets.listen("127.0.0.1", 0)
what = sys.argv[1]
print("READY", flush=True)
try:
    if what == "accept":
        sockets.accept(listener)
    elif what == "dial":
        sockets.dial(("127.0.0.1", 1))
    else:
        one, other = socket.socketpair()
        BlockingChannel(one).receive(600 if what == "receive" else None)
except KeyboardInterrupt:
    print("INTERRUPTED", flush=True)
"""


@pytest.mark.parametrize("what", ["accept", "dial", "receive", "receive for ever"])
def test_ctrl_c_interrupts_every_wait(what: str) -> None:
    with subprocess.Popen([sys.executable, "-c", _WAITING, what], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "READY\n"
        time.sleep(0.2)
        program.send_signal(signal.SIGINT)
        begun = time.monotonic()
        assert program.stdout.readline() == "INTERRUPTED\n"
        assert program.wait(5) == 0
        assert time.monotonic() - begun < 2


# ---------------------------------------------------------------- the same under trio
async def test_trio_dialing_and_accepting() -> None:
    listener = aio.listen("127.0.0.1", 0)
    address = aio.bound_address(listener)
    dialed = await aio.dial(address, attempts=1)
    accepted, peer = await aio.accept(listener)
    assert peer == aio.bound_address(dialed)
    for sock in (dialed, accepted):
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        sock.close()
    listener.close()


async def test_trio_refused_again_and_again(autojump_clock: MockClock) -> None:
    lines: list[str] = []
    port = free_port()
    begun = trio.current_time()
    with pytest.raises(ConnectionRefused, match=r"\(connection refused\), after 20 attempts"):
        await aio.dial(("127.0.0.1", port), attempts=20, on_wait=lines.append)
    assert trio.current_time() - begun == pytest.approx(95, abs=1)
    assert len(lines) == 4


async def test_trio_malformed_addresses_fail_at_once() -> None:
    with trio.fail_after(1):
        with pytest.raises(AddressError):
            await aio.dial(("tcp://node", 1))
        with pytest.raises(AddressError):
            await aio.dial(("node", 0))


async def test_trio_unknown_names(monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock) -> None:
    async def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr("trio.socket.getaddrinfo", unknown)
    begun = trio.current_time()
    with pytest.raises(NameNotFound, match=r"'node-1' does not resolve \(name or service not known\), after 12 tries"):
        await aio.dial(("node-1", 29761))
    assert trio.current_time() - begun == pytest.approx(55)


async def test_trio_nobody_comes(autojump_clock: MockClock) -> None:
    lines: list[str] = []
    listener = aio.listen("127.0.0.1", 0)
    with pytest.raises(NobodyCame, match="within 100 s"):
        await aio.accept(listener, timeout=100, on_wait=lines.append)
    listener.close()
    assert [line.rsplit("(", 1)[1] for line in lines] == ["30 s)", "60 s)", "90 s)"]


# ---------------------------------------------------------------- imports
@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("framing.session", ["trio", "torch", "sapien", "pydantic", "socket", "threading"]),
        ("robopro_eval.transport.blocking", ["trio", "torch", "sapien", "pydantic"]),
        ("robopro_eval.transport.sockets", ["trio", "torch", "sapien", "pydantic"]),
        ("robopro_eval.transport.aio", ["torch", "sapien", "pydantic"]),
    ],
)
def test_imports_bring_in_nothing_heavy(module: str, absent: list[str]) -> None:
    script = f"""
import sys, time
import numpy
before = set(sys.modules)
begun = time.process_time()
import {module}
took = time.process_time() - begun
new = set(sys.modules) - before
print(took, [name for name in {absent!r} if name in new])
"""
    # The best of three: the machine may be busy, a slow import is slow every time.
    runs = [
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split(" ", 1)
        for _ in range(3)
    ]
    assert runs[0][1].strip() == "[]"
    assert min(float(took) for took, _ in runs) < 0.3


class FailingOnce:
    """A listener whose first `accept` fails, as the system lets it for a connection that broke in the queue."""

    def __init__(self, listener: socket.socket, code: int) -> None:
        self.listener = listener
        self.failures = [OSError(code, os.strerror(code))]

    def accept(self) -> tuple[socket.socket, Any]:
        if self.failures:
            raise self.failures.pop()
        return self.listener.accept()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.listener, name)


BROKEN = pytest.mark.parametrize("code", [errno.ECONNABORTED, errno.EPROTO, errno.EHOSTUNREACH, errno.EPERM])


@BROKEN
def test_a_connection_that_broke_in_the_queue_does_not_end_the_accepting(code: int) -> None:
    with sockets.listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()) as dialed:
        accepted, peer = sockets.accept(FailingOnce(listener, code))  # type: ignore[arg-type]
        accepted.close()
        assert peer == dialed.getsockname()


@BROKEN
async def test_trio_a_connection_that_broke_in_the_queue(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with aio.listen("127.0.0.1", 0) as listener, socket.create_connection(aio.bound_address(listener)) as dialed:
        failures, usual = [OSError(code, os.strerror(code))], listener.accept

        async def accept() -> Any:
            if failures:
                raise failures.pop()
            return await usual()

        monkeypatch.setattr(listener, "accept", accept)
        accepted, peer = await aio.accept(listener)
        accepted.close()
        assert peer == dialed.getsockname()


@pytest.fixture
def out_of_descriptors() -> Iterator[Callable[[str], None]]:
    """From its first use on, no descriptor is free; each call notes a status line and lifts that again."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    class Shortage(list[str]):
        def begin(self) -> None:
            lowest_free = os.dup(0)
            os.close(lowest_free)
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))

        def __call__(self, line: str) -> None:
            self.append(line)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    yield Shortage()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_process_out_of_descriptors_accepts_when_there_are_some_again(out_of_descriptors: Any) -> None:
    with sockets.listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()) as dialed:
        out_of_descriptors.begin()
        accepted, peer = sockets.accept(listener, on_wait=out_of_descriptors)
        assert peer == dialed.getsockname()
        accepted.close()
    assert [line.rpartition(": ")[2].lower() for line in out_of_descriptors] == ["too many open files"]


async def test_trio_out_of_descriptors(out_of_descriptors: Any) -> None:
    listener = aio.listen("127.0.0.1", 0)
    with listener, socket.create_connection(aio.bound_address(listener)) as dialed:
        out_of_descriptors.begin()
        accepted, peer = await aio.accept(listener, on_wait=out_of_descriptors)
        assert peer == dialed.getsockname()
        accepted.close()
    assert [line.rpartition(": ")[2].lower() for line in out_of_descriptors] == ["too many open files"]
