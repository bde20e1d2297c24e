"""Two requests under way at once, and a model that fails, dies or babbles between their replies."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
from bytes_helpers import ACTION, DEATHS, Fault, FaultyModel, framed, served, silent
from sim_fakes import ChainSupply, Rig

from framing.errors import DeadlineExceeded, PeerGone, PolicyError, ProtocolError
from framing.session import RequesterSession
from robopro_eval.records import read_jsonl
from robopro_eval.transport.blocking import BlockingChannel
from sim_endpoint.controllers import PolicyController
from sim_endpoint.model_source import EpisodeInfo
from sim_endpoint.remote_model import RemoteModel
from sim_endpoint.settings import Patience

FORMS = ["json", "binary"]
INFO = EpisodeInfo("cell/30001#1", "t", 30001)


class Pair:
    """The replies to `update_obs` and to the `get_action` behind it, given out by `say` when both have been asked."""

    def __init__(self, form: str, *, seconds: float = 5.0) -> None:
        self.replies: list[bytes] = []
        faults: dict[str, Fault] = {"update_obs": self._keep, "get_action": self._both}
        self.model = FaultyModel(form, faults, after=1, seconds=seconds, pipeline=True)

    def begin(self) -> RemoteModel:
        source = self.model.source
        source.handshake()
        source.begin_episode(INFO)
        assert source.call("update_obs", [1]) is None  # from now on it is known to return nothing
        np.testing.assert_array_equal(source.call("get_action"), ACTION)
        return source

    def say(self, first: bytes, second: bytes) -> None:
        self.model.there.sendall(first + second)

    def _keep(self, model: FaultyModel, reply: bytes) -> None:
        self.replies = [reply]

    def _both(self, model: FaultyModel, reply: bytes) -> None:
        self.say(self.replies[0], reply)

    def __enter__(self) -> Pair:
        return self

    def __exit__(self, *_: object) -> None:
        self.model.__exit__()


@pytest.mark.parametrize("form", FORMS)
def test_undisturbed_both_replies_are_read_in_order(form: str) -> None:
    with Pair(form) as pair:
        source = pair.begin()
        for _ in range(3):
            assert source.call("update_obs", [1]) is None
            np.testing.assert_array_equal(source.call("get_action"), ACTION)


@pytest.mark.parametrize("how", DEATHS)
@pytest.mark.parametrize("form", FORMS)
def test_the_model_dies_at_every_byte_of_both_replies(form: str, how: str) -> None:
    length, sent = 1, 0
    while sent < length:
        with Pair(form) as pair:

            def die(first: bytes, second: bytes, pair: Pair = pair, sent: int = sent) -> None:
                nonlocal length, boundary
                length, boundary = len(first + second), len(first)
                pair.model.there.sendall((first + second)[:sent])
                DEATHS[how](pair.model.there)

            boundary = 0
            source = pair.begin()
            pair.say = die  # type: ignore[method-assign]
            source.call("update_obs", [1])
            with pytest.raises(PeerGone) as caught:
                source.call("get_action")
            assert caught.value.mid_frame is (sent not in (0, boundary)), sent
            assert pair.model.channel.closed
        sent += 1
    assert length > 150


@pytest.mark.parametrize("form", FORMS)
def test_a_late_first_reply_ends_the_wait_for_both(form: str) -> None:
    with Pair(form, seconds=0.02) as pair:
        source = pair.begin()
        replies: list[bytes] = []
        pair.say = lambda first, second: replies.extend((first, second))  # type: ignore[method-assign]
        source.call("update_obs", [1])
        with pytest.raises(DeadlineExceeded):
            source.call("get_action")
        pair.model.there.sendall(b"".join(replies))
        with pytest.raises(DeadlineExceeded):
            source.call("get_action")
        assert pair.model.asked[-2:] == ["update_obs", "get_action"]


@pytest.mark.parametrize(
    "wrong", ["the other way round", "the first twice", "the second twice", "garbage between them"]
)
@pytest.mark.parametrize("form", FORMS)
def test_replies_out_of_order_are_none(form: str, wrong: str) -> None:
    with Pair(form) as pair:
        source = pair.begin()
        say = pair.say

        def babble(first: bytes, second: bytes) -> None:
            if wrong == "the other way round":
                say(second, first)
            elif wrong == "the first twice":
                say(first, first)
            elif wrong == "the second twice":
                say(first, second + second)
            else:
                say(first, framed(b"?") + second)

        pair.say = babble  # type: ignore[method-assign]
        source.call("update_obs", [1])
        if wrong == "the second twice":  # found out by the next exchange
            np.testing.assert_array_equal(source.call("get_action"), ACTION)
            source.call("update_obs", [1])
        with pytest.raises(ProtocolError):
            source.call("get_action")
        assert pair.model.channel.closed


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("waits", [0, 2], ids=["at once", "after wait notices"])
def test_when_the_first_fails_it_is_named_and_the_second_was_not_made(form: str, waits: int) -> None:
    def fail(model: FaultyModel, reply: bytes) -> None:
        session = model.session
        session._state = session._state.OURS_BUSY  # its result was made already; nobody has seen it
        model.there.sendall(b"".join(session.error("no room for it", "Traceback: update_obs")))

    def skip(model: FaultyModel, reply: bytes) -> None:
        assert b'"skipped"' in reply
        notice = {"wait": {"place": 1, "of": 1}, "id": json.loads(reply[4:])["id"], "kind": "wait"}
        model.there.sendall(framed(json.dumps(notice).encode()) * waits + reply)

    with FaultyModel(form, {"update_obs": fail, "get_action": skip}, after=1, pipeline=True) as model:
        source = model.source
        source.handshake()
        source.begin_episode(INFO)
        source.call("update_obs", [1])
        source.call("get_action")
        source.call("update_obs", [1])
        with pytest.raises(PolicyError, match="no room for it") as caught:
            source.call("get_action")
        assert caught.value.kind == "policy_error"
        assert caught.value.remote_traceback == "Traceback: update_obs"
        assert source.fault is None
        source.begin_episode(EpisodeInfo("cell/30001#2", "t", 30001))


async def test_the_real_model_calls_nothing_behind_a_failure() -> None:
    async with served() as model:
        seen: list[object] = []

        def update(obs: object) -> None:
            seen.append(obs)
            if obs == "bad":
                raise RuntimeError("cannot use that")

        model.policy.update_obs = update  # type: ignore[method-assign]
        sock = model.connect()
        await trio.to_thread.run_sync(_simulate, sock)
        await model.ended_last()
        assert seen == ["good", "good", "bad", "good"]
        assert model.policy.calls == 3
        assert not [line for line in model.log if "level=error" in line]


def _simulate(sock: socket.socket) -> None:
    source = RemoteModel(
        BlockingChannel(sock), RequesterSession(), patience=Patience(5.0, 5.0), peer="node-b", pipeline=True
    )
    source.handshake()
    source.begin_episode(INFO)
    for obs in ("good", "good"):
        source.call("update_obs", [obs])
        source.call("get_action")
    source.call("update_obs", ["bad"])
    with pytest.raises(PolicyError, match=r"update_obs\(\) failed: RuntimeError: cannot use that"):
        source.call("get_action")
    source.begin_episode(EpisodeInfo("cell/30002#1", "t", 30002))
    source.call("update_obs", ["good"])
    source.call("get_action")
    source.close(goodbye=True)


# ---------------------------------------------------------------- what becomes of the episode
def dying(share: float) -> Fault:
    def fault(model: FaultyModel, reply: bytes) -> None:
        model.there.sendall(reply[: int(share * len(reply))])
        model.there.close()

    return fault


def twice(model: FaultyModel, reply: bytes) -> None:
    model.there.sendall(reply + reply)


def garbage(model: FaultyModel, reply: bytes) -> None:
    model.there.sendall(framed(b"\x80"))


EPISODE_FAULTS = {
    "closed": (dying(0), "peer_gone"),
    "closed in a reply": (dying(0.5), "peer_gone"),
    "closed after a reply": (dying(1), "peer_gone"),
    "silent": (silent, "deadline"),
    "two replies": (twice, "protocol"),
    "garbage": (garbage, "protocol"),
}


@pytest.mark.parametrize("command", ["update_obs", "get_action"])
@pytest.mark.parametrize("fault", EPISODE_FAULTS)
def test_a_disturbed_attempt_is_invalid_and_the_robot_has_not_moved_for_it(
    tmp_path: Path, fault: str, command: str
) -> None:
    misbehave, kind = EPISODE_FAULTS[fault]
    if (fault, command) == ("silent", "update_obs"):
        kind = "protocol"  # the reply to the other request comes in its place
    moves: list[int] = []

    def evaluate(env: Any, model: Any, observation: Any) -> None:
        model.update_obs(observation["vector"])
        action = model.get_action()
        np.testing.assert_array_equal(action, ACTION)
        env.take_action(action)
        moves.append(env.take_action_cnt)

    bad = FaultyModel("binary", {command: misbehave}, after=1, seconds=0.1, pipeline=True)
    with bad, FaultyModel("binary", pipeline=True) as good:

        def controllers() -> Iterator[PolicyController]:
            for model in (bad, good):
                model.source.handshake()
                yield PolicyController("toy", model.source, evaluate, {})

        rig = Rig(tmp_path)
        assert rig.play([30001], ChainSupply(controllers())) is None
        lines = read_jsonl(rig.results.path / "_attempts.jsonl")
        assert [(line["outcome"], line["error"]) for line in lines] == [("invalid", kind), ("scored", None)]
        assert bad.channel.closed
        assert good.asked == ["reset_model", "reset_model", *["update_obs", "get_action"] * 3]
    # One move before; the reply that was whole allows one more, found out by the exchange after it.
    whole = fault in ("closed after a reply", "two replies") and command == "get_action"
    assert len(moves) == 1 + whole + 3
