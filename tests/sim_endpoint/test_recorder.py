"""--record: one file per episode, from its reset on, and never at the cost of the episode."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sim_fakes import ScriptedModel

from framing.binary import decode_body
from framing.session import RequesterSession, WireChoice
from robopro_eval.transport.recording import Direction, read_recording
from sim_endpoint.model_source import EpisodeInfo
from sim_endpoint.recorder import MAX_EPISODES, Recorder
from sim_endpoint.remote_model import RemoteModel
from sim_endpoint.settings import Patience


class Rig:
    def __init__(self, folder: Path, wire: WireChoice = "auto", *, earlier: int = 0) -> None:
        self.folder = folder
        self.notes: list[str] = []
        self.model = ScriptedModel({"get_action": np.arange(600.0).reshape(30, 20)})
        self.source = RemoteModel(
            self.model,
            RequesterSession(wire),
            patience=Patience(5.0, 5.0),
            peer="node-b:29761",
            recorder=Recorder(folder, {"policy": "dxvla"}, self.notes.append, earlier=earlier),
        )
        self.source.handshake()

    def play(self, seed: int, attempt: int = 1) -> None:
        self.source.begin_episode(EpisodeInfo(f"study/cup/clean/demo/{seed}#{attempt}", "cup", seed))
        self.source.call("update_observation_window", [[np.full((4, 4, 3), seed % 256, np.uint8)], np.zeros(20)])
        self.source.call("get_action")

    def files(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


@pytest.mark.parametrize("wire", ["auto", "json", "stock"])
def test_every_episode_is_a_file_that_begins_with_its_reset(tmp_path: Path, wire: WireChoice) -> None:
    rig = Rig(tmp_path, wire)
    rig.play(30000)
    rig.play(30001, attempt=2)
    rig.source.close(goodbye=True)
    assert rig.files() == ["cup_seed30000_attempt1.recording", "cup_seed30001_attempt2.recording"]
    assert rig.notes == []
    recording = read_recording(tmp_path / "cup_seed30001_attempt2.recording")
    assert recording.meta == {
        "policy": "dxvla",
        "episode": {"id": "study/cup/clean/demo/30001#2", "task": "cup", "seed": 30001},
    }
    assert not recording.torn
    sent = [decode_body(frame.body) for frame in recording.frames if frame.direction is Direction.SENT]
    commands = [message["cmd"] for message in sent if isinstance(message, dict)]
    expected = ["reset_model", "update_observation_window", "get_action"]
    assert commands == (expected if wire == "stock" else [*expected, "__bye__"])
    received = [decode_body(frame.body) for frame in recording.frames if frame.direction is Direction.RECEIVED]
    assert isinstance(received[2], dict)
    np.testing.assert_array_equal(received[2]["res"], np.arange(600.0).reshape(30, 20))  # type: ignore[arg-type]


def test_only_the_first_episodes_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim_endpoint.recorder.MAX_EPISODES", 2)
    rig = Rig(tmp_path)
    for seed in (1, 2, 3):
        rig.play(seed)
    assert rig.files() == ["cup_seed1_attempt1.recording", "cup_seed2_attempt1.recording"]
    frames = read_recording(tmp_path / "cup_seed2_attempt1.recording").frames
    assert len(frames) == 6, "the third episode is not in the second one's file"


def test_an_earlier_recording_is_kept(tmp_path: Path) -> None:
    for _ in range(2):
        Rig(tmp_path).play(7)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [
        "cup_seed7_attempt1.recording",
        "cup_seed7_attempt1_2.recording",
    ]


def test_a_folder_that_takes_nothing_costs_a_warning_and_no_episode(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "gone")
    rig.play(7)
    assert [line.startswith("warning: ") for line in rig.notes] == [True]
    assert rig.model.command == "get_action"


def test_a_full_recording_ends_and_the_episode_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim_endpoint.recorder.MAX_RECORDING", 2000)
    rig = Rig(tmp_path)
    rig.play(7)
    rig.play(8)
    rig.source.close(goodbye=True)
    assert ["is full" in line for line in rig.notes] == [True, True]
    assert read_recording(tmp_path / "cup_seed7_attempt1.recording").full


def test_fresh_processes_share_the_limit(tmp_path: Path) -> None:
    """A simulator that fails in every episode must not fill the disk with ten recordings per process."""
    rig = Rig(tmp_path, earlier=MAX_EPISODES - 1)
    rig.play(30000)
    rig.play(30001)
    rig.source.close(goodbye=True)
    assert rig.files() == ["cup_seed30000_attempt1.recording"]
