"""Where fuzzing begins: real messages, in both body formats, and the words that they are made of."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from fuzz_wire_targets import ASSEMBLED, FEATURES, SEPARATOR, TOKEN

from framing.binary import encode_binary
from framing.codec import numpy_to_json
from framing.frames import Buffer, FrameDecoder
from framing.session import Reply, RequesterSession, ResponderSession, WireChoice
from robopro_eval.transport.auth import ModelAuth, SimulatorAuth

OBSERVATION = {
    "rgb": [np.arange(48, dtype=np.uint8).reshape(4, 4, 3), np.zeros((40, 40, 3), np.uint8)],
    "depth": np.linspace(0, 1, 6, dtype=">f8").reshape(2, 3),
    "proprio": np.zeros(20, np.float16),
    "flags": np.array([True, False]),
    "when": np.array(["2026-01-01"], "datetime64[ms]"),
    "names": np.array(["left", "right"]),
    "empty": np.zeros((0, 3)),
    "scalar": np.array(1.5),
    "odd": [None, True, -1, float("nan"), float("-inf"), "ü🤖", {"__numpy_array__": [1]}, {"data": "A" * 300}],
}

_TEXTS = """
    cmd obs id accept args kwargs res error traceback kind timing policy wire wait episode episode_id place of name
    methods attributes nonce proof data dtype shape size buffer bytes pairs _args reset_model get_action __get__ __bye__
    __link_auth__ binary json ok protocol_error auth_required uint8 <f4 >f8 bool <U3 |S2 <M8[ms] datetime64[ns] object
    V8 O float16
"""

WORDS = [
    *(f'"{word}"'.encode() for word in _TEXTS.split()),
    b'"__numpy_array__": true',
    b'{"__numpy_array__": "buffer", "dtype": "|b1", "shape": [3]}',
    b'{"__numpy_array__": "bytes", "size": 3}',
    b'"data": "@0"',
    b'"data": "AAAA"',
    b"-Infinity",
    b"9223372036854775807",
    b"\\ud83e",
    b"\xff\x01\x00\x00",
    ASSEMBLED,
    SEPARATOR,
]
"""What mutations may insert whole."""


def seeds(target: str) -> list[bytes]:
    """Inputs of `target` that a well-behaved peer sends."""
    asked, answered = conversation("auto")
    if target == "frames":
        stream = b"".join(len(body).to_bytes(4, "big") + body for body in (*asked[:2], *answered[:3]))
        longer = len(asked[2]).to_bytes(4, "big") + asked[2]
        return (
            [bytes([step]) + stream for step in (0, 1, 7, 255)]
            + [b"\x40" + longer + stream]
            + [b"\x00" + b"\xff" * 8, b"\x05" + b"GET / HTTP"]
        )
    if target == "json":
        return [numpy_to_json(OBSERVATION, escape=True)] + [body for body in asked + answered if body[0] != 0xFF]
    if target == "binary":
        whole = [b"".join(encode_binary({"b": b"abc", "o": part, "n": 1})) for part in (OBSERVATION, [OBSERVATION] * 2)]
        return whole + [in_parts(body) for body in whole]
    stock = conversation("stock")
    json_only = conversation("json")
    if target == "responder":
        return [SEPARATOR.join(map(in_parts, bodies)) for bodies in (asked, stock[0], json_only[0])]
    if target == "requester":
        inputs = [b"\x00" + SEPARATOR.join(map(in_parts, answered)), b"\x01" + SEPARATOR.join(stock[1])]
        later = numbered(answered[1:], 2)  # these begin when one request has been answered already
        return inputs + [bytes([which]) + SEPARATOR.join(map(in_parts, later)) for which in (2, 3, 4)]
    return [bytes([which]) + SEPARATOR.join(said) for which, said in enumerate(exchange_of_tokens())]


def conversation(wire: WireChoice) -> tuple[list[bytes], list[bytes]]:
    """The bodies of a short run, asked and answered."""
    ask, answer = RequesterSession(wire), ResponderSession(FEATURES)
    asked: list[bytes] = []
    answered: list[bytes] = []

    def exchange(frame: Sequence[Buffer], result: object, *, fails: bool = False, waits: bool = False) -> None:
        asked.append(body_of(frame))
        answer.receive(bytearray(asked[-1]))
        if waits and (notice := answer.wait(2, 3)) is not None:
            answered.append(body_of(notice))
            ask.receive(bytearray(answered[-1]))
        answered.append(body_of(answer.error("no", "Traceback") if fails else answer.result(result, infer_seconds=0.5)))
        if not fails:
            reply = ask.receive(bytearray(answered[-1]))
            assert isinstance(reply, Reply)

    exchange(ask.request("reset_model"), None, waits=True)
    exchange(ask.request("reset_model", episode={"id": "cell/7#1", "task": "t", "seed": 7}), None)
    shown = OBSERVATION if wire != "stock" else {**OBSERVATION, "odd": None}
    exchange(ask.request("update_observation_window", (shown, 1.5, "x")), None)
    exchange(ask.request("get_action"), {"action": np.zeros((30, 20), np.float32), "b": [1, None]})
    if wire != "stock":
        exchange(ask.request("get_action", (), {"fast": True}), [np.zeros((60, 20)), b"raw" if wire == "auto" else 1])
        exchange(ask.get("obs_cache", length=True), 3)
        first, second = ask.request("update_obs", (1,)), ask.request("get_action")  # back to back
        exchange(first, None)
        exchange(second, np.zeros(14))
        exchange(ask.bye(), None)
    else:
        exchange(ask.request("get_action"), None, fails=True)
    return asked, answered


def exchange_of_tokens() -> tuple[list[bytes], list[bytes]]:
    """What the model says to the simulator, and what the simulator says to the model."""
    simulator, model = SimulatorAuth(TOKEN, nonce=lambda: "a" * 64), ModelAuth(TOKEN, nonce=lambda: "b" * 64)
    asked = [body_of(simulator.begin())]
    answered = [body_of(model.receive(asked[0]))]
    asked.append(body_of(simulator.receive(answered[0]) or []))
    answered.append(body_of(model.receive(asked[1])))
    return answered, asked


def body_of(frame: Sequence[Buffer]) -> bytes:
    """The body of one frame."""
    decoder = FrameDecoder()
    decoder.feed(b"".join(frame))
    body = decoder.next_frame()
    assert body is not None
    return bytes(body)


def numbered(bodies: list[bytes], first: int) -> list[bytes]:
    """The same replies under ids from `first` on."""
    return [re.sub(rb'"id": \d', b'"id": %d' % number, body, count=1) for number, body in enumerate(bodies, first)]


def in_parts(body: bytes) -> bytes:
    """A binary body as `fuzz_wire_targets.ASSEMBLED` has it; any other as it is."""
    if body[0] != 0xFF:
        return body
    end = 8 + int.from_bytes(body[4:8], "big")
    return ASSEMBLED + body[8:end] + b"\0" + body[end + -end % 64 :]
