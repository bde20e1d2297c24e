"""Hosts and ports, checked before anything is tried."""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple

from robopro_eval.transport.errors import AddressError

PORT_RANGE = "29500-29999"
"""Where our users look for a free port; named in messages."""

_NAME = re.compile(
    r"(?=.{1,253}\.?$)[A-Za-z0-9_]([A-Za-z0-9_-]{0,62})(\.[A-Za-z0-9_]([A-Za-z0-9_-]{0,62}))*\.?", re.ASCII
)


class Address(NamedTuple):
    """A host (name or literal, without brackets) and a TCP port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_port(value: str | int, *, zero: bool = False) -> int:
    """A TCP port from text or number. `zero` allows 0, which lets the system choose when listening.

    Raises AddressError (a ValueError) with one sentence.
    """
    text = str(value).strip()
    low = 0 if zero else 1
    if not re.fullmatch(r"[0-9]{1,5}", text, re.ASCII) or not low <= int(text) <= 65535:
        raise AddressError(f"{_quoted(value)} is not a port; give a number from {low} to 65535, best from {PORT_RANGE}")
    return int(text)


def check_host(host: str) -> str:
    """`host` as a bare name or IP literal (brackets of an IPv6 literal removed).

    Raises AddressError (a ValueError) for anything that is neither: empty, with a scheme, a path, a port or a space.
    """
    bare = host.strip()
    if bare.startswith("[") and bare.endswith("]"):
        bare = bare[1:-1]
    if _is_literal(bare):
        return bare
    if not bare:
        raise AddressError("the host is empty; give a host name such as localhost or node-1, or an IP address")
    if "://" in bare or "/" in bare:
        raise AddressError(f"{_quoted(host)} is a URL, not a host; give the name alone, such as node-1")
    if re.fullmatch(r"[^:]+:[0-9]+", bare):
        raise AddressError(f"{_quoted(host)} holds a port; give the host alone, and the port by its own option")
    if re.fullmatch(r"[0-9.]+", bare):
        raise AddressError(f"{_quoted(host)} is not an IPv4 address; it has four numbers from 0 to 255")
    if not _NAME.fullmatch(bare):
        raise AddressError(f"{_quoted(host)} is not a host name or IP address")
    return bare


def check_address(address: tuple[str, int], *, zero: bool = False) -> Address:
    """Both at once. Raises AddressError."""
    return Address(check_host(address[0]), parse_port(address[1], zero=zero))


def _is_literal(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _quoted(value: object) -> str:
    text = repr(str(value))
    return text if len(text) <= 80 else text[:77] + "..."
