"""All tasks by name."""

from heavystep import validation
from heavystep.bench.tasks.contract import Task
from heavystep.bench.tasks.digits import DIGITS
from heavystep.bench.tasks.images import IMAGES
from heavystep.bench.tasks.logistic import LOGISTIC
from heavystep.bench.tasks.regression import REGRESSION
from heavystep.bench.tasks.text import LANGUAGE

TASKS = {task.name: task for task in (*DIGITS, *REGRESSION, *LOGISTIC, *LANGUAGE, *IMAGES)}


def task_of(name: str) -> Task:
    """A task by its name.

    Args:
        name: one of :data:`TASKS`.

    Raises:
        ValueError: there is no such task.
    """
    validation.choice("task", name, TASKS)
    return TASKS[name]
