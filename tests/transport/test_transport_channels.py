"""Both channels, over real sockets and over memory streams with a clock that only waiting moves."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Awaitable, Callable, Iterator

import pytest
import trio
from transport_helpers import reset, tcp_pair
from trio.testing import MemoryReceiveStream, MemorySendStream, MockClock, memory_stream_pair

from framing.errors import DeadlineExceeded, PeerGone, ProtocolError
from framing.frames import encode_frame
from robopro_eval.transport import aio, sockets, trio_channel
from robopro_eval.transport.aio import TrioChannel
from robopro_eval.transport.blocking import IOV_MAX, BlockingChannel, drop_sent
from robopro_eval.transport.trio_channel import FAIR_FRAMES

BIG = os.urandom(1 << 20) * 8


@contextlib.contextmanager
def blocking_pair() -> Iterator[tuple[BlockingChannel, BlockingChannel]]:
    left, right = map(BlockingChannel, tcp_pair())
    with left, right:
        yield left, right


@contextlib.contextmanager
def channel_and_socket() -> Iterator[tuple[BlockingChannel, socket.socket]]:
    left, right = tcp_pair()
    with BlockingChannel(left) as channel, right:
        yield channel, right


def in_thread(function: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=function)
    thread.start()
    return thread


def frame(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


# ---------------------------------------------------------------- blocking: what works
def test_frames_go_both_ways_large_ones_too() -> None:
    with blocking_pair() as (left, right):
        for body in (b"x", BIG, b"y" * 70_000):
            thread = in_thread(
                lambda body=body: left.send(encode_frame([body[:1], body[1:]] if len(body) > 1 else body))
            )
            assert bytes(right.receive(5)) == body
            thread.join()
        assert left.peer.port == right._sock.getsockname()[1]


def test_more_pieces_than_one_system_call_takes() -> None:
    pieces = [bytes([number % 251]) * (number % 3) for number in range(3 * IOV_MAX)]
    with blocking_pair() as (left, right):
        left.send(encode_frame(pieces), 5)
        assert bytes(right.receive(5)) == b"".join(pieces)


def test_drop_sent_at_every_offset() -> None:
    pieces = [b"", b"abc", b"", b"d", b"efgh", b""]
    whole = b"".join(pieces)
    for sent in range(len(whole) + 1):
        rest = drop_sent([memoryview(piece) for piece in pieces], sent)
        assert b"".join(rest) == whole[sent:]
    assert drop_sent([memoryview(b"ab"), memoryview(b"")], 2) == []


def test_two_frames_in_one_packet_and_one_frame_in_many() -> None:
    with channel_and_socket() as (channel, peer):
        peer.sendall(frame(b"one") + frame(b"two"))
        assert [bytes(channel.receive(5)), bytes(channel.receive(5))] == [b"one", b"two"]

        def dribble() -> None:
            for byte in frame(b"three"):
                peer.sendall(bytes([byte]))
                time.sleep(0.005)

        thread = in_thread(dribble)
        assert bytes(channel.receive(5)) == b"three"
        thread.join()


# ---------------------------------------------------------------- blocking: deadlines
def test_a_deadline_is_for_the_whole_frame_not_for_each_read() -> None:
    with channel_and_socket() as (channel, peer):
        stop = threading.Event()

        def dribble() -> None:
            peer.sendall(struct.pack(">I", 1000))
            with contextlib.suppress(OSError):
                while not stop.wait(0.02):
                    peer.sendall(b"x")

        thread = in_thread(dribble)
        begun = time.monotonic()
        with pytest.raises(DeadlineExceeded, match=r"no reply from the peer at 127.0.0.1:\d+ within 0.3 s"):
            channel.receive(0.30000001)
        assert 0.29 < time.monotonic() - begun < 2
        stop.set()
        thread.join()
        assert channel.closed


def test_a_deadline_may_lie_further_away_than_poll_can_count() -> None:
    with channel_and_socket() as (channel, peer):
        thread = in_thread(lambda: (time.sleep(0.1), peer.sendall(struct.pack(">I", 2) + b"ok")))
        assert bytes(channel.receive(3_000_000.0)) == b"ok"
        peer.sendall(frame(b"ok"))
        assert bytes(channel.receive(math.inf)) == b"ok"
        thread.join()


def test_after_a_deadline_the_channel_is_closed_so_a_late_reply_reaches_nobody() -> None:
    with channel_and_socket() as (channel, peer):
        with pytest.raises(DeadlineExceeded):
            channel.receive(0.01)
        with contextlib.suppress(OSError):
            peer.sendall(frame(b"late"))
        with pytest.raises(PeerGone, match="is closed"):
            channel.receive(1)
        with pytest.raises(PeerGone, match="is closed"):
            channel.send(encode_frame(b"x"), 1)


def test_a_peer_that_does_not_read() -> None:
    with (
        channel_and_socket() as (channel, _),
        pytest.raises(DeadlineExceeded, match=r"did not take a message within 0\.2 s"),
    ):
        channel.send(encode_frame([BIG] * 4), 0.2)


def test_waiting_does_not_spin() -> None:
    with blocking_pair() as (left, _):
        before = time.process_time()
        with pytest.raises(DeadlineExceeded):
            left.receive(0.5)
        assert time.process_time() - before < 0.2


# ---------------------------------------------------------------- blocking: endings
def test_a_peer_that_closes_between_frames_and_one_that_closes_inside_one() -> None:
    with channel_and_socket() as (channel, peer):
        peer.sendall(frame(b"last"))
        peer.close()
        assert bytes(channel.receive(5)) == b"last"
        with pytest.raises(PeerGone, match=r"closed the connection$") as caught:
            channel.receive(5)
        assert not caught.value.mid_frame
    for sent in range(1, len(frame(b"abc"))):
        with channel_and_socket() as (channel, peer):
            peer.sendall(frame(b"abc")[:sent])
            peer.close()
            with pytest.raises(PeerGone, match=r"in the middle of a message$") as caught:
                channel.receive(5)
            assert caught.value.mid_frame


def test_rule_10_the_last_words_of_a_server_that_resets_are_read_before_the_reset_is_reported() -> None:
    with channel_and_socket() as (channel, peer):
        peer.sendall(frame(b'{"error": "why"}'))
        time.sleep(0.05)
        reset(peer)
        time.sleep(0.05)
        assert bytes(channel.receive(5)) == b'{"error": "why"}'
        with pytest.raises(PeerGone):
            channel.receive(5)


def test_rule_10_a_failing_send_leaves_the_reply_that_explains_it() -> None:
    """A stock server answers with an error and closes, with our next request half sent."""
    with channel_and_socket() as (channel, peer):

        def refuse() -> None:
            peer.recv(4)
            peer.sendall(frame(b'{"error": "why"}'))
            time.sleep(0.1)
            reset(peer)

        thread = in_thread(refuse)
        channel.send(encode_frame([BIG] * 4), 5)  # fails inside, but there is something to read
        thread.join()
        assert bytes(channel.receive(5)) == b'{"error": "why"}'
        with pytest.raises(PeerGone, match="vanished while a message was being sent to it"):
            channel.receive(5)


def test_a_failing_send_with_nothing_to_read_is_reported_at_once() -> None:
    with channel_and_socket() as (channel, peer):
        reset(peer)
        time.sleep(0.05)
        with pytest.raises(PeerGone, match="vanished while a message was being sent"):
            channel.send(encode_frame([BIG] * 4), 5)
        assert channel.closed


NONSENSE = b"\xff\xff\xff\xff"
"""A header that nobody of this protocol sends."""


@pytest.mark.parametrize("words", [[], [b'{"error": "why"}']])
def test_rule_10_a_failing_send_with_nonsense_to_read_closes_the_channel_too(words: list[bytes]) -> None:
    with channel_and_socket() as (channel, peer):
        peer.sendall(b"".join(map(frame, words)) + NONSENSE)
        reset(peer)
        with contextlib.ExitStack() as stack:
            if not words:
                stack.enter_context(pytest.raises(ProtocolError, match=r"4096\.0 MiB"))
            channel.send(encode_frame([BIG] * 4), 5)
        assert channel.closed
        for body in words:
            assert bytes(channel.receive(5)) == body
        with pytest.raises(ProtocolError, match=r"4096\.0 MiB"):
            channel.receive(5)


def test_a_receive_that_was_interrupted_goes_on_where_it_was() -> None:
    """Ctrl-C: the reply that is owed can still be taken, and goodbye said."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with channel_and_socket() as (channel, peer):
            peer.sendall(frame(b"owed")[:6])
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(KeyboardInterrupt):
                channel.receive(30)
            peer.sendall(frame(b"owed")[6:])
            assert bytes(channel.receive(5)) == b"owed"
            channel.send(encode_frame(b"bye"), 1)
            assert peer.recv(100) == frame(b"bye")
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_send_that_was_interrupted_closes_the_channel() -> None:
    """Half a frame may have gone out, and nothing may follow it."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with channel_and_socket() as (channel, _):
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(KeyboardInterrupt):
                channel.send(encode_frame([BIG] * 4), 30)
            assert channel.closed
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_peer_that_is_no_program_of_this_protocol() -> None:
    with channel_and_socket() as (channel, peer):
        peer.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        with pytest.raises(ProtocolError, match="it speaks HTTP"):
            channel.receive(5)
        assert channel.closed


# ---------------------------------------------------------------- trio over real sockets
async def test_trio_frames_go_both_ways_over_tcp() -> None:
    left, right = (TrioChannel(trio.socket.from_stdlib_socket(sock)) for sock in tcp_pair())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(left.send, encode_frame([BIG, b"tail"]))
        assert bytes(await right.receive(5)) == BIG + b"tail"
    await right.send(encode_frame(b"back"), 1)
    assert bytes(await left.receive(1)) == b"back"
    assert left.peer.host == "127.0.0.1"
    await left.aclose()
    await left.aclose()
    with pytest.raises(PeerGone, match="closed the connection"):
        await right.receive(5)
    with pytest.raises(PeerGone, match="is closed"):
        await left.receive(5)


async def test_trio_rule_10() -> None:
    left, right = tcp_pair()
    channel = TrioChannel(trio.socket.from_stdlib_socket(left))

    def refuse() -> None:
        right.recv(4)
        right.sendall(frame(b'{"error": "why"}'))
        time.sleep(0.1)
        reset(right)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, refuse)
        await channel.send(encode_frame([BIG] * 4), 5)
    assert bytes(await channel.receive(5)) == b'{"error": "why"}'
    with pytest.raises(PeerGone, match="vanished"):
        await channel.receive(5)


@pytest.mark.parametrize("words", [[], [b'{"error": "why"}']])
async def test_trio_rule_10_with_nonsense_to_read(words: list[bytes]) -> None:
    left, right = tcp_pair()
    channel = TrioChannel(trio.socket.from_stdlib_socket(left))
    right.sendall(b"".join(map(frame, words)) + NONSENSE)
    reset(right)
    with contextlib.ExitStack() as stack:
        if not words:
            stack.enter_context(pytest.raises(ProtocolError, match=r"4096\.0 MiB"))
        await channel.send(encode_frame([BIG] * 4), 5)
    assert channel.closed
    for body in words:
        assert bytes(await channel.receive(5)) == body
    with pytest.raises(ProtocolError, match=r"4096\.0 MiB"):
        await channel.receive(5)


async def turns_of_others_while(receive: Callable[[], Awaitable[object]], times: int) -> int:
    """How often another task, always ready, runs while `receive` is called `times` times (one may go uncounted)."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        await trio.lowlevel.checkpoint()
        turns = 0
        for _ in range(times):
            await receive()
        nursery.cancel_scope.cancel()
    return turns


async def test_trio_a_flood_of_small_frames_lets_other_tasks_run() -> None:
    left, right = tcp_pair()
    channel = TrioChannel(trio.socket.from_stdlib_socket(left))
    right.sendall(frame(b"x") * 1000)  # all there before the first is received: nothing has to wait
    assert await turns_of_others_while(channel.receive, 1000) >= 1000 // FAIR_FRAMES - 1
    right.close()


async def test_trio_a_large_frame_lets_other_tasks_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trio_channel, "FAIR_SHARE", 32 << 10)
    left, right = tcp_pair()
    channel = TrioChannel(trio.socket.from_stdlib_socket(left))
    right.sendall(frame(b"x" * (100 << 10)))  # fits into the socket's buffers; read in two calls
    assert await turns_of_others_while(channel.receive, 1) >= 1
    right.close()


async def test_trio_a_frame_is_not_lost_to_a_cancellation_while_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trio_channel, "FAIR_FRAMES", 1)
    left, right = tcp_pair()
    channel = TrioChannel(trio.socket.from_stdlib_socket(left))
    right.sendall(b"".join(frame(b"%d" % number) for number in range(100)))
    scope = trio.CancelScope()

    async def cancel_whatever_is_under_way() -> None:
        while True:
            await trio.lowlevel.checkpoint()
            scope.cancel()

    received: list[int] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancel_whatever_is_under_way)
        with trio.fail_after(10):
            while len(received) < 100:
                with trio.CancelScope() as scope:
                    received.append(int(bytes(await channel.receive())))
        nursery.cancel_scope.cancel()
    assert received == list(range(100))
    right.close()


async def test_trio_a_flood_can_be_cancelled_and_so_can_sending_one() -> None:
    left, right = tcp_pair()
    channel = TrioChannel(trio.socket.from_stdlib_socket(left))
    right.sendall(frame(b"x") * 10)
    for call in (channel.receive, lambda: channel.send(encode_frame(b"y"))):
        with trio.CancelScope() as scope:
            scope.cancel()
            await call()
        assert scope.cancelled_caught
    assert channel.closed  # a send that was cancelled may have been half done, as far as its caller knows
    right.close()


async def test_trio_closing_from_another_task_wakes_the_receiver() -> None:
    left, right = tcp_pair()
    channel = TrioChannel(trio.socket.from_stdlib_socket(left))
    async with trio.open_nursery() as nursery:

        async def wait() -> None:
            with pytest.raises(PeerGone, match="is closed"):
                await channel.receive()

        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        await channel.aclose()
    right.close()


async def test_trio_and_blocking_talk_to_each_other() -> None:
    listener = aio.listen("127.0.0.1", 0)
    address = aio.bound_address(listener)

    def simulator() -> bytes:
        with BlockingChannel(sockets.dial(address, attempts=1)) as channel:
            channel.send(encode_frame(BIG))
            return bytes(channel.receive(5))

    async def model() -> None:
        sock, _ = await aio.accept(listener)
        channel = TrioChannel(sock)
        body = await channel.receive(5)
        await channel.send(encode_frame(bytes(body[::-1])))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(model)
        assert await trio.to_thread.run_sync(simulator) == BIG[::-1]
    listener.close()


# ---------------------------------------------------------------- trio over memory, with a fake clock
async def test_trio_a_frame_in_any_pieces() -> None:
    data = frame(b"hello") + frame(b"again")
    for size in range(1, len(data) + 1):
        ours, theirs = memory_stream_pair()
        channel = TrioChannel(ours)
        async with trio.open_nursery() as nursery:

            async def dribble(size: int = size, theirs: trio.StapledStream = theirs) -> None:
                for at in range(0, len(data), size):
                    await theirs.send_all(data[at : at + size])

            nursery.start_soon(dribble)
            assert bytes(await channel.receive(1)) == b"hello"
            assert bytes(await channel.receive(1)) == b"again"


async def test_trio_the_peer_dies_at_every_offset() -> None:
    data = frame(b"hello")
    for sent in range(len(data)):
        ours, theirs = memory_stream_pair()
        channel = TrioChannel(ours)
        await theirs.send_all(data[:sent])
        await theirs.aclose()
        with pytest.raises(PeerGone) as caught:
            await channel.receive(1)
        assert caught.value.mid_frame is (sent > 0)
        assert channel.closed


async def test_trio_a_deadline_is_for_the_whole_frame(autojump_clock: MockClock) -> None:
    ours, theirs = memory_stream_pair()
    channel = TrioChannel(ours)

    async def dribble() -> None:
        await theirs.send_all(struct.pack(">I", 1000))
        with contextlib.suppress(trio.BrokenResourceError):
            for _ in range(1000):
                await trio.sleep(1)
                await theirs.send_all(b"x")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(dribble)
        begun = trio.current_time()
        with pytest.raises(DeadlineExceeded, match="within 90 s"):
            await channel.receive(90)
        assert trio.current_time() - begun == pytest.approx(90)
        nursery.cancel_scope.cancel()
    assert channel.closed
    with pytest.raises(PeerGone):
        await channel.receive(1)


async def test_trio_slow_is_not_dead(autojump_clock: MockClock) -> None:
    ours, theirs = memory_stream_pair()
    channel = TrioChannel(ours)
    async with trio.open_nursery() as nursery:

        async def answer() -> None:
            await trio.sleep(599)
            await theirs.send_all(frame(b"at last"))

        nursery.start_soon(answer)
        assert bytes(await channel.receive(600)) == b"at last"


async def test_trio_a_cancelled_receive_loses_nothing_and_a_cancelled_send_closes(autojump_clock: MockClock) -> None:
    ours, theirs = memory_stream_pair()
    channel = TrioChannel(ours)
    await theirs.send_all(frame(b"whole")[:6])
    with trio.move_on_after(1):
        await channel.receive()
    assert not channel.closed
    await theirs.send_all(frame(b"whole")[6:])
    assert bytes(await channel.receive(1)) == b"whole"

    def stuck() -> TrioChannel:
        return TrioChannel(trio.StapledStream(MemorySendStream(trio.sleep_forever), MemoryReceiveStream()))

    channel = stuck()
    with trio.move_on_after(1):
        await channel.send(encode_frame(b"x"))
    assert channel.closed
    channel = stuck()
    with pytest.raises(DeadlineExceeded, match="did not take a message within 3 s"):
        await channel.send(encode_frame(b"x"), 3)
    assert channel.closed


async def test_trio_garbage_closes() -> None:
    ours, theirs = memory_stream_pair()
    channel = TrioChannel(ours)
    await theirs.send_all(b"GET / HTTP/1.1\r\n")
    with pytest.raises(ProtocolError):
        await channel.receive(1)
    assert channel.closed
