"""Deriving the light shader pack, and choosing a Vulkan driver."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
import sapien

from robopro_eval.simulators.tabletop import render_pack, vulkan

SOURCE = Path(sapien.__file__).parent / "vulkan_shader"


def test_the_installed_pack_loses_its_image_based_lighting(tmp_path: Path) -> None:
    target = tmp_path / "shaders" / "tabletop"
    render_pack._derive(SOURCE, target)
    text = "".join(path.read_text() for path in target.glob("*.frag"))
    for gone in ("samplerEnvironment", "samplerBRDFLUT", "diffuseIBL", "specularIBL"):
        assert gone not in text
    assert "PCF_SampleCount = 4;" in (target.parent / "common" / "shadow.glsl").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["shaders"], "scratch folders must not stay"


def test_an_unexpected_pack_is_refused_and_leaves_nothing_behind(tmp_path: Path) -> None:
    source = tmp_path / "strange"
    for folder in ("minimal", "common"):
        (source / folder).mkdir(parents=True)
    for name in ("minimal/gbuffer.frag", "minimal/composite0.frag", "common/shadow.glsl"):
        (source / name).write_text("void main() {}\n")
    target = tmp_path / "cache" / "shaders" / "tabletop"
    with pytest.raises(render_pack.UnexpectedShader, match="samplers"):
        render_pack._derive(source, target)
    assert list((tmp_path / "cache").iterdir()) == []


def test_without_a_writable_cache_the_default_pack_is_used_with_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("a file where a folder is needed")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    render_pack._cached_pack.cache_clear()
    try:
        with caplog.at_level(logging.WARNING):
            assert render_pack._cached_pack() is None
            assert render_pack._cached_pack() is None
        assert len(caplog.records) == 1
        assert "default shaders" in caplog.text
    finally:
        render_pack._cached_pack.cache_clear()


def test_processes_that_race_all_find_a_whole_pack(tmp_path: Path) -> None:
    code = (
        "from robopro_eval.simulators.tabletop import render_pack;"
        "print(len(list(render_pack._cached_pack().iterdir())))"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    racers = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    counts = {racer.communicate()[0].strip() for racer in racers}
    assert counts == {str(len(list((SOURCE / "minimal").iterdir())))}
    assert len(list((tmp_path / "robopro_eval").iterdir())) == 1


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without a GPU, without a choice made, whose driver manifests lie in the folder returned."""
    for name in ("VK_ICD_FILENAMES", "VK_DRIVER_FILES"):
        monkeypatch.setenv(name, "")  # so that what a test makes the program set is undone afterwards
        monkeypatch.delenv(name)
    monkeypatch.setattr(vulkan, "_GPU_NODES", ())
    monkeypatch.setattr(vulkan, "MANIFEST_FOLDERS", (str(tmp_path),))
    return tmp_path


def test_the_cpu_driver_is_chosen_where_there_is_nothing_else(bare: Path) -> None:
    assert vulkan.choose_vulkan_driver() is None
    manifest = bare / "lvp_icd.x86_64.json"
    manifest.write_text("{}")
    assert vulkan.choose_vulkan_driver() == str(manifest)
    assert os.environ["VK_ICD_FILENAMES"] == str(manifest)


def test_a_choice_already_made_stands(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare / "lvp_icd.json").write_text("{}")
    monkeypatch.setenv("VK_ICD_FILENAMES", "/mine.json")
    assert vulkan.choose_vulkan_driver() is None
    assert os.environ["VK_ICD_FILENAMES"] == "/mine.json"


def test_a_gpu_is_left_to_the_loader(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare / "lvp_icd.json").write_text("{}")
    monkeypatch.setattr(vulkan, "_GPU_NODES", (str(bare),))
    assert vulkan.choose_vulkan_driver() is None
