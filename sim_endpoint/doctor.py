"""``eval-sim doctor``: can this machine run the simulator, and if not, what to do about it.

Every check is one small function that returns a :class:`Finding`. What may crash a process (a Vulkan driver, the
renderer, an encoder) runs in a process of its own, ``python -m sim_endpoint.doctor_probes``, so that a crash is
reported and not suffered.
"""

from __future__ import annotations

import argparse
import enum
import functools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from robopro_eval.console.streams import say, use_utf8
from robopro_eval.transport.addresses import parse_port
from robopro_eval.transport.errors import AddressError, TransportError
from robopro_eval.transport.sockets import listen
from sim_endpoint.settings import DEFAULT_PORT
from sim_endpoint.vulkan import MESA_MINIMUM

PROBE_TIMEOUT = 120.0
"""Seconds. SAPIEN's default shaders need 6 s for a first picture on a CPU; a busy machine, several times that."""

_MESA = ".".join(str(part) for part in MESA_MINIMUM[:2])


class Verdict(enum.Enum):
    OK = "ok"
    NOTE = "note"
    FAIL = "FAIL"


@dataclass(frozen=True)
class Finding:
    """What one check saw. ``fix`` is what a person does about it; empty when there is nothing to do."""

    name: str
    verdict: Verdict
    detail: str
    fix: str = ""


@dataclass(frozen=True)
class ProbeResult:
    """How a probe process ended: ``ok`` means exit code 0; ``text`` is its last line, or how it died."""

    ok: bool
    text: str


Probe = Callable[[str], ProbeResult]


def run_probe(name: str, timeout: float = PROBE_TIMEOUT) -> ProbeResult:
    """Run one probe of ``sim_endpoint.doctor_probes`` in a process of its own. Never raises for what happens inside."""
    command = [sys.executable, "-m", "sim_endpoint.doctor_probes", name]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=timeout
        )
    except subprocess.TimeoutExpired:
        return ProbeResult(False, f"it did not finish within {timeout:.0f} s")
    if done.returncode < 0:
        try:
            cause = signal.Signals(-done.returncode).name
        except ValueError:
            cause = f"signal {-done.returncode}"
        return ProbeResult(False, f"its process crashed ({cause})")
    lines = (done.stdout if done.returncode == 0 else done.stdout + done.stderr).strip().splitlines()
    return ProbeResult(done.returncode == 0, lines[-1].strip() if lines else f"exit code {done.returncode}")


def check_sapien() -> Finding:
    """Is the simulator's engine installed at all."""
    try:
        return Finding("sapien", Verdict.OK, f"version {version('sapien')}")
    except PackageNotFoundError:
        fix = "run scripts/bootstrap.sh in a checkout, or pip install robopro-eval with its extra sim"
        return Finding("sapien", Verdict.FAIL, "not installed in this Python environment", fix)


def check_vulkan(probe: Probe = run_probe) -> Finding:
    """Is there a Vulkan device, and is its driver recent enough."""
    chosen = os.environ.get("VK_ICD_FILENAMES") or os.environ.get("VK_DRIVER_FILES")
    result = probe("vulkan")
    if result.ok:
        return Finding("vulkan", Verdict.OK, result.text)
    if chosen and not all(os.path.exists(name) for name in chosen.split(os.pathsep)):
        fix = "unset VK_ICD_FILENAMES and VK_DRIVER_FILES, or name an existing file of /usr/share/vulkan/icd.d"
        return Finding("vulkan", Verdict.FAIL, f"VK_ICD_FILENAMES names a file that is not there: {chosen}", fix)
    fix = (
        f"on a CPU: apt-get install libvulkan1 and mesa-vulkan-drivers {_MESA} or newer (on Debian 12 with "
        "-t bookworm-backports; scripts/bootstrap.sh does it); with an NVIDIA GPU: "
        "export VK_ICD_FILENAMES=/usr/share/vulkan/icd.d/nvidia_icd.json"
    )
    return Finding("vulkan", Verdict.FAIL, result.text, fix)


def check_frame(probe: Probe = run_probe) -> Finding:
    """Can the benchmark's own scene be set up and one camera picture taken."""
    result = probe("frame")
    if result.ok:
        return Finding("rendered frame", Verdict.OK, result.text)
    fix = (
        "first repair what failed above; if nothing did, the driver cannot render this scene: try Mesa's CPU driver, "
        "export VK_ICD_FILENAMES=/usr/share/vulkan/icd.d/lvp_icd.json (the name may end in .x86_64.json)"
    )
    return Finding("rendered frame", Verdict.FAIL, result.text, fix)


def check_video(probe: Probe = run_probe) -> Finding:
    """Can a short video be encoded. Without it episodes still run and count, only the mp4 files are missing."""
    result = probe("video")
    if result.ok:
        return Finding("video encoder", Verdict.OK, result.text)
    fix = "pip install --force-reinstall imageio-ffmpeg (it brings its own ffmpeg); or run without videos"
    return Finding("video encoder", Verdict.FAIL, result.text, fix)


def check_torch() -> Finding:
    """Torch is not needed here; said only because it is the first thing people miss."""
    try:
        return Finding("torch", Verdict.OK, f"version {version('torch')} (only the model process needs it)")
    except PackageNotFoundError:
        detail = "not installed here; only the model process needs it (and eval-sim --local)"
        return Finding("torch", Verdict.NOTE, detail)


def check_port(port: int) -> Finding:
    """Is the port free for the side that listens."""
    try:
        listen("0.0.0.0", port).close()
    except TransportError as problem:
        fix = "end the program that holds it, or choose another with --port (29500-29999 are meant for this)"
        return Finding("port", Verdict.FAIL, str(problem), fix)
    return Finding("port", Verdict.OK, f"{port} is free")


def show(finding: Finding) -> None:
    """Print one finding: a line, and a second one with its fix."""
    say(f"{finding.verdict.value:<5} {finding.name}: {finding.detail}")
    if finding.fix:
        say(f"      fix: {finding.fix}")


def run(argv: Sequence[str]) -> int:
    """The subcommand. Returns 0 if nothing failed, 1 if something did; a wrong argument exits with 2."""
    parser = argparse.ArgumentParser(
        prog="eval-sim doctor", description="Checks whether this machine can run the simulator; names a fix otherwise."
    )
    parser.add_argument("--port", type=_port, default=DEFAULT_PORT, help="the port to look at (default %(default)s)")
    port: int = parser.parse_args(list(argv)).port
    use_utf8()
    checks: list[Callable[[], Finding]] = [
        check_sapien,
        check_vulkan,
        check_frame,
        check_video,
        check_torch,
        functools.partial(check_port, port),
    ]
    failed = 0
    for check in checks:
        finding = check()
        show(finding)
        failed += finding.verdict is Verdict.FAIL
    say("all is well" if not failed else f"{failed} of {len(checks)} checks failed")
    return 1 if failed else 0


def _port(text: str) -> int:
    try:
        return parse_port(text)
    except AddressError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None
