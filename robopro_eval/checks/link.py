"""Connections to the server under test: dialed where it listens, accepted where it dials."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from typing import Protocol

from framing.errors import DeadlineExceeded
from robopro_eval.checks.core import Skipped
from robopro_eval.console.errors import UsageError, UserError
from robopro_eval.transport.addresses import Address
from robopro_eval.transport.blocking import BlockingChannel
from robopro_eval.transport.errors import AddressError, NobodyCame, TransportError
from robopro_eval.transport.security import LinkSecurity, authenticate, exposure_warning, secure
from robopro_eval.transport.sockets import accept, bound_address, dial, listen

MAX_FRAME = 16 << 20
"""Largest reply taken, in bytes: three times the largest that is asked for. A header in the wrong byte order announces
more than that in 255 of 256 cases, and is recognised at once."""

DIAL_SECONDS = 5.0
"""For one attempt to connect: a host that is up answers or refuses within milliseconds."""

DIAL_EVERY = 0.5
"""Seconds between attempts while a server is awaited (`--wait`)."""

COME_SECONDS = 300.0
"""How long a model that dials is awaited unless `--wait` says otherwise: it may be loading weights."""

REDIAL_SECONDS = 20.0
"""How long a model may take to dial again after its connection was lost: ours waits 5 s between attempts."""


class ProbeChannel(BlockingChannel):
    """A channel that can also be asked whether anything has come, without giving it up when nothing has."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock, MAX_FRAME)

    def receive(self, timeout: float | None = None) -> memoryview:
        try:
            return super().receive(timeout)
        except DeadlineExceeded:
            raise DeadlineExceeded(f"no reply within {timeout or 0.0:.1f} s") from None

    def has_news(self, seconds: float) -> bool:
        """True if a frame, a part of one or the end of the stream is there within `seconds`."""
        if self.closed or self.has_unread:
            return True
        poller = select.poll()
        poller.register(self._sock, select.POLLIN)
        return bool(poller.poll(int(seconds * 1000)))


class Link(Protocol):
    """Opens connections to the server under test."""

    name: str
    """Where it is, for people."""
    listens: bool
    """The server listens, so that any number of connections can be had."""
    security: LinkSecurity

    def open(self, security: LinkSecurity | None = None) -> ProbeChannel:
        """The next connection, TLS and the exchange of tokens done; with `security` in place of the link's own.

        Raises TransportError, WireError; Skipped where no more can be had.
        """

    def met(self) -> None:
        """The server has answered: from now on a connection is awaited only as long as a redial takes."""

    def close(self) -> None: ...


class DialedLink:
    """A server that listens on `address`. The first connection is tried for `wait` seconds."""

    listens = True

    def __init__(self, address: Address, security: LinkSecurity, *, wait: float) -> None:
        self.name = f"tcp://{address}"
        self.security = security
        self._address = address
        self._attempts = 1 + int(wait / DIAL_EVERY)

    def open(self, security: LinkSecurity | None = None) -> ProbeChannel:
        attempts, self._attempts = self._attempts, 1
        sock = dial(self._address, attempts=attempts, interval=DIAL_EVERY, name_attempts=1, timeout=DIAL_SECONDS)
        return _admitted(sock, self.security if security is None else security, self.name, host=self._address.host)

    def met(self) -> None: ...

    def close(self) -> None: ...


class AcceptedLink:
    """A model that dials `address`, where this listens. The first is awaited for `wait` seconds."""

    listens = False

    def __init__(self, address: Address, security: LinkSecurity, *, wait: float) -> None:
        try:
            self._listener: socket.socket = listen(address.host, address.port)
        except AddressError as error:
            raise UsageError(str(error)) from error
        except TransportError as error:
            raise UserError(str(error)) from error
        self.name = f"a model that dials {bound_address(self._listener)}"
        self.host, self.port = address.host, bound_address(self._listener).port
        self.security = security
        self._wait = wait
        self._until = time.monotonic() + wait
        self._met = False

    def open(self, security: LinkSecurity | None = None) -> ProbeChannel:
        left = max(0.0, self._until - time.monotonic())
        try:
            sock, _ = accept(self._listener, timeout=REDIAL_SECONDS if self._met else left)
        except NobodyCame:
            if self._met:
                raise Skipped("the model's connection is over, and it did not dial again") from None
            raise NobodyCame(f"no model dialed port {self.port} within {self._wait:g} s") from None
        return _admitted(sock, self.security if security is None else security, self.name)

    def met(self) -> None:
        self._met = True

    def close(self) -> None:
        self._listener.close()


def announce(link: Link, note: Callable[[str], None]) -> None:
    """Tell the operator what is waited for, and what is unsafe about it."""
    for line in link.security.warnings:
        note(line)
    if isinstance(link, AcceptedLink):
        if (warning := exposure_warning(link.host, link.security)) is not None:
            note(warning)
        note(f"waiting for a model to dial port {link.port} ...")


def _admitted(sock: socket.socket, security: LinkSecurity, name: str, *, host: str | None = None) -> ProbeChannel:
    """A channel over `sock` once TLS and the exchange of tokens are done; `host` is the name that was dialed."""
    channel = ProbeChannel(secure(sock, security, listening=host is None, host=host))
    authenticate(channel, security, name)
    return channel
