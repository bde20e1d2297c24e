"""docs/wire.md is enough for another implementation: two programs written from it alone, in JavaScript, meet ours.

`wire.mjs` has the frames and values, `text.mjs` the JSON, `simulator.mjs` and `model.mjs` are the two ends.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from programs import BIN, NUDGE, Program, clean_environ, free_port
from stock_peer import SimClient

PEERS = Path(__file__).parent
TOKEN = {"EVAL_LINK_TOKEN": "0123456789abcdef0123456789abcdef"}


@pytest.fixture(scope="module")
def node() -> str:
    found = shutil.which("node")
    assert found is not None, "these tests need Node.js 18 or newer; scripts/bootstrap.sh --dev installs it"
    return found


def our_model(policy: str | Path, port: int, **environ: str) -> Program:
    return Program([BIN / "eval-model", "--policy_name", policy, "--port", str(port)], env=clean_environ(**environ))


def their_simulator(node: str, port: int, **environ: str) -> Program:
    return Program([node, PEERS / "simulator.mjs", "localhost", str(port)], env=clean_environ(**environ))


def met(simulator: Program) -> dict[str, Any]:
    """What the simulator says at its end."""
    assert simulator.exit_code() == 0, simulator.output
    told: dict[str, Any] = json.loads(simulator.output.splitlines()[-1])
    return told


def test_their_simulator_is_served_by_our_model(node: str) -> None:
    port = free_port()
    with our_model("echo", port, **TOKEN) as model:
        model.wait_for("listening on")
        with their_simulator(node, port, **TOKEN) as simulator:
            assert met(simulator) == {
                "binary_replies": 2,
                "kinds": ["ok", "ok", "ok", "ok", "policy_error", "bye"],
                "policy": "echo",
                "came_back": True,
                "chunk": "float32 [30,14]",
                "error": "echo.fail() failed: ValueError: boom",
                "closed": True,
            }
        with their_simulator(node, port) as simulator:
            assert "set the same EVAL_LINK_TOKEN for both programs" in met(simulator)["gave_up"]
        with their_simulator(node, port, EVAL_LINK_TOKEN="another token, as long") as simulator:
            assert met(simulator)["gave_up"] == "the model holds another token"


def test_their_simulator_is_told_its_place_and_then_served(node: str) -> None:
    port = free_port()
    with our_model(NUDGE, port) as model:
        model.wait_for("listening on")
        first = SimClient.dial("localhost", port)
        first.call("reset_model")
        with their_simulator(node, port) as second:
            assert second.wait_for("waiting") == "waiting: place 1"
            first.close()
            told = met(second)
    assert told["kinds"] == ["ok", "ok", "unknown_method", "policy_error", "unknown_method", "bye"]
    assert told["closed"]


def test_their_model_fails_no_line_of_our_check(node: str, tmp_path: Path) -> None:
    with Program([node, PEERS / "model.mjs"]) as model:
        port = model.wait_for("READY").split()[1]
        report = tmp_path / "check.json"
        with Program([BIN / "eval-check", f"tcp://localhost:{port}", "--report", report]) as check:
            assert check.exit_code() == 0, check.output
    lines = json.loads(report.read_text("utf-8"))["lines"]
    assert {line["name"] for line in lines if line["verdict"] != "pass"} == {
        "session.wait_notice",  # it serves side by side
        "session.timing",
        "session.attributes",
        "access.token",
        "access.wrong_token",
        "access.tls",
        "time.redial",
    }
