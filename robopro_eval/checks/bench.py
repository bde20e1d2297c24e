"""What a check works with: conversations with the server, raw frames, and what is known of the server."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from framing.binary import decode_body, encode_binary
from framing.codec import numpy_to_json
from framing.decoding import Wire
from framing.errors import AuthenticationError, DeadlineExceeded, PeerGone, PolicyError, WireError
from framing.frames import Buffer, encode_frame
from framing.messages import BINARY, JSON, WAIT
from framing.session import BYE, RESET, Features, Peer, Reply, RequesterSession, Wait, WireChoice
from robopro_eval.checks.core import CheckFailed, Skipped
from robopro_eval.checks.link import Link, ProbeChannel
from robopro_eval.console.streams import note
from robopro_eval.transport.errors import TransportError
from robopro_eval.transport.security import LinkSecurity

REPLY_SECONDS = 10.0
"""How long one reply may take (`--timeout`), unless a check says otherwise."""

FIRST_REPLY_FACTOR = 6
"""The first reply of all may take so many times as long: a policy may compile or load in its first call."""

CHECK_FACTOR = 4
"""A whole check may take so many times as long as one reply, so that a slow server cannot stretch a run for ever."""

SILENT_SECONDS = 3.0
"""A first reply that takes longer makes people wonder, and is said to be awaited."""

QUIET_SECONDS = 0.2
"""How long nothing may come where nothing is due. A reply that follows at once takes a fraction of a millisecond."""

SETTLE_SECONDS = 0.1
"""Before it is asked whether the server still serves: a server that ends because of something, ends within this."""

TURN_SECONDS = 2.0
"""A second connection that gets no reply for so long, while the first is served, waits for its turn."""

ACCEPTS = [BINARY, JSON, WAIT]

ECHO, ECHO_MARK = "echo", "eval_check_methods"

Greeting = TypeVar("Greeting")


@dataclass
class Known:
    """What has been learnt of the server. `echo` is the name of a method that returns its argument, if there is one."""

    peer: Peer = Peer.UNKNOWN
    features: Features | None = None
    wire: Wire = None
    """What the first reply says of the formats that the server reads."""
    reads_binary: bool = False
    echo: str | None = None
    is_echo_policy: bool = False

    @property
    def upgraded(self) -> bool:
        return self.peer is Peer.OURS


class Talk:
    """A conversation by the rules, over one connection. Deadlines are the bench's."""

    def __init__(self, channel: ProbeChannel, session: RequesterSession, patience: Callable[[], float]) -> None:
        self.channel = channel
        self.session = session
        self.patience = patience
        self.last_body: Buffer = b""
        self.last_was_error = False
        self.tells_of_silence = False
        """Whether to say so when the next reply is long in coming."""

    def call(self, name: str, *args: object, **kwargs: object) -> Wire:
        """What the server replies. Raises PolicyError for an error reply, and the other WireErrors."""
        return self.request(name, args, kwargs)

    def request(
        self,
        name: str,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
        *,
        episode: Mapping[str, object] | None = None,
    ) -> Wire:
        """The same, with the arguments as a session takes them."""
        self.channel.send(self.session.request(name, args, kwargs, episode=episode), self.patience())
        return self.answer()

    def ask(self, name: str, *args: object) -> None:
        """Send a request; the reply is due."""
        self.channel.send(self.session.request(name, args), self.patience())

    def answer(self) -> Wire:
        """The reply that is due, however often the server says before that it has to wait."""
        patience = self.patience()
        limit = time.monotonic() + patience
        waits: Wait | None = None
        if self.tells_of_silence:
            self.tells_of_silence = False
            self._tell_of_silence(patience)
        while True:
            try:
                self.last_body = self.channel.receive(max(0.0, limit - time.monotonic()))
            except DeadlineExceeded as error:
                if waits is None:
                    raise DeadlineExceeded(f"no reply within {patience:.1f} s") from error
                raise DeadlineExceeded(
                    f"the server is busy with another simulator (place {waits.place} in its line); try again when that "
                    "has gone"
                ) from error
            self.last_was_error = True  # unless it turns out not to be
            reply = self.session.receive(self.last_body)
            self.last_was_error = False
            if isinstance(reply, Reply):
                return reply.value
            waits = reply

    def _tell_of_silence(self, patience: float) -> None:
        if patience > SILENT_SECONDS and not self.channel.has_news(SILENT_SECONDS):
            note(f"no answer yet; it has {patience:.0f} s in all: a policy may load or compile in its first call")

    def first_sign(self, seconds: float) -> Reply | Wait | None:
        """A reply or wait notice within `seconds`; None if neither came, and both can still come."""
        if not self.channel.has_news(seconds):
            return None
        return self.session.receive(self.channel.receive(self.patience()))

    def read(self, path: str, *, length: bool = False) -> Wire:
        """An attribute of the policy, or its length; only from an upgraded server."""
        self.channel.send(self.session.get(path, length=length), self.patience())
        return self.answer()

    def is_over(self) -> bool:
        """Whether nothing more can be said. A stock server closes a moment after it has sent an error reply."""
        if self.channel.closed or self.session.ending is not None:
            return True
        return self.session.peer is Peer.STOCK and self.last_was_error and self.channel.has_news(QUIET_SECONDS)

    def bye(self) -> None:
        """Part as an upgraded server expects it, or simply close. Never raises for what the server does."""
        with contextlib.suppress(WireError, CheckFailed):
            if self.session.peer is Peer.OURS and not self.channel.closed:
                self.channel.send(self.session.bye(), self.patience())
                while self.session.ending is None:
                    with contextlib.suppress(PolicyError):
                        self.session.receive(self.channel.receive(self.patience()))
        self.channel.close()


def meet(link: Link, seconds: float, greet: Callable[[Talk], Greeting]) -> tuple[Talk, Greeting]:
    """The first conversation of all, and what `greet` got out of its first request, for which it has `seconds`.

    Whoever dials us and goes before that (a port scan), or speaks first (a browser), or is turned away, was not the
    model: the wait goes on.
    """
    while True:
        try:
            channel = link.open()
            # The time begins only now: somebody may have been waited for.
            talk = Talk(channel, RequesterSession(), _until(time.monotonic() + seconds))
            talk.tells_of_silence = True
            try:
                if not link.listens and channel.has_news(QUIET_SECONDS):
                    raise PeerGone("somebody connected and spoke before being asked (a browser?), or left at once")
                greeting = greet(talk)
            except BaseException:
                channel.close()
                raise
        except (PeerGone, AuthenticationError) as error:
            if link.listens:
                raise
            note(f"{clipped(error)}; still waiting for a model")
        else:
            link.met()
            return talk, greeting


def _until(limit: float) -> Callable[[], float]:
    return lambda: max(0.0, limit - time.monotonic())


class Raw:
    """Bytes and messages over one connection, rules or no rules."""

    def __init__(self, channel: ProbeChannel, patience: Callable[[], float]) -> None:
        self.channel = channel
        self._patience = patience
        self.last_body: memoryview = memoryview(b"")

    def send(self, data: Buffer) -> None:
        self.channel.send([data], self._patience())

    def request(self, message: Mapping[str, object], *, binary: bool = False) -> None:
        self.channel.send(encode_frame(encode_binary(message) if binary else numpy_to_json(message)), self._patience())

    def reply(self) -> dict[str, Wire]:
        """The next message that is no wait notice. Raises WireError, CheckFailed if it is not an object."""
        limit = time.monotonic() + self._patience()
        while True:
            self.last_body = self.channel.receive(max(0.0, limit - time.monotonic()))
            message = decode_body(self.last_body)
            if not isinstance(message, dict):
                raise CheckFailed("a reply is no JSON object")
            if "wait" not in message:
                return message

    def introduce(self) -> dict[str, Wire]:
        """The first request of a connection; its reply, which must be a result."""
        self.request(first_request())
        reply = self.reply()
        if "res" not in reply:
            raise CheckFailed(f"{RESET} was answered with the error {reply.get('error')!r}")
        return reply

    def refused(self) -> str:
        """How the server refuses what was sent: it closes, or sends an error. Raises CheckFailed if it does neither."""
        try:
            reply = self.reply()
        except PeerGone:
            return "the connection is closed"
        if "error" not in reply:
            raise CheckFailed("it was answered with a result")
        return f"answered with an error ({clipped(reply['error'])})"


@dataclass
class Bench:
    """Passed to every check. `seconds` is how long a reply may take; `known` is filled by the first checks."""

    link: Link
    seconds: float = REPLY_SECONDS
    method: str | None = None
    known: Known = field(default_factory=Known)
    _until: float = field(init=False, default=0.0)
    _shared: Talk | None = field(init=False, default=None)

    def begin_check(self) -> None:
        """A check starts: its time starts too."""
        self._until = time.monotonic() + CHECK_FACTOR * self.seconds

    def patience(self) -> float:
        """Seconds for the next thing that is awaited. Raises CheckFailed when the check has used its time up."""
        left = self._until - time.monotonic()
        if left <= 0:
            raise CheckFailed(f"it took longer than {CHECK_FACTOR * self.seconds:g} s altogether")
        return min(self.seconds, left)

    @contextlib.contextmanager
    def talk(self, wire: WireChoice = "auto") -> Iterator[Talk]:
        """A conversation after its first `reset_model`. With a model that dials it is the same one for all checks."""
        if not self.link.listens:
            yield self._shared_talk()
            return
        with self.silent_talk(wire) as talk:
            talk.call(RESET)
            yield talk
            talk.bye()  # not after an error or Ctrl-C: nobody should have to wait for the answer to it

    @contextlib.contextmanager
    def silent_talk(self, wire: WireChoice = "auto") -> Iterator[Talk]:
        """A connection over which nothing has been said; it is closed without a goodbye unless that was said."""
        talk = self._new_talk(wire)
        try:
            yield talk
        finally:
            talk.channel.close()

    @contextlib.contextmanager
    def raw(self, security: LinkSecurity | None = None) -> Iterator[Raw]:
        """A connection for bytes that no session would send; with `security` in place of the usual one."""
        channel = self.link.open(security)
        try:
            yield Raw(channel, self.patience)
        finally:
            channel.close()

    def talks(self) -> Iterator[tuple[str, Talk]]:
        """One conversation per body format that the server reads, with the format's name."""
        choices: Sequence[tuple[str, WireChoice]] = [("JSON", "json"), ("binary", "auto")]
        if not self.link.listens:
            choices = [("binary" if self.known.reads_binary else "JSON", "auto")]
        elif not self.known.reads_binary:
            choices = choices[:1]
        for name, wire in choices:
            with self.talk(wire) as talk:
                yield name, talk

    def meet(self) -> tuple[Talk, Wire]:
        """The very first conversation, and the result of its first `reset_model`; nothing is known yet."""
        talk, result = meet(self.link, FIRST_REPLY_FACTOR * self.seconds, lambda talk: talk.call(RESET))
        self.begin_check()
        talk.patience = self.patience
        if not self.link.listens:
            self._shared = talk
        return talk, result

    def serves_next(self) -> None:
        """Raises CheckFailed unless a new connection is answered as it should be, a moment after what came before."""
        time.sleep(SETTLE_SECONDS)
        try:
            with self.talk():
                pass
        except (WireError, TransportError) as error:
            raise CheckFailed(f"the next simulator is not served any more ({error})") from error

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """All checks are done: a model that dialed is told goodbye, so that its program can end."""
        if self._shared is not None and kind is None:
            self._shared.bye()
        self.link.close()

    def _new_talk(self, wire: WireChoice) -> Talk:
        return Talk(self.link.open(), RequesterSession(wire), self.patience)

    def _shared_talk(self) -> Talk:
        talk = self._shared
        if talk is None or talk.is_over():
            if not self.known.upgraded:
                raise Skipped("the model closed its connection, and a stock model does not dial again")
            self._shared = talk = self._new_talk("auto")
        talk.call(RESET)
        return talk


def first_request() -> dict[str, object]:
    """What opens a connection: `reset_model` in the stock shape, with the offer to upgrade."""
    return {"cmd": RESET, "obs": None, "id": 1, "accept": ACCEPTS}


def upgraded_request(cmd: str, number: int, *args: object, accept: Sequence[str] = ACCEPTS) -> dict[str, object]:
    """A request in the upgraded shape, belonging to no episode."""
    return {"cmd": cmd, "id": number, "accept": list(accept), "args": list(args), "kwargs": {}, "episode_id": None}


def farewell(number: int) -> dict[str, object]:
    return {"cmd": BYE, "id": number, "accept": ACCEPTS, "args": [], "kwargs": {}}


def frame_of(message: Mapping[str, object]) -> bytes:
    """The frame of a message in JSON, header included, in one piece."""
    return b"".join(encode_frame(numpy_to_json(message)))


def clipped(value: object) -> str:
    """The first line of `value`, short enough for a line of the report."""
    text = " ".join(str(value).split())
    return text if len(text) <= 100 else text[:97] + "..."
