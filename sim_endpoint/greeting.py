"""Finding out whether what is at the other end of a new connection is a model, each in a thread of its own.

Whoever connects has to speak TLS and to hold the token, where the operator asks for that, then gets ``reset_model``
and has to answer like a model. That may take minutes (it loads, it waits in line) or for ever (it is no model), and
must not keep others from being heard: the link goes on accepting meanwhile and takes the first that answers.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from framing.session import RequesterSession
from robopro_eval.transport.blocking import BlockingChannel
from robopro_eval.transport.retry import STATUS_EVERY
from robopro_eval.transport.security import LinkSecurity, authenticate, secure
from sim_endpoint.recorder import Recorder
from sim_endpoint.remote_model import RemoteModel
from sim_endpoint.settings import SimSettings

Say = Callable[[str], None]

MAX_GREETINGS = 32
"""Connections that may owe their first reply at once. Models come by ones and twos; a port scanner that keeps its
connections open must not use up the descriptors of this process."""

PARTING_SECONDS = 1.5
"""For all replies still owed when the run ends, so that those who turn out to be models are told goodbye. With the
goodbye itself it has to fit into the five seconds of a Ctrl-C."""


@dataclass(frozen=True)
class Door:
    """How this run meets its models. ``listening``: they connect to us."""

    settings: SimSettings
    security: LinkSecurity = field(default_factory=LinkSecurity)
    recorder: Recorder | None = None

    @property
    def listening(self) -> bool:
        return self.settings.sim_as_server


class Greeting:
    """One connection on its way. ``outcome`` is None until it has become a model, or the error that says why not."""

    def __init__(self, sock: socket.socket, peer: str, door: Door, note: Say, wake: Callable[[], None]) -> None:
        self.peer = peer
        self.outcome: RemoteModel | Exception | None = None
        self.begun = time.monotonic()
        self._sock = sock
        self._door = door
        self._note = note
        self._wake = wake
        self._thread = threading.Thread(target=self._run, name=f"greeting {peer}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        outcome: RemoteModel | Exception
        try:
            outcome = self._greet()
        except Exception as error:
            outcome = error
        self.outcome = outcome
        self._wake()

    def _greet(self) -> RemoteModel:
        settings, security = self._door.settings, self._door.security
        self._sock = secure(self._sock, security, listening=self._door.listening, host=settings.model_server_host)
        channel = BlockingChannel(self._sock, settings.max_frame)
        try:
            authenticate(channel, security, self.peer)
            session = RequesterSession(settings.wire, max_frame=settings.max_frame)
            model = RemoteModel(
                channel,
                session,
                patience=settings.patience,
                peer=self.peer,
                on_wait=self._note,
                recorder=self._door.recorder,
                pipeline=settings.pipeline,
            )
            model.handshake()
        except BaseException:
            channel.close()
            raise
        return model

    def drop(self) -> None:
        """Give it up: the thread that waits for its reply finds the connection shut."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def part(self, deadline: float) -> None:
        """End it by `deadline` (monotonic); one that has become a model is told that the run is over."""
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if isinstance(self.outcome, RemoteModel):
            self.outcome.close(goodbye=True)
        else:
            self.drop()


class Greetings:
    """All that are under way on one link. ``line`` with ``{peer}`` and ``{seconds}`` says that one takes long."""

    def __init__(self, door: Door, line: str, note: Say) -> None:
        self._door = door
        self._line = line
        self._note = note
        self._pending: list[Greeting] = []
        self._told = time.monotonic()
        self._bell, self._button = socket.socketpair()
        self._bell.setblocking(False)
        self._button.setblocking(False)

    def __len__(self) -> int:
        return len(self._pending)

    def begin(self, sock: socket.socket, peer: str) -> None:
        """Greet a new connection."""
        if len(self._pending) >= MAX_GREETINGS:
            oldest = self._pending.pop(0)
            oldest.drop()
            self._note(f"note: {oldest.peer} has not answered and makes room for others")
        self._pending.append(Greeting(sock, peer, self._door, self._note, self._ring))

    def finished(self) -> Greeting | None:
        """The next one with an outcome; it is no longer under way."""
        for index, greeting in enumerate(self._pending):
            if greeting.outcome is not None:
                return self._pending.pop(index)
        return None

    def wait(self, seconds: float | None, listener: socket.socket | None = None) -> bool:
        """Until one has an outcome, somebody knocks at `listener` (then True), or `seconds` have passed.

        Says meanwhile, every ``STATUS_EVERY`` seconds, who has not answered.
        """
        pause = max(0.0, self._told + STATUS_EVERY - time.monotonic())
        poller = select.poll()
        poller.register(self._bell, select.POLLIN)
        if listener is not None:
            poller.register(listener, select.POLLIN)
        ready = poller.poll(int((pause if seconds is None else min(pause, seconds)) * 1000) + 1)
        with contextlib.suppress(BlockingIOError):
            self._bell.recv(MAX_GREETINGS)
        now = time.monotonic()
        if now - self._told >= STATUS_EVERY:
            self._told = now
            for greeting in self._pending:
                self._note(self._line.format(peer=greeting.peer, seconds=f"{now - greeting.begun:.0f}"))
        return listener is not None and any(number == listener.fileno() for number, _ in ready)

    def close(self) -> None:
        """Part from all. Safe to repeat."""
        deadline = time.monotonic() + PARTING_SECONDS
        while self._pending:
            self._pending.pop().part(deadline)
        self._bell.close()
        self._button.close()

    def _ring(self) -> None:
        with contextlib.suppress(OSError):  # it has been rung often enough, or nobody listens any more
            self._button.send(b".")
