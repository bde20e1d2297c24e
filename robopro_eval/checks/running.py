"""Runs the checks one after another, and decides what a failure means for those that follow."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from framing.errors import AuthenticationError, PolicyError, WireError
from framing.session import Peer
from robopro_eval.checks.bench import Bench, clipped
from robopro_eval.checks.core import NOTHING_LOST, Check, CheckFailed, Finding, Need, NotOffered, Skipped, Verdict
from robopro_eval.transport.errors import TransportError

RUN_SECONDS = 900.0
"""A whole run takes at most this and one more check: it ends even against a server that is slow without end."""

ACCESS_FIX = "set EVAL_LINK_TOKEN (or EVAL_LINK_TOKEN_FILE) and EVAL_LINK_TLS_CERT, _KEY, _CA alike for both programs"
"""Whatever was being checked: the server does not let us in."""

GONE_FIX = "go on listening when a connection has ended; if the server crashed, its own output says why"
"""Whatever was being checked: nobody listens any more."""


def run(bench: Bench, checks: Sequence[Check], *, seconds: float = RUN_SECONDS) -> Iterator[Finding]:
    """The finding of each check, in order, as they come; after `seconds` no further check is begun.

    Raises TransportError if no first connection can be had at all.
    """
    until = time.monotonic() + seconds
    stopped: str | None = None
    for check in checks:
        if stopped is None and time.monotonic() > until:
            stopped = f"the run has taken {seconds:g} s"
        missing = _missing(bench, check)
        if stopped is not None:
            yield Finding(check, Verdict.SKIPPED, stopped)
        elif missing is not None:
            yield Finding(check, Verdict.NOT_OFFERED if missing in NOTHING_LOST else Verdict.SKIPPED, missing.value)
        else:
            finding = _try(bench, check)
            yield finding
            if finding.verdict is Verdict.FAIL:
                stopped = _consequence(bench, check)


def _missing(bench: Bench, check: Check) -> Need | None:
    """The first thing that `check` needs and this server does not have."""
    has = {
        Need.UPGRADED: bench.known.peer is not Peer.STOCK,
        Need.BINARY: bench.known.reads_binary,
        Need.ECHO: bench.known.echo is not None,
        Need.ECHO_POLICY: bench.known.is_echo_policy,
        Need.LISTENS: bench.link.listens,
        Need.DIALS: not bench.link.listens,
    }
    return next((need for need in Need if need in check.needs and not has[need]), None)


def _try(bench: Bench, check: Check) -> Finding:
    began = time.monotonic()
    first = bench.known.peer is Peer.UNKNOWN
    bench.begin_check()
    fix = check.fix
    try:
        verdict, detail = Verdict.PASS, check.run(bench)
    except NotOffered as reason:
        verdict, detail = Verdict.NOT_OFFERED, str(reason)
    except Skipped as reason:
        verdict, detail = Verdict.SKIPPED, str(reason)
    except CheckFailed as failure:
        verdict, detail = Verdict.FAIL, str(failure)
    except PolicyError as error:
        verdict, detail = Verdict.FAIL, f"answered with an error: {clipped(error)}"
    except AuthenticationError as error:
        verdict, detail, fix = Verdict.FAIL, str(error), ACCESS_FIX
    except WireError as error:
        verdict, detail = Verdict.FAIL, str(error)
    except TransportError as error:
        if first:
            raise
        verdict, detail, fix = Verdict.FAIL, str(error), GONE_FIX
    return Finding(check, verdict, detail, fix if verdict is Verdict.FAIL else "", time.monotonic() - began)


def _consequence(bench: Bench, failed: Check) -> str | None:
    """Why nothing more can be checked after `failed`; None if the server still serves."""
    if failed.fundamental:
        return f"{failed.name} failed"
    if not bench.link.listens:
        return None  # the next check finds out, and says so
    bench.begin_check()
    try:
        bench.serves_next()
    except (CheckFailed, TransportError):
        return f"the server serves nobody any more since {failed.name}"
    return None
