#!/usr/bin/env python3
"""Draw docs/images/tabletop.png: every tabletop task as the scripted expert solves it, one column a task.

Rows: the first observation, the moment halfway through the handling (gripper closed), and the solved task. The picture
is made from observations (320x240), so it shows exactly what a policy sees.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage
from PIL import ImageDraw, ImageFont

from robopro_eval.simulators import get_benchmark
from robopro_eval.simulators.tabletop.seeds import SELECTION

Image = NDArray[np.uint8]

# Evaluation seeds are for evaluation only, also in pictures.
DEFAULT_SEED = SELECTION[4]
ACTIONS_BETWEEN_FRAMES = 4
GAP, CAPTION = 6, 26
BACKGROUND, TEXT = (255, 255, 255), (40, 40, 40)


def film(task: str, seed: int, camera: str) -> tuple[Image, Image, Image]:
    """The three pictures (240, 320, 3) of an expert episode.

    Raises ``SystemExit`` if the expert does not solve this seed.
    """
    benchmark = get_benchmark()
    config = benchmark.config_names(task)[0]
    env: Any = benchmark.make_env(task)
    env.setup_demo(now_ep_num=0, seed=seed, is_test=True, **benchmark.setup_kwargs(task, config, overrides={}))

    def look() -> Image:
        picture: Image = env.get_obs()["observation"][camera]["rgb"]
        return picture

    first = look()
    handling = []
    for number, action in enumerate(env.expert_actions()):
        env.take_action(action, "ee")
        if number % ACTIONS_BETWEEN_FRAMES == 0 and min(action[7], action[15]) < 0.5:
            handling.append(look())
    if not env.check_success() or not handling:
        raise SystemExit(f"the expert did not solve {task} with seed {seed}; try --seed")
    last = look()
    env.close_env()
    return first, handling[len(handling) // 2], last


def sheet(columns: dict[str, tuple[Image, Image, Image]]) -> PillowImage.Image:
    """Captions on top, then one row per moment."""
    height, width = next(iter(columns.values()))[0].shape[:2]
    font = ImageFont.load_default(size=17)
    canvas = PillowImage.new(
        "RGB", (len(columns) * (width + GAP) - GAP, CAPTION + 3 * (height + GAP) - GAP), BACKGROUND
    )
    draw = ImageDraw.Draw(canvas)
    for column, (task, pictures) in enumerate(columns.items()):
        x = column * (width + GAP)
        draw.text((x + width // 2, CAPTION // 2), task, fill=TEXT, font=font, anchor="mm")
        for row, picture in enumerate(pictures):
            canvas.paste(PillowImage.fromarray(np.ascontiguousarray(picture)), (x, CAPTION + row * (height + GAP)))
    return canvas


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("docs/images/tabletop.png"))
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED, help="seed of all episodes (default: %(default)s)")
    parser.add_argument("--camera", default="head_camera", choices=get_benchmark().camera_names())
    options = parser.parse_args()
    pictures = {task: film(task, options.seed, options.camera) for task in get_benchmark().task_names()}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    sheet(pictures).save(options.output, optimize=True)
    print(f"{options.output}: {options.output.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
