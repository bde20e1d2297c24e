"""Videos play, and whatever happens to them never costs an episode."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import pytest
from sim_fakes import Rig

from robopro_eval.records import read_jsonl
from sim_endpoint import video as video_module
from sim_endpoint.video import VideoWriter, bundled_ffmpeg


def test_one_video_per_episode_that_a_browser_plays(tmp_path: Path) -> None:
    rig = Rig(tmp_path, video=True)
    rig.play([1, 2])
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".mp4") == ["seed1.mp4", "seed2.mp4"]
    meta: Any = next(imageio_ffmpeg.read_frames(str(tmp_path / "seed1.mp4")))
    assert meta["codec"] == "h264"
    assert meta["pix_fmt"].startswith("yuv420p")
    assert meta["size"] == (320, 240)
    data = (tmp_path / "seed1.mp4").read_bytes()
    assert data.index(b"moov") < data.index(b"mdat"), "the index comes first, so that it plays while it loads"
    assert rig.warnings == []
    assert read_jsonl(tmp_path / "_metrics.jsonl")[0]["video"] == "seed1.mp4"
    assert not list(tmp_path.glob(".*"))


def test_the_encoder_is_the_bundled_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", "/bin/false")
    monkeypatch.setenv("PATH", "/nowhere")
    assert bundled_ffmpeg().parent.parent == Path(imageio_ffmpeg.__file__).parent


@pytest.mark.parametrize("script", ["exit 1", "head -c 1000 >/dev/null; echo broken disk >&2; exit 3", "true"])
def test_a_failing_encoder_is_a_warning(tmp_path: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "ffmpeg-fake"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    monkeypatch.setattr(video_module, "bundled_ffmpeg", lambda: fake)
    results = tmp_path / "results"
    results.mkdir()
    rig = Rig(results, video=True)
    assert rig.play([1, 2]) is None
    assert [line["success"] for line in read_jsonl(results / "_metrics.jsonl")] == [True, True]
    assert [line["video"] for line in read_jsonl(results / "_metrics.jsonl")] == [None, None]
    assert len(rig.warnings) == 2
    assert "no video seed1.mp4" in rig.warnings[0]
    assert not list(results.glob("*.mp4"))


def test_no_encoder_at_all_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    warnings: list[str] = []
    writer = VideoWriter(tmp_path / "seed1.mp4", (320, 240), 10.0, warnings.append)
    assert writer.write(bytes(320 * 240 * 3)) == 320 * 240 * 3
    assert writer.keep() is False
    assert "pip install imageio-ffmpeg" in warnings[0]


def test_a_frame_of_another_size_is_a_warning(tmp_path: Path) -> None:
    warnings: list[str] = []
    writer = VideoWriter(tmp_path / "seed1.mp4", (320, 240), 10.0, warnings.append)
    writer.write(bytes(7))
    assert writer.keep() is False
    assert "7 bytes" in warnings[0]
    assert os.listdir(tmp_path) == []


def test_a_policy_that_fails_before_its_first_action_lacks_no_frames(tmp_path: Path) -> None:
    rig = Rig(tmp_path, video=True)
    rig.play([1], evaluate=lambda env, model, observation: env.take_action([float("nan")] * 14))
    assert read_jsonl(tmp_path / "_metrics.jsonl")[0]["video"] is None
    assert rig.warnings == []


def test_an_invalid_attempt_leaves_no_video(tmp_path: Path) -> None:
    rig = Rig(tmp_path, video=True)

    def crash(env: Any, model: Any, observation: Any) -> None:
        env.take_action([1.0] * 14)
        rig.env.crash_in = "take_action"
        env.take_action([1.0] * 14)

    rig.play([1], evaluate=crash, max_attempts=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["_attempts.jsonl", "manifest.json"]
