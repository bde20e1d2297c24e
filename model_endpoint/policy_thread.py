"""The one thread on which a policy lives.

Gradient and autocast mode, the CUDA device, streams and graphs belong to a thread, and a policy written for one caller
has no locks: so a single thread imports the policy, runs ``get_model`` and executes every later call from one queue.
The trio side awaits results and does nothing but I/O.

A running call cannot be cancelled. When the task that awaits it is cancelled, a call still in the queue is dropped and
a running one is left to finish; its result goes nowhere.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import trio

from model_endpoint.dispatcher import Dispatcher

T = TypeVar("T")


@dataclass(frozen=True)
class Timed(Generic[T]):
    """A result with the seconds it waited in the queue and the seconds it took."""

    value: T
    queue_seconds: float
    infer_seconds: float


class PolicyRunner(Protocol):
    """What a session needs of the policy's thread; tests run the work in place."""

    async def run(self, work: Callable[[Dispatcher], T]) -> Timed[T]:
        """Run ``work`` where the policy lives and return what it returns; what it raises is raised here."""
        ...


class PolicyThread:
    """Runs ``build`` once and then, one after another, the work handed to :meth:`run`.

    Use from a trio program: ``start`` first, and ``stop`` at the end.
    """

    def __init__(self, build: Callable[[], Dispatcher]) -> None:
        self._build = build
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._live, name="policy", daemon=True)
        self._dispatcher: Dispatcher | None = None
        self._busy_since: float | None = None

    async def start(self) -> None:
        """Start the thread and wait until the policy is loaded; raises what ``build`` raised."""
        loading = _Job(self._load, trio.lowlevel.current_trio_token())
        self._jobs.put(loading)
        self._thread.start()
        await loading.outcome()

    async def run(self, work: Callable[[Dispatcher], T]) -> Timed[T]:
        """See :class:`PolicyRunner`."""
        box: list[T] = []

        def on_thread() -> None:
            if self._dispatcher is None:
                raise RuntimeError("the policy is not loaded")
            box.append(work(self._dispatcher))

        job = _Job(on_thread, trio.lowlevel.current_trio_token())
        self._jobs.put(job)
        queued = time.perf_counter()
        await job.outcome()
        return Timed(box[0], job.started - queued if job.started > queued else 0.0, job.ended - job.started)

    def busy_seconds(self) -> float:
        """How long the call that runs now has been running; 0 when none is."""
        since = self._busy_since
        return 0.0 if since is None else time.monotonic() - since

    def stop(self, timeout: float) -> bool:
        """Ask the thread to end after what it is doing; True if it did within ``timeout`` seconds. Blocks."""
        if not self._thread.is_alive():
            return True
        self._jobs.put(None)
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _load(self) -> None:
        self._dispatcher = self._build()

    def _live(self) -> None:
        while (job := self._jobs.get()) is not None:
            if job.abandoned:
                continue
            if self._dispatcher is not None:  # loading may take its time, only calls are watched
                self._busy_since = time.monotonic()
            job.execute()
            self._busy_since = None


class _Job:
    """One piece of work on its way to the thread and back. ``execute`` runs there, everything else on the trio side."""

    def __init__(self, work: Callable[[], None], token: trio.lowlevel.TrioToken) -> None:
        self._work = work
        self._token = token
        self._done = trio.Event()
        self._error: BaseException | None = None
        self.abandoned = False
        self.started = 0.0
        self.ended = 0.0

    def execute(self) -> None:
        self.started = time.perf_counter()
        try:
            self._work()
        except BaseException as error:  # handed over, not swallowed: outcome() raises it
            self._error = error
        self.ended = time.perf_counter()
        with contextlib.suppress(trio.RunFinishedError):  # the program is on its way out, nobody awaits this any more
            self._token.run_sync_soon(self._done.set)

    async def outcome(self) -> None:
        try:
            await self._done.wait()
        except trio.Cancelled:
            self.abandoned = True
            raise
        if self._error is not None:
            raise self._error
