"""What the robot is told. One plain sentence a task, as in RoboPRO, where seen and unseen wordings are the same."""

from __future__ import annotations

from robopro_eval.simulators.names import UnknownName

KINDS = ("seen", "unseen")
SENTENCES = {
    "put_cup_in_box": "put the cup in the box",
    "put_cup_on_coaster": "put the cup on the coaster",
    "put_mouse_on_pad": "put the mouse on the pad",
    "lift_pot": "lift the pot",
}


def instruction(task: str, kind: str = "unseen") -> str:
    """The sentence for a task; raises UnknownName for a task or kind that does not exist."""
    if task not in SENTENCES:
        raise UnknownName("task", task, SENTENCES)
    if kind not in KINDS:
        raise UnknownName("instruction kind", kind, KINDS)
    return SENTENCES[task]
