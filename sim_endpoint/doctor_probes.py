"""What the doctor tries in a process of its own: ``python -m sim_endpoint.doctor_probes vulkan|frame|video``.

Each probe prints one line and exits 0 if the thing works; otherwise its last line says why and it exits 1.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sim_endpoint.video import VideoWriter, bundled_ffmpeg
from sim_endpoint.vulkan import MESA_MINIMUM, VulkanUnavailable, list_devices


class ProbeFailed(Exception):
    """The thing does not work; the message is one sentence."""


def probe_vulkan() -> str:
    try:
        devices = list_devices()
    except VulkanUnavailable as problem:
        raise ProbeFailed(str(problem)) from None
    usable = [device for device in devices if not device.is_too_old]
    if not usable:
        wanted = ".".join(str(part) for part in MESA_MINIMUM[:2])
        raise ProbeFailed(f"the only driver is {devices[0].driver}, and rendering needs Mesa {wanted} or newer")
    return "; ".join(f"{device.name}, {device.kind}, driver {device.driver}" for device in usable)


def probe_frame() -> str:
    """Set up the first task's scene and look at one picture: it must not be one flat colour."""
    from robopro_eval.simulators.benchmark import get_benchmark

    benchmark = get_benchmark()
    task = benchmark.task_names()[0]
    env = benchmark.make_env(task)
    options: dict[str, Any] = benchmark.setup_kwargs(task, benchmark.config_names(task)[0], overrides={})
    began = time.perf_counter()
    try:
        env.setup_demo(seed=0, now_ep_num=0, **options)
        observation: Any = env.get_obs()
        image = np.asarray(observation["observation"]["head_camera"]["rgb"])
    finally:
        env.close_env()
    if float(image.std()) < 1.0:
        raise ProbeFailed(f"the picture of {task} is one flat colour: the driver draws nothing")
    seconds = time.perf_counter() - began
    return f"{task} seen by head_camera, {image.shape[1]}x{image.shape[0]}, first scene and picture in {seconds:.1f} s"


def probe_video() -> str:
    """Encode one second of moving stripes as an episode does it."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "probe.mp4"
        writer = VideoWriter(target, (64, 48), 25.0, lambda _: None)
        for shift in range(25):
            stripes = np.roll(np.indices((48, 64)).sum(0), shift) * 2 % 256
            writer.write(np.repeat(stripes[..., None], 3, axis=-1).astype(np.uint8).tobytes())
        if not writer.keep():
            raise ProbeFailed(str(writer.failure))
        return f"{bundled_ffmpeg().name} encodes H.264 ({target.stat().st_size} bytes for {writer.frames} frames)"


PROBES: dict[str, Callable[[], str]] = {"vulkan": probe_vulkan, "frame": probe_frame, "video": probe_video}


def main(name: str) -> int:
    try:
        print(PROBES[name]())
    except ProbeFailed as problem:
        print(problem)
        return 1
    except Exception as problem:
        print(f"{type(problem).__name__}: {problem}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
