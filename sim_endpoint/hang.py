"""A watch over the environment: no call into it may take for ever.

A physics engine or a graphics driver that hangs cannot be interrupted from within its process, so whoever is told of a
hang goes on in a fresh one (:mod:`sim_endpoint.fresh_process`).
"""

from __future__ import annotations

import faulthandler
import inspect
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from robopro_eval.simulators.task_env import TaskEnv

LOOK_EVERY = 5.0
"""Seconds between two looks, or a tenth of the limit where that is less."""


class _Call(NamedTuple):
    name: str
    since: float


class HangWatch:
    """Finds out, in a thread of its own, when one call has taken longer than ``limit`` seconds; 0: never.

    Compiled code that hangs may hold Python's lock, so that no thread of Python runs any more. Then, a while after the
    limit, the process ends with exit code 1 and the stacks on stderr; also when whoever is told gets nowhere.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._call: _Call | None = None
        self._stop = threading.Event()
        self._pause = min(LOOK_EVERY, limit / 10)

    def over(self, env: TaskEnv) -> TaskEnv:
        """The environment, with every call into it watched."""
        return cast("TaskEnv", _WatchedEnv(env, self)) if self._limit else env

    @contextmanager
    def telling(self, on_hang: Callable[[str, float], None]) -> Iterator[None]:
        """Within this context ``on_hang(name, seconds)`` is called from that thread, once, when a call hangs."""
        if not self._limit:
            yield
            return
        self._put_off_the_end()
        looking = threading.Thread(target=self._look, args=(on_hang,), name="hang-watch", daemon=True)
        looking.start()
        try:
            yield
        finally:
            self._stop.set()
            looking.join()  # else it could put off what is cancelled here
            faulthandler.cancel_dump_traceback_later()

    @contextmanager
    def call(self, name: str) -> Iterator[None]:
        """One call; one inside another counts as the outer one's time."""
        outer = self._call
        if outer is None:
            self._call = _Call(name, time.monotonic())
        try:
            yield
        finally:
            self._call = outer

    def _look(self, on_hang: Callable[[str, float], None]) -> None:
        while not self._stop.wait(self._pause):
            self._put_off_the_end()
            call = self._call
            if call is not None and time.monotonic() - call.since > self._limit:
                on_hang(call.name, time.monotonic() - call.since)
                return

    def _put_off_the_end(self) -> None:
        """A dead man's switch: it ends the process unless this is called again and again."""
        faulthandler.dump_traceback_later(self._limit + 2 * self._pause, exit=True)


class _WatchedEnv:
    """Stands before an environment; all it has, with its methods timed."""

    def __init__(self, env: TaskEnv, watch: HangWatch) -> None:
        self.__dict__["_env"] = env
        self.__dict__["_watch"] = watch

    def __getattr__(self, name: str) -> object:
        value = getattr(self.__dict__["_env"], name)
        if not inspect.isroutine(value):
            return value

        def watched(*args: object, **kwargs: object) -> object:
            with self.__dict__["_watch"].call(name):
                return value(*args, **kwargs)

        return watched

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self.__dict__["_env"], name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.__dict__["_env"], name)
