"""TLS: both channels over it, who is turned away and with which words, deadlines in the middle of its records."""

from __future__ import annotations

import contextlib
import datetime
import math
import os
import select
import socket
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio
from certificates import Certificates
from transport_helpers import reset, tcp_pair
from trio.testing import MockClock

from framing.errors import AuthenticationError, DeadlineExceeded, PeerGone, ProtocolError, WireError
from framing.frames import encode_frame
from robopro_eval.transport import aio, sockets, tls
from robopro_eval.transport.addresses import Address
from robopro_eval.transport.aio import TrioChannel, answer_authentication
from robopro_eval.transport.blocking import BlockingChannel, poll_for
from robopro_eval.transport.errors import SecurityError
from robopro_eval.transport.security import LinkSecurity, authenticate, secure, start_tls

BIG = os.urandom(1 << 20) * 6
PLAIN = LinkSecurity()
LONG_AGO = datetime.datetime(2020, 1, 1)


Outcome = bytes | Exception
Side = Callable[[socket.socket, LinkSecurity, bool], Outcome]
"""One program: makes its end secure and, if it dialed, asks; else answers. What it got, or what it raised."""


def blocking_side(sock: socket.socket, security: LinkSecurity, listening: bool) -> Outcome:
    try:
        with BlockingChannel(secure(sock, security, listening=listening, host="localhost", seconds=1)) as channel:
            if listening:
                body = bytes(channel.receive(5))
                channel.send(encode_frame([body[:10], body[10:]]), 5)
                return body
            channel.send(encode_frame([b"he", BIG]), 5)
            return bytes(channel.receive(5))
    except Exception as error:
        return error


def trio_side(sock: socket.socket, security: LinkSecurity, listening: bool) -> Outcome:
    async def main() -> Outcome:
        try:
            line = await aio.secure(
                trio.socket.from_stdlib_socket(sock), security, listening=listening, host="localhost", seconds=1
            )
            channel = TrioChannel(line)
            try:
                if listening:
                    body = bytes(await channel.receive(5))
                    await channel.send(encode_frame([body[:10], body[10:]]), 5)
                    return body
                await channel.send(encode_frame([b"he", BIG]), 5)
                return bytes(await channel.receive(5))
            finally:
                await channel.aclose()
        except Exception as error:
            return error

    return trio.run(main)


SIDES: dict[str, Side] = {"blocking": blocking_side, "trio": trio_side}
PAIRS = [("blocking", "trio"), ("trio", "blocking"), ("blocking", "blocking"), ("trio", "trio")]


@dataclass
class Met:
    """What the dialing and the listening side got."""

    dialed: Outcome
    listened: Outcome


def meet(listener: LinkSecurity, dialer: LinkSecurity, sides: tuple[str, str] = ("blocking", "trio")) -> Met:
    dialed, accepted = tcp_pair()
    outcomes: list[Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(SIDES[sides[1]](accepted, listener, True)))
    thread.start()
    first = SIDES[sides[0]](dialed, dialer, False)
    thread.join(10)
    return Met(first, outcomes[0])


# ---------------------------------------------------------------- what works
@pytest.mark.parametrize("sides", PAIRS, ids="-".join)
@pytest.mark.parametrize("mutual", [False, True])
def test_frames_of_any_size_go_both_ways(certificates: Certificates, sides: tuple[str, str], mutual: bool) -> None:
    listener = certificates.security("localhost", ca=mutual)
    met = meet(listener, certificates.security("sim" if mutual else None, ca=True), sides)
    assert met.dialed == met.listened == b"he" + BIG


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_versions_of_tls_and_nothing_older(
    certificates: Certificates, version: ssl.TLSVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener, dialer = certificates.security("localhost", ca=True), certificates.security("sim", ca=True)
    assert listener.context(listening=True).minimum_version == ssl.TLSVersion.TLSv1_2
    assert dialer.context(listening=False).minimum_version == ssl.TLSVersion.TLSv1_2
    made = tls.client_context

    def only(*files: Path | None) -> ssl.SSLContext:
        context = made(*files)
        context.maximum_version = version
        return context

    monkeypatch.setattr(tls, "client_context", only)
    for sides in PAIRS[:2]:
        assert meet(listener, dialer, sides).dialed == b"he" + BIG


async def test_a_token_over_tls(certificates: Certificates) -> None:
    token = "a-token-that-nobody-can-guess"
    cert, key = certificates.issue("localhost")
    model = LinkSecurity.from_values(token=token, cert=cert, key=key)
    simulator = LinkSecurity.from_values(token=token, ca=certificates.ca)
    dialed, accepted = tcp_pair()

    def simulate() -> bytes:
        with BlockingChannel(secure(dialed, simulator, listening=False, host="localhost")) as channel:
            authenticate(channel, simulator, "m")
            channel.send(encode_frame(BIG), 5)
            return bytes(channel.receive(5))

    async def serve() -> None:
        channel = TrioChannel(await aio.secure(trio.socket.from_stdlib_socket(accepted), model, listening=True))
        await answer_authentication(channel, model)
        await channel.send(encode_frame(bytes(await channel.receive(5))), 5)
        await channel.aclose()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        assert await trio.to_thread.run_sync(simulate) == BIG


def test_a_peer_that_has_gone_is_still_named(certificates: Certificates) -> None:
    dialed, accepted = tcp_pair()
    where = Address(*accepted.getsockname())
    wrapped = start_tls(dialed, certificates.security(None, ca=True), listening=False, host="localhost")
    reset(accepted)
    assert poll_for(wrapped, select.POLLIN).poll(10_000)
    with pytest.raises(OSError, match="not connected"):
        socket.socket.getpeername(wrapped)
    with BlockingChannel(wrapped) as channel:
        assert channel.peer == where


def test_pieces_are_the_same_bytes_in_few_writes() -> None:
    small, large = b"s" * 100, bytes(range(256)) * 4096
    buffers = [b"", small, small, large, small, b"", memoryview(large)[: tls.JOIN_BELOW], small]
    made = list(tls.pieces(buffers))
    assert b"".join(made) == b"".join(buffers)
    assert [len(piece) for piece in made] == [200, *[tls.PIECE] * 4, 100, tls.JOIN_BELOW, 100]
    assert all(piece.obj is large for piece in made[1:5])
    assert list(tls.pieces([])) == list(tls.pieces([b"", b""])) == []
    many = [small] * 10_000
    assert b"".join(tls.pieces(many)) == b"".join(many)
    assert max(len(piece) for piece in tls.pieces(many)) <= tls.PIECE + tls.JOIN_BELOW


# ---------------------------------------------------------------- who is turned away, and how it is told
def check(error: Outcome, kind: type[WireError], *words: str) -> None:
    assert type(error) is kind, error
    text = str(error)
    assert "\n" not in text
    assert "_ssl.c" not in text
    for word in words:
        assert word in text


@pytest.mark.parametrize("sides", PAIRS[:2], ids="-".join)
class TestTurnedAway:
    def test_a_ca_that_the_dialer_does_not_trust(
        self, certificates: Certificates, other_certificates: Certificates, sides: tuple[str, str]
    ) -> None:
        met = meet(certificates.security("localhost", ca=False), other_certificates.security(None, ca=True), sides)
        check(met.dialed, AuthenticationError, "is not trusted", "set EVAL_LINK_TLS_CA here")
        check(met.listened, AuthenticationError, "does not trust the CA of our certificate", "EVAL_LINK_TLS_CA there")

    def test_a_certificate_for_another_host(self, certificates: Certificates, sides: tuple[str, str]) -> None:
        met = meet(certificates.security("node-7", ca=False), certificates.security(None, ca=True), sides)
        check(met.dialed, AuthenticationError, "not made for the host that was dialed", "EVAL_LINK_TLS_CERT there")
        check(met.listened, AuthenticationError, "EVAL_LINK_TLS_CERT here must be made for the host name")

    def test_a_certificate_that_has_expired(self, certificates: Certificates, sides: tuple[str, str]) -> None:
        cert, key = certificates.issue("localhost", LONG_AGO)
        listener = LinkSecurity.from_values(cert=cert, key=key)
        met = meet(listener, certificates.security(None, ca=True), sides)
        check(met.dialed, AuthenticationError, "has expired: renew EVAL_LINK_TLS_CERT there")
        check(met.listened, AuthenticationError, "has expired: renew EVAL_LINK_TLS_CERT here")

    def test_a_dialer_without_the_certificate_that_is_asked_for(
        self, certificates: Certificates, sides: tuple[str, str]
    ) -> None:
        met = meet(certificates.security("localhost", ca=True), certificates.security(None, ca=True), sides)
        check(met.listened, AuthenticationError, "showed no certificate: set EVAL_LINK_TLS_CERT")
        check(met.dialed, ProtocolError, "asks for a certificate: set EVAL_LINK_TLS_CERT")  # TLS 1.3 tells it late

    def test_a_dialer_with_a_certificate_of_another_ca(
        self, certificates: Certificates, other_certificates: Certificates, sides: tuple[str, str]
    ) -> None:
        cert, key = other_certificates.issue("sim")
        dialer = LinkSecurity.from_values(cert=cert, key=key, ca=certificates.ca)
        met = meet(certificates.security("localhost", ca=True), dialer, sides)
        check(met.listened, AuthenticationError, "is not trusted", "set EVAL_LINK_TLS_CA here")
        check(met.dialed, ProtocolError, "does not trust the CA of our certificate")

    def test_a_dialer_with_an_expired_certificate(self, certificates: Certificates, sides: tuple[str, str]) -> None:
        cert, key = certificates.issue("sim", LONG_AGO)
        dialer = LinkSecurity.from_values(cert=cert, key=key, ca=certificates.ca)
        met = meet(certificates.security("localhost", ca=True), dialer, sides)
        check(met.listened, AuthenticationError, "has expired: renew EVAL_LINK_TLS_CERT there")
        check(met.dialed, ProtocolError, "has expired: renew EVAL_LINK_TLS_CERT here")

    def test_a_dialer_without_tls_is_told_in_plain_words(
        self, certificates: Certificates, sides: tuple[str, str]
    ) -> None:
        met = meet(certificates.security("localhost", ca=False), PLAIN, sides)
        check(met.listened, AuthenticationError, "does not speak TLS: set EVAL_LINK_TLS_CA there, with")
        assert isinstance(met.dialed, bytes)
        assert b'"error": "this port speaks TLS and nothing else: set EVAL_LINK_TLS_CA' in met.dialed
        assert b'"kind": "auth_required"' in met.dialed

    def test_a_dialer_without_tls_that_asked_already_reads_the_words_and_then_an_end(
        self, certificates: Certificates, sides: tuple[str, str]
    ) -> None:
        dialed, accepted = tcp_pair()
        with dialed:
            dialed.sendall(struct.pack(">I", 5000) + b"x" * 5000)
            SIDES[sides[1]](accepted, certificates.security("localhost", ca=False), True)
            (size,) = struct.unpack(">I", dialed.recv(4, socket.MSG_WAITALL))
            assert b"this port speaks TLS and nothing else" in dialed.recv(size, socket.MSG_WAITALL)
            assert dialed.recv(1) == b"", "an orderly end, no reset that other systems let overtake the words"

    def test_a_listener_without_tls(self, certificates: Certificates, sides: tuple[str, str]) -> None:
        met = meet(PLAIN, certificates.security(None, ca=True), sides)
        check(met.listened, ProtocolError, "it speaks TLS, and this end expects plain frames")
        check(met.dialed, PeerGone, "during the TLS handshake; perhaps it listens without TLS")

    def test_a_listener_that_answers_in_plain_frames(self, certificates: Certificates, sides: tuple[str, str]) -> None:
        dialed, accepted = tcp_pair()
        accepted.sendall(b"\0\0\0\x02{}")
        with accepted:
            error = SIDES[sides[0]](dialed, certificates.security(None, ca=True), False)
        check(
            error,
            AuthenticationError,
            "does not speak TLS: set EVAL_LINK_TLS_CERT and EVAL_LINK_TLS_KEY there, or unset",
        )

    def test_a_dialer_that_waits_silently_is_told_too(self, certificates: Certificates, sides: tuple[str, str]) -> None:
        """A model without TLS that dials: it waits for the simulator's first word."""
        dialed, accepted = tcp_pair()
        with dialed:
            error = SIDES[sides[1]](accepted, certificates.security("localhost", ca=False), True)
            check(error, DeadlineExceeded, "did not complete a TLS handshake within 1 s; perhaps it dials without TLS")
            assert b"this port speaks TLS and nothing else" in dialed.recv(4096)
            assert dialed.recv(1) == b""

    def test_a_peer_that_closes_at_once(self, certificates: Certificates, sides: tuple[str, str]) -> None:
        for at, listening in ((0, False), (1, True)):
            pair = tcp_pair()
            pair[1 - at].close()
            security = certificates.security("localhost", ca=True)
            error = SIDES[sides[at]](pair[at], security, listening)
            check(error, PeerGone, "during the TLS handshake")


# ---------------------------------------------------------------- our own files
def test_files_that_cannot_be_used_are_named_before_anything_is_opened(
    certificates: Certificates, tmp_path: Path
) -> None:
    cert, key = certificates.issue("localhost")
    _, other_key = certificates.issue("node-7")
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("no certificate")
    locked = tmp_path / "locked.key"
    subprocess.run(
        ["openssl", "ec", "-aes256", "-passout", "pass:secret", "-in", key, "-out", locked],
        check=True,
        capture_output=True,
    )
    missing = tmp_path / "missing.pem"
    for values, listening, words in [
        ({"cert": cert, "key": other_key}, True, "EVAL_LINK_TLS_KEY: .* is not the key of the certificate"),
        ({"cert": cert, "key": other_key}, False, "EVAL_LINK_TLS_KEY: .* is not the key of the certificate"),
        ({"cert": missing, "key": key}, True, "EVAL_LINK_TLS_CERT: cannot read .*no such file"),
        ({"cert": cert, "key": missing}, True, "EVAL_LINK_TLS_KEY: cannot read .*no such file"),
        ({"cert": garbage, "key": key}, True, "EVAL_LINK_TLS_CERT, EVAL_LINK_TLS_KEY: .* in PEM form"),
        ({"cert": cert, "key": locked}, True, "EVAL_LINK_TLS_KEY: .* is protected by a pass phrase"),
        ({"ca": missing}, False, "EVAL_LINK_TLS_CA: cannot read"),
        ({"ca": garbage}, False, "EVAL_LINK_TLS_CA: .* holds no certificate in PEM form"),
        ({"cert": cert, "key": key, "ca": garbage}, True, "EVAL_LINK_TLS_CA: .* holds no certificate"),
        ({"ca": certificates.ca}, True, "listens with TLS needs its certificate and key: set EVAL_LINK_TLS_CERT"),
    ]:
        security = LinkSecurity.from_values(**values)
        with pytest.raises(SecurityError, match=words) as caught:
            security.check(listening=listening)
        assert "\n" not in str(caught.value)
    LinkSecurity.from_values(cert=cert, key=key).check(listening=True)
    LinkSecurity.from_values(cert=cert, key=key).check(listening=False)  # the system's CAs
    PLAIN.check(listening=True)


def test_a_renewed_certificate_counts_from_the_next_connection_on(tmp_path: Path, certificates: Certificates) -> None:
    old, old_key = certificates.issue("localhost", LONG_AGO)
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert.write_bytes(old.read_bytes())
    key.write_bytes(old_key.read_bytes())
    listener, dialer = LinkSecurity(cert=cert, key=key), certificates.security(None, ca=True)
    check(meet(listener, dialer).dialed, AuthenticationError, "has expired")
    new, new_key = certificates.issue("localhost")
    cert.write_bytes(new.read_bytes())
    key.write_bytes(new_key.read_bytes())
    assert meet(listener, dialer).dialed == b"he" + BIG


def test_a_key_that_others_can_read_is_worth_a_warning(certificates: Certificates) -> None:
    cert, key = certificates.issue("node-8")
    assert LinkSecurity.from_values(cert=cert, key=key).warnings == ()
    key.chmod(0o644)
    (line,) = LinkSecurity.from_values(cert=cert, key=key).warnings
    assert f"EVAL_LINK_TLS_KEY: others on this machine can read {key}" in line


# ---------------------------------------------------------------- deadlines and endings inside a record
@dataclass
class RawTls:
    """A peer whose every encrypted byte the test sends by hand."""

    sock: socket.socket
    context: ssl.SSLContext

    def __post_init__(self) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = self.context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    def shake_hands(self) -> None:
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                self.sock.sendall(self.outgoing.read())
                self.incoming.write(self.sock.recv(1 << 16))
            else:
                self.sock.sendall(self.outgoing.read())
                return

    def record(self, data: bytes) -> bytes:
        """What TLS makes of `data`, not sent yet."""
        self.tls.write(data)
        return self.outgoing.read()


@contextlib.contextmanager
def channel_and_raw_peer(certificates: Certificates) -> Iterator[tuple[BlockingChannel, RawTls]]:
    dialed, accepted = tcp_pair()
    peer = RawTls(dialed, certificates.security(None, ca=True).context(listening=False))
    thread = threading.Thread(target=peer.shake_hands)
    thread.start()
    listener = certificates.security("localhost", ca=False)
    with dialed, BlockingChannel(secure(accepted, listener, listening=True)) as channel:
        thread.join()
        yield channel, peer


FRAME = struct.pack(">I", 40_000) + b"x" * 40_000


def test_blocking_a_deadline_holds_in_the_middle_of_a_record(certificates: Certificates) -> None:
    with channel_and_raw_peer(certificates) as (channel, peer):
        peer.sock.sendall(peer.record(FRAME)[:-1])
        begun = time.monotonic()
        with pytest.raises(DeadlineExceeded, match=r"no reply from the peer at 127.0.0.1:\d+ within 0.3 s"):
            channel.receive(0.3)
        assert 0.29 < time.monotonic() - begun < 5
        assert channel.closed


def test_blocking_a_deadline_is_for_the_whole_frame_however_its_records_drip(certificates: Certificates) -> None:
    with channel_and_raw_peer(certificates) as (channel, peer):
        stop = threading.Event()

        def drip() -> None:
            with contextlib.suppress(OSError):
                for byte in FRAME:
                    peer.sock.sendall(peer.record(bytes([byte])))
                    if stop.wait(0.02):
                        return

        thread = threading.Thread(target=drip)
        thread.start()
        with pytest.raises(DeadlineExceeded):
            channel.receive(0.3)
        stop.set()
        thread.join()


def test_blocking_a_peer_that_does_not_read_is_given_up(certificates: Certificates) -> None:
    with channel_and_raw_peer(certificates) as (channel, _):
        with pytest.raises(DeadlineExceeded, match=r"did not take a message within 0\.2 s"):
            channel.send(encode_frame([BIG] * 4), 0.2)
        assert channel.closed


def test_blocking_waiting_does_not_spin(certificates: Certificates) -> None:
    with channel_and_raw_peer(certificates) as (channel, peer):
        peer.sock.sendall(peer.record(FRAME)[:100])
        before = time.process_time()
        with pytest.raises(DeadlineExceeded):
            channel.receive(0.5)
        assert time.process_time() - before < 0.2


def test_blocking_a_record_with_several_frames_gives_them_all_and_a_frame_takes_many_records(
    certificates: Certificates,
) -> None:
    with channel_and_raw_peer(certificates) as (channel, peer):
        peer.sock.sendall(peer.record(b"\0\0\0\x01a\0\0\0\x01b\0\0\0\x01c"))
        assert [bytes(channel.receive(5)) for _ in range(3)] == [b"a", b"b", b"c"]
        for byte in b"\0\0\0\x05hello":
            peer.sock.sendall(peer.record(bytes([byte])))
        assert bytes(channel.receive(5)) == b"hello"


def test_blocking_the_last_words_of_a_peer_are_read_though_sending_fails(certificates: Certificates) -> None:
    """Rule 10 over TLS."""
    with channel_and_raw_peer(certificates) as (channel, peer):

        def refuse() -> None:
            peer.sock.recv(10)
            peer.sock.sendall(peer.record(b"\0\0\0\x03why"))
            time.sleep(0.1)
            reset(peer.sock)

        thread = threading.Thread(target=refuse)
        thread.start()
        channel.send(encode_frame([BIG] * 4), 5)
        thread.join()
        assert bytes(channel.receive(5)) == b"why"
        with pytest.raises(PeerGone, match="vanished while a message was being sent to it"):
            channel.receive(5)


@pytest.mark.parametrize("keep", [0, 1, 100, -1])
def test_blocking_a_peer_that_ends_inside_a_frame(certificates: Certificates, keep: int) -> None:
    with channel_and_raw_peer(certificates) as (channel, peer):
        peer.sock.sendall(peer.record(FRAME[:5]) + peer.record(FRAME[5:])[:keep])
        peer.sock.close()
        with pytest.raises(PeerGone, match="in the middle of a message") as caught:
            channel.receive(5)
        assert caught.value.mid_frame


def test_blocking_a_record_that_was_tampered_with(certificates: Certificates) -> None:
    with channel_and_raw_peer(certificates) as (channel, peer):
        record = bytearray(peer.record(b"\0\0\0\x05hello"))
        record[-1] ^= 1
        peer.sock.sendall(record)
        with pytest.raises(ProtocolError, match=r"bad record mac|decryption failed"):
            channel.receive(5)
        assert channel.closed


@contextlib.asynccontextmanager
async def trio_channel_and_raw_peer(certificates: Certificates) -> AsyncIterator[tuple[TrioChannel, RawTls]]:
    dialed, accepted = tcp_pair()
    peer = RawTls(dialed, certificates.security(None, ca=True).context(listening=False))
    thread = threading.Thread(target=peer.shake_hands)
    thread.start()
    listener = certificates.security("localhost", ca=False)
    line = await aio.secure(trio.socket.from_stdlib_socket(accepted), listener, listening=True, seconds=math.inf)
    thread.join()
    channel = TrioChannel(line)
    with dialed:
        yield channel, peer
        await channel.aclose()


async def test_trio_a_deadline_is_for_the_whole_frame_also_inside_a_record(
    certificates: Certificates, autojump_clock: MockClock
) -> None:
    async with trio_channel_and_raw_peer(certificates) as (channel, peer):
        record = peer.record(FRAME)

        async def drip() -> None:
            for byte in record:
                peer.sock.sendall(bytes([byte]))
                await trio.sleep(1)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(drip)
            begun = trio.current_time()
            with pytest.raises(DeadlineExceeded, match="within 90 s"):
                await channel.receive(90)
            assert trio.current_time() - begun == pytest.approx(90)
            nursery.cancel_scope.cancel()
        assert channel.closed


async def test_trio_a_peer_that_does_not_read_is_given_up(
    certificates: Certificates, autojump_clock: MockClock
) -> None:
    async with trio_channel_and_raw_peer(certificates) as (channel, _):
        with pytest.raises(DeadlineExceeded, match="did not take a message within 3 s"):
            await channel.send(encode_frame([BIG] * 4), 3)
        assert channel.closed


async def test_trio_a_peer_that_ends_inside_a_frame(certificates: Certificates) -> None:
    async with trio_channel_and_raw_peer(certificates) as (channel, peer):
        peer.sock.sendall(peer.record(FRAME[:100]))
        peer.sock.close()
        with pytest.raises(PeerGone, match="in the middle of a message") as caught:
            await channel.receive(5)
        assert caught.value.mid_frame


async def test_trio_a_cancelled_receive_loses_nothing(certificates: Certificates, autojump_clock: MockClock) -> None:
    async with trio_channel_and_raw_peer(certificates) as (channel, peer):
        assert channel.peer == sockets.Address(*peer.sock.getsockname())
        record = peer.record(FRAME)
        peer.sock.sendall(record[:20_000])
        with trio.move_on_after(1) as scope:
            await channel.receive()
        assert scope.cancelled_caught
        peer.sock.sendall(record[20_000:])
        assert bytes(await channel.receive(1)) == FRAME[4:]


async def test_trio_closing_from_another_task_wakes_the_receiver(certificates: Certificates) -> None:
    async with trio_channel_and_raw_peer(certificates) as (channel, _), trio.open_nursery() as nursery:

        async def wait() -> None:
            with pytest.raises(PeerGone, match="is closed"):
                await channel.receive()

        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        await channel.aclose()


async def test_a_handshake_that_nobody_answers_is_given_up(
    certificates: Certificates, autojump_clock: MockClock
) -> None:
    for listening in (True, False):
        dialed, accepted = tcp_pair()
        ours, theirs = (accepted, dialed) if listening else (dialed, accepted)
        security = certificates.security("localhost", ca=True)
        begun = trio.current_time()
        with theirs, pytest.raises(DeadlineExceeded, match="did not complete a TLS handshake within 10 s"):
            await aio.secure(trio.socket.from_stdlib_socket(ours), security, listening=listening, host="localhost")
        assert trio.current_time() - begun == pytest.approx(10)


def test_blocking_a_handshake_is_bounded_as_a_whole_not_byte_by_byte(certificates: Certificates) -> None:
    dialed, accepted = tcp_pair()
    stop = threading.Event()
    hello = RawTls(dialed, certificates.security(None, ca=True).context(listening=False))
    with contextlib.suppress(ssl.SSLWantReadError):
        hello.tls.do_handshake()
    data = hello.outgoing.read()

    def drip() -> None:
        with contextlib.suppress(OSError):
            for byte in data:
                dialed.sendall(bytes([byte]))
                if stop.wait(0.05):
                    return

    thread = threading.Thread(target=drip)
    thread.start()
    with dialed, pytest.raises(DeadlineExceeded):
        secure(accepted, certificates.security("localhost", ca=False), listening=True, seconds=0.3)
    stop.set()
    thread.join()


# ---------------------------------------------------------------- nothing leaks
def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_two_hundred_connections_that_fail_in_every_way_leave_no_descriptor_open(
    certificates: Certificates, other_certificates: Certificates
) -> None:
    listener = certificates.security("localhost", ca=True)
    dialers = [
        certificates.security("sim", ca=True),  # welcome
        certificates.security(None, ca=True),  # no certificate
        other_certificates.security(None, ca=True),  # does not trust us
        PLAIN,
    ]
    wrong, right = (LinkSecurity.from_values(token=letter * 16) for letter in "ab")

    def strangers(sides: tuple[str, str]) -> None:
        for dialer in dialers:
            meet(listener, dialer, sides)
        dialed, accepted = tcp_pair()

        async def model() -> None:
            with pytest.raises(AuthenticationError):
                await answer_authentication(TrioChannel(trio.socket.from_stdlib_socket(accepted)), right)

        thread = threading.Thread(target=trio.run, args=(model,))
        thread.start()
        with pytest.raises(AuthenticationError):
            authenticate(BlockingChannel(dialed), wrong, "m")
        thread.join()

    for sides in PAIRS[:2]:  # what is opened once and for all
        strangers(sides)
    before, threads = descriptors(), threading.active_count()
    for _ in range(20):
        for sides in PAIRS[:2]:
            strangers(sides)
    assert descriptors() <= before
    assert threading.active_count() <= threads  # those that trio keeps for a while may end meanwhile
