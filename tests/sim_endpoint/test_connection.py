"""Who may come through the door: models, and everything else that dials a port on a cluster."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import stock_peer

from framing.errors import WireError
from framing.session import BYE, Features, ResponderSession
from robopro_eval.console.errors import UsageError, UserError
from robopro_eval.transport.blocking import BlockingChannel
from sim_endpoint.connection import DialingLink, ListeningLink
from sim_endpoint.faults import NoModel
from sim_endpoint.greeting import Door, Greetings
from sim_endpoint.runner import LinkSupply
from sim_endpoint.settings import SimSettings


class Lines:
    def __init__(self) -> None:
        self.said: list[str] = []
        self.noted: list[str] = []

    @property
    def port(self) -> int:
        return int(self.said[0].split("0:")[1].split(" ")[0].removeprefix("0.0.1:"))


def settings(**fields: Any) -> Door:
    return Door(SimSettings(**{"sim_as_server": True, "port": 0, "sim_server_recv_timeout": 5.0} | fields))


@pytest.fixture
def lines() -> Lines:
    return Lines()


@pytest.fixture
def listening(lines: Lines) -> Iterator[ListeningLink]:
    link = ListeningLink(settings(), lines.said.append, lines.noted.append)
    link.open()
    yield link
    link.close()


def port_of(lines: Lines) -> int:
    return int(lines.said[0].split("0.0.0.0:")[1].split(" ")[0])


def test_the_lines_are_the_ones_operators_look_for(listening: ListeningLink, lines: Lines) -> None:
    port = port_of(lines)
    assert lines.said == [f"🚀 SIM server listening on 0.0.0.0:{port} — waiting for model to connect..."]
    assert port > 0, "port 0: the port really bound is printed"
    stock_peer.model_dialing(stock_peer.EchoPolicy(), "localhost", port)
    source = listening.connect(5.0)
    assert lines.said[1].startswith("🔗 Model connected from ('127.0.0.1', ")
    assert source.call("echo", [3]) == 3
    source.close(goodbye=True)


def _port_scan(sock: socket.socket) -> None:
    sock.close()


def _reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def _http(sock: socket.socket) -> None:
    sock.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    time.sleep(0.2)
    sock.close()


def _random_bytes(sock: socket.socket) -> None:
    sock.sendall(bytes([0, 0, 0, 9]) + b"\x80\x81\x82 junk!!")
    time.sleep(0.2)
    sock.close()


def _oversized(sock: socket.socket) -> None:
    sock.sendall(b"\xff\xff\xff\xff")
    time.sleep(0.2)
    sock.close()


def _silent(sock: socket.socket) -> None:
    time.sleep(1.0)
    sock.close()


@pytest.mark.parametrize(
    ("stranger", "words"),
    [
        (_port_scan, "left without a word"),
        (_reset, "left without a word"),
        (_http, "no model of ours"),
        (_random_bytes, "no model of ours"),
        (_oversized, "no model of ours"),
        (_silent, "did not answer"),
    ],
)
def test_a_stranger_costs_one_line_and_the_wait_goes_on(
    lines: Lines, stranger: Callable[[socket.socket], None], words: str
) -> None:
    link = ListeningLink(settings(sim_server_recv_timeout=0.4), lines.said.append, lines.noted.append)
    link.open()
    port = port_of(lines)

    def strangers_then_a_model() -> None:
        stranger(socket.create_connection(("localhost", port)))
        stock_peer.model_dialing(stock_peer.EchoPolicy(), "localhost", port)

    threading.Thread(target=strangers_then_a_model, daemon=True).start()
    source = link.connect(10.0)
    assert source.call("echo", ["hello"]) == "hello"
    notes = [line for line in lines.noted if words in line]
    assert len(notes) == 1, lines.noted
    assert "\n" not in notes[0]
    assert "still waiting" in notes[0]
    source.close(goodbye=True)
    link.close()


class Ours:
    """A model of ours that dials in and answers everything with None, the first request not before ``may_answer``."""

    def __init__(self, port: int) -> None:
        self.asked = threading.Event()
        self.may_answer = threading.Event()
        self.log: list[str] = []
        self.thread = threading.Thread(target=self._serve, args=(port,), daemon=True)
        self.thread.start()

    def _serve(self, port: int) -> None:
        session = ResponderSession(Features("ours"))
        with BlockingChannel(socket.create_connection(("localhost", port))) as channel:
            while self.log[-1:] != [BYE]:
                try:
                    request = session.receive(channel.receive(10.0))
                except WireError:
                    return
                self.log.append(request.cmd)
                self.asked.set()
                self.may_answer.wait(10.0)
                channel.send(session.result(None), 10.0)

    def ended(self) -> bool:
        self.thread.join(10.0)
        return not self.thread.is_alive()


def test_a_silent_stranger_keeps_nobody_out(lines: Lines) -> None:
    """It would have been waited for as long as for a first reply, ten minutes, with everybody else in the queue."""
    link = ListeningLink(settings(sim_server_recv_timeout=600.0), lines.said.append, lines.noted.append)
    link.open()
    with socket.create_connection(("localhost", port_of(lines))):
        stock_peer.model_dialing(stock_peer.EchoPolicy(), "localhost", port_of(lines))
        source = link.connect(10.0)
        assert source.call("echo", [1]) == 1
        assert lines.noted == []
        source.close(goodbye=True)
    link.close()


def test_the_first_that_answers_is_taken_and_the_other_is_at_hand(listening: ListeningLink, lines: Lines) -> None:
    slow = Ours(port_of(lines))
    quick = Ours(port_of(lines))
    quick.may_answer.set()
    first = listening.connect(10.0)
    assert slow.asked.wait(10.0)
    slow.may_answer.set()
    first.close(goodbye=True)
    assert quick.ended()
    second = listening.connect(10.0)
    second.call("anything")
    second.close(goodbye=True)
    assert slow.ended()
    assert slow.log == ["reset_model", "anything", BYE]


def test_who_does_not_answer_makes_room(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim_endpoint.greeting.MAX_GREETINGS", 2)
    link = ListeningLink(settings(sim_server_recv_timeout=600.0), lines.said.append, lines.noted.append)
    link.open()
    strangers = [socket.create_connection(("localhost", port_of(lines))) for _ in range(3)]
    stock_peer.model_dialing(stock_peer.EchoPolicy(), "localhost", port_of(lines))
    source = link.connect(10.0)
    assert source.call("echo", [1]) == 1
    assert ["makes room" in line for line in lines.noted] == [True, True]
    source.close(goodbye=True)
    for stranger in strangers:
        stranger.close()
    link.close()


def test_a_model_whose_first_reply_an_interrupt_overtook_is_told_goodbye(
    listening: ListeningLink, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would dial again and again: nobody told it that the run is over."""
    model = Ours(port_of(lines))
    real = Greetings.wait

    def interrupted(self: Greetings, *args: Any) -> bool:
        if model.asked.is_set():
            raise KeyboardInterrupt
        return real(self, 0.1, *args[1:])

    monkeypatch.setattr(Greetings, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        listening.connect(None)
    model.may_answer.set()
    listening.close()
    assert model.ended()
    assert model.log == ["reset_model", BYE]


def test_nobody_comes(listening: ListeningLink) -> None:
    with pytest.raises(NoModel, match=r"no model connected within 0\.2 s"):
        listening.connect(0.2)


def test_the_port_is_taken(lines: Lines) -> None:
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        link = ListeningLink(settings(port=port), lines.said.append, lines.noted.append)
        with pytest.raises(UserError, match=f"port {port} is in use"):
            link.open()


def test_sim_server_port_beats_port(lines: Lines) -> None:
    link = ListeningLink(settings(port=1, sim_server_port=0), lines.said.append, lines.noted.append)
    link.open()
    assert port_of(lines) > 1
    link.close()


def test_an_address_that_can_never_work(lines: Lines) -> None:
    link = ListeningLink(settings(sim_server_bind="http://node"), lines.said.append, lines.noted.append)
    with pytest.raises(UsageError, match="http://node"):
        link.open()
    dialing = DialingLink(settings(sim_as_server=False, model_server_host="a b", port=1), print, print)
    with pytest.raises(UsageError, match="MODEL_SERVER_HOST"):
        dialing.connect(None)


# ---------------------------------------------------------------- dialing
def dialing(lines: Lines, port: int, **fields: Any) -> DialingLink:
    chosen = settings(
        sim_as_server=False,
        port=port,
        model_server_host="localhost",
        connect_interval=0.1,
        connect_attempts=3,
        **fields,
    )
    return DialingLink(chosen, lines.said.append, lines.noted.append)


def test_dialing_a_stock_server(lines: Lines) -> None:
    with stock_peer.model_server(stock_peer.EchoPolicy()) as port:
        source = dialing(lines, port).connect(None)
        assert lines.said == [f"🔗 Connected to model server at localhost:{port}"]
        assert source.call("echo", [1]) == 1
        source.close(goodbye=True)


def test_dialing_where_nobody_listens(lines: Lines) -> None:
    with socket.create_server(("localhost", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(NoModel, match=str(port)) as caught:
        dialing(lines, port).connect(None)
    assert "\n" not in str(caught.value)


def test_dialing_an_http_server(lines: Lines) -> None:
    with socket.create_server(("localhost", 0)) as server:

        def answer() -> None:
            sock, _ = server.accept()
            sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            time.sleep(0.5)
            sock.close()

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(NoModel, match="no model of ours"):
            dialing(lines, server.getsockname()[1]).connect(None)


def test_dialing_a_door_that_always_closes(lines: Lines) -> None:
    with socket.create_server(("localhost", 0)) as server:

        def slam() -> None:
            for _ in range(3):
                sock, _ = server.accept()
                sock.close()

        threading.Thread(target=slam, daemon=True).start()
        with pytest.raises(NoModel, match="closed every connection"):
            dialing(lines, server.getsockname()[1]).connect(None)
        assert len(lines.noted) == 3


def test_dialing_a_busy_model_waits_and_says_so(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    """It accepts the connection and is silent as long as it serves another simulator."""
    monkeypatch.setattr("sim_endpoint.greeting.STATUS_EVERY", 0.15)
    with socket.create_server(("localhost", 0)) as server:
        with pytest.raises(NoModel, match=r"did not answer: .* within 0\.4 s"):
            dialing(lines, server.getsockname()[1], sim_server_recv_timeout=0.4).connect(None)
        assert sum("has not answered" in line and "busy" in line for line in lines.noted) >= 3, lines.noted
        assert sum("dialing again" in line for line in lines.noted) == 3, lines.noted


# ---------------------------------------------------------------- models that go and come back
def test_a_model_that_returns_is_used_and_one_that_does_not_ends_the_run(
    listening: ListeningLink, lines: Lines
) -> None:
    port = port_of(lines)
    supply = LinkSupply(listening, "echo", lambda *_: None, {}, peer_wait=0.3, note=lines.noted.append)
    stock_peer.model_dialing(stock_peer.EchoPolicy(), "localhost", port)
    first = supply.current()
    assert supply.current() is first
    supply.lost()
    stock_peer.model_dialing(stock_peer.EchoPolicy(), "localhost", port)
    second = supply.current()
    assert second is not first
    supply.lost()
    with pytest.raises(NoModel, match=r"within 0\.3 s"):
        supply.current()
    assert sum("waiting up to 0.3 s" in line for line in lines.noted) == 2
