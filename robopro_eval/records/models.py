"""The two kinds of line a run writes.

``_metrics.jsonl`` holds one :class:`EpisodeRecord` per scored episode and nothing else: resuming and scoring count
its lines. ``_attempts.jsonl`` holds one :class:`AttemptRecord` per attempt, scored ones included, so that an episode
that had to be run again leaves a trace.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

DETERMINISTIC_FIELDS = (
    "task",
    "config",
    "seed",
    "success",
    "hard_success",
    "steps",
    "reason",
    "collision",
    "collision_count",
    "collision_names",
    "prompt",
    "exec_actions",
    "state_hash",
)
"""What must be equal when an episode is run again: locally or over a socket, in any order. Never wall times."""


class _Line(BaseModel):
    # Other programs may add fields; a reader of ours keeps what it does not know.
    model_config = ConfigDict(extra="allow")


class EpisodeRecord(_Line):
    """One scored episode.

    Times are seconds of wall clock, summed over the episode. They add up:
    ``wall = sim + call`` always, and ``call = encode + wire + queue + model`` where the model tells.
    """

    task: str
    seed: int
    success: bool
    hard_success: bool | None = None
    """Success without any collision; None when the simulator does not measure collisions."""
    steps: int
    """Number of ``take_action`` calls that counted."""
    reason: str | None = None
    """Why the episode failed, None on success: ``step_limit``, ``policy_error: ...``."""
    prompt: str = ""
    """The instruction the policy was given."""
    exec_actions: int | None = None
    """Actions executed per query (0 = the whole chunk); None when the policy does not say."""

    episode: int
    """Position in the run's list of seeds, from 0."""
    collision: bool | None = None
    collision_count: int | None = None
    collision_names: list[str] = []

    wall_seconds: float
    """From the start of setup to the end of the episode."""
    sim_seconds: float
    """Time not spent in calls to the model: setup, physics, rendering, video."""
    encode_seconds: float | None = None
    """Our own encoding and decoding of what the model is told and answers; None in files older than this field."""
    wire_seconds: float | None = None
    """The rest of the calls: sockets, network, the peer's encoding; None when the peer tells no times (stock)."""
    queue_seconds: float | None = None
    """Waiting in the model's process for the policy to be free; None for stock servers."""
    model_seconds: float | None = None
    """The policy at work, as the model reports it; None for stock servers."""
    call_seconds: float
    """Wall time spent in calls to the model, all of the above."""
    calls: int = 0
    """Requests to the model in the episode, of every kind: resets, updates, reads, and the queries for actions."""

    benchmark: str = ""
    scene: str = ""
    config: str = ""
    ckpt_setting: str = ""
    policy: str = ""
    attempt: int = 1
    state_hash: str | None = None
    """Hash of the simulator's final state; None when it has none."""
    video: str | None = None
    """File name of the video beside this file."""


class AttemptRecord(_Line):
    """One attempt at one seed. ``scored`` attempts also have a line in ``_metrics.jsonl``."""

    task: str
    seed: int
    episode: int
    attempt: int
    outcome: Literal["scored", "invalid", "rejected"]
    """``invalid``: not the policy's fault, run again or given up; ``rejected``: the seed failed the expert check."""
    success: bool | None = None
    error: str | None = None
    """Kind of fault: ``peer_gone``, ``deadline``, ``protocol``, ``simulator``, ``unstable``, ``policy_error`` ..."""
    reason: str | None = None
    traceback: str | None = None
    wall_seconds: float
    started: str
    """UTC, ISO 8601."""


def deterministic(record: EpisodeRecord) -> dict[str, object]:
    """The part of a record that must repeat exactly."""
    dump = record.model_dump()
    return {name: dump[name] for name in DETERMINISTIC_FIELDS}
