"""How long dialing goes on: a policy without clock and socket, so that both shells share it and tests need no time."""

from __future__ import annotations

import os
import socket

from robopro_eval.transport.addresses import Address
from robopro_eval.transport.errors import ConnectionRefused, NameNotFound

ATTEMPTS = 1000
"""Connect attempts before giving up: with `INTERVAL`, some 83 minutes, enough for a simulator that waits in a queue."""

INTERVAL = 5.0
"""Seconds between attempts, as operators know it."""

NAME_ATTEMPTS = 12
"""A name that does not resolve for a minute is a typing mistake, not a node that is still booting."""

CONNECT_TIMEOUT = 10.0
"""Seconds for one attempt. A host that is up answers or refuses within milliseconds; a dropped packet costs three."""

STATUS_EVERY = 30.0
"""Seconds between status lines while waiting: often enough to be reassuring, rare enough for an overnight log."""


class Retry:
    """Counts the failed attempts of one dial.

    Call `failed(error, now)` after each: it returns the seconds to wait before the next attempt, or raises NameNotFound
    or ConnectionRefused when there is none. `status` then holds a line to show, or None. `now` is monotonic seconds.
    """

    def __init__(
        self,
        address: Address,
        now: float,
        *,
        attempts: int = ATTEMPTS,
        interval: float = INTERVAL,
        name_attempts: int = NAME_ATTEMPTS,
        status_every: float = STATUS_EVERY,
    ) -> None:
        if attempts < 1 or name_attempts < 1:
            raise ValueError("at least one attempt is needed")
        self._address = address
        self._attempts = attempts
        self._interval = interval
        self._name_attempts = name_attempts
        self._status_every = status_every
        self._begun = now
        self._told = now
        self._failed = 0
        self._unresolved = 0
        self.status: str | None = None

    def failed(self, error: OSError, now: float, *, resolving: bool) -> float:
        """`resolving`: it was the name that failed, not the connection."""
        self._failed += 1
        self._unresolved = self._unresolved + 1 if resolving else 0
        reason = describe(error)
        if self._unresolved >= self._name_attempts or (resolving and self._failed >= self._attempts):
            tries = f"after {self._unresolved} tries" if self._unresolved > 1 else "at the first try"
            raise NameNotFound(
                f"the host name {self._address.host!r} does not resolve ({reason}), {tries}; check the spelling"
            )
        if self._failed >= self._attempts:
            tries = f"after {self._failed} attempts" if self._failed > 1 else "at the only attempt"
            raise ConnectionRefused(
                f"could not connect to {self._address} ({reason}), {tries}; "
                "is the other program running and listening there?"
            )
        self.status = None
        if self._failed == 1:
            # At once: a wrong port should not look like a right one for half a minute.
            self.status = (
                f"⏳ cannot connect to {self._address} yet ({reason}); trying again every {self._interval:g} s"
            )
        elif now - self._told >= self._status_every:
            self._told = now
            self.status = (
                f"⏳ still trying to connect to {self._address} ({reason}; attempt {self._failed} of {self._attempts}, "
                f"{now - self._begun:.0f} s)"
            )
        return self._interval


def describe(error: OSError) -> str:
    """The operating system's words for `error`, without numbers and traceback furniture."""
    if isinstance(error, TimeoutError):
        return "no answer"
    if error.errno is not None and not isinstance(error, socket.gaierror):  # whose numbers mean something else
        text = os.strerror(error.errno)
    else:
        text = error.strerror or str(error) or type(error).__name__
    return text[0].lower() + text[1:]
