"""The byte examples of docs/wire.md are what our sessions really send, and the independent stock peer agrees."""

from __future__ import annotations

import hmac
import json
import math
import re
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import plain_reader
import pytest
import stock_peer
from framing_values import same

from framing.arrays import MAX_ARRAYS, MAX_DIMENSIONS
from framing.binary import COPY_BELOW, decode_body, encode_binary
from framing.decoding import MAX_DIGITS
from framing.encoding import MAX_DEPTH
from framing.errors import AuthenticationError, PolicyError
from framing.frames import ALIGNMENT, DEFAULT_MAX_FRAME, Buffer, FrameDecoder
from framing.messages import MAX_PLACE, MAX_TEXT, Kind
from framing.session import FOLLOWER_MAX, QUIET_METHODS, Ending, Features, RequesterSession, ResponderSession, Wait
from robopro_eval.transport.auth import AUTH_MAX_FRAME, AUTH_SECONDS, ModelAuth, SimulatorAuth, refusal

PAGE = (Path(__file__).parents[2] / "docs" / "wire.md").read_text()
_BLOCK = re.compile(r"<!-- example: ([\w ]+) -->\n```(?:wire|frame)\n(.*?)```", re.DOTALL)
EXAMPLES = {name: text.splitlines() for name, text in _BLOCK.findall(PAGE)}


class Script:
    """Plays an example line by line; every frame must be the one on the page."""

    def __init__(self, name: str) -> None:
        self.lines = iter(EXAMPLES[name])

    def next(self, who: str, frame: Sequence[Buffer]) -> bytes:
        sender, _, shown = next(self.lines).partition(" > ")
        assert sender.strip() == who
        header, _, body = shown.partition(" ")
        assert b"".join(frame) == bytes.fromhex(header) + body.encode()
        decoder = FrameDecoder()
        for piece in frame:
            decoder.feed(piece)
        received = decoder.next_frame()
        assert received is not None
        return bytes(received)

    def finish(self) -> None:
        assert not list(self.lines)


def play(
    name: str,
    ask: RequesterSession,
    answer: ResponderSession,
    turns: list[tuple[Callable[[], list[Buffer]], Callable[[], list[Buffer]]]],
) -> None:
    script = Script(name)
    for request, reply in turns:
        answer.receive(script.next("sim", request()))
        received = script.next("model", reply())
        if b'{"error"' in received:
            with pytest.raises(PolicyError):
                ask.receive(received)
        else:
            ask.receive(received)
    script.finish()


def frame_bytes(name: str) -> bytes:
    """The bytes of an example that is shown piece by piece."""
    out = b""
    for line in EXAMPLES[name]:
        shown, _, _ = line.partition("  ")
        if line.startswith("{"):
            out += line.encode()
        elif shown.startswith("00 *"):
            out += bytes(int(shown.removeprefix("00 *")))
        else:
            out += bytes.fromhex(shown)
    return out


def test_every_example_is_tested() -> None:
    assert set(EXAMPLES) == {
        *("stock", "array", "binary request", "binary corners"),
        *("upgrade", "wait", "back to back", "auth", "refused"),
    }


def test_the_stock_exchange() -> None:
    ask, answer = RequesterSession("stock"), ResponderSession(Features("demo"))
    play(
        "stock",
        ask,
        answer,
        [
            (lambda: ask.request("reset_model"), lambda: answer.result(None)),
            (lambda: ask.request("set_language", ("lift the pot",)), lambda: answer.result(None)),
            (lambda: ask.request("add", (1.5, "b")), lambda: answer.error("no add", "Trace", "unknown_method")),
        ],
    )


def test_the_stock_exchange_is_what_the_independent_peer_writes() -> None:
    messages = [
        {"cmd": "reset_model", "obs": None},
        {"res": None},
        {"cmd": "set_language", "obs": "lift the pot"},
        {"res": None},
        {"cmd": "add", "obs": {"_args": [1.5, "b"]}},
        {"error": "no add", "traceback": "Trace"},
    ]
    for line, message in zip(EXAMPLES["stock"], messages, strict=True):
        body = stock_peer.stock_dumps(message)
        assert line.endswith(f"> {len(body):08x} {body}")


def test_the_array() -> None:
    ask, answer = RequesterSession("stock"), ResponderSession(Features("demo"))
    value = np.array([[0.5, 1.5], [np.nan, np.inf]], np.float32)
    (got,) = answer.receive(Script("array").next("sim", ask.request("update_obs", (value,)))).args
    np.testing.assert_array_equal(got, value)  # type: ignore[arg-type]


BINARY_REQUEST = {
    "proprio": np.array([0.5, -2, np.nan], np.float32),
    "jpeg": b"\xff\xd8\xff",
    "depth": np.array([[1], [258]], ">u2"),
}


def test_the_binary_request() -> None:
    ask, answer = RequesterSession(), ResponderSession(Features("demo"))
    for _ in range(2):
        answer.receive(b"".join(ask.request("reset_model"))[4:])
        ask.receive(b"".join(answer.result(None))[4:])
    shown = frame_bytes("binary request")
    assert b"".join(ask.request("update_obs", (BINARY_REQUEST,))) == shown
    (got,) = answer.receive(shown[4:]).args
    assert same(got, BINARY_REQUEST)


def test_the_binary_examples_as_a_stranger_reads_them() -> None:
    header, body = frame_bytes("binary request")[:4], frame_bytes("binary request")[4:]
    assert struct.unpack(">I", header) == (len(body),)
    assert plain_reader.read_binary(body)["args"] == [
        {
            "proprio": plain_reader.Array("float32", [3], struct.pack("<3f", 0.5, -2, math.nan)),
            "jpeg": b"\xff\xd8\xff",
            "depth": plain_reader.Array(">u2", [2, 1], struct.pack(">2H", 1, 258)),
        }
    ]
    header, body = frame_bytes("binary corners")[:4], frame_bytes("binary corners")[4:]
    assert struct.unpack(">I", header) == (len(body),)
    assert plain_reader.read_binary(body) == {
        "res": {"__numpy_array__": "mine"},
        "none": plain_reader.Array("float64", [0, 3], b""),
    }


def test_the_binary_corners() -> None:
    value = {"res": {"__numpy_array__": "mine"}, "none": np.zeros((0, 3))}
    body = frame_bytes("binary corners")[4:]
    assert b"".join(encode_binary(value)) == body
    assert same(decode_body(body), value)


def test_the_wait_notices() -> None:
    ask, answer = RequesterSession(), ResponderSession(Features("demo", frozenset({"reset_model"})))
    script = Script("wait")
    answer.receive(script.next("sim", ask.request("reset_model")))
    for place in (2, 1):
        notice = answer.wait(place, place)
        assert notice is not None
        assert ask.receive(script.next("model", notice)) == Wait(place, place)
    ask.receive(script.next("model", answer.result(None, infer_seconds=0.5, queue_seconds=41.5)))
    script.finish()


def test_back_to_back() -> None:
    ask, answer = RequesterSession(), ResponderSession(Features("demo"))
    for _ in range(2):
        answer.receive(b"".join(ask.request("reset_model"))[4:])
        ask.receive(b"".join(answer.result(None))[4:])
    script = Script("back to back")
    first = script.next("sim", ask.request("update_obs", ([0.5],)))
    second = script.next("sim", ask.request("get_action"))
    answer.receive(first)
    with pytest.raises(PolicyError, match="boom"):
        ask.receive(script.next("model", answer.error("boom", "Trace")))
    answer.receive(second)
    skipped = answer.skipped()
    assert skipped is not None
    with pytest.raises(PolicyError, match="was not called"):
        ask.receive(script.next("model", skipped))
    script.finish()
    assert all(f"`{method}`" in PAGE for method in QUIET_METHODS)
    assert f"at most {FOLLOWER_MAX} bytes" in PAGE


def test_the_exchange_of_tokens_computed_with_nothing_but_hmac() -> None:
    token = b"a token for this page only"
    assert f"`{token.decode()}`" in PAGE
    bodies = [json.loads(line.partition("{")[1] + line.partition("{")[2]) for line in EXAMPLES["auth"]]
    simulator, model = bodies[0]["obs"]["nonce"], bodies[1]["res"]["nonce"]

    def proof(role: str) -> str:
        lines = f"robopro-eval link 1\n{role}\n{simulator}\n{model}".encode()
        return hmac.digest(token, lines, "sha256").hex()

    assert bodies == [
        {"cmd": "__link_auth__", "obs": {"nonce": simulator}},
        {"res": {"nonce": model, "proof": proof("model")}},
        {"cmd": "__link_auth__", "obs": {"proof": proof("simulator")}},
        {"res": "ok"},
    ]
    assert len(bytes.fromhex(simulator)) == len(bytes.fromhex(model)) == 32


def test_the_exchange_of_tokens_is_what_our_programs_say() -> None:
    token = b"a token for this page only"
    simulator = SimulatorAuth(token, nonce=lambda: bytes(range(32)).hex())
    model = ModelAuth(token, nonce=lambda: bytes(range(32, 64)).hex())
    script = Script("auth")
    answer = model.receive(script.next("sim", simulator.begin()))
    proof = simulator.receive(script.next("model", answer))
    assert proof is not None
    assert simulator.receive(script.next("model", model.receive(script.next("sim", proof)))) is None
    assert simulator.done
    assert model.done
    script.finish()
    script = Script("refused")
    refused = script.next("sim", RequesterSession("stock").request("reset_model"))
    with pytest.raises(AuthenticationError) as caught:
        ModelAuth(token).receive(refused)
    script.next("model", refusal(str(caught.value)))
    script.finish()
    assert f"{AUTH_MAX_FRAME} bytes" in PAGE
    assert f"{AUTH_SECONDS:g} s." in PAGE


def test_the_upgrade() -> None:
    ask, answer = RequesterSession(), ResponderSession(Features("demo", frozenset({"get_action", "reset_model"})))
    episode = {"id": "c/7#1", "task": "lift_pot", "seed": 7}
    play(
        "upgrade",
        ask,
        answer,
        [
            (lambda: ask.request("reset_model"), lambda: answer.result(None, infer_seconds=0.5)),
            (lambda: ask.request("reset_model", episode=episode), lambda: answer.result(None)),
            (lambda: ask.request("get_action", (), {"n": 2}), lambda: answer.error("boom", "Trace")),
            (lambda: ask.get("window.size"), lambda: answer.result(3)),
            (lambda: ask.bye(), lambda: answer.result(None)),
        ],
    )
    assert ask.ending is answer.ending is Ending.BYE


def test_the_limits_on_the_page_are_those_of_the_code() -> None:
    assert f"{DEFAULT_MAX_FRAME >> 20} MiB" in PAGE
    assert f"nesting deeper than {MAX_DEPTH}" in PAGE
    assert f"at most {MAX_ARRAYS} arrays" in PAGE
    assert f"at least {COPY_BELOW >> 10} KiB" in PAGE
    assert f"multiple of {ALIGNMENT}" in PAGE
    assert f"about {MAX_TEXT} characters" in PAGE
    assert (MAX_PLACE, "a million" in PAGE) == (1_000_000, True)
    assert f"more than {MAX_DIGITS} digits" in " ".join(PAGE.split())
    assert f"at most {MAX_DIMENSIONS} non-negative" in PAGE
    assert all(f"`{kind.value}`" in PAGE for kind in Kind)
