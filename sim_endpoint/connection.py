"""Where models come from: the simulator listens for them, or dials the one it was told.

Whatever connects first gets ``reset_model`` and has to answer like a model. A port scan, an HTTP client or random bytes
cost one line; when listening, the wait goes on.
"""

from __future__ import annotations

import contextlib
import math
import select
import socket
import time
from collections.abc import Callable
from typing import Protocol

from framing.errors import DeadlineExceeded, PeerGone, ProtocolError
from framing.session import RequesterSession
from robopro_eval.console.errors import UsageError
from robopro_eval.transport.addresses import Address
from robopro_eval.transport.blocking import BlockingChannel
from robopro_eval.transport.errors import AddressError, NameNotFound, NobodyCame, TransportError
from robopro_eval.transport.retry import STATUS_EVERY
from robopro_eval.transport.sockets import accept, bound_address, dial, listen
from sim_endpoint.faults import NoModel
from sim_endpoint.model_source import ModelSource, RemoteModel
from sim_endpoint.settings import SimSettings

Say = Callable[[str], None]

LISTENING = "🚀 SIM server listening on {host}:{port} — waiting for model to connect..."
MODEL_CONNECTED = "🔗 Model connected from {peer}"
CONNECTED_TO_MODEL = "🔗 Connected to model server at {host}:{port}"
NOT_YET_DIALED = (
    "⏳ {peer} accepted the connection, but has not answered for {seconds} s; a model serves one simulator at a time "
    "and may be busy with another"
)
NOT_YET_DIALED_IN = "⏳ {peer} connected, but has not answered for {seconds} s; nobody else can until it does or leaves"


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
    """SIM_AS_SERVER=1: models dial in. The listener stays open, so that a restarted model finds it."""

    def __init__(self, settings: SimSettings, say: Say, note: Say) -> None:
        self._settings = settings
        self._say = say
        self._note = note
        self._listener: socket.socket | None = None

    def open(self) -> None:
        settings = self._settings
        try:
            self._listener = listen(settings.sim_server_bind, settings.listen_port)
        except AddressError as error:
            raise UsageError(str(error)) from error
        except TransportError as error:
            raise NoModel(str(error)) from error
        self._announce()

    def _announce(self) -> None:
        assert self._listener is not None
        port = bound_address(self._listener).port
        self._say(LISTENING.format(host=self._settings.sim_server_bind, port=port))

    def connect(self, wait: float | None) -> ModelSource:
        if self._listener is None:
            raise NoModel("the simulator is not listening")
        deadline = None if wait is None else time.monotonic() + wait
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise NoModel(f"no model connected within {wait:g} s")
            try:
                sock, peer = accept(self._listener, timeout=left, on_wait=self._note)
            except NobodyCame as error:
                raise NoModel(f"no model connected within {wait:g} s") from error
            name = f"({peer.host!r}, {peer.port})"
            try:
                model = _shake_hands(sock, self._settings, name, NOT_YET_DIALED_IN, self._note)
            except PeerGone:
                self._note(f"note: {name} connected and left without a word (a port scan?); still waiting for a model")
            except DeadlineExceeded as error:
                self._note(
                    f"note: {name} connected but did not answer reset_model ({error}); still waiting for a model"
                )
            except ProtocolError as error:
                self._note(f"note: {name} is no model of ours ({error}); still waiting for a model")
            else:
                self._say(MODEL_CONNECTED.format(peer=name))
                return model

    def close(self) -> None:
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.close()
            self._listener = None


class DialingLink:
    """The default: the model listens at MODEL_SERVER_HOST, and we dial until it is there."""

    def __init__(self, settings: SimSettings, say: Say, note: Say) -> None:
        self._settings = settings
        self._say = say
        self._note = note

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
            try:
                sock = dial(
                    address,
                    attempts=attempts - attempt,
                    interval=interval,
                    timeout=settings.connect_timeout,
                    on_wait=self._note,
                )
            except AddressError as error:
                raise UsageError(f"{error} (MODEL_SERVER_HOST and --port say where the model listens)") from error
            except NameNotFound as error:
                raise NoModel(f"{error} (MODEL_SERVER_HOST says where the model listens)") from error
            except TransportError as error:
                raise NoModel(str(error)) from error
            try:
                model = _shake_hands(sock, settings, name, NOT_YET_DIALED, self._note)
            except ProtocolError as error:
                raise NoModel(f"what listens at {name} is no model of ours: {error}") from error
            except DeadlineExceeded as error:
                last = f"what listens at {name} did not answer reset_model: {error}"
                if wait is not None:
                    raise NoModel(last) from error
                # A model serves one simulator at a time, and another's run may take hours.
                self._note(f"note: {last}; dialing again")
            except PeerGone:
                last = f"{name} closed every connection before its first reply"
                self._note(f"note: {name} accepted the connection and closed it before its first reply; dialing again")
                time.sleep(interval)
            else:
                self._say(CONNECTED_TO_MODEL.format(host=address.host, port=address.port))
                return model
        raise NoModel(last)

    def close(self) -> None:
        """Nothing to unbind."""


def make_link(settings: SimSettings, say: Say, note: Say) -> ModelLink:
    """The direction that the settings ask for."""
    return ListeningLink(settings, say, note) if settings.sim_as_server else DialingLink(settings, say, note)


class _PatientChannel(BlockingChannel):
    """Says every ``STATUS_EVERY`` seconds that the first reply has not come yet: ``line`` with ``{seconds}``."""

    def __init__(self, sock: socket.socket, line: str, note: Say, max_frame: int) -> None:
        super().__init__(sock, max_frame)
        self._line = line
        self._note = note
        self._answered = False

    def receive(self, timeout: float | None = None) -> memoryview:
        if not self._answered:
            self._await_first(timeout)
            self._answered = True
        return super().receive(timeout)

    def _await_first(self, timeout: float | None) -> None:
        if self.closed:
            return
        poller = select.poll()
        poller.register(self._sock, select.POLLIN)
        end = math.inf if timeout is None else timeout
        begun = time.monotonic()
        while not poller.poll(int(min(STATUS_EVERY, end) * 1000) + 1):
            spent = time.monotonic() - begun
            end = math.inf if timeout is None else timeout - spent
            if end <= 0:
                self.close()
                raise DeadlineExceeded(f"no reply from the peer at {self.peer} within {timeout} s")
            self._note(self._line.format(seconds=f"{spent:.0f}"))


def _shake_hands(sock: socket.socket, settings: SimSettings, peer: str, line: str, note: Say) -> RemoteModel:
    channel = _PatientChannel(sock, line.replace("{peer}", peer), note, settings.max_frame)
    session = RequesterSession(settings.wire, max_frame=settings.max_frame)
    model = RemoteModel(channel, session, patience=settings.patience, peer=peer, on_wait=note)
    try:
        model.handshake()
    except BaseException:
        channel.close()
        raise
    return model
