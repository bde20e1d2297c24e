"""Where models come from: the simulator listens for them, or dials the one it was told.

A port scan, an HTTP client or random bytes cost one line; when listening, the wait goes on.
"""

from __future__ import annotations

import contextlib
import math
import socket
import time
from collections.abc import Callable
from typing import Protocol

from framing.errors import AuthenticationError, DeadlineExceeded, PeerGone
from robopro_eval.console.errors import UsageError
from robopro_eval.transport.addresses import Address
from robopro_eval.transport.errors import AddressError, NameNotFound, NobodyCame, SecurityError, TransportError
from robopro_eval.transport.retry import STATUS_EVERY
from robopro_eval.transport.sockets import accept, bound_address, dial, listen
from sim_endpoint.faults import NoModel
from sim_endpoint.greeting import Door, Greeting, Greetings
from sim_endpoint.model_source import ModelSource
from sim_endpoint.remote_model import RemoteModel

Say = Callable[[str], None]

LISTENING = "🚀 SIM server listening on {host}:{port} — waiting for model to connect..."
MODEL_CONNECTED = "🔗 Model connected from ({host!r}, {port})"  # as RoboPRO prints it
CONNECTED_TO_MODEL = "🔗 Connected to model server at {host}:{port}"
NOT_YET_DIALED = (
    "⏳ {peer} accepted the connection, but has not answered for {seconds} s; a model serves one simulator at a time "
    "and may be busy with another"
)
NOT_YET_DIALED_IN = "⏳ {peer} connected, but has not answered for {seconds} s; whoever answers first is taken"

ACCEPT_SECONDS = 1.0  # somebody knocked; if it left again, accepting must not wait for the next


class ModelLink(Protocol):
    """Gives one connected model after the other."""

    def open(self) -> None:
        """Bind, where there is something to bind. Raises UserError in one sentence."""

    def connect(self, wait: float | None) -> ModelSource:
        """Wait for the next model, at most ``wait`` seconds (None: as long as the settings say).

        Raises NoModel when none came, UsageError for an address that can never work.
        """

    def close(self) -> None: ...


class ListeningLink:
    """SIM_AS_SERVER=1: models dial in. The listener stays open, so that a restarted model finds it.

    Whoever has connected but not answered keeps its connection, also while another model is at work: should that one
    vanish, the next is at hand.
    """

    def __init__(self, door: Door, say: Say, note: Say) -> None:
        self._settings = door.settings
        self._say = say
        self._note = note
        self._listener: socket.socket | None = None
        self._greetings = Greetings(door, NOT_YET_DIALED_IN, note)

    def open(self) -> None:
        settings = self._settings
        try:
            self._listener = listen(settings.sim_server_bind, settings.listen_port)
        except AddressError as error:
            raise UsageError(str(error)) from error
        except TransportError as error:
            raise NoModel(str(error)) from error
        self._say(LISTENING.format(host=settings.sim_server_bind, port=bound_address(self._listener).port))

    def connect(self, wait: float | None) -> ModelSource:
        if self._listener is None:
            raise NoModel("the simulator is not listening")
        begun = told = time.monotonic()
        while True:
            while (greeting := self._greetings.finished()) is not None:
                if isinstance(greeting.outcome, RemoteModel):
                    host, _, port = greeting.peer.rpartition(":")
                    self._say(MODEL_CONNECTED.format(host=host.strip("[]"), port=port))
                    return greeting.outcome
                self._note(f"note: {_why_not(greeting)}; still waiting for a model")
            now = time.monotonic()
            left = None if wait is None else begun + wait - now
            if left is not None and left <= 0 and not len(self._greetings):
                raise NoModel(f"no model connected within {wait:g} s")
            if now - told >= STATUS_EVERY and not len(self._greetings):
                told = now
                where = bound_address(self._listener)
                self._note(f"⏳ still waiting on {where} for a peer to connect ({now - begun:.0f} s)")
            # Whoever connected in time may take longer than that to answer.
            if self._greetings.wait(left if left is None or left > 0 else None, self._listener):
                self._welcome()

    def _welcome(self) -> None:
        assert self._listener is not None
        with contextlib.suppress(NobodyCame):  # it has left again
            sock, peer = accept(self._listener, timeout=ACCEPT_SECONDS, on_wait=self._note)
            self._greetings.begin(sock, str(peer))

    def close(self) -> None:
        self._greetings.close()
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.close()
            self._listener = None


class DialingLink:
    """The default: the model listens at MODEL_SERVER_HOST, and we dial until it is there."""

    def __init__(self, door: Door, say: Say, note: Say) -> None:
        self._settings = door.settings
        self._say = say
        self._note = note
        self._greetings = Greetings(door, NOT_YET_DIALED, note)

    def open(self) -> None:
        """Nothing to bind."""

    def connect(self, wait: float | None) -> ModelSource:
        settings = self._settings
        address = Address(settings.model_server_host, settings.port)
        interval = settings.connect_interval
        attempts = settings.connect_attempts if wait is None else max(1, math.ceil(wait / interval) + 1)
        name = f"{address.host}:{address.port}"
        last = ""
        for attempt in range(attempts):
            outcome = self._greet(self._dial(address, attempts - attempt), name)
            if isinstance(outcome, RemoteModel):
                self._say(CONNECTED_TO_MODEL.format(host=address.host, port=address.port))
                return outcome
            if isinstance(outcome, AuthenticationError | SecurityError):
                raise NoModel(str(outcome)) from outcome
            if isinstance(outcome, DeadlineExceeded):
                last = f"what listens at {name} did not answer: {outcome}"
                if wait is not None:
                    raise NoModel(last) from outcome
                # A model serves one simulator at a time, and another's run may take hours.
                self._note(f"note: {last}; dialing again")
            elif isinstance(outcome, PeerGone):
                last = f"{name} closed every connection before its first reply ({outcome})"
                self._note(
                    f"note: {name} accepted the connection and closed it before its first reply ({outcome}); "
                    "dialing again"
                )
                time.sleep(interval)
            else:
                raise NoModel(f"no model of ours answers at {name}: {outcome}") from outcome
        raise NoModel(last)

    def _dial(self, address: Address, attempts: int) -> socket.socket:
        settings = self._settings
        try:
            return dial(
                address,
                attempts=attempts,
                interval=settings.connect_interval,
                timeout=settings.connect_timeout,
                on_wait=self._note,
            )
        except AddressError as error:
            raise UsageError(f"{error} (MODEL_SERVER_HOST and --port say where the model listens)") from error
        except NameNotFound as error:
            raise NoModel(f"{error} (MODEL_SERVER_HOST says where the model listens)") from error
        except TransportError as error:
            raise NoModel(str(error)) from error

    def _greet(self, sock: socket.socket, name: str) -> RemoteModel | Exception:
        self._greetings.begin(sock, name)
        while (greeting := self._greetings.finished()) is None:
            self._greetings.wait(None)
        assert greeting.outcome is not None
        return greeting.outcome

    def close(self) -> None:
        self._greetings.close()


def make_link(door: Door, say: Say, note: Say) -> ModelLink:
    """The direction that the settings ask for."""
    return ListeningLink(door, say, note) if door.listening else DialingLink(door, say, note)


def _why_not(greeting: Greeting) -> str:
    """Why somebody who connected to us is no model for us."""
    error = greeting.outcome
    if isinstance(error, PeerGone):
        return f"{greeting.peer} connected and left without a word (a port scan?): {error}"
    if isinstance(error, DeadlineExceeded):
        return f"{greeting.peer} connected but did not answer: {error}"
    if isinstance(error, AuthenticationError | SecurityError):
        return f"a model is turned away: {error}"  # which says where it is
    return f"{greeting.peer} is no model of ours ({error})"
