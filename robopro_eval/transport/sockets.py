"""Opening the one TCP connection, from either side, blocking. `robopro_eval.transport.aio` is its twin under trio."""

from __future__ import annotations

import contextlib
import errno
import socket
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from robopro_eval.transport.addresses import PORT_RANGE, Address, check_address
from robopro_eval.transport.errors import CannotListen, NameNotFound, NobodyCame, PortInUse, TransportError
from robopro_eval.transport.occupant import holder_of
from robopro_eval.transport.retry import (
    ATTEMPTS,
    CONNECT_TIMEOUT,
    INTERVAL,
    NAME_ATTEMPTS,
    STATUS_EVERY,
    Retry,
    describe,
)

BACKLOG = 16
"""Peers that may queue before they are accepted. Where more simulators come at once, their systems ask again by
themselves, first after a second."""

USER_TIMEOUT = 45.0
"""Seconds that sent data may stay unacknowledged: with keep-alive, a dead host is noticed within a minute."""

KEEPALIVE = (20, 5, 4)
"""Seconds of silence before the first probe, seconds between probes, probes: 40 s to notice a dead idle host."""


BROKEN_IN_THE_QUEUE = frozenset(
    {
        errno.ECONNABORTED,
        errno.ECONNRESET,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.ENOPROTOOPT,
        errno.EPERM,
        errno.EPROTO,
    }
)
"""What accept fails with for a single connection that broke, or that a firewall forbids; the next one may be well."""

EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""What accept fails with when this process or machine is out of descriptors or memory. It passes when others close."""

EXHAUSTED_PAUSE = 1.0
"""Seconds before accepting is tried again then; at once would spin, since the peer stays in the queue."""

UNKNOWN = Address("?", 0)
"""Stands for a peer that left before it could be asked."""


def quiet(text: str) -> None:
    """The default for `on_wait`: say nothing."""


def listen(host: str, port: int) -> socket.socket:
    """A listening TCP socket on `host`:`port`; port 0 lets the system choose (see `bound_address`).

    `host` decides the family: `0.0.0.0` is every IPv4 interface, `::` every interface of both families.
    Raises AddressError, NameNotFound, PortInUse (naming the process that has it, if known) or CannotListen.
    """
    address = check_address((host, port), zero=True)
    family, target = resolve_for_listening(address)
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind(target)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise cannot_listen(address, error) from None
    return sock


def resolve_for_listening(address: Address) -> tuple[socket.AddressFamily, tuple[object, ...]]:
    """The family and address to bind. A name with both families is bound as IPv4, where stock peers look for it."""
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise NameNotFound(f"cannot listen on {address}: the name does not resolve ({describe(error)})") from None
    found.sort(key=lambda entry: entry[0] != socket.AF_INET)
    family, _, _, _, target = found[0]
    return family, target


def cannot_listen(address: Address, error: OSError) -> TransportError:
    """The exception to raise for a failed bind."""
    if error.errno == errno.EADDRINUSE:
        holder = holder_of(address.port)
        by = f" by {holder}; stop it" if holder else " by another process; stop it"
        return PortInUse(f"port {address.port} is in use{by} or choose another one ({PORT_RANGE})", holder=holder)
    if error.errno == errno.EADDRNOTAVAIL:
        return CannotListen(f"cannot listen on {address}: no interface of this machine has that address; try 0.0.0.0")
    if error.errno == errno.EACCES:
        return CannotListen(f"cannot listen on {address}: ports below 1024 need root; choose one from {PORT_RANGE}")
    return CannotListen(f"cannot listen on {address}: {describe(error)}")


class AnySocket(Protocol):
    """What the standard library's sockets and trio's have in common."""

    def getsockname(self) -> object: ...

    def getpeername(self) -> object: ...

    def setsockopt(self, level: int, optname: int, value: int, /) -> None: ...


def bound_address(sock: AnySocket) -> Address:
    """Where `sock` really is bound: the port that the system chose for port 0."""
    return address_from(sock.getsockname())


def peer_address(sock: AnySocket) -> Address:
    """The other end of a connected socket; `UNKNOWN` if it has gone already."""
    try:
        return address_from(sock.getpeername())
    except OSError:
        return UNKNOWN


def address_from(name: object) -> Address:
    """What the system says; an IPv4 peer of an IPv6 socket under its IPv4 address."""
    if not isinstance(name, tuple) or len(name) < 2:  # a Unix socket
        return UNKNOWN
    return Address(str(name[0]).removeprefix("::ffff:"), int(name[1]))


def options() -> list[tuple[int, int, int]]:
    """What `configure` sets, as (level, option, value); those that this system has."""
    idle, every, probes = KEEPALIVE
    wanted = [
        (socket.IPPROTO_TCP, "TCP_NODELAY", 1),
        (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
        (socket.IPPROTO_TCP, "TCP_KEEPIDLE", idle),
        (socket.IPPROTO_TCP, "TCP_KEEPALIVE", idle),  # the same on macOS
        (socket.IPPROTO_TCP, "TCP_KEEPINTVL", every),
        (socket.IPPROTO_TCP, "TCP_KEEPCNT", probes),
        (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", int(USER_TIMEOUT * 1000)),
    ]
    return [(level, getattr(socket, name), value) for level, name, value in wanted if hasattr(socket, name)]


def configure(sock: AnySocket) -> None:
    """The options of a connected socket: no waiting for acknowledgements, and dead hosts noticed within a minute."""
    for level, option, value in options():
        with contextlib.suppress(OSError):  # a Unix socket pair has none of these
            sock.setsockopt(level, option, value)


def dial(
    address: tuple[str, int],
    *,
    attempts: int = ATTEMPTS,
    interval: float = INTERVAL,
    name_attempts: int = NAME_ATTEMPTS,
    timeout: float = CONNECT_TIMEOUT,
    status_every: float = STATUS_EVERY,
    on_wait: Callable[[str], None] = quiet,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> socket.socket:
    """A connected, configured socket; tries again every `interval` seconds until something listens there.

    `timeout` is for one attempt, in seconds. `on_wait` gets a status line about every `status_every` seconds.
    Raises AddressError at once for a malformed address, NameNotFound after `name_attempts` in a row, ConnectionRefused
    after `attempts`. Ctrl-C interrupts it anywhere.
    """
    target = check_address(address)
    retry = Retry(
        target, clock(), attempts=attempts, interval=interval, name_attempts=name_attempts, status_every=status_every
    )
    while True:
        try:
            found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
        except OSError as error:
            wait = retry.failed(error, clock(), resolving=True)
        else:
            try:
                return _connect(found, timeout)
            except OSError as error:
                wait = retry.failed(error, clock(), resolving=False)
        if retry.status is not None:
            on_wait(retry.status)
        sleep(wait)


def _connect(
    found: Sequence[tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[object, ...]]], timeout: float
) -> socket.socket:
    """A connection to the first of a name's addresses that takes one."""
    last: OSError = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
    for family, kind, protocol, _, target in found:
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(timeout)
            sock.connect(target)
            refuse_self(sock)
            configure(sock)
        except OSError as error:
            last = error
            sock.close()
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise last


def refuse_self(sock: AnySocket) -> None:
    """Raises OSError for a socket that is connected to itself, or not any more to anything.

    Dialing a free local port again and again can do that, by TCP's simultaneous open.
    """
    if sock.getsockname() == sock.getpeername():
        raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")


def cannot_accept(where: Address, error: OSError) -> str:
    """The status line for an `accept` that is worth trying again. Raises `error` if it is not."""
    if error.errno not in EXHAUSTED:
        raise error
    return f"⏳ a peer waits on {where}, but it cannot be accepted yet: {describe(error)}"


def accept(
    listener: socket.socket,
    *,
    timeout: float | None = None,
    status_every: float = STATUS_EVERY,
    on_wait: Callable[[str], None] = quiet,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[socket.socket, Address]:
    """The next peer that connects, configured, and where it comes from.

    `timeout` in seconds, None waits for ever. `on_wait` gets a status line every `status_every` seconds.
    Raises NobodyCame after `timeout`. Ctrl-C interrupts it.
    """
    begun = clock()
    where = bound_address(listener)
    while True:
        waited = clock() - begun
        if timeout is not None and waited >= timeout:
            raise NobodyCame(f"nobody connected to {where} within {timeout:g} s")
        pause = status_every - waited % status_every
        listener.settimeout(pause if timeout is None else min(pause, timeout - waited))
        try:
            sock, peer = listener.accept()
        except TimeoutError:
            if timeout is None or clock() - begun < timeout:
                on_wait(f"⏳ still waiting on {where} for a peer to connect ({clock() - begun:.0f} s)")
            continue
        except OSError as error:
            if error.errno in BROKEN_IN_THE_QUEUE:
                continue
            on_wait(cannot_accept(where, error))
            time.sleep(EXHAUSTED_PAUSE)
            continue
        configure(sock)
        return sock, address_from(peer)
