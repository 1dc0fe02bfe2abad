"""What optimizers are tried on: one file a family, one row a task."""

from heavystep.bench.tasks.contract import HIGHER, LOWER, Measured, Metric, Size, Task, Work
from heavystep.bench.tasks.registry import TASKS, task_of

__all__ = ["HIGHER", "LOWER", "TASKS", "Measured", "Metric", "Size", "Task", "Work", "task_of"]
