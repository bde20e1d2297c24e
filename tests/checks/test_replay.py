"""Recorded episodes played again: to the same model, to others, to a stock one, and whatever is wrong with the file."""

from __future__ import annotations

import json
import re
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stock_peer
from broken_servers import Connection, GoodServer
from programs import BIN, NUDGE, Program, clean_environ, free_port

from framing.frames import encode_frame
from framing.session import Request, RequesterSession
from policies.echo.deploy_policy import Echo
from robopro_eval.checks.replay import MAX_SHOWN, read_exchanges
from robopro_eval.checks.replay_cli import main
from robopro_eval.transport import sockets
from robopro_eval.transport.blocking import BlockingChannel
from robopro_eval.transport.recording import Direction, RecordedFrame, Recording, RecordingChannel, read_recording

REPLAY = [sys.executable, "-m", "robopro_eval.checks.replay_cli"]
EPISODE = {"id": "cell/30001#1", "task": "lift_pot", "seed": 30001}
POSE = np.linspace(-1.0, 1.0, 14)


@dataclass
class Run:
    """How one run of the program ended."""

    code: int
    output: str


Replay = Callable[..., Run]


@pytest.fixture
def replay(capsys: pytest.CaptureFixture[str]) -> Replay:
    """Runs the program in this process."""

    def run(*words: object) -> Run:
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        return Run(code, (out + err).rstrip("\n"))

    return run


def record(port: int, path: Path, *, wire: Any = "auto") -> None:
    """An episode of a few calls, one of which fails, as `eval-sim --record` writes it."""
    session = RequesterSession(wire)
    channel: Any = BlockingChannel(sockets.dial(("localhost", port)))

    def ask(frame: Any) -> None:
        channel.send(frame, 10)
        session.receive(channel.receive(10))

    ask(session.request("reset_model"))
    channel = RecordingChannel(channel, path, meta={"policy": "echo", "episode": EPISODE})
    if session.features is not None:
        ask(session.request("reset_model", episode=EPISODE))
        ask(session.get("remembered"))
    ask(session.request("remember", [POSE]))
    ask(session.request("get_action"))
    ask(session.request("echo", [{"rgb": np.zeros((24, 32, 3), np.uint8), "score": 0.5}]))
    if session.features is not None:
        channel.send(session.request("fail", ["as asked"]), 10)
        with pytest.raises(Exception, match="as asked"):
            session.receive(channel.receive(10))
        ask(session.request("echo_args", [1], {"b": 2}))
        ask(session.bye())
    channel.close()


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "a.recording"
    with GoodServer() as server:
        record(server.port, path)
    return path


def lines(program: Run | Program, word: str) -> list[str]:
    return [line.removeprefix(word).strip() for line in program.output.splitlines() if line.startswith(word)]


def test_what_is_read_from_a_recording(recording: Path) -> None:
    exchanges = read_exchanges(read_recording(recording))
    assert [(one.number, one.name) for one in exchanges] == [
        (1, "reset_model"),
        (2, "attribute remembered"),
        (3, "remember"),
        (4, "get_action"),
        (5, "echo"),
        (6, "fail"),
        (7, "echo_args"),
    ]
    assert exchanges[0].request.episode == EPISODE
    assert exchanges[5].answer.kind == "policy_error"
    assert all(one.seconds >= 0 for one in exchanges)


def frame(arrow: str, seconds: float, **message: object) -> RecordedFrame:
    return RecordedFrame(Direction(arrow), seconds, memoryview(json.dumps(message).encode()))


def upgraded(number: int, cmd: str, **more: object) -> dict[str, Any]:
    return {"cmd": cmd, "id": number, "accept": ["json", "wait"], "args": [], "kwargs": {}, **more}


def test_replies_belong_to_the_requests_in_their_order() -> None:
    """Two requests back to back, a wait notice, a request that was skipped, and one that was never answered."""
    frames = (
        frame(">", 0.0, **upgraded(1, "reset_model")),
        frame("<", 0.1, wait={"place": 1, "of": 1}, id=1, kind="wait"),
        frame("<", 0.5, res="reset", id=1, kind="ok"),
        frame(">", 1.0, **upgraded(2, "update_obs")),
        frame(">", 1.5, **upgraded(3, "get_action", follows=2)),
        frame("<", 2.0, res=None, id=2, kind="ok"),
        frame("<", 4.0, res=[7], id=3, kind="ok"),
        frame(">", 5.0, **upgraded(4, "update_obs")),
        frame(">", 5.0, **upgraded(5, "get_action", follows=4)),
        frame("<", 6.0, error="boom", traceback="", id=4, kind="policy_error"),
        frame("<", 6.0, error="not called", traceback="", id=5, kind="skipped"),
        frame(">", 7.0, **upgraded(6, "get_action")),
    )
    exchanges = read_exchanges(Recording({}, frames, torn=False, full=False))
    assert [(one.name, one.answer.value, one.answer.kind, one.seconds) for one in exchanges] == [
        ("reset_model", "reset", None, 0.5),
        ("update_obs", None, None, 1.0),
        ("get_action", [7], None, 2.5),
        ("update_obs", None, "policy_error", 1.0),
        ("get_action", None, "skipped", 1.0),
    ]


def test_what_was_skipped_then_is_not_asked_now(tmp_path: Path, replay: Replay) -> None:
    failing = {"error": "no such method", "traceback": "", "id": 1, "kind": "unknown_method"}
    skipped = {"error": "not called", "traceback": "", "id": 2, "kind": "skipped"}
    ours, theirs = socket.socketpair()
    recorder = RecordingChannel(BlockingChannel(ours), tmp_path / "a", meta={})
    for request in (upgraded(1, "update_obs"), upgraded(2, "recall", follows=1)):
        recorder.send(encode_frame(json.dumps(request).encode()), 5)
    for reply in (failing, skipped):
        theirs.sendall(b"".join(encode_frame(json.dumps(reply).encode())))
        recorder.receive(5)
    recorder.close()
    theirs.close()
    with GoodServer() as server:
        program = replay(tmp_path / "a", f"tcp://localhost:{server.port}")
    assert program.code == 0, program.output
    assert lines(program, "result")[0].startswith("1 of 1 replies are the same")
    assert lines(program, "not asked") == [
        "1 request: it had been sent behind a request that failed, and was not called"
    ]


def test_the_same_server_says_the_same(recording: Path, replay: Replay) -> None:
    with GoodServer() as server:
        program = replay(recording, f"tcp://localhost:{server.port}")
    assert program.code == 0, program.output
    assert lines(program, "recording") == ["policy echo, id cell/30001#1, task lift_pot, seed 30001: 7 requests"]
    assert lines(program, "server") == [f"tcp://localhost:{server.port}, upgraded, policy 'echo'"]
    assert lines(program, "result") == ["7 of 7 replies are the same (rtol 0.0001, atol 1e-06)"]
    assert lines(program, "difference") == []
    times = lines(program, "time")
    assert len(times) == 7
    assert all(re.fullmatch(r"\S.*: \d+\.\d ms recorded, \d+\.\d ms now \(median of 1\)", line) for line in times)


def test_the_episode_begins_as_it_did(recording: Path, replay: Replay) -> None:
    """Sampling noise is a function of task and seed: the policy must be told the same ones."""

    class Listening(GoodServer):
        heard: Any = None

        def understand(self, conn: Connection, body: bytearray) -> Request:
            request = super().understand(conn, body)
            self.heard = self.heard or request.episode
            return request

    with Listening() as server:
        program = replay(recording, f"tcp://localhost:{server.port}")
    assert program.code == 0
    assert server.heard == EPISODE


class OtherGain(GoodServer):
    """Its actions are a little larger, and what it echoes is of another dtype and value."""

    def changed(self, conn: Connection, request: Request, value: Any) -> object:
        if request.cmd == "get_action":
            return value * np.float32(1.01)
        if request.cmd == "echo":
            return {"rgb": value["rgb"].astype(np.float32), "score": 0.25}
        return value


def test_the_first_difference_is_named_by_its_key_path(recording: Path, replay: Replay) -> None:
    with OtherGain() as server:
        program = replay(recording, f"tcp://localhost:{server.port}")
    assert program.code == 1
    assert lines(program, "difference") == [
        "request 4 (get_action): res[0, 0]: -1.0 became -1.01; 420 of 420 values differ, by up to 0.01"
    ]
    assert lines(program, "result") == [
        "5 of 7 replies are the same (rtol 0.0001, atol 1e-06); --all shows all differences"
    ]


def test_all_differences_are_shown_on_request_and_tolerances_hold(recording: Path, replay: Replay) -> None:
    with OtherGain() as server:
        program = replay(recording, f"tcp://localhost:{server.port}", "--all", "--rtol", "0.02")
    assert program.code == 1
    assert lines(program, "difference") == [
        "request 5 (echo): res.rgb: dtype uint8 became float32",
        "request 5 (echo): res.score: 0.5 became 0.25",
    ]


def test_only_so_many_differences_are_shown(recording: Path, replay: Replay) -> None:
    class Verbose(GoodServer):
        def changed(self, conn: Connection, request: Request, value: Any) -> object:
            return {**value, **dict.fromkeys(map(str, range(1000)))} if request.cmd == "echo" else value

    with Verbose() as server:
        program = replay(recording, f"tcp://localhost:{server.port}", "--all")
    assert program.code == 1
    assert len(lines(program, "difference")) == MAX_SHOWN


def test_an_error_in_place_of_a_result_is_a_difference(recording: Path, replay: Replay) -> None:
    class Failing(GoodServer):
        def do(self, conn: Connection, request: Request) -> object:
            if request.cmd == "get_action":
                return conn.dispatcher.call("fail", ["no weights"])
            return super().do(conn, request)

    with Failing() as server:
        program = replay(recording, f"tcp://localhost:{server.port}")
    assert program.code == 1
    (difference,) = lines(program, "difference")
    assert difference.startswith("request 4 (get_action): res: a result became the error ")
    assert "no weights" in difference


def test_a_stock_server_is_asked_what_it_can_be_asked(recording: Path, replay: Replay) -> None:
    with stock_peer.model_server(Echo()) as port:
        program = replay(recording, f"tcp://localhost:{port}")
    assert program.code == 0, program.output
    assert lines(program, "result")[0].startswith("5 of 5 replies are the same")
    assert lines(program, "not asked") == [
        "1 request: a stock server has no attributes to read",
        "1 request: a stock server closes the connection after an error reply",
    ]


def test_what_a_stock_server_said_is_played_to_ours(tmp_path: Path, replay: Replay) -> None:
    path = tmp_path / "stock.recording"
    with stock_peer.model_server(Echo()) as port:
        record(port, path)
    with GoodServer() as server:
        program = replay(path, f"tcp://localhost:{server.port}")
    assert program.code == 0, program.output
    assert lines(program, "result")[0].startswith("3 of 3 replies are the same")


def test_a_server_that_is_lost_on_the_way_is_said_to_be(recording: Path, replay: Replay) -> None:
    class Dying(GoodServer):
        def answer(self, conn: Connection, request: Request) -> Any:
            if request.cmd == "get_action":
                self.end()
            return super().answer(conn, request)

    with Dying() as server:
        program = replay(recording, f"tcp://localhost:{server.port}")
    assert program.code == 1
    assert "error: the server was lost at request 4 (get_action): " in program.output
    assert program.output.endswith("; 3 of 3 replies are the same")


def test_a_torn_recording_is_played_as_far_as_it_goes(recording: Path, replay: Replay) -> None:
    recording.write_bytes(recording.read_bytes()[:-20])
    with GoodServer() as server:
        program = replay(recording, f"tcp://localhost:{server.port}")
    assert program.code == 0
    assert lines(program, "incomplete") == [
        "the recording's end is torn off; only the requests that are there were asked"
    ]
    assert program.output.index("incomplete") < program.output.index("time "), (
        "it is the first thing said of the result"
    )


def test_a_recording_may_be_called_none(recording: Path, replay: Replay, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere that word stands for a setting that is not set."""
    recording.rename(recording.with_name("none"))
    monkeypatch.chdir(recording.parent)
    with GoodServer() as server:
        program = replay("none", f"tcp://localhost:{server.port}")
    assert program.code == 0, program.output


@pytest.mark.parametrize(
    ("words", "missing"), [([], "name the recording"), (["a.recording"], "give one of tcp://HOST:PORT")]
)
def test_what_the_command_lacks_is_named_in_the_order_of_its_words(
    words: list[str], missing: str, replay: Replay
) -> None:
    program = replay(*words)
    assert program.code == 2
    assert missing in program.output


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"PK\x03\x04", "is not a recording"),
        (b"RPWIRE\0\x01\0\0\0\2{}", "holds no request that was answered"),
        (b"RPWIRE\0\x01\0\0\0\2{}<" + bytes(8) + b"\0\0\0\x0e\0\0\0\x0a" + b'{"res": 1}', "a reply to no request"),
        (
            b"RPWIRE\0\x01\0\0\0\2{}>" + bytes(8) + b"\0\0\0\x07\0\0\0\x03" + b"abc",
            "frame 1 of the recording is no message",
        ),
    ],
)
def test_a_file_that_cannot_be_played_is_a_wrong_command(
    content: bytes | None, words: str, tmp_path: Path, replay: Replay
) -> None:
    if content is not None:
        (tmp_path / "a").write_bytes(content)
    program = replay(tmp_path / "a", "tcp://localhost:1")
    assert program.code == 2
    assert words in program.output


@pytest.fixture(scope="module")
def real_recording(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    """Of one real episode with the nudge policy, and the port of the model that still serves it."""
    folder, port = tmp_path_factory.mktemp("recorded"), free_port()
    (folder / "seeds").write_text("30001")
    with Program([BIN / "eval-model", "--policy_name", NUDGE, "--port", str(port)]) as model:
        model.wait_for("listening on")
        words = ["--policy_name", NUDGE, "--task_name", "put_cup_in_box", "--task_config", "bench_demo_study_clean"]
        words += ["--eval_seed_file", folder / "seeds", "--port", port, "--step_lim", 90, "--no-video"]
        words += ["--record", folder / "frames"]
        environ = clean_environ(RUNS_ROOT=str(folder / "runs"))
        with Program([BIN / "eval-sim", *map(str, words)], env=environ) as sim:
            assert sim.exit_code() == 0, sim.output
        (path,) = (folder / "frames").iterdir()
        yield path, port


def test_a_real_episode_is_repeated_by_the_model_that_played_it(
    real_recording: tuple[Path, int], replay: Replay
) -> None:
    path, port = real_recording
    program = replay(path, f"tcp://localhost:{port}", "--rtol", "0", "--atol", "0")
    assert program.code == 0, program.output
    assert sum(": " in line for line in lines(program, "time")) >= 4
    assert "seed 30001" in lines(program, "recording")[0]


def test_a_model_with_another_reach_differs_in_its_first_action(
    real_recording: tuple[Path, int], tmp_path: Path
) -> None:
    path, _ = real_recording
    source = (NUDGE / "deploy_policy.py").read_text("utf-8")
    folder = tmp_path / "far_nudge"
    folder.mkdir()
    (folder / "deploy_policy.py").write_text(source.replace("REACH = 0.03 ", "REACH = 0.04 "), "utf-8")
    assert "REACH = 0.04 " in (folder / "deploy_policy.py").read_text("utf-8")
    with Program([*REPLAY, path, "--listen", "0"], env=clean_environ()) as program:
        port = program.wait_for("waiting for a model to dial port").split()[-2]
        environ = clean_environ(MODEL_AS_CLIENT="1", SIM_SERVER_HOST="localhost", SIM_SERVER_PORT=port)
        with Program([BIN / "eval-model", "--policy_name", str(folder)], env=environ) as model:
            assert program.exit_code() == 1, program.output
            assert model.exit_code() == 0, model.output
    (difference,) = lines(program, "difference")
    assert re.match(r"request \d+ \(get_action\): res\[0, 0\]: \S+ became \S+; \d+ of 480 values differ", difference)


def test_a_server_that_asks_for_a_token_is_named_in_one_sentence(
    recording: Path, replay: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the other way round: ours has one, the server knows of none."""
    monkeypatch.setenv("EVAL_LINK_TOKEN", "0123456789abcdef0123456789abcdef")
    with GoodServer() as server:
        program = replay(recording, f"tcp://localhost:{server.port}")
    assert program.code == 1
    assert program.output.splitlines()[-1].startswith("error: ")
    assert "EVAL_LINK_TOKEN" in program.output
