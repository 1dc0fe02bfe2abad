"""Tasks of the comparison: one row a task."""

from functools import partial

from heavystep import validation
from heavystep.lab.comparison.tasks.contract import HIGHER, LOWER, Metric, Task
from heavystep.lab.comparison.tasks.images import IMAGES
from heavystep.lab.comparison.tasks.tabular import TABULAR, on_rows
from heavystep.lab.comparison.tasks.text import TEXTUAL
from heavystep.lab.store import expanded
from heavystep.problems import paper_cosine, paper_least_squares

__all__ = ["HIGHER", "LOWER", "TASKS", "Metric", "Task", "task_of"]
GAP = Metric("F - F*", LOWER, "%", 2.0)
SIMULATED = tuple(
    Task(name, f"{name} of Section 5", GAP, steps, None, problem=problem)
    for name, steps, problem in (
        ("least squares", 2_000, partial(paper_least_squares, 0.0)),
        ("noisy least squares", 10_000, partial(paper_least_squares, 0.3)),
        ("cosine", 2_000, partial(paper_cosine, "strong_growth")),
        ("noisy cosine", 10_000, partial(paper_cosine, "noise")),
    )
)
TASKS = {task.name: task for task in (*TABULAR, *TEXTUAL, *IMAGES, *SIMULATED)}


def task_of(name: str) -> Task:
    """A task by its name, or logistic regression on the LIBSVM file of a path.

    Raises:
        ValueError: there is no such task, and no such file.
    """
    path = expanded(name)
    if name not in TASKS and path.is_file():
        return on_rows(name, str(path))
    validation.choice("task", name, TASKS)
    return TASKS[name]
