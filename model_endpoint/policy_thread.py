"""The one thread on which a policy lives.

Gradient and autocast mode, the CUDA device, streams and graphs belong to a thread, and a policy written for one caller
has no locks: so a single thread imports the policy, runs ``get_model``, makes and drops the sessions and executes every
call from one queue. The trio side awaits results and does nothing but I/O.

A running call cannot be cancelled. When the task that awaits it is cancelled, a call still in the queue is dropped and
a running one is left to finish; its result goes nowhere.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import trio

from framing.errors import PolicyError
from model_endpoint.policy import UNBATCHED, Call, Inferences, Policy, Seat, answer

QUICK_SECONDS = 0.0002
"""How long a task blocks for its call's result before it lets others run. Most calls of a step (an observation goes
into a window) are over within microseconds; going to sleep and being woken through the event loop takes longer."""


@dataclass(frozen=True)
class Busy:
    """What runs on the thread now, in words, and for how long, in seconds."""

    what: str
    seconds: float


class PolicyRunner(Protocol):
    """What a connection needs of the policy's thread; tests do the work in place."""

    async def run(self, call: Call) -> None:
        """Have ``call`` answered where the policy lives. What the policy raised is the call's ``error``, not raised
        here; an error that is none of the policy's is raised."""
        ...

    def leave(self, seat: Seat) -> None:
        """The connection of ``seat`` has ended: its session is dropped there once a call of it has ended."""
        ...

    def busy(self) -> Busy | None:
        """What runs there now; None if nothing does. Loading, which may take its time, does not count."""
        ...


class PolicyThread:
    """Runs ``build`` once and then, one after another, the calls handed to :meth:`run`.

    Of those that may be batched, up to the policy's ``max_batch`` that are in the queue at the same time go into one
    inference; none is waited for.

    Use from a trio program: ``start`` first, and ``stop`` at the end.
    """

    def __init__(self, build: Callable[[], Policy]) -> None:
        self.inferences = Inferences()  # of a policy that batches
        self._build = build
        self._arriving: queue.SimpleQueue[Call | Seat | None] = queue.SimpleQueue()
        self._waiting: deque[Call | Seat | None] = deque()  # the thread's own: looked at, not begun
        self._thread = threading.Thread(target=self._live, name="policy", daemon=True)
        self._token: trio.lowlevel.TrioToken | None = None
        self._loaded = trio.Event()
        self._policy: Policy | None = None
        self._failure: BaseException | None = None
        self._running: tuple[Sequence[Call], float] | None = None

    async def start(self) -> Policy:
        """Start the thread and wait until the policy is loaded; raises what ``build`` raised."""
        self._token = trio.lowlevel.current_trio_token()
        self._thread.start()
        await self._loaded.wait()
        if self._policy is None:
            raise self._failure or RuntimeError("the policy did not load")
        return self._policy

    async def run(self, call: Call) -> None:
        """See :class:`PolicyRunner`."""
        idle = self._running is None and self._arriving.empty()
        self._arriving.put(call)
        if not (idle and call.ended.wait(QUICK_SECONDS)):
            await self._ended(call)
        if call.error is not None and not isinstance(call.error, PolicyError):
            raise call.error

    async def _ended(self, call: Call) -> None:
        ended = trio.Event()
        if call.ended.call_when_open(lambda: self._tell(ended)):
            try:
                await ended.wait()
            except trio.Cancelled:
                call.abandoned = True
                raise

    def leave(self, seat: Seat) -> None:
        """See :class:`PolicyRunner`."""
        self._arriving.put(seat)

    def busy(self) -> Busy | None:
        """See :class:`PolicyRunner`."""
        running = self._running
        if running is None:
            return None
        calls, since = running
        return Busy(", ".join(str(call) for call in calls), time.monotonic() - since)

    def stop(self, timeout: float) -> bool:
        """Ask the thread to end after what it is doing; True if it did within ``timeout`` seconds. Blocks."""
        if not self._thread.is_alive():
            return True
        self._arriving.put(None)
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _live(self) -> None:
        try:
            policy = self._policy = self._build()
        except BaseException as error:  # handed over, not swallowed: start() raises it
            self._failure = error
            return
        finally:
            self._tell(self._loaded)
        while (calls := self._next(policy.max_batch)) is not None:
            self._running = calls, time.monotonic()
            if policy.max_batch > UNBATCHED and calls[0].may_be_batched:
                self.inferences.add(len(calls))
            answer(policy, calls)
            self._running = None
            del calls  # what was sent with them need not live until the next one comes

    def _next(self, max_batch: int) -> list[Call] | None:
        """Wait for a call that somebody still awaits; with it, what may go into the same inference. None: the end."""
        while True:
            first = self._waiting.popleft() if self._waiting else self._arriving.get()
            if first is None:
                return None
            if isinstance(first, Seat):
                first.leave()
            elif not first.abandoned:
                if max_batch == UNBATCHED or not first.may_be_batched:
                    return [first]
                return [first, *self._companions(max_batch - 1)]

    def _companions(self, most: int) -> list[Call]:
        """More calls for one inference, out of those that wait.

        They overtake the others, which is safe: a connection has one call under way, so no two of one session.
        """
        with contextlib.suppress(queue.Empty):
            while True:
                self._waiting.append(self._arriving.get_nowait())
        found: list[Call] = []
        others: deque[Call | Seat | None] = deque()
        for item in self._waiting:
            room = len(found) < most
            if room and isinstance(item, Call) and not item.abandoned and item.may_be_batched:
                found.append(item)
            else:
                others.append(item)
        self._waiting = others
        return found

    def _tell(self, event: trio.Event) -> None:
        if self._token is not None:
            with contextlib.suppress(trio.RunFinishedError):  # the program is on its way out, nobody awaits this
                self._token.run_sync_soon(event.set)
