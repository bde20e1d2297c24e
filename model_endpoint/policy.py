"""A loaded policy and the requests made of it, as the policy's thread sees them. No socket, no thread.

Every connection has a ``Seat``: its session with the policy. A ``Call`` is one request of a seat and what became of it;
``answer`` does what it asks, for several at a time where they can share an inference.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import ParamSpec, TypeVar

from framing.errors import PolicyError
from framing.session import GET, RESET, Features, Kind, Request
from model_endpoint.dispatcher import ACT, NEW_SESSION, Dispatcher, is_method
from model_endpoint.loading import PolicyFace, PolicyLoadError
from robopro_eval.console.errors import UsageError

UNBATCHED = 1
"""Calls in one inference unless more are asked for."""

P = ParamSpec("P")
T = TypeVar("T")


class Policy:
    """What ``get_model`` returned, ready to be shared out. Made and used on the policy's thread.

    ``has_sessions``: it offers ``new_session()``, so that simulators can be served side by side. ``max_batch``: how
    many of their calls for an action may share an inference.

    Raises PolicyLoadError if it cannot be reset, or ``new_session()`` raises; UsageError if it cannot batch and should.
    """

    def __init__(self, face: PolicyFace, model: object, max_batch: int = UNBATCHED) -> None:
        self.name = face.name
        self.max_batch = max_batch
        self.has_sessions = is_method(model, NEW_SESSION)
        self._face = face
        self._model = model
        try:
            session = self.open_session()  # a try: better now than when a simulator has come
        except PolicyError as error:
            raise PolicyLoadError(str(error)) from error
        if max_batch > UNBATCHED and not session.acts_in_phases:
            raise UsageError(
                f"--max_batch {max_batch}: policy {self.name!r} cannot batch; it needs new_session() and infer(), and "
                "its sessions prepare() and finish()"
            )

    def open_session(self) -> Dispatcher:
        """A session of its own where the model offers that, else the only one there is. Raises PolicyError."""
        return Dispatcher(self._face, self._model)


class Seat:
    """The place of one connection, named ``peer``, at the policy.

    Its session is made at the first request and dropped at the end, both on the policy's thread: memory of a device
    may have to be freed where it was taken.
    """

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self._session: Dispatcher | None = None
        self._told = False

    @property
    def is_new(self) -> bool:
        """Whether nobody has been told yet what the session offers."""
        return not self._told

    @property
    def acts_in_phases(self) -> bool:
        """Whether there is a session that can share an inference with others."""
        return self._session is not None and self._session.acts_in_phases

    def session(self, policy: Policy) -> Dispatcher:
        """The session. Raises PolicyError if it has to be made and ``new_session()`` raises."""
        if self._session is None:
            self._session = policy.open_session()
        return self._session

    def features(self, policy: Policy) -> Features | None:
        """What the session offers; None while there is none. Best after the first request: what the first reset
        creates belongs to it."""
        if self._session is None:
            return None
        self._told = True
        return replace(self._session.features(), max_batch=policy.max_batch)

    def leave(self) -> None:
        """The connection has ended: drop the session."""
        self._session = None


class Latch:
    """Closed until the policy's thread opens it, once. Half of a ``threading.Event``, at a tenth of its cost."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._on_open: Callable[[], None] | None = None

    def open(self) -> None:
        self._lock.release()
        if self._on_open is not None:
            self._on_open()

    def wait(self, seconds: float) -> bool:
        """Block until it is open, for so long at most; whether it is."""
        return self._lock.acquire(timeout=seconds)

    def call_when_open(self, callback: Callable[[], None]) -> bool:
        """Have ``callback`` called on the policy's thread. False if it is open already; then it may not be called."""
        self._on_open = callback
        return not self._lock.acquire(blocking=False)


@dataclass(eq=False)
class Call:
    """A request of ``seat`` and what becomes of it: ``value`` or ``error``. Seconds are of wall clock.

    ``infer_seconds`` is what was spent on this call; an inference that several share counts for each in full.
    ``queue_seconds`` is the rest of the time between ``asked`` and the outcome. ``features`` comes with a seat's first.
    """

    seat: Seat
    request: Request
    episode: str | None = None
    value: object = None
    error: BaseException | None = None
    features: Features | None = None
    asked: float = field(default_factory=time.perf_counter)
    infer_seconds: float = 0.0
    queue_seconds: float = 0.0
    abandoned: bool = False  # nobody awaits it any more
    ended: Latch = field(default_factory=Latch)

    def __str__(self) -> str:
        episode = "" if self.episode is None else f" in episode {self.episode!r}"
        return f"{self.request.cmd} of {self.seat.peer}{episode}"

    @property
    def may_be_batched(self) -> bool:
        """Whether it wants an action of a session that acts in phases."""
        return self.request.cmd == ACT and self.seat.acts_in_phases

    def attempt(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Do a part of this call: its seconds are counted, what it raises becomes the call's error (then None)."""
        begun = time.perf_counter()
        try:
            return work(*args, **kwargs)
        except PolicyError as error:
            # A copy without traceback and cause, whose frames would hold on to the session after its end.
            self.error = PolicyError(str(error), kind=error.kind, remote_traceback=error.remote_traceback)
        except KeyboardInterrupt:  # nobody's Ctrl-C: signals go to the main thread
            self.error = PolicyError(f"{self.request.cmd}() raised KeyboardInterrupt", kind=Kind.POLICY_ERROR)
        except BaseException as error:  # a defect of ours: handed over, not swallowed
            self.error = error
        finally:
            self.infer_seconds += time.perf_counter() - begun
        return None

    def end(self) -> None:
        """It has its outcome: whoever awaits it can go on."""
        self.queue_seconds = max(0.0, time.perf_counter() - self.asked - self.infer_seconds)
        self.ended.open()


@dataclass
class Inferences:
    """How well calls for an action went together, for the line at the end. Those that failed count too."""

    count: int = 0
    largest: int = 0

    def add(self, calls: int) -> None:
        self.count += 1
        self.largest = max(self.largest, calls)

    def __str__(self) -> str:
        return f"{self.count} inference{'' if self.count == 1 else 's'} (largest batch: {self.largest})"


def answer(policy: Policy, calls: Sequence[Call]) -> None:
    """Answer ``calls``, more than one only if each ``may_be_batched``. Each ends as soon as it has its outcome."""
    if len(calls) == 1:
        (call,) = calls
        call.value = call.attempt(_do, policy, call)
        if call.seat.is_new:
            call.features = call.attempt(call.seat.features, policy)
        call.end()
    else:
        _act_together(policy, calls)


def _act_together(policy: Policy, calls: Sequence[Call]) -> None:
    """One inference. What is raised while a call is prepared or finished is its own; what the inference raises, and the
    time it takes, is everybody's."""
    ready: list[tuple[Call, Dispatcher]] = []
    inputs: list[object] = []
    for call in calls:
        session = call.seat.session(policy)
        prepared = call.attempt(session.prepare, call.request.args, call.request.kwargs)
        if call.error is None:
            ready.append((call, session))
            inputs.append(prepared)
        else:
            call.end()
    if ready:
        _infer_and_finish(ready, inputs)


def _infer_and_finish(ready: Sequence[tuple[Call, Dispatcher]], inputs: list[object]) -> None:
    leader, session = ready[0]
    before = leader.infer_seconds
    outputs = leader.attempt(session.infer, inputs)
    seconds, failure = leader.infer_seconds - before, leader.error
    for number, (call, session) in enumerate(ready):
        if call is not leader:
            call.infer_seconds += seconds
        if outputs is None:
            call.error = failure
        else:
            call.value = call.attempt(session.finish, outputs[number])
        call.end()


def _do(policy: Policy, call: Call) -> object:
    """What one request asks for."""
    session, request = call.seat.session(policy), call.request
    if request.cmd == GET and not request.is_stock:
        path = request.args[0] if len(request.args) == 1 else None
        if not isinstance(path, str):
            raise PolicyError(f"{GET} takes one path, a string", kind=Kind.BAD_ARGUMENTS)
        return session.get(path, length=bool(request.kwargs.get("length", False)))
    if request.cmd == RESET and request.episode is not None:
        session.begin_episode(request.episode)
    return session.call(request.cmd, request.args, request.kwargs)
