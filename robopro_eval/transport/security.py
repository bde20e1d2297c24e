"""Who may connect: a shared token, TLS, or both. Blocking; `robopro_eval.transport.aio` has the twins under trio.

A connection is made safe in this order, before anything else is said on it: `secure` (TLS), then the exchange of tokens
(`robopro_eval.transport.auth`), in which the simulator asks whoever opened the socket.
"""

from __future__ import annotations

import contextlib
import ipaddress
import select
import socket
import ssl
import stat
import time
from dataclasses import dataclass, field
from pathlib import Path

from framing.errors import AuthenticationError
from framing.frames import Buffer
from robopro_eval.transport import tls
from robopro_eval.transport.addresses import check_address
from robopro_eval.transport.auth import AUTH_MAX_FRAME, AUTH_SECONDS, SimulatorAuth, refusal
from robopro_eval.transport.blocking import BlockingChannel, milliseconds, poll_for
from robopro_eval.transport.errors import NameNotFound, SecurityError
from robopro_eval.transport.retry import describe
from robopro_eval.transport.sockets import peer_address, resolve_for_listening

MIN_TOKEN = 16
"""Characters. Whoever connects can guess at a token without asking again, so it has to be long and random."""

MAX_TOKEN_FILE = 4096
"""Bytes. A larger file is not a token but a mistake."""

TOKEN, TOKEN_FILE = "EVAL_LINK_TOKEN", "EVAL_LINK_TOKEN_FILE"
HOW_TO_MAKE_ONE = "make one with: openssl rand -hex 32"


@dataclass(frozen=True)
class LinkSecurity:
    """What one program knows about who may connect. The default asks for nothing.

    Make it with `from_values`. `warnings` are lines for the operator about how the secrets are kept.
    """

    token: bytes | None = field(default=None, repr=False)
    cert: Path | None = None
    key: Path | None = None
    ca: Path | None = None
    warnings: tuple[str, ...] = ()

    @classmethod
    def from_values(
        cls,
        *,
        token: str | None = None,
        token_file: str | Path | None = None,
        cert: str | Path | None = None,
        key: str | Path | None = None,
        ca: str | Path | None = None,
    ) -> LinkSecurity:
        """From settings. Raises SecurityError (a ValueError) with one sentence that never holds the token."""
        if token is not None and token_file is not None:
            raise SecurityError(f"{TOKEN} and {TOKEN_FILE} are both set; keep one of them")
        if (cert is None) != (key is None):
            raise SecurityError(f"{tls.CERT} and {tls.KEY} belong together; set both or neither")
        warnings = []
        if token_file is not None:
            path = Path(token_file).expanduser()
            token = _read_token(path)
            warnings += _readable_by_others(TOKEN_FILE, path)
        if token_file is None and token is not None and not token.strip():
            raise SecurityError(f"{TOKEN} is set but empty; unset it or give the token")
        if token is not None and len(token) < MIN_TOKEN:
            where = TOKEN if token_file is None else f"{TOKEN_FILE}: {token_file}"
            raise SecurityError(
                f"{where} holds fewer than {MIN_TOKEN} characters, which can be guessed; {HOW_TO_MAKE_ONE}"
            )
        if key is not None:
            warnings += _readable_by_others(tls.KEY, Path(key).expanduser())
        # A variable that is not UTF-8 arrives with surrogates; they become the bytes that it held.
        secret = None if token is None else token.encode("utf-8", "surrogateescape")
        return cls(secret, _path(cert), _path(key), _path(ca), tuple(warnings))

    @property
    def uses_tls(self) -> bool:
        return self.cert is not None or self.ca is not None

    @property
    def keeps_strangers_out(self) -> bool:
        """Whether a program that listens knows those whom it lets in: by a token, or by a certificate of the CA."""
        return self.token is not None or self.ca is not None

    def check(self, *, listening: bool) -> None:
        """Raises SecurityError now rather than at the first connection."""
        if self.uses_tls:
            self.context(listening=listening)

    def context(self, *, listening: bool) -> ssl.SSLContext:
        """For the side that listens, or that dials. Reads the files anew: a renewed certificate counts.

        Raises SecurityError.
        """
        make = tls.server_context if listening else tls.client_context
        return make(self.cert, self.key, self.ca)


def exposure_warning(bind_host: str, security: LinkSecurity) -> str | None:
    """The line to print if listening on `bind_host` lets strangers in, else None.

    No stranger comes in by the loopback interface, past a token, or past a CA that clients' certificates are checked
    against.
    """
    if security.keeps_strangers_out or _is_loopback(bind_host):
        return None
    return (
        f"⚠️ anyone who reaches {bind_host} on this port can connect: set {TOKEN} to the same value for both programs, "
        "or bind to localhost"
    )


def secure(
    sock: socket.socket,
    security: LinkSecurity,
    *,
    listening: bool,
    host: str | None = None,
    seconds: float = AUTH_SECONDS,
) -> socket.socket:
    """A socket to make a `BlockingChannel` of: `sock` itself without TLS, else one that is shaken hands on.

    `listening`: this side accepted the connection. Else `host` is the name that was dialed; the certificate must be for
    it. Takes over `sock`, and closes it when it raises: AuthenticationError (no TLS there, or no trust), PeerGone,
    DeadlineExceeded after `seconds`; SecurityError if our own files cannot be used.
    """
    if not security.uses_tls:
        return sock
    peer = peer_address(sock)
    try:
        sock = wrapped = start_tls(sock, security, listening=listening, host=host)
        _shake_hands(wrapped, time.monotonic() + seconds)
    except OSError as error:
        give_up(sock, error, listening=listening)
        raise tls.explain(error, peer, listening=listening, seconds=seconds) from None
    except BaseException:
        sock.close()
        raise
    return sock


def start_tls(sock: socket.socket, security: LinkSecurity, *, listening: bool, host: str | None) -> ssl.SSLSocket:
    """A socket under TLS whose handshake is still to come. Takes over `sock`. Raises SecurityError or OSError."""
    context = security.context(listening=listening)
    context.sslsocket_class = tls.TlsSocket
    sock.setblocking(False)
    return context.wrap_socket(
        sock, server_side=listening, server_hostname=None if listening else host, do_handshake_on_connect=False
    )


def give_up(sock: socket.socket, error: OSError, *, listening: bool) -> None:
    """Close the socket of a handshake that failed.

    A peer that came without TLS is told so before, in words that every program of this protocol prints.
    """
    if not (listening and tls.came_without(error)):
        sock.close()
        return
    with contextlib.suppress(OSError), socket.socket(fileno=sock.detach()) as plain:
        with contextlib.suppress(BlockingIOError):
            plain.recv(1 << 16)  # what is left unread would turn the close into a reset, and that swallow the words
        plain.send(b"".join(refusal(tls.SPEAKS_TLS)))


def authenticate(channel: BlockingChannel, security: LinkSecurity, peer: str, *, seconds: float = AUTH_SECONDS) -> None:
    """The simulator's part of the exchange of tokens, over a fresh channel; nothing happens without a token.

    `peer` names the model in messages. Raises AuthenticationError (the channel is closed), and what the channel raises;
    `seconds` are for all of it.
    """
    if security.token is None:
        return
    auth = SimulatorAuth(security.token)
    deadline = time.monotonic() + seconds
    usual, channel.max_frame = channel.max_frame, AUTH_MAX_FRAME
    try:
        frame: list[Buffer] | None = auth.begin()
        while frame is not None:
            channel.send(frame, max(0.0, deadline - time.monotonic()))
            frame = auth.receive(channel.receive(max(0.0, deadline - time.monotonic())))
            if channel.has_unread:
                raise AuthenticationError("the model sent more than the exchange of tokens asks for")
    except AuthenticationError as error:
        channel.close()
        raise AuthenticationError(f"{peer}: {error}") from None
    finally:
        channel.max_frame = usual


def _shake_hands(sock: ssl.SSLSocket, deadline: float) -> None:
    """Raises TimeoutError, ssl.SSLError or another OSError."""
    while True:
        try:
            return sock.do_handshake()
        except ssl.SSLWantReadError:
            event = select.POLLIN
        except ssl.SSLWantWriteError:
            event = select.POLLOUT
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        poll_for(sock, event).poll(milliseconds(left))


def _path(value: str | Path | None) -> Path | None:
    return None if value is None else Path(value).expanduser()


def _read_token(path: Path) -> str:
    """The text of the file without one trailing newline. Raises SecurityError."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_TOKEN_FILE + 1)
        text = data.decode("utf-8")
    except OSError as error:
        raise SecurityError(f"{TOKEN_FILE}: cannot read {path} ({describe(error)})") from None
    except UnicodeDecodeError:
        raise SecurityError(f"{TOKEN_FILE}: {path} is not text; {HOW_TO_MAKE_ONE}") from None
    if len(data) > MAX_TOKEN_FILE:
        raise SecurityError(f"{TOKEN_FILE}: {path} is larger than {MAX_TOKEN_FILE} bytes, so it holds something else")
    text = text.removesuffix("\n").removesuffix("\r")
    if not text:
        raise SecurityError(f"{TOKEN_FILE}: {path} is empty; {HOW_TO_MAKE_ONE}")
    return text


def _readable_by_others(variable: str, path: Path) -> list[str]:
    """A warning if others may read a secret, where the system has such permissions."""
    try:
        mode = path.stat().st_mode
    except OSError:  # whoever loads it says so
        return []
    if not mode & (stat.S_IRGRP | stat.S_IROTH):
        return []
    return [f"⚠️ {variable}: others on this machine can read {path}; run: chmod 600 {path}"]


def _is_loopback(host: str) -> bool:
    try:
        _, target = resolve_for_listening(check_address((host, 0), zero=True))
    except (NameNotFound, ValueError):  # listening there fails by itself
        return True
    return ipaddress.ip_address(str(target[0]).partition("%")[0]).is_loopback
