"""The settings of `eval-check` and `eval-replay`, and how their words without `--` are read."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pydantic import model_validator

from robopro_eval.checks.bench import FIRST_REPLY_FACTOR, REPLY_SECONDS
from robopro_eval.checks.link import COME_SECONDS, AcceptedLink, DialedLink, Link
from robopro_eval.console.errors import UsageError
from robopro_eval.settings.link import LinkSettings
from robopro_eval.settings.program import knob
from robopro_eval.transport.addresses import Address, check_host, parse_port
from robopro_eval.transport.errors import AddressError, SecurityError
from robopro_eval.transport.security import LinkSecurity

LISTEN_HOST = "localhost"
"""Where `--listen PORT` listens: on this machine only, unless a host is given."""

_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


class ServerSettings(LinkSettings):
    """Where the server under test is, and how long to wait for it."""

    server: str | None = knob(
        None, "the server, tcp://HOST:PORT; may be given without --server", group="Server", metavar="tcp://HOST:PORT"
    )
    listen: str | None = knob(
        None,
        f"listen there for a model that dials (MODEL_AS_CLIENT=1); HOST is {LISTEN_HOST} if left out",
        group="Server",
        metavar="[HOST:]PORT",
    )
    wait: float | None = knob(
        None,
        "how long to wait for the server or model to come",
        reason=f"without it a server has to be there, and a model that dials has {COME_SECONDS:g} s",
        group="Server",
        metavar="SECONDS",
        ge=0,
    )
    timeout: float = knob(
        REPLY_SECONDS,
        "how long one reply may take",
        reason=f"the first of all may take {FIRST_REPLY_FACTOR} times as long: a policy may compile in its first call",
        group="Server",
        metavar="SECONDS",
        gt=0,
    )

    @model_validator(mode="after")
    def _is_complete(self) -> ServerSettings:
        if (missing := self._missing()) is not None:
            raise ValueError(missing)
        return self

    def _missing(self) -> str | None:
        """What the command still has to say, in the order in which it is written; None if it says all."""
        if (self.server is None) == (self.listen is None):
            return "give one of tcp://HOST:PORT (a server that listens) and --listen PORT (a model that dials)"
        return None

    def open_link(self) -> Link:
        """What the settings name. Raises UsageError for an address or a secret that cannot be one; listens at once."""
        try:
            security = LinkSecurity.from_values(**self.link_values())
            security.check(listening=self.listen is not None)
        except SecurityError as error:
            raise UsageError(str(error)) from error
        if self.server is not None:
            return DialedLink(read_url(self.server), security, wait=self.wait or 0.0)
        assert self.listen is not None
        wait = COME_SECONDS if self.wait is None else self.wait
        return AcceptedLink(read_listen(self.listen), security, wait=wait)


class CheckSettings(ServerSettings):
    """Settings of `eval-check`."""

    method: str | None = knob(
        None,
        "a method of the policy that returns its one argument; with it values are checked on any policy",
        group="Checks",
        metavar="NAME",
    )
    report: str | None = knob(None, "write the report there, as JSON", group="Checks", metavar="FILE")


class ReplaySettings(ServerSettings):
    """Settings of `eval-replay`."""

    # A text even where it is missing: a file may be called none, and `str | None` would read that as no file.
    file: str = knob("", "the recording; may be given without --file", group="Comparison", metavar="FILE")
    rtol: float = knob(
        1e-4,
        "numbers may differ by atol + rtol * |recorded|",
        reason="another GPU, driver or batch size changes the last bits of float32, not the fourth digit",
        group="Comparison",
        ge=0,
    )
    atol: float = knob(1e-6, "see --rtol", reason="a micrometre, a microradian", group="Comparison", ge=0)
    all: bool = knob(False, "show all differences, not only the first", group="Comparison")

    def _missing(self) -> str | None:
        if not self.file:
            return "name the recording that is to be replayed, before the server"
        return super()._missing()


def name_words(argv: Sequence[str], *names: str) -> list[str]:
    """`argv` with its words that have no flag named: a URL is `--server`, others, from the front, are `names`."""
    words = list(argv)
    named: list[str] = []
    waiting = list(names)
    while words and not words[0].startswith("-"):
        word = words.pop(0)
        if _URL.match(word):
            named += ["--server", word]
        elif waiting:
            named += [f"--{waiting.pop(0)}", word]
        else:
            raise UsageError(f"{word!r} is not understood; a server is written tcp://HOST:PORT")
    if len(words) > 1 and _URL.match(words[-1]) and words[-2] != "--server":
        named += ["--server", words.pop()]  # after the flags
    return named + words


def read_url(text: str) -> Address:
    """The address of `tcp://HOST:PORT`. Raises UsageError."""
    scheme, _, rest = text.partition("://")
    if scheme.lower() != "tcp":
        raise UsageError(f"{text!r} is not tcp://HOST:PORT, the only protocol that this program checks")
    return _read_address(rest, text)


def read_listen(text: str) -> Address:
    """The address of `[HOST:]PORT`. Raises UsageError."""
    return _read_address(text if ":" in text else f"{LISTEN_HOST}:{text}", text, zero=True)


def _read_address(text: str, whole: str, *, zero: bool = False) -> Address:
    host, colon, port = text.rstrip("/").rpartition(":")
    if not colon:
        raise UsageError(f"{whole!r} names no port; write tcp://HOST:PORT")
    try:
        return Address(check_host(host), parse_port(port, zero=zero))
    except AddressError as error:
        raise UsageError(str(error)) from error
