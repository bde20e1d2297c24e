"""A recorded episode of the shipped policy, replayed where something is different: the first difference says what."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from broken_servers import GoodServer
from safetensors.torch import load_file, save_file

from framing.session import RequesterSession
from policies.dxvla.checkpoints import find_checkpoint
from robopro_eval.checks.replay_cli import main
from robopro_eval.transport import sockets
from robopro_eval.transport.blocking import BlockingChannel
from robopro_eval.transport.recording import RecordingChannel

CHUNKS = ["request 5 (get_action)", "request 7 (get_action)", "request 9 (get_action)"]
PROPRIO = np.tile(np.array([0.1, -0.2, 0.3, 1, 0, 0, 0, 1, 0, -1], np.float32), 2)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `eval-sim --record` would write of an episode, with pictures of noise."""
    path = tmp_path_factory.mktemp("recorded") / "a.recording"
    noise = np.random.default_rng(30001)
    session = RequesterSession()
    with GoodServer("dxvla") as server:
        channel = RecordingChannel(
            BlockingChannel(sockets.dial(("localhost", server.port))), path, meta={"seed": 30001}
        )

        def ask(cmd: str, *args: object) -> None:
            channel.send(session.request(cmd, args), 60)
            session.receive(channel.receive(60))

        ask("reset_model")
        channel.send(session.get("provenance"), 60)
        session.receive(channel.receive(60))
        ask("set_language", "put the cup in the box")
        for _ in CHUNKS:
            views = list(noise.integers(0, 256, (3, 48, 64, 3), dtype=np.uint8))
            ask("update_observation_window", views, PROPRIO, np.zeros((3, 3, 4)), np.zeros((3, 3, 3)))
            ask("get_action")
        channel.close()
    return path


def replayed(recording: Path, capsys: pytest.CaptureFixture[str], **usr_args: object) -> tuple[int, list[str]]:
    """The exit code, and the differences of a replay to the policy with `usr_args`."""
    with GoodServer("dxvla", **usr_args) as server:
        code = main([str(recording), f"tcp://localhost:{server.port}", "--all"])
    out = capsys.readouterr().out
    return code, [line.removeprefix("difference ") for line in out.splitlines() if line.startswith("difference")]


def test_the_same_weights_and_knobs_say_the_same(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert replayed(recording, capsys) == (0, [])


def test_another_knob_is_named_and_every_chunk_differs(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = replayed(recording, capsys, dxvla_action_smooth=0.7)
    assert code == 1
    assert found[0] == "request 2 (attribute provenance): res.knobs.action_smooth: 0.0 became 0.7"
    assert [line.partition(":")[0] for line in found[1:]] == CHUNKS


def test_other_weights_are_named_and_every_chunk_differs(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "other"
    shutil.copytree(find_checkpoint({}, {}), folder)
    weights = load_file(folder / "model.safetensors")
    generator = torch.Generator().manual_seed(30001)
    for tensor in weights.values():
        if tensor.is_floating_point():
            tensor += 0.05 * tensor.std(correction=0) * torch.randn(tensor.shape, generator=generator).to(tensor.dtype)
    save_file(weights, folder / "model.safetensors")
    code, found = replayed(recording, capsys, checkpoint_path=str(folder))
    assert code == 1
    assert re.match(r"request 2 \(attribute provenance\): res\.\w+: ", found[0])
    assert any(".sha256: " in line for line in found)
    assert [line.partition(":")[0] for line in found if "get_action" in line] == CHUNKS
