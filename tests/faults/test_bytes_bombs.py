"""Messages made to hurt, through the whole of each endpoint: refused in one sentence, in memory by the byte.

A bomb is a JSON text that stands where an observation or an action would; in a binary body, with the buffers behind it.
"""

from __future__ import annotations

import contextlib
import json
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
from bytes_helpers import ACTION, FaultyModel, RawSimulator, framed, served
from model_helpers import Upgraded
from sim_fakes import ChainSupply, Rig

from framing.arrays import MAX_ARRAYS
from framing.binary import VERSION, decode_body
from framing.errors import EncodeError, PolicyError, ProtocolError
from framing.frames import AT_ONCE
from robopro_eval.records import read_jsonl
from robopro_eval.transport.aio import TrioChannel
from sim_endpoint.controllers import PolicyController
from sim_endpoint.model_source import EpisodeInfo

PER_BYTE = 32
"""Bytes of memory for each byte that was sent, at most; `fuzz_wire_targets` says where they go."""

FREE = AT_ONCE + (4 << 20)
"""A frame announced, and what both ends of a connection, the session and an error with its traceback take."""


def array(data: str = "AAAA", dtype: object = "uint8", shape: object = (3,)) -> bytes:
    return json.dumps({"__numpy_array__": True, "data": data, "dtype": dtype, "shape": shape}).encode()


def buffer(dtype: object = "uint8", shape: object = (3,)) -> bytes:
    return json.dumps({"__numpy_array__": "buffer", "dtype": dtype, "shape": shape}).encode()


TEXTS = {
    "deep lists": b"[" * 200_000 + b"]" * 200_000,
    "deep dicts": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "a huge integer": b"9" * 100_000,
    "duplicate keys": b'{"a": 1, "a": 2}',
    "no UTF-8": b'"\xc3\x28"',
    "bad base64": array("AA?A"),
    "bad base64 at the end of a long one": array("A" * 400_000 + "A?=="),
    "less data than its shape": array(shape=[4]),
    "more data than its shape": array(shape=[2]),
    "a negative size": array(shape=[-3]),
    "two negative sizes": array(shape=[-1, -3]),
    "an overflowing size": array(shape=[2**64 + 3]),
    "an overflowing product": array(shape=[2**32, 2**32]),
    "nothing, of an overflowing shape": array("", shape=[0, 2**62, 2**62]),
    "too many dimensions": array(shape=[1] * 33),
    "objects": array(dtype="object"),
    "pickled objects": array(dtype="|O8"),
    "a structure": array(dtype="f4,u1"),
    "void": array(dtype="V3"),
    "text of a gigabyte a letter": array(dtype="U999999999"),
    "an impossible unit of time": array(dtype="M8[0s]"),
    "a number that is no character": array("AAARAA==", dtype="<U1", shape=[1]),
    "neither true nor false": array("AAEC", dtype="bool"),
    "too many tiny arrays": b"[" + b", ".join([array("", shape=[0])] * (MAX_ARRAYS + 1)) + b"]",
}

HEADS = {
    "deep lists": (TEXTS["deep lists"], b""),
    "a huge integer": (TEXTS["a huge integer"], b""),
    "duplicate keys": (TEXTS["duplicate keys"], b""),
    "no UTF-8": (TEXTS["no UTF-8"], b""),
    "a buffer that is not there": (buffer(), b""),
    "a buffer cut short": (buffer(shape=[64]), bytes(63)),
    "bytes behind the last buffer": (buffer(), bytes(4)),
    "a buffer that is not aligned": (b"[" + buffer() + b"," + buffer() + b"]", bytes(6)),
    "padding that is not zero": (b"[" + buffer() + b"," + buffer() + b"]", bytes(3) + b"\1" * 61 + bytes(3)),
    "a negative size": (buffer(shape=[-3]), b""),
    "two negative sizes": (buffer(shape=[-1, -3]), bytes(3)),
    "an overflowing size": (buffer(shape=[2**64 + 3]), bytes(3)),
    "an overflowing product": (buffer(shape=[2**32, 2**32]), bytes(64)),
    "nothing, of an overflowing shape": (buffer(shape=[0, 2**62, 2**62]), b""),
    "too many dimensions": (buffer(shape=[1] * 33), b"\0"),
    "objects": (buffer(dtype="object"), bytes(24)),
    "pickled objects": (buffer(dtype="|O8"), bytes(24)),
    "a structure": (buffer(dtype="f4,u1"), bytes(15)),
    "void": (buffer(dtype="V3"), bytes(9)),
    "text of a gigabyte a letter": (buffer(dtype="U999999999", shape=[0]), b""),
    "an impossible unit of time": (buffer(dtype="M8[0s]"), bytes(24)),
    "a number that is no character": (buffer(dtype="<U1", shape=[1]), b"\0\0\x11\0"),
    "neither true nor false": (buffer(dtype="bool"), b"\0\1\2"),
    "bytes of a negative size": (b'{"__numpy_array__": "bytes", "size": -1}', b""),
    "bytes of four gigabytes": (b'{"__numpy_array__": "bytes", "size": 4294967296}', b""),
    "a descriptor of nothing": (b'{"__numpy_array__": "buffer"}', b""),
    "an array in JSON": (array(), b""),
    "too many tiny arrays": (b"[" + b", ".join([buffer(shape=[0])] * (MAX_ARRAYS + 1)) + b"]", b""),
}


def binary(head: bytes, buffers: bytes = b"", claimed: int | None = None) -> bytes:
    start = VERSION + (len(head) if claimed is None else claimed).to_bytes(4, "big") + head
    return start + bytes(-len(start) % 64) + buffers


BODIES: dict[str, tuple[bytes, bytes | None]] = {
    **{f"JSON: {name}": (text, None) for name, text in TEXTS.items()},
    **{f"binary: {name}": bomb for name, bomb in HEADS.items()},
}
"""The text and, for a binary body, what follows the head."""


def message(before: bytes, bomb: tuple[bytes, bytes | None], after: bytes) -> bytes:
    text, buffers = bomb
    whole = before + text + after
    return whole if buffers is None else binary(whole, buffers)


@contextlib.contextmanager
def by_the_byte(sent: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= FREE + PER_BYTE * sent, f"{peak} bytes of memory for {sent} bytes"


# ---------------------------------------------------------------- towards the model
@pytest.mark.parametrize("bomb", BODIES.values(), ids=BODIES)
async def test_a_bomb_for_the_model(bomb: tuple[bytes, bytes | None]) -> None:
    async with served() as model:
        simulator = RawSimulator("binary", model.connect())
        await simulator.begin()
        body = message(b'{"cmd": "update_obs", "id": 2, "accept": ["binary", "json"], "args": [', bomb, b"]}")
        with by_the_byte(len(body)):
            await simulator.say(framed(body))
            reply = await simulator.hear()
        told = decode_body(bytearray(reply))
        assert isinstance(told, dict)
        assert told["kind"] == "protocol_error"
        assert 10 < len(str(told["error"])) < 300
        assert await simulator.hear() == b""
        assert model.policy.obs_cache == []
        await model.still_serves()


@pytest.mark.parametrize("name", [name for name, text in TEXTS.items() if len(text) < 1 << 20])
async def test_a_bomb_for_the_model_in_stock_words(name: str) -> None:
    async with served() as model:
        simulator = RawSimulator("stock", model.connect())
        await simulator.begin()
        body = b'{"cmd": "update_obs", "obs": ' + TEXTS[name] + b"}"
        with by_the_byte(len(body)):
            await simulator.say(framed(body))
            reply = await simulator.hear()
        assert set(json.loads(reply)) == {"error", "traceback"}
        assert await simulator.hear() == b""
        assert model.policy.obs_cache == []
        await model.still_serves()


WHOLE = {
    "nothing but the first byte": b"\xff",
    "another version": b"\xff\x02\0\0" + bytes(60),
    "cut in the prefix": VERSION + b"\0\0",
    "a head of four gigabytes": binary(b'{"cmd": "reset_model"}', claimed=0xFFFFFFFF),
    "a head beyond the body": binary(b'{"cmd": "reset_model"}', claimed=57),
    "a head without its padding": VERSION + b"\0\0\0\2{}",
    "an empty head": binary(b""),
    "a head that is no text": binary(b"\x80\x81"),
    "a head that is binary": binary(binary(b"{}")),
}


@pytest.mark.parametrize("body", WHOLE.values(), ids=WHOLE)
async def test_a_binary_body_that_is_none(body: bytes) -> None:
    """For both, at once and after a handshake."""
    async with served() as model:
        for form in ("at once", "binary"):
            simulator = RawSimulator("binary", model.connect())
            if form == "binary":
                await simulator.begin()
            model.policy.heard.clear()
            await simulator.say(framed(body))
            assert "error" in json.loads(await simulator.hear())
            assert await simulator.hear() == b""
            assert model.policy.heard == []
        await model.still_serves()
    with FaultyModel("binary", {"get_action": lambda model, reply: model.there.sendall(framed(body))}) as model_side:
        source = model_side.source
        source.handshake()
        with pytest.raises(ProtocolError):
            source.call("get_action")


# ---------------------------------------------------------------- towards the simulator
@pytest.mark.parametrize("bomb", BODIES.values(), ids=BODIES)
def test_a_bomb_for_the_simulator(bomb: tuple[bytes, bytes | None]) -> None:
    body = message(b'{"id": 3, "wire": ["binary", "json"], "kind": "ok", "res": ', bomb, b"}")
    with FaultyModel("binary", {"get_action": lambda model, reply: send_beside(model, framed(body))}) as model:
        model.source.handshake()
        model.source.begin_episode(EpisodeInfo("cell/30001#1", "t", 30001))
        with by_the_byte(len(body)), pytest.raises(ProtocolError) as caught:
            model.source.call("get_action")
        assert 10 < len(str(caught.value)) < 300
        assert model.channel.closed


def send_beside(model: FaultyModel, frame: bytes) -> None:
    """In a thread: a frame that is larger than the buffers of a connection has to be read while it is sent."""

    def send() -> None:
        with contextlib.suppress(OSError):
            model.there.sendall(frame)

    threading.Thread(target=send, daemon=True).start()


def test_a_bomb_makes_an_attempt_invalid_not_failed(tmp_path: Path) -> None:
    bomb = message(b'{"id": 3, "kind": "ok", "res": ', BODIES["binary: neither true nor false"], b"}")

    def evaluate(env: Any, model: Any, observation: Any) -> None:
        env.take_action(model.get_action(observation["vector"]))

    bad = FaultyModel("binary", {"get_action": lambda model, reply: model.there.sendall(framed(bomb))})
    with bad, FaultyModel("binary") as good:

        def controllers() -> Iterator[PolicyController]:
            for model in (bad, good):
                model.source.handshake()
                yield PolicyController("toy", model.source, evaluate, {})

        rig = Rig(tmp_path)
        assert rig.play([30002], ChainSupply(controllers())) is None
        lines = read_jsonl(rig.results.path / "_attempts.jsonl")
    assert [(line["outcome"], line["error"]) for line in lines] == [("invalid", "protocol"), ("scored", None)]
    assert "neither 0 nor 1" in lines[0]["reason"]


# ---------------------------------------------------------------- what only looks like one
LOOKALIKES: list[Any] = [
    {"__numpy_array__": True, "data": "AAAA", "dtype": "uint8", "shape": [3]},
    {"__numpy_array__": "buffer", "dtype": "uint8", "shape": [3]},
    {"__numpy_array__": "bytes", "size": 4},
    {"__numpy_array__": "pairs", "pairs": [["a", 1]]},
    {"__numpy_array__": {"__numpy_array__": [np.arange(3)]}, "x": 1},
    {"_args": [1, 2]},
    {"_args": {"__numpy_array__": None}, "data": "A" * 300},
    {"cmd": "reset_model", "id": 1, "res": 1, "error": "no", "wait": {"place": 1}},
]


@pytest.mark.parametrize("value", LOOKALIKES, ids=range(len(LOOKALIKES)))
async def test_a_users_dict_that_looks_like_the_wires_own_arrives_as_itself_between_ours(value: Any) -> None:
    async with served() as model:
        simulator = Upgraded(TrioChannel(trio.socket.from_stdlib_socket(model.connect())))
        await simulator.call("reset_model")
        await simulator.call("update_obs", value)
        assert _plain(model.policy.obs_cache) == [_plain(value)]
        assert _plain(await simulator.get("obs_cache")) == [_plain(value)]
        await simulator.channel.aclose()


def _plain(value: Any) -> Any:
    """Arrays as lists, so that trees of them can be compared."""
    if isinstance(value, np.ndarray):
        return ["array", value.tolist()]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("value", LOOKALIKES, ids=range(len(LOOKALIKES)))
def test_towards_a_stock_model_it_is_refused_by_its_key_path_or_arrives_as_itself(value: Any) -> None:
    with FaultyModel("stock") as model:
        source = model.source
        source.handshake()
        if "__numpy_array__" in json.dumps(value, default=str):
            with pytest.raises(EncodeError, match=r"^obs\.deep\[0\]"):
                source.call("update_obs", [{"deep": [value]}])
        else:
            source.call("update_obs", [{"deep": [value]}])
            source.call("update_obs", [value])
        np.testing.assert_array_equal(source.call("get_action"), ACTION)
        assert source.fault is None


async def test_towards_a_stock_simulator_it_is_an_error_that_names_its_key_path() -> None:
    async with served() as model:
        simulator = RawSimulator("stock", model.connect())
        await simulator.begin()
        model.policy.unsendable = lambda: {"deep": [LOOKALIKES[0]]}  # type: ignore[method-assign]
        await simulator.say(simulator.ask("unsendable"))
        with pytest.raises(PolicyError, match=r"unsendable\(\) returned cannot be sent: res\.deep\[0\]"):
            simulator.wire.receive(await simulator.hear())
        await simulator.say(simulator.ask("add", 1, 2))
        assert json.loads(await simulator.hear()) == {"res": 3}
