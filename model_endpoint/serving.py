"""Opening the socket, in either direction, and giving simulators their turn with the policy.

*Listening*: any number of simulators may connect. A policy with sessions serves them side by side, any other one at a
time, in the order of their first requests. A connection that never asks anything blocks nobody (where there are too
many, those that have shown nothing yet go first: no token where one is asked for, else no request), one that speaks
something else is closed, and the server goes on.
*Dialing*: one simulator; its goodbye (or a stock simulator's end-of-file) ends the program, while an upgraded one that
vanished without goodbye is dialed again, because it will want to go on.
"""

from __future__ import annotations

import math
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import trio
from trio.socket import SocketType

from framing.errors import AuthenticationError, DeadlineExceeded, PeerGone, ProtocolError
from framing.frames import DEFAULT_MAX_FRAME
from framing.session import Ending
from model_endpoint.line import Line
from model_endpoint.logs import EventLog
from model_endpoint.policy_thread import PolicyRunner
from model_endpoint.sessions import Farewell, Session, Tally
from model_endpoint.settings import MAX_CONNECTIONS
from robopro_eval.console.errors import UsageError, UserError
from robopro_eval.transport import aio, sockets
from robopro_eval.transport.addresses import Address, check_address
from robopro_eval.transport.auth import AUTH_SECONDS
from robopro_eval.transport.errors import AddressError, SecurityError, TransportError
from robopro_eval.transport.retry import INTERVAL, STATUS_EVERY
from robopro_eval.transport.security import LinkSecurity

LET_IN_ATTEMPTS = 5
"""Times in a row that a simulator may go before it has shown who it is: enough for one that is being restarted."""

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
    max_connections: int = MAX_CONNECTIONS
    status_seconds: float = STATUS_EVERY
    security: LinkSecurity = field(default_factory=LinkSecurity)
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
                    if self._connected >= self.max_connections and not self._close_a_silent_one():
                        log.warning("too many connections; closed", peer=peer, limit=self.max_connections)
                        sock.close()
                        continue
                    nursery.start_soon(self.meet, sock, peer)

    async def meet(self, sock: SocketType, peer: Address) -> None:
        """Serve one connection to a listening model, whatever it turns out to be. Never raises for it."""
        self._connected += 1
        silence = trio.CancelScope()
        self._silent[silence] = None
        try:
            with silence:
                async with self._let_in(sock, listening=True) as channel:
                    if self.security.keeps_strangers_out:  # however many come, they push out none that was let in
                        self._silent.pop(silence, None)
                    self.say(f"🔗 Simulator connected from {tuple(peer)!r}")
                    session = self._session(channel, peer, None if self.side_by_side else self._line)
                    await session.listen()
                    self._silent.pop(silence, None)
                    self._log_end(await session.serve(), peer)
            if silence.cancelled_caught:
                log.warning("too many connections; closed a silent one", peer=peer, limit=self.max_connections)
        except (AuthenticationError, DeadlineExceeded, SecurityError) as error:
            log.warning("a peer was not let in", peer=peer, detail=str(error))
        except PeerGone as error:
            log.warning("a peer closed before its first request", peer=peer, detail=str(error))
        except ProtocolError as error:
            log.warning("a peer is not a simulator", peer=peer, detail=str(error))
        except Exception as error:  # a defect of ours in one connection must not take the others down
            log.failure("serving a connection failed", error, peer=peer)
        finally:
            self._silent.pop(silence, None)
            self._connected -= 1

    @asynccontextmanager
    async def _let_in(self, sock: SocketType, *, listening: bool, host: str = "") -> AsyncIterator[aio.TrioChannel]:
        """A channel to a peer that has shown who it is, as far as that is asked for; closed at the end.

        Raises AuthenticationError, DeadlineExceeded, PeerGone or ProtocolError, and SecurityError where our own files
        cannot be used any more. A simulator that listens may be busy before its first word; one that dials may not.
        """
        secured = await aio.secure(
            sock, self.security, listening=listening, host=host, seconds=AUTH_SECONDS if listening else math.inf
        )
        async with aclosing(aio.TrioChannel(secured, self.max_frame)) as channel:
            await aio.answer_authentication(channel, self.security, patient=not listening)
            yield channel

    def _close_a_silent_one(self) -> bool:
        """Make room at the cost of the connection that has been silent for longest, if there is one."""
        longest = next(iter(self._silent), None)
        if longest is None:
            return False
        del self._silent[longest]
        longest.cancel()
        return True

    async def dial(self, address: Address, *, attempts: int, interval: float = INTERVAL) -> None:
        """Dial a simulator that listens and serve it until it is done. Raises UserError where that cannot be."""
        not_let_in = 0
        while True:
            with _as_user_errors():
                sock = await aio.dial(
                    address,
                    attempts=attempts,
                    interval=interval,
                    status_every=self.status_seconds,
                    on_wait=self.note,
                )
            self.say(f"🔗 Model connected to SIM server at {address}")
            try:
                farewell = await self._serve_patiently(sock, address)
                not_let_in = 0
            except (AuthenticationError, ProtocolError, SecurityError) as error:
                raise UserError(f"the simulator at {address} cannot be served: {error}") from error
            except (PeerGone, DeadlineExceeded) as error:  # before its first request: it may be about to start again
                not_let_in += 1
                if not_let_in == LET_IN_ATTEMPTS:
                    raise UserError(f"no simulator at {address}, {not_let_in} times in a row: {error}") from error
                farewell = Farewell(Ending.LOST, str(error), True, 0)
            self._log_end(farewell, address)
            if not self._should_dial_again(farewell, address):
                return
            self.note(f"the simulator at {address} went away without a goodbye ({farewell.detail}); dialing it again")
            await trio.sleep(interval)

    async def _serve_patiently(self, sock: SocketType, address: Address) -> Farewell:
        """Serve; until its first request, say now and then that it is silent: it may be busy with another model.

        Raises what letting it in raises.
        """
        session: Session | None = None
        farewell: Farewell | None = None
        failure: AuthenticationError | DeadlineExceeded | PeerGone | ProtocolError | SecurityError | None = None

        async def say_that_it_is_silent() -> None:
            begun = trio.current_time()
            while session is None or not session.requests:
                await trio.sleep(self.status_seconds)
                if session is None or not session.requests:
                    waited = trio.current_time() - begun
                    self.note(f"⏳ connected to {address}, still waiting for its first request ({waited:.0f} s)")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(say_that_it_is_silent)
            try:
                async with self._let_in(sock, listening=False, host=address.host) as channel:
                    session = self._session(channel, address, None)
                    farewell = await session.serve()
            except (AuthenticationError, DeadlineExceeded, PeerGone, ProtocolError, SecurityError) as error:
                failure = error  # kept and raised outside: a nursery would wrap it
            nursery.cancel_scope.cancel()
        if farewell is None:
            raise failure or PeerGone("the connection ended before it began")
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
