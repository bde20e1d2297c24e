"""The tasks and what they are called: the plain sentence half of the time, other words otherwise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robopro_eval.simulators.tabletop.instructions import SENTENCES


@dataclass(frozen=True)
class Task:
    """A task of the tabletop benchmark; its first phrasing is the plain sentence."""

    name: str
    phrasings: tuple[str, ...]

    def random_instruction(self, rng: np.random.Generator) -> str:
        """The plain sentence half of the time, any other phrasing otherwise."""
        if rng.random() < 0.5:
            return self.phrasings[0]
        return self.phrasings[1 + int(rng.integers(len(self.phrasings) - 1))]


# Beside the plain sentence, which is the benchmark's.
OTHER_WORDS: dict[str, tuple[str, ...]] = {
    "put_cup_in_box": (
        "place the cup inside the box",
        "drop the cup into the box",
        "pick up the cup and put it in the box",
        "move the cup into the open box",
        "grab the cup and place it in the wooden box",
        "the cup belongs in the box",
        "box the cup",
    ),
    "put_cup_on_coaster": (
        "place the cup on top of the coaster",
        "set the cup down on the coaster",
        "pick up the cup and put it on the coaster",
        "move the cup onto the round coaster",
        "grab the cup and stand it on the coaster",
        "the cup belongs on the coaster",
        "use the coaster for the cup",
    ),
    "put_mouse_on_pad": (
        "place the mouse on the mouse pad",
        "set the computer mouse down on the pad",
        "pick up the mouse and put it on the pad",
        "move the mouse onto the mousepad",
        "the mouse belongs on its pad",
    ),
    "lift_pot": (
        "lift the pot with both arms",
        "raise the pot from the table",
        "pick up the pot by its handles",
        "lift up the cooking pot",
        "take the pot with two hands and lift it",
    ),
}
TASKS = {name: Task(name, (SENTENCES[name], *others)) for name, others in OTHER_WORDS.items()}
