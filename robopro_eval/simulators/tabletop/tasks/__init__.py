"""The tasks by name. One file a task: its scene, what is moved where, when it has succeeded, and its expert."""

from __future__ import annotations

from robopro_eval.simulators.names import UnknownName
from robopro_eval.simulators.tabletop.tasks import put_cup_in_box, put_cup_on_coaster
from robopro_eval.simulators.tabletop.tasks.base import Task

TASKS: dict[str, Task] = {task.name: task for task in (put_cup_in_box.TASK, put_cup_on_coaster.TASK)}


def get_task(name: str) -> Task:
    """The task called `name`; raises UnknownName, which lists the known ones."""
    if name not in TASKS:
        raise UnknownName("task", name, TASKS)
    return TASKS[name]
