"""What eval() sees as its model: over the wire to ours, to a stock server, and in the same process."""

from __future__ import annotations

import contextlib
import math
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stock_peer

from framing.errors import EncodeError, PeerGone, PolicyError, WireError
from framing.session import BYE, GET, RequesterSession, ResponderSession
from model_endpoint.dispatcher import Dispatcher
from model_endpoint.loading import load_face
from robopro_eval.transport.blocking import BlockingChannel
from sim_endpoint.local_model import LocalModel
from sim_endpoint.model_client import ModelClient, RemoteData
from sim_endpoint.model_source import CallClock, EpisodeInfo
from sim_endpoint.remote_model import RemoteModel
from sim_endpoint.settings import Patience

EPISODE = EpisodeInfo("study/t/c/demo/7#1", "t", 7)


class Runner:
    def __init__(self) -> None:
        self.obs: deque[Any] = deque([np.zeros(3), object()])


class Policy:
    def __init__(self) -> None:
        self.observation_window: Any = None
        self.obs_cache: list[Any] = []
        self.env_runner = Runner()
        self.exec_actions = 20
        self.horizon = np.float32(0.5)
        self.seen: list[Any] = []
        self.module = threading

    def begin_episode(self, info: dict[str, Any]) -> None:
        self.seen.append(("begin", info["id"], info["seed"]))

    def reset_model(self) -> None:
        self.seen.append("reset")
        self.observation_window = None

    def update_observation_window(self, rgb: Any, proprio: Any) -> None:
        self.observation_window = {"rgb": rgb, "proprio": proprio}

    def forget(self) -> None:
        self.observation_window = None

    def update_obs(self, obs: Any) -> None:
        self.obs_cache.append(obs)

    def get_action(self, *args: Any, **kwargs: Any) -> Any:
        return {"args": list(args), "kwargs": kwargs, "chunk": np.ones((30, 20), np.float32)}

    def pair(self) -> tuple[int, int]:
        return (1, 2)

    def fail(self) -> None:
        raise ValueError("asked to fail")

    def think(self) -> None:
        time.sleep(0.5)

    def secret(self) -> object:
        return object()


FACE = "def get_model(usr_args):\n    raise RuntimeError\n\ndef eval(TASK_ENV, model, observation):\n    pass\n"


@pytest.fixture
def dispatcher(tmp_path: Path) -> Dispatcher:
    folder = tmp_path / "toy"
    folder.mkdir()
    (folder / "deploy_policy.py").write_text(FACE)
    return Dispatcher(load_face(folder), Policy())


def serve_ours(sock: socket.socket, dispatcher: Dispatcher, log: list[str]) -> None:
    channel = BlockingChannel(sock)
    session = ResponderSession(dispatcher.features())
    while True:
        try:
            request = session.receive(channel.receive(10.0))
        except (WireError, OSError):
            return
        log.append(request.cmd)
        try:
            if request.cmd == BYE:
                with contextlib.suppress(WireError):  # it need not wait for the answer
                    channel.send(session.result(None))
                return
            if request.cmd == GET:
                value = dispatcher.get(str(request.args[0]), bool(request.kwargs.get("length")))
            else:
                if request.episode is not None:
                    dispatcher.begin_episode(request.episode)
                value = dispatcher.call(request.cmd, request.args, request.kwargs)
            frame = session.result(value, infer_seconds=0.25)
        except PolicyError as error:
            frame = session.error(str(error), error.remote_traceback, error.kind)
        except EncodeError as error:
            frame = session.error(str(error), None, "cannot_send")
        channel.send(frame)


class Ours:
    """A RemoteModel joined by a socket pair to a responder in a thread."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        here, there = socket.socketpair()
        self.log: list[str] = []
        self.thread = threading.Thread(target=serve_ours, args=(there, dispatcher, self.log), daemon=True)
        self.thread.start()
        self.source = RemoteModel(BlockingChannel(here), RequesterSession(), patience=Patience(10.0, 10.0), peer="pair")
        self.source.handshake()


@pytest.fixture(params=["local", "remote"])
def source(request: pytest.FixtureRequest, dispatcher: Dispatcher) -> Iterator[Any]:
    """Both kinds of source; every test with it says that they are the same to eval()."""
    if request.param == "local":
        yield LocalModel(dispatcher)
    else:
        ours = Ours(dispatcher)
        yield ours.source
        ours.source.close(goodbye=True)
        ours.thread.join(5.0)
        assert not ours.thread.is_alive()


@pytest.fixture
def model(source: Any) -> Any:
    client: Any = ModelClient(source, {"pi0_step": 50})
    source.begin_episode(EPISODE)
    client.begin_episode()
    return client


def test_methods_with_arguments(model: Any) -> None:
    result = model.get_action(np.arange(3, dtype=np.uint8), "text", flag=True)
    np.testing.assert_array_equal(result["args"][0], [0, 1, 2])
    assert result["args"][0].dtype == np.uint8
    assert result["args"][1] == "text"
    assert result["kwargs"] == {"flag": True}
    result["chunk"][:3] = 0  # writable


def test_a_single_none_is_an_argument_and_no_argument_is_none(model: Any) -> None:
    assert model.get_action(None)["args"] == [None]
    assert model.get_action()["args"] == []


def test_tuples_arrive_as_lists_also_locally(model: Any) -> None:
    assert model.pair() == [1, 2]


def test_values_arrive_as_over_the_wire_between_two_of_ours(model: Any) -> None:
    """Binary and JSON bodies alike, bytes included, which the stock wire does not carry."""
    sent = {
        "bytes": b"\x00\xff",
        "half": np.float16(0.1),
        "0-d": np.array(3, ">i4"),
        "empty": np.zeros((0, 20)),
        "nan": [math.nan, -math.inf],
        "picture": np.arange(240 * 320 * 3, dtype=np.uint32).reshape(240, 320, 3)[::2],
        "user's own": {"__numpy_array__": True, "_args": [1]},
    }
    for arrived in model.get_action(sent)["args"], model.get_action(key=sent)["kwargs"].values():
        (values,) = arrived
        assert values["bytes"] == b"\x00\xff"
        assert values["half"] == float(np.float16(0.1))
        assert values["0-d"].dtype == np.dtype(">i4")
        assert values["0-d"].shape == ()
        assert values["empty"].shape == (0, 20)
        assert math.isnan(values["nan"][0])
        assert values["nan"][1] == -math.inf
        np.testing.assert_array_equal(values["picture"], sent["picture"])  # type: ignore[arg-type]
        values["picture"][0] = 0  # writable, and not the sender's
        assert sent["picture"][0, 0, 1] == 1  # type: ignore[call-overload,index]
        assert values["user's own"] == {"__numpy_array__": True, "_args": [1]}


def test_a_message_that_is_too_large_is_refused_where_it_is_sent(dispatcher: Dispatcher) -> None:
    here, there = socket.socketpair()
    threading.Thread(target=serve_ours, args=(there, dispatcher, []), daemon=True).start()
    session = RequesterSession(max_frame=5000)
    remote = RemoteModel(BlockingChannel(here), session, patience=Patience(10.0, 10.0), peer="pair")
    remote.handshake()
    refusals = []
    for source in (LocalModel(dispatcher, max_frame=5000), remote):
        source.begin_episode(EPISODE)
        with pytest.raises(EncodeError) as caught:
            source.call("get_action", [np.zeros(1000)])
        refusals.append(str(caught.value))
        assert source.call("pair") == [1, 2]
    assert all("5000" in refusal for refusal in refusals), refusals
    remote.close(goodbye=True)


def test_a_policy_with_sessions_is_given_one_in_this_process_too(tmp_path: Path) -> None:
    class Shared:
        def new_session(self) -> Policy:
            self.sessions = [*getattr(self, "sessions", []), Policy()]
            return self.sessions[-1]

    folder = tmp_path / "shared"
    folder.mkdir()
    (folder / "deploy_policy.py").write_text(FACE)
    shared = Shared()
    source = LocalModel(Dispatcher(load_face(folder), shared))
    source.begin_episode(EPISODE)
    source.call("update_obs", [1])
    assert source.get("obs_cache") == [1]
    (session,) = shared.sessions
    assert session.obs_cache == [1]
    assert source.features is not None
    assert "new_session" not in source.features.methods


def test_call_as_robopro_has_it(model: Any) -> None:
    assert model.call(func_name="get_action", obs={"_args": [1, 2]})["args"] == [1, 2]
    assert model.call("get_action", {"a": 1})["args"] == [{"a": 1}]
    assert model.call("get_action")["args"] == []
    model.call("update_obs", 3)
    assert model.call("obs_cache") == [3]


def test_attributes_are_honest(model: Any) -> None:
    assert model.exec_actions == 20
    assert model.horizon == 0.5
    assert hasattr(model, "get_action")
    assert not hasattr(model, "get_acton")
    assert not hasattr(model, "_private")
    assert not hasattr(model, "pi0_step"), "the constants are mirrored for stock peers only"
    assert len(model.obs_cache) == 0
    model.update_obs(1)
    assert len(model.obs_cache) == 1
    with pytest.raises(AttributeError, match="get_acton"):
        model.get_acton()


def test_dotted_data_that_cannot_travel_whole(model: Any) -> None:
    runner = model.env_runner
    assert isinstance(runner, RemoteData)
    assert len(runner.obs) == 2
    assert bool(runner.obs)
    with pytest.raises(AttributeError):
        _ = runner.nothing
    with pytest.raises(TypeError):
        len(runner)
    assert not hasattr(model, "module")


def test_observation_window_is_none_then_something_then_none(model: Any) -> None:
    assert model.observation_window is None
    model.update_observation_window([np.zeros((2, 2, 3), np.uint8)], np.ones(20))
    assert model.observation_window is not None
    assert len(model.observation_window) == 2
    np.testing.assert_array_equal(model.observation_window["proprio"], np.ones(20))
    model.forget()
    assert model.observation_window is None, "read from the model, not guessed"
    model.update_observation_window([], None)
    model.reset_model()
    assert model.observation_window is None


def test_observation_window_does_not_bring_its_images(dispatcher: Dispatcher) -> None:
    ours = Ours(dispatcher)
    client: Any = ModelClient(ours.source)
    ours.source.begin_episode(EPISODE)
    client.update_observation_window([np.zeros((240, 320, 3), np.uint8)] * 3, np.ones(20))
    received: list[int] = []
    real = ours.source._channel.receive

    def counting(timeout: float | None = None) -> memoryview:
        body = real(timeout)
        received.append(len(body))
        return body

    ours.source._channel.receive = counting  # type: ignore[method-assign]
    assert client.observation_window is not None
    assert sum(received) < 1000


def test_errors_of_the_policy_leave_everything_open(model: Any, source: Any) -> None:
    with pytest.raises(PolicyError, match="asked to fail") as caught:
        model.fail()
    assert "ValueError" in (caught.value.remote_traceback or "")
    with pytest.raises(PolicyError) as cannot:
        model.secret()
    assert cannot.value.kind == "cannot_send"
    with pytest.raises(EncodeError):
        model.get_action(object())
    assert model.pair() == [1, 2]
    assert source.fault is None


def test_episodes_reach_the_policy_before_the_reset(source: Any, dispatcher: Dispatcher) -> None:
    source.begin_episode(EPISODE)
    source.begin_episode(EpisodeInfo("x#2", "t", 8))
    seen = dispatcher._model.seen  # type: ignore[attr-defined]
    assert seen[-4:] == [("begin", EPISODE.id, 7), "reset", ("begin", "x#2", 8), "reset"]
    ModelClient(source).call("reset_model")
    assert seen[-2:] == [("begin", "x#2", 8), "reset"], "an eval() that resets begins the episode again"


def parts_of(clock: CallClock) -> float:
    assert clock.wire_seconds is not None
    assert clock.queue_seconds is not None
    assert clock.model_seconds is not None
    return clock.encode_seconds + clock.wire_seconds + clock.queue_seconds + clock.model_seconds


def test_the_parts_of_a_call_are_what_the_peer_tells_of_the_time_it_took() -> None:
    clock = CallClock()
    clock.add(1.0, 0.1, {"queue": 0.2, "infer": 0.4})
    clock.add(2.0, 0.1, {"infer": 1.5})
    assert (clock.calls, clock.call_seconds) == (2, 3.0)
    assert clock.encode_seconds == pytest.approx(0.2)
    assert clock.queue_seconds == pytest.approx(0.2)
    assert clock.model_seconds == pytest.approx(1.9)
    assert clock.wire_seconds == pytest.approx(0.7)
    assert parts_of(clock) == pytest.approx(3.0)


@pytest.mark.parametrize("told", [{"infer": 99.0, "queue": 99.0}, {"infer": -1.0, "queue": -1.0}, {"infer": math.nan}])
def test_whatever_a_peer_tells_the_parts_are_the_whole(told: dict[str, float]) -> None:
    clock = CallClock()
    clock.add(1.0, 0.25, told)
    assert parts_of(clock) == pytest.approx(1.0)
    assert clock.model_seconds in (0.0, 0.75)


def test_one_reply_without_times_leaves_the_split_unknown() -> None:
    clock = CallClock()
    clock.add(1.0, 0.1, {"queue": 0.2, "infer": 0.4})
    clock.add(1.0, 0.1, None)
    clock.add(1.0, 0.1, {"queue": 0.2, "infer": 0.4})
    assert (clock.wire_seconds, clock.queue_seconds, clock.model_seconds) == (None, None, None)
    assert clock.call_seconds == 3.0
    assert clock.encode_seconds == pytest.approx(0.3)


def test_every_call_is_timed_and_its_parts_add_up(source: Any) -> None:
    source.begin_episode(EPISODE)
    source.call("think")
    with contextlib.suppress(PolicyError):
        source.call("fail")
    source.get("exec_actions")
    assert source.clock.calls == 4, "the handshake is not of an episode"
    assert parts_of(source.clock) == pytest.approx(source.clock.call_seconds)
    assert source.clock.model_seconds > 0.2
    if isinstance(source, LocalModel):
        assert source.clock.wire_seconds == pytest.approx(0.0, abs=1e-9)
        assert source.clock.queue_seconds == 0.0


@pytest.mark.parametrize("call", ["pair", "fail", "think"])
def test_interrupted_in_the_middle_of_a_call_it_still_says_goodbye(
    dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """What Ctrl-C does: the wait for a reply is left. The reply comes later, is an error, or comes too late."""
    monkeypatch.setattr("sim_endpoint.remote_model.FAREWELL_SECONDS", 0.2)
    ours = Ours(dispatcher)
    ours.source.begin_episode(EPISODE)
    real, interrupted = ours.source._channel.receive, iter([True])

    def receive(timeout: float | None = None) -> memoryview:
        if next(interrupted, False):
            raise KeyboardInterrupt
        return real(timeout)

    ours.source._channel.receive = receive  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        ours.source.call(call)
    ours.source.close(goodbye=True)
    ours.thread.join(5.0)
    assert not ours.thread.is_alive()
    assert ours.log[-2:] == [call, BYE]


def test_a_lost_peer_stays_lost(dispatcher: Dispatcher) -> None:
    ours = Ours(dispatcher)
    ours.source._channel.close()
    for _ in range(2):
        with pytest.raises(PeerGone):
            ours.source.call("pair")
    assert isinstance(ours.source.fault, PeerGone)


# ---------------------------------------------------------------- stock peers
class StockPolicy(stock_peer.EchoPolicy):
    def many(self, a: Any, b: Any) -> Any:
        return [a, b]


@pytest.fixture
def stock() -> Iterator[tuple[Any, RemoteModel, list[str]]]:
    log: list[str] = []
    with stock_peer.model_server(StockPolicy(), log) as port:
        sock = socket.create_connection(("localhost", port))
        source = RemoteModel(BlockingChannel(sock), RequesterSession(), patience=Patience(10.0, 10.0), peer="stock")
        source.handshake()
        yield ModelClient(source, {"pi0_step": 50, "rdt_step": None}), source, log
        source.close(goodbye=True)


def test_a_stock_server_is_recognised_and_left_alone(stock: tuple[Any, RemoteModel, list[str]]) -> None:
    model, source, log = stock
    assert source.features is None
    source.begin_episode(EPISODE)
    assert log == ["reset_model"], "the handshake was its reset"
    assert model.observation_window is None
    assert model.pi0_step == 50
    model.set_language("push")
    model.update_observation_window([np.zeros((2, 2, 3), np.uint8)], np.zeros(20), np.zeros(3), np.zeros(3))
    assert model.observation_window is True
    assert model.get_action().shape == (30, 20)
    model.get_action()[:2] = 0
    assert model.many(1, [2]) == [1, [2]]
    assert model.call("echo", {"a": 1}) == {"a": 1}
    source.begin_episode(EPISODE)
    model.begin_episode()
    assert model.observation_window is None
    assert log.count("reset_model") == 2
    assert not any(cmd.startswith("__") for cmd in log), (
        "no attribute reads, no goodbye: a stock server hangs up on them"
    )
    assert source.clock.model_seconds is None
    assert source.clock.wire_seconds is None


def test_wire_stock_speaks_stock_with_ours_too(dispatcher: Dispatcher) -> None:
    here, there = socket.socketpair()
    log: list[str] = []
    threading.Thread(target=serve_ours, args=(there, dispatcher, log), daemon=True).start()
    source = RemoteModel(BlockingChannel(here), RequesterSession("stock"), patience=Patience(10.0, 10.0), peer="pair")
    source.handshake()
    source.begin_episode(EPISODE)
    model: Any = ModelClient(source)
    assert model.observation_window is None
    model.update_observation_window([], None)
    assert model.observation_window is True
    assert model.pair() == [1, 2]
    assert source.features is None
    source.close(goodbye=True)
    assert log == ["reset_model", "update_observation_window", "pair"]


def test_keywords_cannot_travel_to_a_stock_server(stock: tuple[Any, RemoteModel, list[str]]) -> None:
    model, source, _ = stock
    source.begin_episode(EPISODE)
    with pytest.raises(EncodeError, match="keyword"):
        model.echo(value=1)
    assert model.echo(1) == 1


def test_after_an_error_reply_the_stock_connection_is_given_up_at_once(
    stock: tuple[Any, RemoteModel, list[str]],
) -> None:
    model, source, _ = stock
    source.begin_episode(EPISODE)
    with pytest.raises(PolicyError, match="asked to fail") as caught:
        model.fail()
    assert "ValueError" in (caught.value.remote_traceback or "")
    assert isinstance(source.fault, PeerGone)


def test_a_stock_server_without_reset_model_fails_the_episode() -> None:
    class NoReset:
        def get_action(self) -> int:
            return 1

    with stock_peer.model_server(NoReset()) as port:
        sock = socket.create_connection(("localhost", port))
        source = RemoteModel(BlockingChannel(sock), RequesterSession(), patience=Patience(10.0, 10.0), peer="stock")
        source.handshake()
        with pytest.raises(PolicyError, match="No model method named 'reset_model'"):
            source.begin_episode(EPISODE)
