"""Well-formed messages of nonsense, through the whole of each endpoint: no defect of ours comes to light.

The model answers or hangs up, and logs no failure of its own; in the simulator nothing but the errors of the wire comes
out of a call.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any

import numpy as np
import pytest
import trio
from bytes_helpers import FaultyModel, RawSimulator, framed, served, silent
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from framing.binary import decode_body, encode_binary
from framing.codec import numpy_to_json
from framing.errors import AuthenticationError, DeadlineExceeded, PeerGone, PolicyError, ProtocolError

_ARRAYS = st.sampled_from(
    [np.zeros(3), np.zeros((0, 2)), np.array(1), np.array(["a"]), np.zeros(2000, np.float32), np.array([True])]
)
_VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-1, 2),
        st.sampled_from([10**4000, 2**64, float("nan"), float("-inf"), "", "a.b", "x" * 5000, "\x1b[2J\n", "\ud800"]),
        _ARRAYS,
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["id", "task", "seed", "place", "of", "infer", "self", "length"]), inner),
    ),
    max_leaves=6,
)
_NAMES = "reset_model get_action update_obs add explode unsendable begin_episode heard __get__ __init__ __link_auth__"
_COMMANDS = st.sampled_from([*_NAMES.split(), "", "no such", "a\nb", "x" * 3000])


def framed_in(form: str, message: dict[str, Any]) -> bytes:
    if form == "binary":
        return framed(b"".join(encode_binary(message)))
    return framed(numpy_to_json(message, escape=True))


# ---------------------------------------------------------------- the model
_REQUESTS = st.fixed_dictionaries(
    {"cmd": _COMMANDS, "args": st.lists(_VALUES, max_size=3)},
    optional={
        "kwargs": st.dictionaries(st.sampled_from(["scale", "a", "self", "length", "a b", ""]), _VALUES, max_size=2),
        "episode_id": st.sampled_from([None, "c/1#1", "other"]),
        "episode": st.dictionaries(st.sampled_from(["id", "task", "seed"]), _VALUES),
        "follows": st.sampled_from([None, 1, 2, 3]),
    },
)


@given(st.lists(st.tuples(st.sampled_from(["json", "binary"]), _REQUESTS), min_size=1, max_size=5), st.booleans())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_nonsense_asked_of_the_model(requests: list[tuple[str, dict[str, Any]]], begins: bool) -> None:
    trio.run(_ask_all, requests, begins)


async def _ask_all(requests: list[tuple[str, dict[str, Any]]], begins: bool) -> None:
    async with served() as model:
        simulator = RawSimulator("binary", model.connect())
        if begins:
            await simulator.begin()
        for number, (form, request) in enumerate(requests, 1 + begins):
            await simulator.say(framed_in(form, request | {"id": number, "accept": [form, "wait"]}))
            body = await simulator.hear()
            if not body:
                break
            reply = decode_body(bytearray(body))
            assert isinstance(reply, dict)
            assert ("res" in reply) is not ("error" in reply)
            assert len(json.dumps(reply.get("error"))) < 20_000
        simulator.die("closed")
        await model.ended_last()
        assert not [line for line in model.log if "level=error" in line], model.log
        await model.still_serves()


# ---------------------------------------------------------------- the simulator
TOLD = (PolicyError, PeerGone, DeadlineExceeded, ProtocolError, AuthenticationError)
"""What a call may raise whatever the model does."""

_PLACES = st.sampled_from([1, 1, 2, 10**4000, 0, True])
_REPLIES = st.fixed_dictionaries(
    {"id": st.sampled_from([3, 3, 3, 2])},
    optional={
        "res": _VALUES,
        "error": _VALUES,
        "traceback": _VALUES,
        "wait": st.one_of(_VALUES, st.fixed_dictionaries({"place": _PLACES}, optional={"of": _PLACES})),
        "kind": st.sampled_from(["ok", "policy_error", "stale_episode", "skipped", "auth_required", "bye", "new", 3]),
        "timing": _VALUES,
        "wire": _VALUES,
        "policy": _VALUES,
    },
)


@pytest.mark.parametrize("form", ["stock", "json", "binary"])
@given(replies=st.lists(st.tuples(st.sampled_from(["json", "binary"]), _REPLIES), min_size=1, max_size=3))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_nonsense_answered_to_the_simulator(form: str, replies: list[tuple[str, dict[str, Any]]]) -> None:
    def answer(model: FaultyModel, _: bytes) -> None:
        model.there.sendall(b"".join(framed_in(kind, reply) for kind, reply in replies))
        model.there.close()

    lines: list[str] = []
    with FaultyModel(form, {"get_action": answer}) as model:
        source = model.source
        source._line._show = lines.append
        source.handshake()
        source.call("reset_model")
        for _ in range(2):
            with contextlib.suppress(*TOLD):
                source.call("get_action")
        assert source.fault is not None
        assert len(str(source.fault)) < 20_000
        assert model.channel.closed
        assert source.clock.encode_seconds >= 0
        assert all(len(line) < 300 for line in lines)


@given(replies=st.lists(st.tuples(st.sampled_from(["json", "binary"]), _REPLIES), min_size=1, max_size=3))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_nonsense_answered_to_two_requests_at_once(replies: list[tuple[str, dict[str, Any]]]) -> None:
    numbered = [(kind, reply | {"id": 5 + place}) for place, (kind, reply) in enumerate(replies)]

    def answer(model: FaultyModel, _: bytes) -> None:
        model.there.sendall(b"".join(framed_in(kind, reply) for kind, reply in numbered))
        model.there.close()

    with FaultyModel("binary", {"update_obs": silent, "get_action": answer}, after=1, pipeline=True) as model:
        source = model.source
        source.handshake()
        for name in ("reset_model", "update_obs", "get_action"):
            source.call(name)
        for name in ("update_obs", "get_action", "update_obs", "get_action"):
            with contextlib.suppress(*TOLD):
                source.call(name)
        assert source.fault is not None
        assert model.channel.closed
