"""A token decides who may connect: over real sockets, in both roles and directions, and under a fake clock."""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import stock_peer
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from transport_helpers import reset, tcp_pair
from trio.testing import MockClock, memory_stream_pair

from framing.errors import AuthenticationError, DeadlineExceeded, PeerGone, ProtocolError
from framing.frames import encode_frame
from robopro_eval.transport import aio, sockets
from robopro_eval.transport.aio import TrioChannel, answer_authentication
from robopro_eval.transport.auth import AUTH_COMMAND, AUTH_MAX_FRAME, ModelAuth, SimulatorAuth
from robopro_eval.transport.blocking import BlockingChannel
from robopro_eval.transport.errors import SecurityError
from robopro_eval.transport.security import LinkSecurity, authenticate, exposure_warning

TOKEN = "a-token-that-nobody-can-guess"
WITH_TOKEN = LinkSecurity.from_values(token=TOKEN)
OTHER_TOKEN = LinkSecurity.from_values(token="another-token-altogether")
NO_TOKEN = LinkSecurity()
BIG = os.urandom(1 << 20)


def framed(message: object) -> bytes:
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack(">I", len(body)) + body


def read_frame(sock: socket.socket) -> bytes:
    (size,) = struct.unpack(">I", sock.recv(4, socket.MSG_WAITALL))
    return sock.recv(size, socket.MSG_WAITALL)


@contextlib.contextmanager
def in_thread(function: Callable[[], object]) -> Iterator[None]:
    thread = threading.Thread(target=function)
    thread.start()
    try:
        yield
    finally:
        thread.join(10)
        assert not thread.is_alive()


async def meet(simulator: LinkSecurity, model: LinkSecurity) -> tuple[BaseException | None, BaseException | None]:
    """Both real sides over TCP; what the simulator and the model raised. Without an error, frames pass afterwards."""
    left, right = tcp_pair()
    raised: list[BaseException | None] = [None, None]

    def simulate() -> None:
        with BlockingChannel(left) as channel:
            try:
                authenticate(channel, simulator, "model-1:29761")
                channel.send(encode_frame(BIG), 5)
                assert bytes(channel.receive(5)) == BIG[::-1]
            except Exception as error:
                raised[0] = error

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, simulate)
        channel = TrioChannel(trio.socket.from_stdlib_socket(right))
        try:
            await answer_authentication(channel, model)
            await channel.send(encode_frame(bytes((await channel.receive(5))[::-1])), 5)
        except Exception as error:
            raised[1] = error
        await channel.aclose()
    return raised[0], raised[1]


# ---------------------------------------------------------------- both sides ours
@pytest.mark.parametrize("security", [WITH_TOKEN, NO_TOKEN], ids=["token", "no token"])
async def test_two_that_agree_go_on_with_frames_of_any_size(security: LinkSecurity) -> None:
    assert await meet(security, security) == (None, None)


async def test_two_tokens_that_differ_give_one_clear_line_at_both_ends() -> None:
    simulator, model = await meet(WITH_TOKEN, OTHER_TOKEN)
    assert isinstance(simulator, AuthenticationError)
    assert isinstance(model, AuthenticationError)
    assert str(simulator) == (
        "model-1:29761: the model's token is not this simulator's: set the same EVAL_LINK_TOKEN for both programs"
    )
    assert "left in the middle of the exchange of tokens; its EVAL_LINK_TOKEN is probably another one" in str(model)


def test_a_simulator_that_fails_closes_its_channel() -> None:
    left, right = tcp_pair()

    def refuse() -> None:
        read_frame(right)
        right.sendall(framed({"error": "no", "traceback": "", "kind": "auth_required"}))

    channel = BlockingChannel(left)
    with right, in_thread(refuse), pytest.raises(AuthenticationError, match="refuses this simulator's token"):
        authenticate(channel, WITH_TOKEN, "m")
    assert channel.closed


async def test_nothing_secret_is_on_the_wire_in_logs_or_in_what_is_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    (left, relay_left), (relay_right, right) = tcp_pair(), tcp_pair()
    seen = bytearray()

    async def relay(source: socket.socket, target: socket.socket) -> None:
        reader, writer = (trio.socket.from_stdlib_socket(sock) for sock in (source.dup(), target.dup()))
        with reader, writer:
            while data := await reader.recv(1 << 16):
                seen.extend(data)
                await writer.send(data)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(relay, relay_left, relay_right)
        nursery.start_soon(relay, relay_right, relay_left)
        channel = TrioChannel(trio.socket.from_stdlib_socket(right))
        nursery.start_soon(answer_authentication, channel, WITH_TOKEN)
        with BlockingChannel(left) as simulator:
            await trio.to_thread.run_sync(authenticate, simulator, WITH_TOKEN, "m")
        await channel.aclose()
        nursery.cancel_scope.cancel()
    assert AUTH_COMMAND.encode() in seen
    secret = TOKEN.encode()
    shown = repr((WITH_TOKEN, SimulatorAuth(secret), ModelAuth(secret))) + str(WITH_TOKEN) + caplog.text
    for form in (secret, secret.hex().encode(), base64.b64encode(secret)):
        assert form not in seen
        assert form.decode() not in shown
    for sock in (relay_left, relay_right):
        sock.close()


# ---------------------------------------------------------------- stock peers
async def test_a_stock_simulator_is_told_what_to_do_and_never_reaches_the_policy() -> None:
    left, right = tcp_pair()
    told: list[str] = []

    def stock_simulator() -> None:
        client = stock_peer.SimClient(left)
        try:
            client.reset_model()
        except RuntimeError as error:
            told.append(str(error))
        finally:
            client.close()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, stock_simulator)
        channel = TrioChannel(trio.socket.from_stdlib_socket(right))
        with pytest.raises(AuthenticationError, match="only simulators that hold its token: set the same EVAL_LINK"):
            await answer_authentication(channel, WITH_TOKEN)
        assert channel.closed
    assert told[0].startswith(
        "model: the model serves only simulators that hold its token: set the same EVAL_LINK_TOKEN"
    )


async def test_why_a_simulator_is_refused_is_told_here_also_where_it_does_not_listen() -> None:
    left, right = tcp_pair()
    left.sendall(framed({"cmd": "reset_model", "obs": None}) + b"\xff\xff\xff\xff")
    reset(left)  # what it is told cannot be sent, and what it had sent is nonsense
    channel = TrioChannel(trio.socket.from_stdlib_socket(right))
    with pytest.raises(AuthenticationError, match="set the same EVAL_LINK_TOKEN"):
        await answer_authentication(channel, WITH_TOKEN)
    assert channel.closed


def test_a_stock_model_is_not_used_and_the_line_says_what_to_do() -> None:
    log: list[str] = []
    with stock_peer.model_server(stock_peer.EchoPolicy(), log) as port:
        channel = BlockingChannel(sockets.dial(("localhost", port), attempts=1))
        with pytest.raises(
            AuthenticationError, match=r"knows of no token .*start it with the same EVAL_LINK_TOKEN, or"
        ):
            authenticate(channel, WITH_TOKEN, "m")
        assert channel.closed
    assert log == [AUTH_COMMAND]


def test_a_stock_model_that_dials_is_judged_alike() -> None:
    with sockets.listen("127.0.0.1", 0) as listener:
        stock_peer.model_dialing(stock_peer.EchoPolicy(), "127.0.0.1", sockets.bound_address(listener).port)
        channel = BlockingChannel(sockets.accept(listener, timeout=10)[0])
        with pytest.raises(AuthenticationError, match="knows of no token"):
            authenticate(channel, WITH_TOKEN, "m")


# ---------------------------------------------------------------- limits
async def test_a_stranger_is_held_to_small_messages_and_a_friend_is_not_afterwards() -> None:
    ours, theirs = memory_stream_pair()
    channel = TrioChannel(ours)
    await theirs.send_all(struct.pack(">I", AUTH_MAX_FRAME + 1))
    with pytest.raises(ProtocolError, match="above the maximum of 4096 bytes"):
        await answer_authentication(channel, WITH_TOKEN)
    assert channel.closed

    left, right = tcp_pair()
    right.sendall(struct.pack(">I", AUTH_MAX_FRAME + 1))
    with right, pytest.raises(ProtocolError, match="above the maximum of 4096 bytes"):
        authenticate(BlockingChannel(left), WITH_TOKEN, "m")


def test_the_limit_of_a_channel_is_put_back() -> None:
    for security in (WITH_TOKEN, NO_TOKEN):
        left, right = tcp_pair()
        channel = BlockingChannel(left, max_frame=12345)

        def answer(right: socket.socket = right) -> None:
            auth = ModelAuth(TOKEN.encode())
            while not auth.done:
                right.sendall(b"".join(auth.receive(read_frame(right))))

        with right, in_thread(answer if security is WITH_TOKEN else lambda: None):
            authenticate(channel, security, "m")
        assert channel.max_frame == 12345
        channel.close()


async def test_bytes_sent_ahead_of_the_exchange_are_a_violation() -> None:
    nonce = "0" * 64
    challenge = framed({"cmd": AUTH_COMMAND, "obs": {"nonce": nonce}})
    for ahead in (b"\0", framed({"cmd": "reset_model", "obs": None}), challenge):
        ours, theirs = memory_stream_pair()
        await theirs.send_all(challenge + ahead)
        with pytest.raises(AuthenticationError, match="sent more than the exchange of tokens asks for"):
            await answer_authentication(TrioChannel(ours), WITH_TOKEN)
        assert b'"kind": "auth_required"' in await theirs.receive_some()

    left, right = tcp_pair()

    def answer() -> None:
        auth = ModelAuth(TOKEN.encode())
        right.sendall(b"".join(auth.receive(read_frame(right))) + b"\0")

    with right, in_thread(answer), pytest.raises(AuthenticationError, match="sent more than the exchange"):
        authenticate(BlockingChannel(left), WITH_TOKEN, "m")


async def test_ten_seconds_for_all_of_it_however_the_bytes_are_spread(autojump_clock: MockClock) -> None:
    ours, theirs = memory_stream_pair()

    async def dribble() -> None:
        with contextlib.suppress(trio.BrokenResourceError):
            for byte in framed({"cmd": AUTH_COMMAND, "obs": {"nonce": "0" * 64}}):
                await theirs.send_all(bytes([byte]))
                await trio.sleep(1)

    async with trio.open_nursery() as nursery:
        begun = trio.current_time()
        nursery.start_soon(dribble)
        with pytest.raises(DeadlineExceeded, match="within 10"):
            await answer_authentication(TrioChannel(ours), WITH_TOKEN)
        assert trio.current_time() - begun == pytest.approx(10)
        nursery.cancel_scope.cancel()


async def test_the_second_message_does_not_get_ten_seconds_of_its_own(autojump_clock: MockClock) -> None:
    ours, theirs = memory_stream_pair()
    channel = TrioChannel(ours)
    begun = trio.current_time()

    async def challenge_and_wait() -> None:
        await trio.sleep(9)
        await theirs.send_all(framed({"cmd": AUTH_COMMAND, "obs": {"nonce": "0" * 64}}))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(challenge_and_wait)
        with pytest.raises(DeadlineExceeded):
            await answer_authentication(channel, WITH_TOKEN)
    assert trio.current_time() - begun == pytest.approx(10)
    assert channel.closed


async def test_a_simulator_that_was_dialed_may_be_busy_for_hours_before_it_speaks(autojump_clock: MockClock) -> None:
    ours, theirs = memory_stream_pair()
    simulator = SimulatorAuth(TOKEN.encode())

    async def speak_late() -> None:
        await trio.sleep(36_000)
        await theirs.send_all(b"".join(simulator.begin()))
        answer = bytes(await theirs.receive_some())
        await trio.sleep(9)
        await theirs.send_all(b"".join(simulator.receive(answer[4:]) or ()))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(speak_late)
        await answer_authentication(TrioChannel(ours), WITH_TOKEN, patient=True)
    assert simulator.receive((await theirs.receive_some())[4:]) is None


def test_a_model_that_says_nothing_or_dribbles_is_given_up() -> None:
    for dribbling in (False, True):
        left, right = tcp_pair()
        stop = threading.Event()

        def dribble(right: socket.socket = right, stop: threading.Event = stop) -> None:
            with contextlib.suppress(OSError):
                for byte in framed({"res": {"nonce": "0" * 64, "proof": "0" * 64}}):
                    right.sendall(bytes([byte]))
                    if stop.wait(0.05):
                        return

        channel = BlockingChannel(left)
        begun = time.monotonic()
        with right, in_thread(dribble if dribbling else lambda: None):
            with pytest.raises(DeadlineExceeded):
                authenticate(channel, WITH_TOKEN, "m", seconds=0.3)
            stop.set()
        assert time.monotonic() - begun < 5  # the bytes alone would take eight seconds and more
        assert channel.closed


# ---------------------------------------------------------------- peers that leave, and garbage
async def test_a_simulator_that_leaves_after_every_single_byte() -> None:
    simulator = SimulatorAuth(TOKEN.encode())
    challenge = b"".join(simulator.begin())
    for sent in range(len(challenge)):
        ours, theirs = memory_stream_pair()
        await theirs.send_all(challenge[:sent])
        await theirs.aclose()
        channel = TrioChannel(ours)
        with pytest.raises(PeerGone):  # nobody can say yet what that was: a port scan, most likely
            await answer_authentication(channel, WITH_TOKEN)
        assert channel.closed
    ours, theirs = memory_stream_pair()
    await theirs.send_all(challenge)
    await theirs.aclose()
    with pytest.raises((PeerGone, AuthenticationError)):
        await answer_authentication(TrioChannel(ours), WITH_TOKEN)


@pytest.mark.parametrize(
    "garbage", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\0"]
)
async def test_what_is_no_program_of_this_protocol(garbage: bytes) -> None:
    ours, theirs = memory_stream_pair()
    await theirs.send_all(garbage)
    channel = TrioChannel(ours)
    with pytest.raises(ProtocolError):
        await answer_authentication(channel, WITH_TOKEN)
    assert channel.closed


streams = st.lists(
    st.binary(max_size=40)
    | st.binary(min_size=1, max_size=200).map(framed)
    | st.sampled_from([{"cmd": AUTH_COMMAND, "obs": {"nonce": "0" * 64}}, {"res": "ok"}, {"error": "no"}]).map(framed),
    max_size=4,
).map(b"".join)


@settings(deadline=None)  # a busy machine is no failure
@given(streams)
def test_any_stream_of_bytes_ends_in_an_error_of_the_wire(stream: bytes) -> None:
    async def model() -> None:
        ours, theirs = memory_stream_pair()
        await theirs.send_all(stream)
        await theirs.send_stream.aclose()  # its receiving half stays open for what is answered
        channel = TrioChannel(ours)
        with pytest.raises((AuthenticationError, ProtocolError, PeerGone)):
            await answer_authentication(channel, WITH_TOKEN)
        assert channel.closed

    trio.run(model)
    left, right = socket.socketpair()
    with right:
        right.sendall(stream)
        right.shutdown(socket.SHUT_WR)
        channel = BlockingChannel(left)
        with pytest.raises((AuthenticationError, ProtocolError, PeerGone)):
            authenticate(channel, WITH_TOKEN, "m")
        assert channel.closed


async def test_cancelling_the_exchange_is_possible_at_any_time(autojump_clock: MockClock) -> None:
    ours, theirs = memory_stream_pair()
    await theirs.send_all(framed({"cmd": AUTH_COMMAND, "obs": {"nonce": "0" * 64}}))
    with trio.move_on_after(1) as scope:
        await answer_authentication(TrioChannel(ours), WITH_TOKEN)
    assert scope.cancelled_caught


# ---------------------------------------------------------------- from settings
def test_a_token_from_a_file_loses_one_newline_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "token"
    for text, token in [
        ("0123456789abcdef\n", b"0123456789abcdef"),
        ("0123456789abcdef\r\n", b"0123456789abcdef"),
        ("0123456789abcdef\n\n", b"0123456789abcdef\n"),
        (" 0123456789abcdef ", b" 0123456789abcdef "),
        ("ключ-от-всех-дверей", "ключ-от-всех-дверей".encode()),
    ]:
        path.write_bytes(text.encode())
        path.chmod(0o600)
        security = LinkSecurity.from_values(token_file=path)
        assert security.token == token
        assert security.warnings == ()


def test_a_token_that_is_empty_is_said_to_be_empty() -> None:
    with pytest.raises(SecurityError, match=r"^EVAL_LINK_TOKEN is set but empty; unset it or give the token$"):
        LinkSecurity.from_values(token="")


def test_a_secret_that_others_can_read_is_worth_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(TOKEN)
    for mode, expected in ((0o600, 0), (0o640, 1), (0o604, 1), (0o400, 0)):
        path.chmod(mode)
        warnings = LinkSecurity.from_values(token_file=path).warnings
        assert len(warnings) == expected
        assert all(f"chmod 600 {path}" in line and TOKEN not in line for line in warnings)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "EVAL_LINK_TOKEN_FILE: cannot read .*no such file"),
        (b"", "is empty; make one with: openssl rand -hex 32"),
        (b"\n", "is empty"),
        (b"short", "fewer than 16 characters, which can be guessed"),
        (b"\xff\xfe" * 20, "is not text"),
        (b"x" * 5000, "larger than 4096 bytes"),
    ],
)
def test_a_token_file_that_cannot_be_used(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SecurityError, match=words) as caught:
        LinkSecurity.from_values(token_file=path)
    assert "\n" not in str(caught.value)
    assert "short" not in str(caught.value)


def test_values_that_do_not_go_together() -> None:
    with pytest.raises(SecurityError, match="EVAL_LINK_TOKEN and EVAL_LINK_TOKEN_FILE are both set"):
        LinkSecurity.from_values(token=TOKEN, token_file="x")
    for values in ({"cert": "c"}, {"key": "k"}):
        with pytest.raises(SecurityError, match="EVAL_LINK_TLS_CERT and EVAL_LINK_TLS_KEY belong together"):
            LinkSecurity.from_values(**values)  # type: ignore[arg-type]
    with pytest.raises(SecurityError, match="EVAL_LINK_TOKEN holds fewer than 16") as caught:
        LinkSecurity.from_values(token="too-short-15-ch")
    assert "too-short" not in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert LinkSecurity.from_values() == LinkSecurity()
    not_utf8 = b"\xff" * 16
    assert LinkSecurity.from_values(token=os.fsdecode(not_utf8)).token == not_utf8


@pytest.mark.parametrize(
    ("bind", "security", "warns"),
    [
        ("0.0.0.0", NO_TOKEN, True),
        ("::", NO_TOKEN, True),
        ("192.0.2.7", NO_TOKEN, True),
        ("0.0.0.0", WITH_TOKEN, False),
        ("0.0.0.0", LinkSecurity(cert=Path("c"), key=Path("k")), True),
        ("0.0.0.0", LinkSecurity(cert=Path("c"), key=Path("k"), ca=Path("a")), False),
        ("localhost", NO_TOKEN, False),
        ("127.0.0.1", NO_TOKEN, False),
        ("127.8.9.1", NO_TOKEN, False),
        ("::1", NO_TOKEN, False),
        ("[::1]", NO_TOKEN, False),
        ("no-such-host.invalid", NO_TOKEN, False),
    ],
)
def test_listening_beyond_loopback_without_a_token_is_worth_one_line(
    bind: str, security: LinkSecurity, warns: bool
) -> None:
    line = exposure_warning(bind, security)
    assert (line is not None) is warns
    if line is not None:
        assert "EVAL_LINK_TOKEN" in line
        assert bind in line
        assert "\n" not in line


async def test_a_listener_goes_on_after_strangers() -> None:
    """The pieces as a model's program uses them: a stranger costs one exception, the next simulator is served."""
    with aio.listen("127.0.0.1", 0) as listener:
        address = aio.bound_address(listener)

        def stranger() -> None:
            with sockets.dial(address, attempts=1) as sock:
                sock.sendall(framed({"cmd": "reset_model", "obs": None}))
                assert b"auth_required" in read_frame(sock)
                assert sock.recv(1) == b""

        def friend() -> None:
            with BlockingChannel(sockets.dial(address, attempts=1)) as channel:
                authenticate(channel, WITH_TOKEN, "m")

        for client, fails in ((stranger, True), (friend, False), (stranger, True), (friend, False)):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.to_thread.run_sync, client)
                sock, _ = await aio.accept(listener)
                channel = TrioChannel(sock)
                with pytest.raises(AuthenticationError) if fails else contextlib.nullcontext():
                    await answer_authentication(channel, WITH_TOKEN)
                await channel.aclose()
