"""What optimizers are tried on: one row a task."""

from heavystep import validation
from heavystep.lab.compare.tasks.contract import HIGHER, LOWER, Measured, Metric, Task, Work
from heavystep.lab.compare.tasks.images import IMAGES
from heavystep.lab.compare.tasks.tabular import TABULAR
from heavystep.lab.compare.tasks.text import TEXTUAL

__all__ = ["HIGHER", "LOWER", "TASKS", "Measured", "Metric", "Task", "Work", "task_of"]
TASKS = {task.name: task for task in (*TABULAR, *TEXTUAL, *IMAGES)}


def task_of(name: str) -> Task:
    """A task by its name.

    Raises:
        ValueError: there is no such task.
    """
    validation.choice("task", name, TASKS)
    return TASKS[name]
