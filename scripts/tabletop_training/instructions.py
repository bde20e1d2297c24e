"""The tasks, their scenes, and what they are called: the plain sentence most of the time, other words now and then."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Task:
    """A task of the tabletop benchmark, with the other tasks that have the same scene."""

    name: str
    scene: str
    phrasings: tuple[str, ...]

    @property
    def config(self) -> str:
        """The clean task config of the scene."""
        return f"bench_demo_{self.scene}_clean"

    def random_instruction(self, rng: np.random.Generator) -> str:
        """The plain sentence half of the time, any other phrasing otherwise."""
        if rng.random() < 0.5:
            return self.phrasings[0]
        return self.phrasings[1 + int(rng.integers(len(self.phrasings) - 1))]


TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task(
            "put_cup_in_box",
            "study",
            (
                "put the cup in the box",
                "place the cup inside the box",
                "drop the cup into the box",
                "pick up the cup and put it in the box",
                "move the cup into the open box",
                "grab the cup and place it in the wooden box",
                "the cup belongs in the box",
                "box the cup",
            ),
        ),
        Task(
            "put_cup_on_coaster",
            "study",
            (
                "put the cup on the coaster",
                "place the cup on top of the coaster",
                "set the cup down on the coaster",
                "pick up the cup and put it on the coaster",
                "move the cup onto the round coaster",
                "grab the cup and stand it on the coaster",
                "the cup belongs on the coaster",
                "use the coaster for the cup",
            ),
        ),
        Task(
            "put_mouse_on_pad",
            "office",
            (
                "put the mouse on the pad",
                "place the mouse on the mouse pad",
                "set the computer mouse down on the pad",
                "pick up the mouse and put it on the pad",
                "move the mouse onto the mousepad",
                "the mouse belongs on its pad",
            ),
        ),
        Task(
            "lift_pot",
            "kitchens",
            (
                "lift the pot",
                "lift the pot with both arms",
                "raise the pot from the table",
                "pick up the pot by its handles",
                "lift up the cooking pot",
                "take the pot with two hands and lift it",
            ),
        ),
    )
}
