"""What the episode loop talks to: a model behind a socket (:mod:`sim_endpoint.remote_model`), or one in this process
(:mod:`sim_endpoint.local_model`). Both give a policy's ``eval()`` the same thing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from framing.session import Features


@dataclass(frozen=True)
class EpisodeInfo:
    """``id`` is ``<cell>/<seed>#<attempt>``; the attempt fences and never enters a random generator."""

    id: str
    task: str
    seed: int

    def as_dict(self) -> dict[str, object]:
        return {"id": self.id, "task": self.task, "seed": self.seed}


@dataclass
class CallClock:
    """Where the time of the calls goes: seconds of wall clock since it was made.

    The parts add up: ``call = encode + wire + queue + model``. Queue and model are what the peer tells, so they and
    the wire are None as soon as one reply came without timing: a stock server does not tell.
    """

    calls: int = 0
    call_seconds: float = 0.0
    encode_seconds: float = 0.0
    """Our own encoding and decoding."""
    queue_seconds: float | None = 0.0
    """Waiting in the model's process for its policy to be free."""
    model_seconds: float | None = 0.0
    """The policy at work."""

    def add(self, seconds: float, encode: float, timing: Mapping[str, float] | None) -> None:
        """One call of `seconds`, of which `encode` were ours, and what the reply told of the rest."""
        self.calls += 1
        self.call_seconds += seconds
        self.encode_seconds += encode
        if timing is None or "infer" not in timing or self.model_seconds is None or self.queue_seconds is None:
            self.queue_seconds = self.model_seconds = None
            return
        # A peer may tell more than there was; what it tells must not make the parts more than the whole.
        rest = max(0.0, seconds - encode)
        infer = min(max(0.0, timing["infer"]), rest)
        self.model_seconds += infer
        self.queue_seconds += min(max(0.0, timing.get("queue", 0.0)), rest - infer)

    @property
    def wire_seconds(self) -> float | None:
        """The rest of the calls: both sockets, the network, and the peer's encoding."""
        if self.queue_seconds is None or self.model_seconds is None:
            return None
        return max(0.0, self.call_seconds - self.encode_seconds - self.queue_seconds - self.model_seconds)


class ModelSource(Protocol):
    """One model, ready to be asked.

    ``features`` is None for a stock peer, which lists nothing. ``fault`` is the error that ended the connection, if
    one did; every later call raises it again.
    """

    clock: CallClock
    peer: str
    """Where it is, for people."""

    @property
    def features(self) -> Features | None: ...

    @property
    def fault(self) -> Exception | None: ...

    def begin_episode(self, info: EpisodeInfo) -> None:
        """Reset the policy for a new episode. Raises PolicyError, PeerGone, DeadlineExceeded, ProtocolError."""

    def call(self, name: str, args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None) -> object:
        """Call a method of the policy. Raises as above, and EncodeError for what cannot travel."""

    def get(self, path: str, *, length: bool = False) -> object:
        """Read data at a dotted path, or its len(). Only where ``features`` is not None."""

    def settle(self) -> None:
        """Wait for whatever was asked and not yet answered. Raises as :meth:`call` does; nothing once there is a fault.

        Until then a call that returns nothing may not have been made yet.
        """

    def close(self, *, goodbye: bool) -> None:
        """Part from the model; with ``goodbye`` it is told that the run is over. Never raises."""
