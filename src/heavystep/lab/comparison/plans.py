"""From names to runs: which contender does which task, with which constants and seeds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from heavystep import validation
from heavystep.lab.comparison.contenders import USUAL, contender_of
from heavystep.lab.comparison.tasks import TASKS, Task, task_of
from heavystep.lab.comparison.train import START, TaskRun
from heavystep.lab.store import Columns
from heavystep.lab.training.trainer import the_device

QUICK_TASKS = ("mlp", "regression", "recommender", "diffusion", "toy-110")
"""Tasks of a quick comparison: a minute on one core, and no data to fetch."""
Entry = dict[float | None, tuple[TaskRun, ...]]
"""The runs of a contender on a task by value of its main constant, a run a seed."""


@dataclass(frozen=True)
class Plan:
    """All runs on one task: before the first step, and of each contender by name."""

    task: Task
    steps: int
    start: tuple[TaskRun, ...]
    entries: dict[str, Entry]
    left_out: dict[str, str]

    def all_runs(self) -> list[TaskRun]:
        groups = [runs for entry in self.entries.values() for runs in entry.values()]
        return [*self.start, *(run for runs in groups for run in runs)]

    def done(self, results: Mapping[str, Columns]) -> "Plan | None":
        """The part of the plan that has a run for each seed; None if nothing has."""

        def whole(runs: Iterable[TaskRun]) -> bool:
            return all(run.key() in results for run in runs)

        found = {n: {v: r for v, r in e.items() if whole(r)} for n, e in self.entries.items()}
        entries = {name: e for name, e in found.items() if contender_of(name).default in e}
        return replace(self, entries=entries) if whole(self.start) and entries else None


def plans(
    tasks: Sequence[str] = (), methods: Sequence[str] = (), *, seeds: int | None = None,
    per_decade: int | None = None, steps: int | None = None, device: str | None = None,
    average: bool = False, quick: bool = False, stored: bool = False,
) -> tuple[list[Plan], list[str]]:  # fmt: skip
    """The plan of each task, and a line for everything that cannot be done here.

    :func:`~heavystep.lab.compare` has the arguments. Of what is ``stored``, neither data nor a GPU
    are needed.
    """
    for name, number in (("seeds", seeds), ("per_decade", per_decade), ("steps", steps)):
        if number is not None:
            validation.integer(name, number, least=0 if name == "per_decade" else 1)
    if device is not None:
        the_device(device)
    per_decade = (0 if quick else 1) if per_decade is None else per_decade
    names = dict.fromkeys(methods or USUAL)
    reasons = {name: contender_of(name).left_out() for name in names}
    slow = torch.cuda.is_available() and device != "cpu"
    usual = QUICK_TASKS if quick else [name for name, task in TASKS.items() if slow or not task.gpu]
    found, lines = list[Plan](), list[str]()
    for task in map(task_of, dict.fromkeys(tasks or usual)):
        place = device or ("cuda" if task.gpu else "cpu")
        if reason := "" if stored else _out_of_reach(task, place):
            lines.append(f"{task.name} is left out: {reason}")
            continue
        length, count = steps or task.length(quick=quick), seeds or (1 if quick else task.seeds)
        left_out = {name: why for name in names if (why := reasons[name] or _unfit(name, task))}
        entries = {
            name: {
                value: tuple(
                    TaskRun(task.name, name, value, seed, length, place, average)
                    for seed in range(count)
                )
                for value in (contender_of(name).default, *contender_of(name).values(per_decade))
            }
            for name in names
            if name not in left_out
        }
        start = tuple(TaskRun(task.name, START, None, seed, 0, place) for seed in range(count))
        found.append(Plan(task, length, start, entries, left_out))
    if not any(plan.entries for plan in found):
        whys = [f"{name}: {why}" for plan in found for name, why in plan.left_out.items()]
        raise ValueError("; ".join(["nothing can be run", *lines, *whys]))
    return found, lines


def _out_of_reach(task: Task, place: str) -> str:
    """Why a task cannot be done here, or nothing."""
    if place == "cuda" and not torch.cuda.is_available():
        return "it needs a GPU, and torch sees none; --device cpu does it here, slowly"
    return task.missing()


def _unfit(name: str, task: Task) -> str:
    """Why a contender cannot do a task, or nothing."""
    contender = contender_of(name)
    if task.problem is not None and (not contender.ours or contender.cosine):
        return "only methods of the registry are simulated, without a schedule"
    return ""
