"""Opening the socket, in either direction, and giving simulators their turn with the policy.

*Listening*: any number of simulators may connect; the policy serves one at a time, in the order of their first
requests. A connection that never asks anything blocks nobody, one that speaks something else is closed, and the
server goes on. *Dialing*: one simulator; its goodbye (or a stock simulator's end-of-file) ends the program, while an
upgraded one that vanished without goodbye is dialed again, because it will want to go on.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import trio

from framing.errors import PeerGone, ProtocolError
from framing.session import Ending, Features
from model_endpoint.logs import EventLog
from model_endpoint.policy_thread import PolicyRunner
from model_endpoint.sessions import Farewell, Session, Tally
from model_endpoint.settings import MAX_WAITING
from robopro_eval.console.errors import UsageError, UserError
from robopro_eval.transport import aio, sockets
from robopro_eval.transport.addresses import Address, check_address
from robopro_eval.transport.errors import AddressError, TransportError
from robopro_eval.transport.retry import INTERVAL, NAME_ATTEMPTS, STATUS_EVERY

log = EventLog("serving")


@dataclass
class Service:
    """A loaded policy, ready for simulators. ``say`` prints the lines operators look for."""

    runner: PolicyRunner
    features: Features
    say: Callable[[str], None]
    note: Callable[[str], None]
    max_frame: int
    max_waiting: int = MAX_WAITING
    tally: Tally = field(default_factory=Tally)
    _turn: trio.Lock = field(default_factory=trio.Lock)
    _connected: int = 0

    async def listen(self, address: Address, *, status_seconds: float = STATUS_EVERY) -> None:
        """Serve one simulator after another until cancelled. Raises UserError where it cannot listen."""
        with _as_user_errors(), aio.listen(address.host, address.port) as listener:
            bound = Address(address.host, aio.bound_address(listener).port)
            self.say(f"🚀 Model server listening on {bound} — waiting for simulator to connect...")
            async with trio.open_nursery() as nursery:
                while True:
                    sock, peer = await aio.accept(listener, status_every=status_seconds, on_wait=self._note_if_idle)
                    if self._connected >= self.max_waiting:
                        log.warning("too many connections; closed", peer=peer, limit=self.max_waiting)
                        sock.close()
                        continue
                    nursery.start_soon(self.meet, aio.TrioChannel(sock, self.max_frame), peer)

    async def meet(self, channel: aio.TrioChannel, peer: Address) -> None:
        """Serve one connection to a listening model, whatever it turns out to be. Never raises for it."""
        self._connected += 1
        try:
            self.say(f"🔗 Simulator connected from {tuple(peer)!r}")
            try:
                first = await channel.receive(None)
            except (PeerGone, ProtocolError) as error:
                why = "closed before its first request" if isinstance(error, PeerGone) else "is not a simulator"
                log.warning(f"a peer {why}", peer=peer, detail=str(error))
                return
            if self._turn.locked():
                log.info("waits for its turn", peer=peer)
            async with self._turn:
                farewell = await self._session(channel, str(peer)).serve(first)
            self._log_end(farewell, str(peer))
        except Exception as error:  # a defect of ours in one connection must not take the others down
            log.failure("serving a connection failed", error, peer=peer)
        finally:
            self._connected -= 1
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 1.0):
                await channel.aclose()

    async def dial(
        self,
        address: Address,
        *,
        attempts: int,
        interval: float = INTERVAL,
        name_attempts: int = NAME_ATTEMPTS,
        status_seconds: float = STATUS_EVERY,
    ) -> None:
        """Dial a simulator that listens and serve it until it is done. Raises UserError where that cannot be."""
        while True:
            with _as_user_errors():
                sock = await aio.dial(
                    address,
                    attempts=attempts,
                    interval=interval,
                    name_attempts=name_attempts,
                    status_every=status_seconds,
                    on_wait=self.note,
                )
            channel = aio.TrioChannel(sock, self.max_frame)
            self.say(f"🔗 Model connected to SIM server at {address}")
            try:
                farewell = await self._serve_patiently(channel, address, status_seconds)
            finally:
                with trio.CancelScope(shield=True, deadline=trio.current_time() + 1.0):
                    await channel.aclose()
            self._log_end(farewell, str(address))
            if not self._should_dial_again(farewell, address):
                return
            self.note(f"the simulator at {address} went away without a goodbye ({farewell.detail}); dialing it again")
            await trio.sleep(interval)

    async def _serve_patiently(self, channel: aio.TrioChannel, address: Address, every: float) -> Farewell:
        """Serve; until its first request, say now and then that it is silent: it may be busy with another model."""
        session = self._session(channel, str(address))

        async def say_that_it_is_silent() -> None:
            begun = trio.current_time()
            while True:
                await trio.sleep(every)
                if session.requests:
                    return
                waited = trio.current_time() - begun
                self.note(f"⏳ connected to {address}, still waiting for its first request ({waited:.0f} s)")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(say_that_it_is_silent)
            farewell = await session.serve()
            nursery.cancel_scope.cancel()
        return farewell

    def _should_dial_again(self, farewell: Farewell, address: Address) -> bool:
        if farewell.ending is None:
            raise UserError(f"what listens on {address} is not a simulator this program can serve: {farewell.detail}")
        if farewell.ending is Ending.LOST and not farewell.upgraded:
            raise UserError(f"the simulator at {address} vanished: {farewell.detail}")
        # A stock simulator closes when the run is over, and so does any before its first request.
        return farewell.ending is Ending.LOST

    def _session(self, channel: aio.TrioChannel, peer: str) -> Session:
        return Session(channel, self.runner, self.features, peer, self.tally, self.max_frame)

    def _log_end(self, farewell: Farewell, peer: str) -> None:
        write = log.info if farewell.ending in (Ending.BYE, Ending.STOCK_EOF) else log.warning
        write("connection ended", peer=peer, why=farewell.detail, requests=farewell.requests)

    def _note_if_idle(self, text: str) -> None:
        if not self._connected:
            self.note(text)


def check_can_listen(address: Address) -> None:
    """Bind and let go again, before minutes are spent on loading a model that nobody could reach.

    Nothing listens meanwhile, so nobody can connect. Raises UserError (UsageError for a malformed host).
    """
    with _as_user_errors():
        family, target = sockets.resolve_for_listening(check_address(address, zero=True))
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(target)
            except OSError as error:
                raise sockets.cannot_listen(address, error) from error


def check_can_dial(address: Address) -> None:
    """Raises UsageError for an address that cannot be one. The simulator need not be there yet."""
    with _as_user_errors():
        check_address(address)


@contextmanager
def _as_user_errors() -> Iterator[None]:
    """What kept a connection from being opened is the user's to mend: a wrong address is a wrong command."""
    try:
        yield
    except AddressError as error:
        raise UsageError(str(error)) from error
    except TransportError as error:
        raise UserError(str(error)) from error
