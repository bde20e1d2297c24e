"""The life of ``eval-model`` after its command line is understood: load, then serve until told to stop.

The policy is loaded before anything is announced: a simulator that finds the port open finds a model behind it.
Ctrl-C (or SIGTERM) ends within seconds: no more calls start, a running one gets ``stop_seconds`` to finish, and since
no thread can be cancelled, the process is ended under one that does not. A second Ctrl-C ends it at once.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import trio

from model_endpoint.loading import load_face, load_model
from model_endpoint.logs import EventLog
from model_endpoint.policy import UNBATCHED, Policy
from model_endpoint.policy_thread import PolicyThread
from model_endpoint.serving import Service, check_can_dial, check_can_listen
from model_endpoint.sessions import Tally
from model_endpoint.settings import ModelSettings
from robopro_eval.console.errors import EXIT_FAILURE, UsageError, UserError
from robopro_eval.console.streams import note, say
from robopro_eval.transport.addresses import Address
from robopro_eval.transport.errors import SecurityError
from robopro_eval.transport.memory import keep_freed_memory
from robopro_eval.transport.security import LinkSecurity, exposure_warning

WATCH_SECONDS = 1.0  # how often a running call is looked at: cheap, and precise enough for a limit in minutes
STALL_SECONDS = 5.0  # beyond the limit: so long may a busy machine keep this program from looking

log = EventLog("program")


@dataclass
class _Outcome:
    """How the program ended: told to stop by a signal, or unable to go on."""

    signal: int | None = None
    error: UserError | None = None


def run(settings: ModelSettings, folder: Path, usr_args: dict[str, object]) -> int:
    """Load the policy in ``folder`` and serve it. Returns the exit code; raises UserError for what a person can fix."""
    keep_freed_memory()
    address = _address(settings)
    (check_can_dial if settings.model_as_client else check_can_listen)(address)
    security = find_security(settings)
    thread = PolicyThread(lambda: _build(folder, usr_args, settings.max_batch))
    outcome = _Outcome()
    trio.run(_main, settings, security, folder, thread, outcome)
    if outcome.signal is not None:
        return 128 + outcome.signal
    if outcome.error is not None:
        raise outcome.error
    return 0


def _build(folder: Path, usr_args: dict[str, object], max_batch: int) -> Policy:
    """Runs on the policy's thread."""
    face = load_face(folder)
    return Policy(face, load_model(face, usr_args), max_batch)


def find_security(settings: ModelSettings) -> LinkSecurity:
    """Who may connect. Says what the operator should know about it; raises UsageError for files that cannot be used."""
    try:
        security = LinkSecurity.from_values(**settings.link_values())
        security.check(listening=not settings.model_as_client)
    except SecurityError as error:
        raise UsageError(str(error)) from error
    exposed = None if settings.model_as_client else exposure_warning(settings.model_server_bind, security)
    for line in (*security.warnings, *([exposed] if exposed else [])):
        note(line)
    return security


async def _main(
    settings: ModelSettings, security: LinkSecurity, folder: Path, thread: PolicyThread, outcome: _Outcome
) -> None:
    async with trio.open_nursery() as nursery:
        working = trio.CancelScope()
        await nursery.start(_watch_signals, working, outcome)
        with working:
            try:
                policy = await _load(folder, thread, settings.status_seconds)
                if settings.policy_hang_timeout:
                    nursery.start_soon(_watch_calls, thread, settings.policy_hang_timeout)
                service = Service(
                    thread,
                    policy.name,
                    policy.has_sessions,
                    say,
                    note,
                    max_frame=settings.max_frame,
                    max_connections=settings.max_connections,
                    status_seconds=settings.status_seconds,
                    security=security,
                    tally=Tally(inferences=thread.inferences if policy.max_batch > UNBATCHED else None),
                )
                try:
                    await _serve(service, settings)
                except UserError:
                    if service.tally.simulators:
                        say(f"served {service.tally}")
                    raise
                finally:
                    if outcome.signal is not None:
                        say(f"stopped: served {service.tally}")
                say(f"done: served {service.tally}")
            except UserError as error:
                outcome.error = error
        # In any case: a thread that is still ending while the interpreter is taken down under it may abort the process
        # (seen with torch: "terminate called without an active exception"). A second Ctrl-C still ends it at once.
        busy = thread.busy()
        if busy is not None and settings.stop_seconds:
            note(f"waiting up to {settings.stop_seconds:g} s for {busy.what} to end")
        idle = await trio.to_thread.run_sync(thread.stop, settings.stop_seconds)
        if not idle and outcome.signal is not None:
            note(f"the policy is still in a call after {settings.stop_seconds:g} s; ending without waiting for it")
            _leave(128 + outcome.signal)
        nursery.cancel_scope.cancel()


def _address(settings: ModelSettings) -> Address:
    """The one to dial or to listen on."""
    if not settings.model_as_client:
        return Address(settings.model_server_bind, settings.port)
    return Address(
        settings.sim_server_host, settings.port if settings.sim_server_port is None else settings.sim_server_port
    )


async def _serve(service: Service, settings: ModelSettings) -> None:
    address = _address(settings)
    if settings.model_as_client:
        await service.dial(
            address,
            attempts=settings.model_client_max_attempts,
            interval=settings.model_client_retry_seconds,
        )
    else:
        await service.listen(address)


async def _load(folder: Path, thread: PolicyThread, status_seconds: float) -> Policy:
    note(f"loading policy {folder.name!r} from {folder} ...")
    began = time.monotonic()

    async def say_that_it_loads() -> None:
        while True:
            await trio.sleep(status_seconds)
            note(f"still loading policy {folder.name!r} ({time.monotonic() - began:.0f} s)")

    policy: Policy | None = None
    failure: UserError | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(say_that_it_loads)
        try:
            policy = await thread.start()
        except UserError as error:  # kept and raised outside: a nursery would wrap it
            failure = error
        nursery.cancel_scope.cancel()
    if policy is None:
        raise failure or UserError(f"policy {folder.name!r} did not load")
    note(f"policy {folder.name!r} is ready after {time.monotonic() - began:.1f} s")
    return policy


async def _watch_signals(
    working: trio.CancelScope, outcome: _Outcome, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """First signal: stop serving. The handler stays until the process ends, so that a second one can end it at once."""
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for number in signals:
            if outcome.signal is not None:
                _leave(128 + number)
            outcome.signal = number
            working.cancel()


async def _watch_calls(thread: PolicyThread, limit: float) -> None:
    try:
        while True:
            # For a call that hangs without letting go of the interpreter, so that this here cannot run: stacks, exit 1.
            faulthandler.dump_traceback_later(limit + STALL_SECONDS, exit=True)
            await trio.sleep(min(WATCH_SECONDS, limit))
            busy = thread.busy()
            if busy is not None and busy.seconds > limit:
                log.warning("the policy hangs", call=busy.what, seconds=busy.seconds, limit=limit)
                faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
                note(
                    f"error: {busy.what} has been running for {busy.seconds:.0f} s (--policy-hang-timeout {limit:g}); "
                    "ending so that a supervisor can start this program again"
                )
                _leave(EXIT_FAILURE)
    finally:
        faulthandler.cancel_dump_traceback_later()


def _leave(code: int) -> None:
    """Write out what is written, then end the process under whatever still runs in it."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)
