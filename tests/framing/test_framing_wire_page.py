"""The byte examples of docs/wire.md are what our sessions really send, and the independent stock peer agrees."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import stock_peer

from framing.errors import PolicyError
from framing.frames import Buffer, FrameDecoder
from framing.session import Ending, Features, RequesterSession, ResponderSession

PAGE = (Path(__file__).parents[2] / "docs" / "wire.md").read_text()
_BLOCK = re.compile(r"<!-- example: (\w+) -->\n```wire\n(.*?)```", re.DOTALL)
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


def test_every_example_is_tested() -> None:
    assert set(EXAMPLES) == {"stock", "array", "upgrade"}


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


def test_the_upgrade() -> None:
    ask, answer = RequesterSession(), ResponderSession(Features("demo", frozenset({"get_action"})))
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
    from framing.arrays import MAX_DIMENSIONS
    from framing.decoding import MAX_DIGITS
    from framing.encoding import MAX_DEPTH
    from framing.frames import DEFAULT_MAX_FRAME
    from framing.messages import Kind

    assert f"{DEFAULT_MAX_FRAME >> 20} MiB" in PAGE
    assert f"nesting deeper than {MAX_DEPTH}" in PAGE
    assert f"more than {MAX_DIGITS} digits" in " ".join(PAGE.split())
    assert f"at most {MAX_DIMENSIONS} non-negative" in PAGE
    assert all(f"`{kind.value}`" in PAGE for kind in Kind)
