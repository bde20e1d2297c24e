"""The arms: who talks to whom, and in which environment."""

from __future__ import annotations

from dataclasses import dataclass

FLOOR = "floor"
_FAR = "policy 2 ms, network 0.5 ms each way"


@dataclass(frozen=True)
class Arm:
    """Two programs. `client` and `server` are kinds that `drive` and `serve` know; `eval-model` is the real program."""

    name: str
    title: str
    client: str
    server: str
    foreign: bool = False
    """It needs packages that only the benchmark's own environment has."""
    calls: int = 1
    """Requests per step: one with observation and actions, or `update_observation_window` and `get_action`."""
    policy_ms: int = 0
    """What the policy takes to think."""
    delay_ms: float = 0.0
    """What the network between the two takes, one way."""


ARMS = {
    arm.name: arm
    for arm in (
        Arm(FLOOR, "raw socket, the same bytes (floor)", "floor", "floor"),
        Arm("binary", "ours, binary body", "auto", "eval-model"),
        Arm("json", "ours, stock body", "json", "eval-model"),
        Arm("to-stock", "our simulator, stock model", "auto", "stock"),
        Arm("from-stock", "stock simulator, our model", "stock", "eval-model"),
        Arm("stock", "RoboPRO's own pair", "stock", "stock"),
        Arm("openpi", "openpi-client (WebSocket, msgpack)", "openpi", "openpi", foreign=True),
        Arm("zeromq", "ZeroMQ REQ/REP with npy, as GR00T", "zeromq", "zeromq", foreign=True),
        Arm("vla-eval", "vla-eval (WebSocket, msgpack)", "vla-eval", "vla-eval", foreign=True),
        Arm("grpc", "pickle over gRPC", "grpc", "grpc", foreign=True),
        Arm("waiting", "two calls, waiting", "waiting", "eval-model", calls=2),
        Arm("paired", "two calls, back to back", "paired", "eval-model", calls=2),
        Arm("waiting-2ms", "two calls, waiting; policy 2 ms", "waiting", "eval-model", calls=2, policy_ms=2),
        Arm("paired-2ms", "two calls, back to back; policy 2 ms", "paired", "eval-model", calls=2, policy_ms=2),
        Arm("waiting-far", f"two calls, waiting; {_FAR}", "waiting", "eval-model", calls=2, policy_ms=2, delay_ms=0.5),
        Arm(
            "paired-far", f"two calls, back to back; {_FAR}", "paired", "eval-model", calls=2, policy_ms=2, delay_ms=0.5
        ),
    )
}
"""By name, in the order of the table. The first is what the others are divided by."""
