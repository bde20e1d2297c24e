"""The logic of a session over in-memory streams: no socket, no thread, no waiting."""

from __future__ import annotations

import json
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import numpy as np
import pytest
import trio
import trio.testing
from model_helpers import Counter, InPlace, Upgraded, counting_policy

from framing.codec import json_to_numpy, numpy_to_json
from framing.errors import PolicyError
from framing.session import Ending
from model_endpoint.sessions import Farewell, Session, Tally
from robopro_eval.transport.aio import TrioChannel


class World:
    """A session being served, and the end of the line that the simulator holds."""

    def __init__(self, runner: InPlace, model: Counter, stream: trio.StapledStream) -> None:  # type: ignore[type-arg]
        self.model = model
        self.stream = stream
        self.channel = TrioChannel(stream)
        self.sim = Upgraded(self.channel)
        self.runner = runner
        self.tally = Tally()
        self.farewell: Farewell | None = None

    async def stock(self, message: Mapping[str, object]) -> dict[str, object]:
        """One request of a stock simulator, written down by hand."""
        body = numpy_to_json(message)
        await self.stream.send_all(struct.pack(">I", len(body)) + body)
        reply = json_to_numpy(await self.channel.receive(5.0))
        assert isinstance(reply, dict)
        return reply


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    model, policy = counting_policy()
    ours, theirs = trio.testing.memory_stream_pair()
    here = World(InPlace(policy), model, theirs)
    session = Session(TrioChannel(ours), here.runner, policy.name, "sim:1", here.tally)

    async def serve() -> None:
        here.farewell = await session.serve()

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            yield here
            await theirs.aclose()
    assert here.farewell is not None


async def test_stock_requests_get_exactly_the_stock_replies() -> None:
    async with world() as w:
        assert await w.stock({"cmd": "reset_model", "obs": None}) == {"res": None}
        assert await w.stock({"cmd": "reset_model"}) == {"res": None}
        assert await w.stock({"cmd": "add", "obs": {"_args": [2, 3]}}) == {"res": 5}
        assert await w.stock({"cmd": "update_obs", "obs": {"rgb": np.zeros((2, 2), np.uint8)}}) == {"res": None}
        reply = await w.stock({"cmd": "get_action", "obs": 2.0})
        assert set(reply) == {"res"}
        assert np.array_equal(reply["res"], np.full((2, 3), 2.0, np.float32))
    assert w.farewell == Farewell(Ending.STOCK_EOF, w.farewell.detail, False, 5)
    assert str(w.tally) == "1 simulator, 2 episodes, 5 calls"


async def test_a_policy_error_keeps_the_stock_connection() -> None:
    async with world() as w:
        reply = await w.stock({"cmd": "explode"})
        assert set(reply) == {"error", "traceback"}
        assert reply["error"] == "toy.explode() failed: RuntimeError: boom"
        assert 'raise RuntimeError("boom")' in str(reply["traceback"])
        assert await w.stock({"cmd": "add", "obs": {"_args": [1, 1]}}) == {"res": 2}
    assert str(w.tally) == "1 simulator, 0 episodes, 2 calls, 1 policy error"


@pytest.mark.parametrize("cmd", ["_secret", "__get__", "__bye__", "__init__", "nonsense"])
async def test_a_stock_peer_reaches_public_methods_only(cmd: str) -> None:
    async with world() as w:
        reply = await w.stock({"cmd": cmd, "obs": "obs_cache"})
        assert set(reply) == {"error", "traceback"}
        assert f"no public method {cmd!r}" in str(reply["error"])
        assert "add" in str(reply["error"])


async def test_an_upgraded_simulator_learns_what_the_policy_offers() -> None:
    async with world() as w:
        assert await w.sim.call("reset_model") is None
        features = w.sim.wire.features
        assert features is not None
        assert features.policy_name == "toy"
        assert {"add", "reset_model", "get_action"} <= features.methods
        assert {"obs_cache", "observation_window", "born_in_reset"} <= features.attributes
        assert await w.sim.call("add", 1, b=2) == 3
        await w.sim.call("update_obs", {"x": 1})
        assert await w.sim.get("obs_cache") == [{"x": 1}]
        assert await w.sim.get("obs_cache", length=True) == 1
        assert await w.sim.get("obs_cache.0.x") == 1
        assert await w.sim.get("observation_window") is None
        with pytest.raises(PolicyError, match="is private") as caught:
            await w.sim.get("obs_cache.__class__")
        assert caught.value.kind == "unknown_method"


async def test_timing_travels_to_upgraded_simulators() -> None:
    async with world() as w:
        await w.sim.call("reset_model")
        await w.channel.send(w.sim.wire.request("add", (1, 2)), 5.0)
        assert w.sim.wire.receive(await w.channel.receive(5.0)).timing == {"queue": 0.25, "infer": 0.5}


async def test_nan_and_odd_shapes_are_data_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether an action makes sense is judged where it is executed."""
    odd = {"nan": np.array([np.nan, np.inf, -np.inf], np.float32), "empty": np.zeros((0, 14)), "number": float("nan")}
    async with world() as w:
        monkeypatch.setattr(w.model, "get_action", lambda: odd)
        await w.sim.call("reset_model")
        got = await w.sim.call("get_action")
        assert isinstance(got, dict)
        np.testing.assert_array_equal(got["nan"], odd["nan"])
        assert got["empty"].shape == (0, 14)
        assert got["number"] != got["number"]
    assert w.tally.policy_errors == 0


async def test_what_cannot_be_sent_is_named_and_costs_only_the_request() -> None:
    async with world() as w:
        await w.sim.call("reset_model")
        with pytest.raises(
            PolicyError, match=r"toy: what unsendable\(\) returned cannot be sent: .*deep\[1\].*set"
        ) as caught:
            await w.sim.call("unsendable")
        assert caught.value.kind == "cannot_send"
        w.model.heard.append(object())
        with pytest.raises(PolicyError, match=r"toy: the data at 'heard' cannot be sent: .*\[1\]"):
            await w.sim.get("heard")
        assert await w.sim.call("add", 1, 2) == 3


async def test_the_hook_hears_of_the_episode_before_the_reset() -> None:
    async with world() as w:
        await w.sim.call("reset_model")
        await w.sim.begin("cell/7#1")
        assert w.model.heard == ["reset", "cell/7#1", "reset"]
        assert np.array_equal(await w.sim.call("get_action"), np.ones((2, 3), np.float32))
        await w.sim.begin("cell/8#1")
        await w.sim.call("get_action")
    assert str(w.tally) == "1 simulator, 2 episodes, 5 calls"


async def test_a_request_of_another_episode_is_refused() -> None:
    async with world() as w:
        await w.sim.call("reset_model")
        await w.sim.begin("cell/7#1")
        for stale in ("cell/7#2", "cell/6#1"):
            w.sim.wire._episode_id = stale
            with pytest.raises(PolicyError, match=f"belongs to episode '{stale}', but .* 'cell/7#1'") as caught:
                await w.sim.call("get_action")
            assert caught.value.kind == "stale_episode"
            with pytest.raises(PolicyError, match="belongs to episode"):
                await w.sim.get("obs_cache")
        assert w.model.calls == 0
        w.sim.wire._episode_id = "cell/7#1"
        await w.sim.call("get_action")
        assert w.model.calls == 1


async def test_an_episode_that_failed_to_begin_is_not_active() -> None:
    async with world() as w:
        await w.sim.call("reset_model")
        with pytest.raises(PolicyError, match="unlucky"):
            await w.sim.begin("cell/13#1", seed=13)
        w.sim.wire._episode_id = "cell/13#1"
        with pytest.raises(PolicyError, match="active episode here is None"):
            await w.sim.call("get_action")
        assert w.model.calls == 0


async def test_what_was_sent_along_with_a_request_that_failed_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(obs: object) -> None:
        raise ValueError("too dark")

    async with world() as w:
        await w.sim.call("reset_model")
        await w.sim.call("update_obs", 1)
        monkeypatch.setattr(w.model, "update_obs", refuse)
        for cmd, args in (("update_obs", (2,)), ("get_action", ())):
            await w.channel.send(w.sim.wire.request(cmd, args), 5.0)
        for message, kind in (("ValueError: too dark", "policy_error"), ("update_obs before it failed", "skipped")):
            with pytest.raises(PolicyError, match=message) as caught:
                w.sim.wire.receive(await w.channel.receive(5.0))
            assert caught.value.kind == kind
        assert w.model.calls == 0
        monkeypatch.undo()
        for cmd, args in (("update_obs", (3,)), ("get_action", ())):
            await w.channel.send(w.sim.wire.request(cmd, args), 5.0)
        assert w.sim.wire.receive(await w.channel.receive(5.0)).value is None
        assert np.array_equal(w.sim.wire.receive(await w.channel.receive(5.0)).value, np.ones((2, 3)))
        assert w.model.obs_cache == [1, 3]


async def test_bye_is_answered_and_ends_the_session() -> None:
    async with world() as w:
        await w.sim.call("reset_model")
        await w.sim.ask(w.sim.wire.bye())
        assert w.sim.wire.ending is Ending.BYE
        await trio.testing.wait_all_tasks_blocked()
        assert w.farewell is not None
        assert w.farewell.ending is Ending.BYE


async def test_an_upgraded_simulator_that_closes_without_bye_is_lost() -> None:
    async with world() as w:
        await w.sim.call("reset_model")
    assert w.farewell is not None
    assert (w.farewell.ending, w.farewell.upgraded) == (Ending.LOST, True)


async def test_a_peer_that_says_nothing_costs_nothing() -> None:
    async with world() as w:
        pass
    assert w.farewell is not None
    assert (w.farewell.ending, w.farewell.requests) == (Ending.SILENT, 0)
    assert str(w.tally) == "0 simulators, 0 episodes, 0 calls"


async def test_a_frame_cut_short_is_a_loss_even_from_a_stock_peer() -> None:
    async with world() as w:
        await w.stock({"cmd": "reset_model"})
        await w.stream.send_all(struct.pack(">I", 100) + b'{"cmd": ')
    assert w.farewell is not None
    assert w.farewell.ending is Ending.LOST


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\xff\xff\xff\xff",
        struct.pack(">I", 5) + b"hello",
        struct.pack(">I", 2) + b"[]",
        struct.pack(">I", 15) + b'{"cmd": 17    }',
        struct.pack(">I", 3) + b"\xff\x00\x01",
    ],
    ids=["http", "huge", "no json", "no object", "no name", "binary"],
)
async def test_a_peer_that_is_no_simulator_is_told_apart(data: bytes) -> None:
    async with world() as w:
        await w.stream.send_all(data)
        await trio.testing.wait_all_tasks_blocked()
        assert w.farewell is not None
        assert w.farewell.ending is None
        assert len(w.farewell.detail) > 10
        assert w.model.heard == []


async def test_broken_json_is_answered_with_an_error_before_the_end() -> None:
    async with world() as w:
        await w.stream.send_all(struct.pack(">I", 5) + b"hello")
        reply = json.loads(bytes(await w.channel.receive(5.0)))
        assert set(reply) == {"error", "traceback"}


async def test_the_same_traceback_is_logged_once(capsys: pytest.CaptureFixture[str]) -> None:
    from model_endpoint import logs

    logs.set_up(0)
    async with world() as w:
        for _ in range(3):
            await w.stock({"cmd": "explode"})
    text = capsys.readouterr().err
    assert text.count("Traceback (most recent call last)") == 1
    assert text.count('level=warning event="request failed" peer=sim:1 cmd=explode kind=policy_error') == 3


async def test_errors_that_differ_each_time_are_not_remembered_without_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from model_endpoint import logs, sessions

    logs.set_up(0)
    monkeypatch.setattr(sessions, "ERRORS_REMEMBERED", 2)
    async with world() as w:
        for word in ("one", "two", "three", "one", "three"):
            monkeypatch.setattr(w.model, "explode", lambda word=word: [].index(word))
            await w.stock({"cmd": "explode"})
    assert capsys.readouterr().err.count("Traceback (most recent call last)") == 4
