"""Checks of who is let in: whether a token and TLS are asked for, and of strangers too."""

from __future__ import annotations

from dataclasses import replace

from framing.errors import PeerGone, WireError
from robopro_eval.checks.bench import Bench, clipped, first_request
from robopro_eval.checks.core import Check, CheckFailed, Need, NotOffered
from robopro_eval.transport.auth import AUTH_COMMAND, fresh_nonce
from robopro_eval.transport.security import LinkSecurity


def token_asked_for(bench: Bench) -> str:
    security = bench.link.security
    if security.token is None:
        raise NotOffered("whoever reaches the port may use the policy; EVAL_LINK_TOKEN asks for a token on both sides")
    with bench.raw(replace(security, token=None)) as raw:
        raw.request(first_request())
        try:
            reply = raw.reply()
        except PeerGone as error:
            raise CheckFailed("without a token the connection is closed without a word") from error
        if reply.get("kind") != "auth_required":
            raise CheckFailed(f"a simulator without a token was answered with {clipped(reply)}")
    bench.serves_next()
    return "a simulator without the token is told so and not served"


def wrong_token(bench: Bench) -> str:
    """By hand: a session of ours would leave as soon as the server proves that it holds another token."""
    security = bench.link.security
    if security.token is None:
        raise NotOffered("there is no token")
    with bench.raw(replace(security, token=None)) as raw:
        raw.request({"cmd": AUTH_COMMAND, "obs": {"nonce": fresh_nonce()}})
        raw.reply()
        raw.request({"cmd": AUTH_COMMAND, "obs": {"proof": fresh_nonce()}})
        how = raw.refused()
    bench.serves_next()
    return f"a simulator with another token: {how}"


def tls_asked_for(bench: Bench) -> str:
    security = bench.link.security
    if not security.uses_tls:
        raise NotOffered("the connection is not encrypted; EVAL_LINK_TLS_CERT, _KEY and _CA ask for TLS on both sides")
    try:
        with bench.raw(LinkSecurity()) as raw:
            raw.request(first_request())
            reply = raw.reply()
    except WireError:
        reply = {"error": ""}
    if "res" in reply:
        raise CheckFailed("a simulator without TLS was served")
    bench.serves_next()
    return "a simulator without TLS is not served"


_LISTENS = frozenset({Need.LISTENS})

CHECKS = (
    Check(
        "access.token",
        "where a token is set, a simulator without it is told so and not served",
        "answer everything but the exchange of tokens with an error of the kind auth_required, and close",
        token_asked_for,
        _LISTENS,
    ),
    Check(
        "access.wrong_token",
        "where a token is set, a simulator with another one is refused",
        "compare the simulator's proof before serving anything, in constant time",
        wrong_token,
        _LISTENS,
    ),
    Check(
        "access.tls",
        "where TLS is set, a simulator without it is not served",
        "serve nobody on the port who has not completed the TLS handshake",
        tls_asked_for,
        _LISTENS,
    ),
)
