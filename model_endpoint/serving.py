"""Opening the socket, in either direction, and giving simulators their turn with the policy.

*Listening*: any number of simulators may connect. A policy with sessions serves them side by side, any other one at a
time, in the order of their first requests. A connection that never asks anything blocks nobody (where there are too
many, the silent ones go first), one that speaks something else is closed, and the server goes on.
*Dialing*: one simulator; its goodbye (or a stock simulator's end-of-file) ends the program, while an upgraded one that
vanished without goodbye is dialed again, because it will want to go on.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import trio

from framing.errors import PeerGone, ProtocolError
from framing.frames import DEFAULT_MAX_FRAME
from framing.session import Ending
from model_endpoint.line import Line
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
    policy_name: str
    side_by_side: bool
    say: Callable[[str], None]
    note: Callable[[str], None]
    max_frame: int = DEFAULT_MAX_FRAME
    max_waiting: int = MAX_WAITING
    status_seconds: float = STATUS_EVERY
    tally: Tally = field(default_factory=Tally)
    _line: Line = field(default_factory=Line)
    _connected: int = 0
    _silent: dict[trio.CancelScope, None] = field(default_factory=dict)  # in the order they came

    async def listen(self, address: Address) -> None:
        """Serve the simulators that come until cancelled. Raises UserError where it cannot listen."""
        with _as_user_errors(), aio.listen(address.host, address.port) as listener:
            bound = Address(address.host, aio.bound_address(listener).port)
            self.say(f"🚀 Model server listening on {bound} — waiting for simulator to connect...")
            async with trio.open_nursery() as nursery:
                while True:
                    sock, peer = await aio.accept(
                        listener, status_every=self.status_seconds, on_wait=self._note_if_idle
                    )
                    if self._connected >= self.max_waiting and not self._close_a_silent_one():
                        log.warning("too many connections; closed", peer=peer, limit=self.max_waiting)
                        sock.close()
                        continue
                    nursery.start_soon(self.meet, aio.TrioChannel(sock, self.max_frame), peer)

    async def meet(self, channel: aio.TrioChannel, peer: Address) -> None:
        """Serve one connection to a listening model, whatever it turns out to be. Never raises for it."""
        self._connected += 1
        try:
            self.say(f"🔗 Simulator connected from {tuple(peer)!r}")
            first = await self._first_frame(channel, peer)
            if first is not None:
                farewell = await self._session(channel, peer, None if self.side_by_side else self._line).serve(first)
                self._log_end(farewell, peer)
        except Exception as error:  # a defect of ours in one connection must not take the others down
            log.failure("serving a connection failed", error, peer=peer)
        finally:
            self._connected -= 1
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 1.0):
                await channel.aclose()

    async def _first_frame(self, channel: aio.TrioChannel, peer: Address) -> memoryview | None:
        """None if the peer turned out to be no simulator, or had to make room for one."""
        with trio.CancelScope() as scope:
            self._silent[scope] = None
            try:
                return await channel.receive(None)
            except PeerGone as error:
                log.warning("a peer closed before its first request", peer=peer, detail=str(error))
            except ProtocolError as error:
                log.warning("a peer is not a simulator", peer=peer, detail=str(error))
            finally:
                self._silent.pop(scope, None)
        if scope.cancelled_caught:
            log.warning("too many connections; closed one that never asked anything", peer=peer, limit=self.max_waiting)
        return None

    def _close_a_silent_one(self) -> bool:
        """Make room at the cost of the connection that has been silent for longest, if there is one."""
        longest = next(iter(self._silent), None)
        if longest is None:
            return False
        del self._silent[longest]
        longest.cancel()
        return True

    async def dial(
        self,
        address: Address,
        *,
        attempts: int,
        interval: float = INTERVAL,
        name_attempts: int = NAME_ATTEMPTS,
    ) -> None:
        """Dial a simulator that listens and serve it until it is done. Raises UserError where that cannot be."""
        while True:
            with _as_user_errors():
                sock = await aio.dial(
                    address,
                    attempts=attempts,
                    interval=interval,
                    name_attempts=name_attempts,
                    status_every=self.status_seconds,
                    on_wait=self.note,
                )
            channel = aio.TrioChannel(sock, self.max_frame)
            self.say(f"🔗 Model connected to SIM server at {address}")
            try:
                farewell = await self._serve_patiently(channel, address)
            finally:
                with trio.CancelScope(shield=True, deadline=trio.current_time() + 1.0):
                    await channel.aclose()
            self._log_end(farewell, address)
            if not self._should_dial_again(farewell, address):
                return
            self.note(f"the simulator at {address} went away without a goodbye ({farewell.detail}); dialing it again")
            await trio.sleep(interval)

    async def _serve_patiently(self, channel: aio.TrioChannel, address: Address) -> Farewell:
        """Serve; until its first request, say now and then that it is silent: it may be busy with another model."""
        session = self._session(channel, address, None)

        async def say_that_it_is_silent() -> None:
            begun = trio.current_time()
            while True:
                await trio.sleep(self.status_seconds)
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

    def _session(self, channel: aio.TrioChannel, peer: Address, line: Line | None) -> Session:
        return Session(
            channel,
            self.runner,
            self.policy_name,
            str(peer),
            self.tally,
            max_frame=self.max_frame,
            line=line,
            status_seconds=self.status_seconds,
        )

    def _log_end(self, farewell: Farewell, peer: Address) -> None:
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
