"""Hundreds of peers of every kind come and go; a program that listens holds no more afterwards than before."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from counts import Counts
from evaluations import Evaluation, Record, check_whole, wait_until
from programs import Program
from release_report import DONE, RecordProperty
from resources import resources

from framing.session import BYE, Features, RequesterSession, ResponderSession
from robopro_eval.transport.blocking import BlockingChannel
from robopro_eval.transport.sockets import dial

Peer = Callable[[int], None]

PATIENCE = 60.0  # seconds for one reply of a program that is alive

NUDGE_OFFERS = Features(
    "nudge",
    frozenset({"reset_model", "set_language", "update_observation_window", "get_action"}),
    frozenset({"observation_window"}),
)

WARM_UP = 0.25
"""The part of the connections after which a program has everything that it will ever hold: caches, pools, threads."""

LEAK = 80 << 10
"""Bytes per connection, on average, that would be a leak. If half messages stayed alone, it would be 100 KiB and more;
a simulator, whose renderer still warms up, grows by up to 45 KiB."""


def knock(port: int) -> None:
    """A port scan: connected and gone."""
    socket.create_connection(("localhost", port)).close()


def half_a_header(port: int) -> None:
    with socket.create_connection(("localhost", port)) as sock:
        sock.sendall(b"\0\0")


def garbage(port: int) -> None:
    """A browser; it reads what it is told until the end."""
    with socket.create_connection(("localhost", port)) as sock:
        sock.settimeout(PATIENCE)
        with contextlib.suppress(ConnectionError):
            sock.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            while sock.recv(4096):
                pass


def half_a_message(port: int) -> None:
    """It dies in the middle of an observation."""
    with socket.create_connection(("localhost", port)) as sock:
        sock.sendall((1_400_000).to_bytes(4, "big") + bytes(600_000))


# ------------------------------------------------------------------------------------------------- as a simulator
def simulator_with_goodbye(port: int) -> None:
    _simulate(port, goodbye=True)


def simulator_without_goodbye(port: int) -> None:
    _simulate(port, goodbye=False)


def _simulate(port: int, *, goodbye: bool) -> None:
    """An episode of one query, with pictures as large as real ones."""
    with BlockingChannel(dial(("localhost", port))) as channel:
        session = RequesterSession()

        def ask(frame: Sequence[bytes | bytearray | memoryview]) -> None:
            channel.send(frame, PATIENCE)
            session.receive(channel.receive(PATIENCE))

        pictures = [np.zeros((240, 320, 3), np.uint8)] * 3
        ask(session.request("reset_model"))
        ask(session.request("reset_model", episode={"id": "cell/30000#1", "task": "put_cup_in_box", "seed": 30000}))
        ask(session.request("update_observation_window", [pictures, np.zeros(16), np.zeros((3, 3, 4)), np.eye(3)]))
        ask(session.request("get_action"))
        if goodbye:
            ask(session.bye())


# ------------------------------------------------------------------------------------------------------ as a model
def model_until_goodbye(port: int) -> None:
    """Answers a whole run."""
    _serve(port, None)


def model_that_vanishes(port: int) -> None:
    """Answers the first requests and is gone."""
    _serve(port, 3)


def _serve(port: int, requests: int | None) -> None:
    hold = np.tile([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0] * 2, (30, 1))
    with BlockingChannel(dial(("localhost", port))) as channel:
        session = ResponderSession(NUDGE_OFFERS)
        request = None
        while (requests is None or requests > 0) and not (request and request.cmd == BYE):
            request = session.receive(channel.receive(PATIENCE))
            channel.send(session.result(hold if request.cmd == "get_action" else None), PATIENCE)
            requests = None if requests is None else requests - 1


def flat(program: Program, peers: Sequence[Peer], port: int, connections: int) -> str:
    """Let so many peers come, one after another, and compare what the program holds with what it held before.

    Returns what was found, for the report.
    """
    warm_up = int(connections * WARM_UP)
    for number in range(warm_up):
        peers[number % len(peers)](port)
    before = resources(program.pid)
    for number in range(connections):
        peers[number % len(peers)](port)
    wait_until(lambda: resources(program.pid).descriptors <= before.descriptors, "descriptors closed", program)
    wait_until(lambda: resources(program.pid).threads <= before.threads, "threads ended", program)
    grown = resources(program.pid).memory - before.memory
    assert grown < LEAK * connections, f"{grown} bytes for {connections} connections"
    after = resources(program.pid)
    return (
        f"{connections} connections of {len(set(peers))} kinds after {warm_up} to warm up; descriptors "
        f"{before.descriptors} before and {after.descriptors} after, threads {before.threads} and {after.threads}, "
        f"memory {before.memory / 2**20:.1f} and {after.memory / 2**20:.1f} MiB"
    )


def test_a_listening_model_holds_nothing_of_those_who_left(
    tmp_path: Path, undisturbed: Sequence[Record], counts: Counts, record_property: RecordProperty
) -> None:
    """And afterwards it serves as well as before."""
    evaluation = Evaluation(tmp_path, [30000], "model-server")
    peers = (knock, half_a_header, garbage, half_a_message, simulator_with_goodbye, simulator_without_goodbye)
    with evaluation.model() as model:
        model.wait_for("listening on")
        record_property(DONE, flat(model, peers, evaluation.port, counts.connections))
        with evaluation.simulator() as sim:
            assert sim.exit_code() == 0
    check_whole(evaluation, undisturbed[:1])


def test_a_listening_simulator_holds_nothing_of_those_who_left(
    tmp_path: Path, counts: Counts, record_property: RecordProperty
) -> None:
    """Every model that stays gets a run of its own; those that vanish cost attempts, never the run."""
    evaluation = Evaluation(tmp_path, [30000])
    strangers = (knock, half_a_header, garbage, half_a_message)
    words = ("--serve_forever", "--max_attempts", "1000", "--step_lim", "30")
    # One arena: what a thread's own allocator kept back for the next thread would look like memory held.
    with evaluation.simulator(*words, MALLOC_ARENA_MAX="1") as sim:
        sim.wait_for("listening on")
        peers = (*strangers, *strangers, model_that_vanishes, model_until_goodbye)
        record_property(DONE, flat(sim, peers, evaluation.port, counts.connections))
        model_until_goodbye(evaluation.port)
