"""How much of everything the tests with real processes do: a little for every change, all of it for a release."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Counts:
    """``kills`` of one program over a run of ``episodes``; ``connections`` to one listener; ``slow_call`` seconds."""

    kills: int
    episodes: int
    connections: int
    slow_call: float


EVERY_CHANGE = Counts(kills=3, episodes=4, connections=200, slow_call=4.0)
RELEASE = Counts(kills=20, episodes=10, connections=300, slow_call=90.0)
