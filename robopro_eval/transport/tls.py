"""TLS as far as no socket is needed: contexts, and what its errors mean in one sentence that names a variable."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeGuard

from framing.errors import AuthenticationError, DeadlineExceeded, PeerGone, WireError
from framing.frames import Buffer
from robopro_eval.transport.addresses import Address
from robopro_eval.transport.errors import SecurityError
from robopro_eval.transport.retry import describe

CERT, KEY, CA = "EVAL_LINK_TLS_CERT", "EVAL_LINK_TLS_KEY", "EVAL_LINK_TLS_CA"

PIECE = 256 << 10
"""Bytes handed to TLS at a time: encryption makes a copy, which then stays small, and a deadline holds in between."""

JOIN_BELOW = 16 << 10
"""Smaller pieces of a message are joined: each write makes at least one record, with its own cost and 22 bytes."""

SPEAKS_TLS = (
    f"this port speaks TLS and nothing else: set {CA} (the file of the CA that signed the listening program's "
    "certificate) for the program that dials"
)
"""Told, in a plain error reply, to a peer that came without TLS."""

_NOT_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST"})

_WITHOUT_REASON = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLWantReadError, ssl.SSLWantWriteError)

_EXPIRED, _NOT_YET = {10}, {9}
_WRONG_NAME = {62, 64}  # host name, IP address

_REASONS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": (
        f"{{peer}} showed no certificate: set {CERT} and {KEY} there, or unset {CA} here"
    ),
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": (
        f"{{peer}} asks for a certificate: set {CERT} and {KEY} here, signed by the CA that it trusts"
    ),
    "TLSV1_ALERT_UNKNOWN_CA": (
        f"{{peer}} does not trust the CA of our certificate: set {CA} there to the CA that signed our {CERT}"
    ),
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": f"{{peer}} says that our certificate has expired: renew {CERT} here",
    "SSLV3_ALERT_BAD_CERTIFICATE": (
        f"{{peer}} does not accept our certificate: {CERT} here must be made for the host name that it dials"
    ),
    "UNSUPPORTED_PROTOCOL": "{peer} speaks only a TLS older than 1.2, which is no longer safe: update it",
    "TLSV1_ALERT_PROTOCOL_VERSION": "{peer} refuses TLS 1.2 and 1.3: update it",
}
"""OpenSSL's name of a failure -> what to do about it."""


class TlsSocket(ssl.SSLSocket):
    """Still names its peer when that has gone: in TLS 1.3 one side may be turned away after its handshake is done."""

    _name: object = None

    def getpeername(self) -> object:
        """As of any socket. Python asks for it when it makes a socket of TLS, so it is known from then on."""
        if self._name is None:
            self._name = super().getpeername()
        return self._name


def server_context(cert: Path | None, key: Path | None, ca: Path | None) -> ssl.SSLContext:
    """For the side that listens: shows `cert`; with `ca`, asks for certificates signed by it. Raises SecurityError."""
    if cert is None or key is None:
        raise SecurityError(f"a program that listens with TLS needs its certificate and key: set {CERT} and {KEY}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_certificate(context, cert, key)
    if ca is not None:
        _load_ca(context, ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(cert: Path | None, key: Path | None, ca: Path | None) -> ssl.SSLContext:
    """For the side that dials: verifies by `ca`, or by the system's CAs, and checks the name. Raises SecurityError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # verifies, and checks the host name
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca is not None:
        _load_ca(context, ca)
    else:
        context.load_default_certs()
    if cert is not None and key is not None:
        _load_certificate(context, cert, key)
    return context


def explain(error: OSError, peer: Address, *, listening: bool, seconds: float) -> WireError:
    """What to raise for a handshake with `peer` that failed, or, TimeoutError, was not complete after `seconds`.

    DeadlineExceeded, PeerGone (it closed or vanished, and may be restarting: worth another try) or AuthenticationError.
    """
    other = "dials without TLS" if listening else "listens without TLS"
    if isinstance(error, TimeoutError):
        return DeadlineExceeded(f"{peer} did not complete a TLS handshake within {seconds:g} s; perhaps it {other}")
    if isinstance(error, ssl.SSLCertVerificationError):
        return AuthenticationError(_untrusted(error, peer, listening))
    if isinstance(error, ssl.SSLError) and error.reason in _NOT_TLS:
        there = f"{CA} there, with {CERT} and {KEY} if {CA} is set here," if listening else f"{CERT} and {KEY} there,"
        return AuthenticationError(f"{peer} does not speak TLS: set {there} or unset {CERT}, {KEY} and {CA} here")
    if tells_why(error):
        return AuthenticationError(sentence(error, peer))
    how = "closed the connection" if isinstance(error, ssl.SSLError) else f"vanished ({describe(error)})"
    return PeerGone(f"{peer} {how} during the TLS handshake; perhaps it {other}")


def tells_why(error: OSError) -> TypeGuard[ssl.SSLError]:
    """True for an error of TLS that has a reason of its own, unlike a line that ended or has nothing to read yet."""
    return isinstance(error, ssl.SSLError) and not isinstance(error, _WITHOUT_REASON)


def came_without(error: OSError) -> bool:
    """True if a peer said something that is not TLS at all, or nothing: then it can be told so in plain words."""
    return isinstance(error, TimeoutError) or (isinstance(error, ssl.SSLError) and error.reason in _NOT_TLS)


def sentence(error: ssl.SSLError, peer: Address) -> str:
    """One sentence for an error of TLS, in the handshake or after it (TLS 1.3 tells some only then)."""
    reason = error.reason or ""
    known = _REASONS.get(reason)
    if known is not None:
        return known.format(peer=peer)
    words = reason.lower().replace("_", " ") or type(error).__name__
    return f"TLS with {peer} failed ({words}): compare {CERT}, {KEY} and {CA} of both programs"


def pieces(buffers: Sequence[Buffer]) -> Iterator[memoryview]:
    """The same bytes: small buffers joined, large ones in slices of `PIECE` without a copy, nothing empty."""
    small: list[memoryview] = []
    waiting = 0
    for buffer in buffers:
        view = memoryview(buffer).cast("B")
        if view.nbytes < JOIN_BELOW:
            small.append(view)
            waiting += view.nbytes
            if waiting < PIECE:
                continue
            view = memoryview(b"")
        if waiting:
            yield memoryview(b"".join(small))
            small, waiting = [], 0
        for start in range(0, view.nbytes, PIECE):
            yield view[start : start + PIECE]
    if waiting:
        yield memoryview(b"".join(small))


def _untrusted(error: ssl.SSLCertVerificationError, peer: Address, listening: bool) -> str:
    side = f"{CERT} there"
    if error.verify_code in _EXPIRED:
        return f"the certificate of {peer} has expired: renew {side}"
    if error.verify_code in _NOT_YET:
        return f"the certificate of {peer} is not valid yet: compare the clocks, or renew {side}"
    if error.verify_code in _WRONG_NAME:
        return (
            f"the certificate of {peer} is not made for the host that was dialed ({error.verify_message}): dial the "
            f"name it is made for, or renew {side}"
        )
    which = "the certificate that a program dialing in shows" if listening else "its certificate"
    return f"{peer} is not trusted ({error.verify_message}): set {CA} here to the CA that signed {which}"


def _load_certificate(context: ssl.SSLContext, cert: Path, key: Path) -> None:
    for variable, path in ((CERT, cert), (KEY, key)):
        _check_readable(variable, path)
    try:
        context.load_cert_chain(cert, key, password=_no_password)
    except _Encrypted:
        raise SecurityError(f"{KEY}: {key} is protected by a pass phrase, and nobody is there to type it") from None
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise SecurityError(f"{KEY}: {key} is not the key of the certificate {cert} ({CERT})") from None
        raise SecurityError(f"{CERT}, {KEY}: {cert} and {key} are no certificate and key in PEM form") from None


def _load_ca(context: ssl.SSLContext, ca: Path) -> None:
    _check_readable(CA, ca)
    try:
        context.load_verify_locations(cafile=ca)
    except ssl.SSLError:
        raise SecurityError(f"{CA}: {ca} holds no certificate in PEM form") from None


def _check_readable(variable: str, path: Path) -> None:
    try:
        path.open("rb").close()
    except OSError as error:
        raise SecurityError(f"{variable}: cannot read {path} ({describe(error)})") from None


class _Encrypted(Exception):
    """Asked for a pass phrase."""


def _no_password() -> str:
    raise _Encrypted
