"""The doctor: what it says of a sound machine, and of each broken thing."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sim_endpoint import doctor, doctor_probes
from sim_endpoint.doctor import ProbeResult, Verdict
from sim_endpoint.video import EncoderMissing
from sim_endpoint.vulkan import VulkanDevice

LAVAPIPE = "llvmpipe Mesa {} (LLVM 15.0.6)"


def works(name: str) -> ProbeResult:
    return ProbeResult(True, f"{name} works")


def broken(name: str) -> ProbeResult:
    return ProbeResult(False, f"{name} is broken")


def device(version: str, is_lavapipe: bool = True) -> VulkanDevice:
    return VulkanDevice("llvmpipe", "CPU", LAVAPIPE.format(version), is_lavapipe)


@pytest.mark.parametrize("check", [doctor.check_vulkan, doctor.check_frame, doctor.check_video])
def test_a_check_reports_its_probe_and_names_a_fix_only_when_it_fails(check: object) -> None:
    assert callable(check)
    good, bad = check(works), check(broken)
    assert good.verdict is Verdict.OK
    assert good.fix == ""
    assert bad.verdict is Verdict.FAIL
    assert "is broken" in bad.detail
    assert bad.fix


def test_a_driver_file_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VK_ICD_FILENAMES", "/nowhere/driver.json")
    finding = doctor.check_vulkan(doctor.run_probe)
    assert finding.verdict is Verdict.FAIL
    assert "/nowhere/driver.json" in finding.detail
    assert "unset VK_ICD_FILENAMES" in finding.fix


def test_the_drivers_of_this_machine_and_its_encoder_work() -> None:
    assert doctor.run_probe("vulkan").ok, doctor.run_probe("vulkan").text
    assert doctor.run_probe("video").ok, doctor.run_probe("video").text


def test_the_encoder_tried_is_the_one_of_the_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Path:
        raise EncoderMissing("no video encoder: pip install imageio-ffmpeg")

    monkeypatch.setattr("sim_endpoint.video.bundled_ffmpeg", none)
    with pytest.raises(doctor_probes.ProbeFailed, match="pip install imageio-ffmpeg"):
        doctor_probes.probe_video()


def test_one_picture_of_the_benchmark_is_rendered() -> None:
    result = doctor.run_probe("frame")
    assert result.ok, result.text
    assert "320x240" in result.text


def test_a_probe_that_crashes_is_reported_not_suffered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    crash = tmp_path / "python"
    crash.write_text("#!/bin/sh\nkill -SEGV $$\n")
    crash.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(crash))
    assert doctor.run_probe("frame") == ProbeResult(False, "its process crashed (SIGSEGV)")


def test_a_probe_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hang = tmp_path / "python"
    hang.write_text("#!/bin/sh\nexec sleep 30\n")
    hang.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(hang))
    assert doctor.run_probe("frame", timeout=0.2) == ProbeResult(False, "it did not finish within 0 s")


@pytest.mark.parametrize(
    ("version", "is_lavapipe", "too_old"),
    [
        ("22.3.6", True, True),
        ("24.2.9", True, True),
        ("24.3.0", True, False),
        ("25.0.7-2~bpo12+1", True, False),
        ("22.3.6", False, False),
    ],
)
def test_which_mesa_is_too_old(version: str, is_lavapipe: bool, too_old: bool) -> None:
    assert device(version, is_lavapipe).is_too_old is too_old


def test_a_driver_that_is_not_mesa_has_no_mesa_version() -> None:
    assert VulkanDevice("H200", "GPU", "NVIDIA 570.86", False).mesa_version is None


def test_an_old_driver_fails_by_name_and_a_second_good_one_saves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_probes, "list_devices", lambda: [device("22.3.6")])
    with pytest.raises(doctor_probes.ProbeFailed, match=r"Mesa 22\.3\.6 .*needs Mesa 24\.3"):
        doctor_probes.probe_vulkan()
    monkeypatch.setattr(doctor_probes, "list_devices", lambda: [device("22.3.6"), device("25.0.7")])
    assert "25.0.7" in doctor_probes.probe_vulkan()


def test_a_port_in_use_is_a_failure_with_a_fix() -> None:
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        finding = doctor.check_port(port)
    assert finding.verdict is Verdict.FAIL
    assert str(port) in finding.detail
    assert "--port" in finding.fix
    assert doctor.check_port(port).verdict is Verdict.OK


def test_exit_code_and_closing_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    for name, result in (("check_vulkan", works), ("check_frame", works), ("check_video", works)):
        finding = getattr(doctor, name)(result)
        monkeypatch.setattr(doctor, name, lambda finding=finding: finding)
    assert doctor.run(["--port", port]) == 0
    assert capsys.readouterr().out.endswith("all is well\n")
    monkeypatch.setattr(
        doctor, "check_frame", lambda: doctor.Finding("rendered frame", Verdict.FAIL, "black", "paint it")
    )
    assert doctor.run(["--port", port]) == 1
    out = capsys.readouterr().out
    assert "fix: paint it" in out
    assert out.endswith("1 of 6 checks failed\n")


@pytest.mark.parametrize("port", ["0", "65536", "http", "-1", "²"])
def test_a_wrong_port_is_a_usage_error(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        doctor.run([f"--port={port}"])
    assert stop.value.code == 2
    assert "1 to 65535" in capsys.readouterr().err


def test_without_a_driver_the_run_ends_before_its_first_seed_and_sends_you_here(tmp_path: Path) -> None:
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "VK_ICD_FILENAMES": "/nowhere/driver.json"}
    command = [Path(sys.executable).with_name("eval-sim"), "--expert", "--runs_root", str(tmp_path)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith("error: the simulator cannot start: ")
    assert "eval-sim doctor" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.rglob("_metrics.jsonl"))


def test_importing_the_doctor_loads_no_engine() -> None:
    code = "import sys, sim_endpoint.doctor; sys.exit('sapien' in sys.modules or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
