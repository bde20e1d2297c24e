"""Checks of errors: what goes wrong in a request is told, costs that request, and nothing else."""

from __future__ import annotations

import contextlib

import numpy as np

from framing.errors import PeerGone, PolicyError
from framing.session import RESET, Kind
from robopro_eval.checks.bench import Bench, Talk, clipped
from robopro_eval.checks.core import Check, CheckFailed, Need, NotOffered
from robopro_eval.checks.sessions import NO_SUCH
from robopro_eval.checks.values import BIG

MESSAGE = "eval-check asked for this error"

PRIVATE = ("__hash__", "__repr__", "__str__", "__sizeof__")
"""Private names that every object has and whose call does no harm where it is allowed."""


def unknown_method(bench: Bench) -> str:
    with bench.talk() as talk:
        error = _error_of(talk, NO_SUCH)
        _check_kind(bench, error, Kind.UNKNOWN_METHOD)
    return f"answered with an error ({clipped(error)})"


def big_request(bench: Bench) -> str:
    with bench.talk() as talk:
        _error_of(talk, NO_SUCH, np.zeros(BIG, np.uint8))
    return f"{BIG >> 20} MiB were read, and answered with an error"


def connection_survives(bench: Bench) -> str:
    return _survives(bench, NO_SUCH)


def policy_raises(bench: Bench) -> str:
    with bench.talk() as talk:
        error = _error_of(talk, "fail", MESSAGE)
        _check_kind(bench, error, Kind.POLICY_ERROR)
    if MESSAGE not in str(error):
        raise CheckFailed(f"the policy's own words are missing in: {clipped(error)}")
    if MESSAGE not in (error.remote_traceback or ""):  # a traceback ends, or begins, with what was raised
        raise CheckFailed("the reply holds no traceback of the policy")
    return "the policy's words and its traceback arrive"


def survives_policy(bench: Bench) -> str:
    return _survives(bench, "fail", MESSAGE)


def wrong_arguments(bench: Bench) -> str:
    with bench.talk() as talk:
        error = _error_of(talk, "recall", 1, 2, 3)
        _check_kind(bench, error, Kind.BAD_ARGUMENTS)
    return "answered with an error"


def unsendable(bench: Bench) -> str:
    with bench.talk() as talk:
        error = _error_of(talk, "unsendable")
        _check_kind(bench, error, Kind.CANNOT_SEND)
        if bench.known.upgraded and "found.items[1]" not in str(error):
            raise CheckFailed(f"the error does not name the key path found.items[1]: {clipped(error)}")
    return "answered with an error"


def private_names(bench: Bench) -> str:
    for name in PRIVATE:
        with bench.talk() as talk, contextlib.suppress(PolicyError):
            talk.call(name)
            raise CheckFailed(f"{name} was called")
    return f"{', '.join(PRIVATE)} are refused"


def private_data(bench: Bench) -> str:
    with bench.talk() as talk:
        for path in ("__class__", "__dict__", "reset_model.__globals__", "_x"):
            with contextlib.suppress(PolicyError):
                talk.read(path)
                raise CheckFailed(f"{path} was read")
    return "paths with private names are refused"


def _error_of(talk: Talk, name: str, *args: object) -> PolicyError:
    try:
        result = talk.call(name, *args)
    except PolicyError as error:
        return error
    raise CheckFailed(f"{name} was answered with a result ({clipped(result)})")


def _check_kind(bench: Bench, error: PolicyError, kind: Kind) -> None:
    if bench.known.upgraded and error.kind != kind:
        raise CheckFailed(f"the error is of kind {error.kind}, not {kind.value}: {clipped(error)}")


def _survives(bench: Bench, name: str, *args: object) -> str:
    """After an error reply the same connection answers the next request."""
    with bench.talk() as talk:
        _error_of(talk, name, *args)
        try:
            talk.call(RESET)
        except PeerGone:
            if not bench.known.upgraded:
                raise NotOffered("a stock server closes the connection after an error reply") from None
            raise CheckFailed("the connection was closed after the error reply") from None
    return "the next request is answered"


_ECHO_POLICY = frozenset({Need.ECHO_POLICY})

CHECKS = (
    Check(
        "error.unknown_method",
        "a request for a method that is not there gets an error reply",
        "answer {error, traceback} (kind unknown_method) instead of closing or ending",
        unknown_method,
    ),
    Check(
        "frame.big_request",
        f"a request of {BIG >> 20} MiB is read (here one for a method that is not there, so that no policy sees it)",
        "read until all bytes that the header announced are there, and allow frames of 256 MiB",
        big_request,
    ),
    Check(
        "error.connection_survives",
        "after such an error reply the connection goes on",
        "keep the connection open after an error reply: one bad request should not end an episode",
        connection_survives,
    ),
    Check(
        "error.policy_raises",
        "what the policy raises arrives with its words and its traceback",
        "send the exception's words as error and its whole stack, traceback.format_exc() in Python, as traceback (kind "
        "policy_error)",
        policy_raises,
        _ECHO_POLICY,
    ),
    Check(
        "error.policy_survives",
        "after an exception of the policy the connection goes on",
        "catch what the policy raises for each request, and go on reading after the error reply",
        survives_policy,
        _ECHO_POLICY,
    ),
    Check(
        "error.wrong_arguments",
        "a call with arguments that the method does not take gets an error reply",
        "answer {error, traceback} (kind bad_arguments)",
        wrong_arguments,
        _ECHO_POLICY,
    ),
    Check(
        "error.unsendable",
        "a result that cannot be sent gets an error reply that names its key path",
        "encode the reply before sending any of it, and answer with an error (kind cannot_send) if that fails",
        unsendable,
        _ECHO_POLICY,
    ),
    Check(
        "error.private_names",
        "methods with a leading underscore are not called",
        "refuse every name with a leading underscore: through __init__ or __class__ a peer reaches everything",
        private_names,
        frozenset({Need.LISTENS}),
    ),
    Check(
        "error.private_data",
        "private attributes are not read",
        "refuse every path that has a leading underscore in one of its steps",
        private_data,
        frozenset({Need.UPGRADED}),
    ),
)
