"""Which runs are needed: contenders with six decades of their constants, on tasks, from seeds."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from heavystep import validation
from heavystep.bench.sensitivity.contenders import USUAL, contender_of
from heavystep.bench.sensitivity.contract import Contender
from heavystep.bench.sensitivity.loop import LARGEST, VERSION, Setting, recorded, train
from heavystep.bench.tasks import TASKS, Size, Task, task_of
from heavystep.optim.findings import ROUNDING
from heavystep.sweeps.engines import Job
from heavystep.sweeps.runner import Results
from heavystep.sweeps.runs import Runs
from heavystep.sweeps.specification import FORMAT
from heavystep.training.setup import the_device

SEEDS, QUICK_SEEDS = 3, 1
PER_DECADE, QUICK_PER_DECADE = 1, 0


@dataclass(frozen=True)
class OneRun(Runs):
    """A run from one seed, in a file of its own: what is complete is kept seed by seed."""

    setting: Setting
    label: str = field(default="", compare=False)
    seeds: int = field(default=1, init=False)

    @property
    def iterations(self) -> int:  # type: ignore[override]
        """Steps."""
        return self.setting.size.steps

    def content(self) -> dict[str, Any]:
        """The full specification, without the label."""
        setting, contender = self.setting, contender_of(self.setting.contender)
        return {
            "format": FORMAT,
            "task": setting.task,
            "method": contender.identity(setting.value, setting.size.steps),
            "versions": {
                **contender.versions(), "task": task_of(setting.task).version, "loop": VERSION,
            },
            "seed": setting.seed,
            "seeds": self.seeds,
            "iterations": setting.size.steps,
            "evaluations": setting.size.evaluations,
            "device": setting.device,
            "average": setting.average and contender.ours,
            **({LARGEST: "recorded"} if self.decides else {}),
        }  # fmt: skip

    @property
    def decides(self) -> bool:
        """Whether it records which others are needed."""
        return LARGEST in recorded(self.setting)

    def metric_names(self) -> tuple[str, ...]:
        """What is recorded."""
        return recorded(self.setting)

    def job(self, seeds: tuple[int, ...]) -> Job:
        """The run; its seed is that of the setting."""
        return Job(self.label, train, (self.setting,), self.iterations)


SeedRuns = tuple[OneRun, ...]
"""The same run from each seed."""


@dataclass(frozen=True)
class Entry:
    """A contender on a task."""

    contender: Contender
    values: tuple[float, ...]
    """Of its main constant."""
    grid: tuple[SeedRuns, ...]
    """One for each value."""
    default: SeedRuns
    """Nothing is set. They are those of the default in the grid, if that is a number there."""

    @property
    def on_grid(self) -> bool:
        """Whether the untouched default is one of the values; else it is a run beside them."""
        first = self.default[0].key()
        return any(runs[0].key() == first for runs in self.grid)

    def runs(self) -> dict[str, OneRun]:
        """All runs by their keys."""
        return {run.key(): run for runs in (self.default, *self.grid) for run in runs}

    def spared(self, results: Results) -> Results:
        """Runs of the grid that need not be made: nothing comes near the largest step there.

        Args:
            results: of runs with nothing set, and perhaps of others.

        Returns:
            By key, the results of the untouched runs that they equal.
        """
        found = {}
        for value, runs in zip(self.values, self.grid, strict=True):
            for run, untouched in zip(runs, self.default, strict=True):
                known = results.get(untouched.key()) if untouched.decides else None
                # Within rounding of the largest step the optimizer would warn of it.
                if known and known.metrics[LARGEST][0, -1] < (1.0 - ROUNDING) * value:
                    found[run.key()] = known
        return found


@dataclass(frozen=True)
class Plan:
    """All contenders on one task."""

    task: Task
    size: Size
    device: str
    seeds: int
    entries: tuple[Entry, ...]
    left_out: Mapping[str, str]
    """Contenders that cannot be tried here, with the reason."""
    average: bool = False

    def runs(self) -> dict[str, OneRun]:
        """All runs by their keys."""
        return {key: run for entry in self.entries for key, run in entry.runs().items()}

    def without(self, failed: Mapping[str, str]) -> "Plan":
        """The same without the contenders some of whose runs failed.

        Args:
            failed: reasons by the keys of runs.
        """
        reasons = {
            entry.contender.name: failed[key]
            for entry in self.entries
            for key in entry.runs()
            if key in failed
        }
        entries = tuple(e for e in self.entries if e.contender.name not in reasons)
        return replace(self, entries=entries, left_out={**self.left_out, **reasons})


@dataclass(frozen=True)
class Wanted:
    """What a user asks for; None and nothing: the usual."""

    tasks: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    seeds: int | None = None
    per_decade: int | None = None
    device: str | None = None
    average: bool = False
    quick: bool = False


def plans(wanted: Wanted) -> tuple[list[Plan], list[str]]:
    """The plan of each task, and a line for each task that cannot be done here.

    Raises:
        ValueError: a name is unknown, a number out of range, or nothing can be done.
        TypeError: a method has no such option.
    """
    seeds = wanted.seeds or (QUICK_SEEDS if wanted.quick else SEEDS)
    for name in ("seeds", "per_decade"):
        if getattr(wanted, name) is not None:
            validation.integer(name, getattr(wanted, name), least=1)
    contenders = [contender_of(name) for name in dict.fromkeys(wanted.methods or USUAL)]
    if wanted.device is not None:
        the_device(wanted.device)
    tasks = [task_of(name) for name in dict.fromkeys(wanted.tasks or _usual(wanted.device))]
    found, lines = [], []
    for task in tasks:
        device = wanted.device or ("cuda" if task.gpu else "cpu")
        if reason := _impossible(task, device):
            lines.append(f"{task.name} is left out: {reason}")
            continue
        found.append(_plan(task, contenders, device, seeds, wanted))
    if not any(plan.entries for plan in found):
        reasons = [f"{name}: {why}" for plan in found for name, why in plan.left_out.items()]
        raise ValueError("; ".join(["nothing can be run", *lines, *reasons]))
    return found, lines


def _usual(device: str | None) -> list[str]:
    """The tasks of a device; those of a GPU too if there is one, unless one was chosen."""
    gpu = {"cpu": (False,), "cuda": (True,)}.get(device or "", (False, True))
    gpu = gpu if device or torch.cuda.is_available() else (False,)
    return [name for name, task in TASKS.items() if task.gpu in gpu]


def _impossible(task: Task, device: str) -> str:
    if device == "cuda" and not torch.cuda.is_available():
        return "it needs a GPU, and torch sees none; --device cpu does it here, slowly"
    return task.missing()


def _plan(
    task: Task, contenders: Iterable[Contender], device: str, seeds: int, wanted: Wanted
) -> Plan:
    size = task.quick if wanted.quick else task.usual
    per_decade = wanted.per_decade or (QUICK_PER_DECADE if wanted.quick else PER_DECADE)
    first = Setting(task.name, "", None, 0, size, device, wanted.average)
    entries, left_out = [], {}
    for contender in contenders:
        reason = contender.left_out()
        if not reason:
            try:
                entries.append(_entry(contender, first, seeds, per_decade))
            except ValueError as error:
                reason = str(error)
        if reason:
            left_out[contender.name] = reason
    return Plan(task, size, device, seeds, tuple(entries), left_out, wanted.average)


def _entry(contender: Contender, first: Setting, seeds: int, per_decade: int) -> Entry:
    values = contender.values(per_decade)

    def runs(value: float | None) -> SeedRuns:
        shown = "default" if value is None else f"{value:g}"
        label = f"{first.task}, {contender.name}, {contender.main} = {shown}"
        settings = (
            first._replace(contender=contender.name, value=value, seed=seed)
            for seed in range(seeds)
        )
        return tuple(OneRun(setting, f"{label}, seed {setting.seed}") for setting in settings)

    return Entry(contender, values, tuple(runs(value) for value in values), runs(None))
