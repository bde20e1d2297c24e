"""Pairs of sessions, and the bodies of their frames."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from framing.frames import Buffer
from framing.requester import WireChoice
from framing.session import Features, Peer, RequesterSession, ResponderSession

FEATURES = Features("dxvla", frozenset({"get_action", "reset_model"}), frozenset({"observation_window"}))


def body(frame: Sequence[Buffer]) -> bytes:
    data = b"".join(frame)
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    return data[4:]


def message(frame: Sequence[Buffer]) -> dict[str, Any]:
    out: dict[str, Any] = json.loads(body(frame))
    return out


def upgraded(wire: WireChoice = "auto") -> tuple[RequesterSession, ResponderSession]:
    """A pair after its first exchange."""
    ask, answer = RequesterSession(wire), ResponderSession(FEATURES)
    answer.receive(body(ask.request("reset_model")))
    ask.receive(body(answer.result(None)))
    assert ask.peer is Peer.OURS
    assert answer.peer is Peer.OURS
    return ask, answer


def with_stock_model() -> RequesterSession:
    ask = RequesterSession()
    ask.request("reset_model")
    ask.receive(b'{"res": null}')
    assert ask.peer is Peer.STOCK
    return ask
