"""The arms: who talks to whom, and in which environment."""

from __future__ import annotations

from dataclasses import dataclass

FLOOR = "floor"


@dataclass(frozen=True)
class Arm:
    """Two programs. `client` and `server` are kinds that `drive` and `serve` know; `eval-model` is the real program."""

    name: str
    title: str
    client: str
    server: str
    foreign: bool = False
    """It needs packages that only the benchmark's own environment has."""


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
    )
}
"""By name, in the order of the table. The first is what the others are divided by."""
