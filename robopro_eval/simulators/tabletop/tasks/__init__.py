"""The tasks by name. One file a task: its scene, what is moved where, when it has succeeded, and its expert."""

from __future__ import annotations

from robopro_eval.simulators.names import UnknownName
from robopro_eval.simulators.tabletop.tasks import lift_pot, put_cup_in_box, put_cup_on_coaster, put_mouse_on_pad
from robopro_eval.simulators.tabletop.tasks.base import Task

TASKS: dict[str, Task] = {
    module.TASK.name: module.TASK for module in (put_cup_in_box, put_cup_on_coaster, put_mouse_on_pad, lift_pot)
}


def get_task(name: str) -> Task:
    """The task called `name`; raises UnknownName, which lists the known ones."""
    if name not in TASKS:
        raise UnknownName("task", name, TASKS)
    return TASKS[name]
