"""Why a connection could not be opened. Each message is one sentence that names the address and the way out."""

from __future__ import annotations


class TransportError(Exception):
    """Base class: listening or dialing failed."""


class AddressError(TransportError, ValueError):
    """A host or port that cannot be one. Trying again cannot help."""


class NameNotFound(TransportError):
    """The host name does not resolve."""


class ConnectionRefused(TransportError):
    """Every attempt to connect failed: refused, unreachable or not answered."""


class PortInUse(TransportError):
    """Something else listens there. `holder` names the process, if /proc told."""

    def __init__(self, message: str, *, holder: str | None = None) -> None:
        super().__init__(message)
        self.holder = holder


class CannotListen(TransportError):
    """Listening failed for another reason: not this machine's address, a privileged port."""


class NobodyCame(TransportError):
    """No peer connected within the time given."""


class SecurityError(TransportError, ValueError):
    """A token, certificate or key that cannot be used as it was given. Trying again cannot help."""
