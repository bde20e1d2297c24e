"""The same as `sockets` and `security`, under trio: for the model's program, which serves while its policy thinks."""

from __future__ import annotations

import contextlib
import errno
import math
import socket as _socket
import ssl
from collections.abc import Callable, Sequence

import trio
from trio import socket as trio_socket

from framing.errors import AuthenticationError, PeerGone, WireError
from robopro_eval.transport import sockets, tls
from robopro_eval.transport.addresses import Address, check_address
from robopro_eval.transport.auth import AUTH_MAX_FRAME, AUTH_SECONDS, ModelAuth, refusal
from robopro_eval.transport.errors import NobodyCame
from robopro_eval.transport.retry import ATTEMPTS, CONNECT_TIMEOUT, INTERVAL, NAME_ATTEMPTS, STATUS_EVERY, Retry
from robopro_eval.transport.security import LinkSecurity, give_up, start_tls
from robopro_eval.transport.sockets import bound_address
from robopro_eval.transport.trio_channel import TrioChannel, plain, until_readable, until_writable

__all__ = ["TrioChannel", "accept", "answer_authentication", "bound_address", "dial", "listen", "secure"]

_REFUSAL_SECONDS = 1.0
"""For the words that part from a peer; they fit into any socket buffer, so only a full one holds them up."""


def listen(host: str, port: int) -> trio_socket.SocketType:
    """As `sockets.listen`."""
    return trio_socket.from_stdlib_socket(sockets.listen(host, port))


async def accept(
    listener: trio_socket.SocketType,
    *,
    timeout: float | None = None,
    status_every: float = STATUS_EVERY,
    on_wait: Callable[[str], None] = sockets.quiet,
) -> tuple[trio_socket.SocketType, Address]:
    """As `sockets.accept`."""
    begun = trio.current_time()
    where = bound_address(listener)
    with trio.move_on_after(math.inf if timeout is None else timeout):
        while True:
            with trio.move_on_after(status_every):
                try:
                    sock, peer = await listener.accept()
                except OSError as error:
                    if error.errno in sockets.BROKEN_IN_THE_QUEUE:
                        continue
                    on_wait(sockets.cannot_accept(where, error))
                    await trio.sleep(sockets.EXHAUSTED_PAUSE)
                    continue
                sockets.configure(sock)
                return sock, sockets.address_from(peer)
            on_wait(f"⏳ still waiting on {where} for a peer to connect ({trio.current_time() - begun:.0f} s)")
    raise NobodyCame(f"nobody connected to {where} within {timeout:g} s")


async def dial(
    address: tuple[str, int],
    *,
    attempts: int = ATTEMPTS,
    interval: float = INTERVAL,
    name_attempts: int = NAME_ATTEMPTS,
    timeout: float = CONNECT_TIMEOUT,
    status_every: float = STATUS_EVERY,
    on_wait: Callable[[str], None] = sockets.quiet,
) -> trio_socket.SocketType:
    """As `sockets.dial`."""
    target = check_address(address)
    retry = Retry(
        target,
        trio.current_time(),
        attempts=attempts,
        interval=interval,
        name_attempts=name_attempts,
        status_every=status_every,
    )
    while True:
        try:
            found = await trio_socket.getaddrinfo(target.host, target.port, type=_socket.SOCK_STREAM)
        except OSError as error:
            wait = retry.failed(error, trio.current_time(), resolving=True)
        else:
            try:
                return await _connect(found, timeout)
            except OSError as error:
                wait = retry.failed(error, trio.current_time(), resolving=False)
        if retry.status is not None:
            on_wait(retry.status)
        await trio.sleep(wait)


async def _connect(
    found: Sequence[tuple[_socket.AddressFamily, _socket.SocketKind, int, str, tuple[object, ...]]], timeout: float
) -> trio_socket.SocketType:
    last: OSError = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
    for family, kind, protocol, _, target in found:
        sock = trio_socket.socket(family, kind, protocol)
        try:
            with trio.move_on_after(timeout) as scope:
                await sock.connect(target)
            if scope.cancelled_caught:
                raise TimeoutError
            sockets.refuse_self(sock)
            sockets.configure(sock)
        except OSError as error:
            last = error
            sock.close()
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise last


async def secure(
    sock: trio_socket.SocketType,
    security: LinkSecurity,
    *,
    listening: bool,
    host: str | None = None,
    seconds: float = AUTH_SECONDS,
) -> trio_socket.SocketType | ssl.SSLSocket:
    """As `security.secure`; what it returns is for `TrioChannel`.

    The TLS is the standard library's on the socket itself, not trio's: its bytes land where they belong, and a peer
    that is turned away is told why (trio 0.35 keeps the last words of a handshake that failed to itself).
    """
    if not security.uses_tls:
        return sock
    tcp = plain(sock)
    peer = sockets.peer_address(tcp)
    try:
        tcp = wrapped = start_tls(tcp, security, listening=listening, host=host)
        with trio.move_on_after(seconds):
            await _shake_hands(wrapped)
            return wrapped
        raise TimeoutError
    except OSError as error:
        give_up(tcp, error, listening=listening)
        raise tls.explain(error, peer, listening=listening, seconds=seconds) from None
    except BaseException:
        tcp.close()
        raise


async def _shake_hands(sock: ssl.SSLSocket) -> None:
    while True:
        await trio.lowlevel.checkpoint()
        try:
            return sock.do_handshake()
        except ssl.SSLWantReadError:
            await until_readable(sock)
        except ssl.SSLWantWriteError:
            await until_writable(sock)


async def answer_authentication(
    channel: TrioChannel, security: LinkSecurity, *, patient: bool = False, seconds: float = AUTH_SECONDS
) -> None:
    """The model's part of the exchange of tokens, over a fresh channel; nothing happens without a token.

    `seconds` are for all of it. If `patient` they begin with the first message: a simulator that was dialed may be busy
    for hours before it speaks, while whoever dials a model that listens has no reason to be silent.

    Raises AuthenticationError (the peer was told, the channel is closed), and what the channel raises.
    """
    if security.token is None:
        return
    auth = ModelAuth(security.token)
    usual, channel.max_frame = channel.max_frame, AUTH_MAX_FRAME
    try:
        deadline = trio.current_time() + seconds
        body = await channel.receive(None if patient else seconds)
        if patient:
            deadline = trio.current_time() + seconds
        while True:
            answer = auth.receive(body)
            if channel.has_unread:
                raise AuthenticationError("the simulator sent more than the exchange of tokens asks for")
            await channel.send(answer, max(0.0, deadline - trio.current_time()))
            if auth.done:
                return
            body = await channel.receive(max(0.0, deadline - trio.current_time()))
    except AuthenticationError as error:
        with contextlib.suppress(WireError):
            await channel.send(refusal(str(error)), _REFUSAL_SECONDS)
        await channel.aclose()
        raise
    except PeerGone:
        if auth.challenged:
            raise AuthenticationError(
                "the simulator left in the middle of the exchange of tokens; its EVAL_LINK_TOKEN is probably another "
                "one"
            ) from None
        raise
    finally:
        channel.max_frame = usual
