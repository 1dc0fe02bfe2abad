"""From names to runs, from runs to one table: plans, the file of runs, and what they say."""

import csv
import io
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import torch

from heavystep import validation
from heavystep.lab.comparison.contenders import USUAL, Contender, contender_of
from heavystep.lab.comparison.tasks import LOWER, TASKS, Task, task_of
from heavystep.lab.comparison.train import NUMBERS, START, TaskRun
from heavystep.lab.store import Columns, write_atomically
from heavystep.lab.training.trainer import the_device

QUICK_TASKS = ("mlp", "regression", "recommender", "diffusion", "toy-110")
"""What a quick comparison is about: a minute on one core, and no data to fetch."""
KEY = 12  # letters of a run's key in a table
COLUMNS = ("task", "method", "constant", "value", "seed", *NUMBERS, "steps", "key")
LEVEL = 2.0  # a loss is level if its regret is at most so many percent: seeds differ by as much


@dataclass
class RunTable:
    """The file of runs: a line each, written when the run is done, sorted at the end.

    A line counts if its key is that of one of ``runs``, with the present task and method. A line
    that a kill has cut off is no line.
    """

    path: Path
    runs: Iterable[TaskRun]
    lines: dict[str, dict[str, str]] = field(init=False)

    def __post_init__(self) -> None:
        self._runs = {run.key(): run for run in self.runs}
        self.lines = {line["key"]: line for line in read_lines(self.path)}

    def load(self, key: str, specification: str) -> Columns | None:
        if (line := self.lines.get(key[:KEY])) is None:
            return None
        return {name: np.array([float(line[name] or "nan")]) for name in NUMBERS}

    def save(self, key: str, specification: str, columns: Columns) -> None:
        run, text = self._runs[key], io.StringIO()
        constant = "" if run.contender == START else contender_of(run.contender).main
        value = "" if run.value is None else f"{run.value:.12g}"
        numbers = [float(columns[name][0]) for name in NUMBERS]
        shown = ["" if math.isnan(number) else f"{number:.9g}" for number in numbers]
        line = dict(zip(COLUMNS, (run.task, run.contender, constant, value, str(run.seed), *shown,
                                  str(run.steps), key[:KEY]), strict=True))  # fmt: skip
        self.lines[key[:KEY]] = line
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        if not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            writer.writeheader()
        writer.writerow(line)
        with self.path.open("ab+") as file:
            size = file.seek(0, os.SEEK_END)
            cut = size > 0 and file.seek(size - 1) >= 0 and file.read(1) != b"\n"
            file.write((b"\n" if cut else b"") + text.getvalue().encode())

    def sort(self) -> None:
        """Write all lines in their order: the same runs give the same file."""

        def place(line: Mapping[str, str]) -> tuple[Any, ...]:
            value, whole = float(line["value"] or "-inf"), (int(line[n]) for n in ("steps", "seed"))
            return (line["task"], line["method"], value, *whole, line["key"])

        text = csv_text(COLUMNS, sorted(self.lines.values(), key=place))
        write_atomically(self.path, text)


def read_lines(path: Path) -> Iterator[dict[str, str]]:
    """The whole lines of a file of runs; none if there is no file.

    Raises:
        ValueError: it is another file.
    """
    if not path.exists():
        return
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise ValueError(f"{path} is no table of runs: its columns are not {','.join(COLUMNS)}")
        for line in reader:
            with suppress(TypeError, ValueError):  # of a line that is cut off
                _ = [float(line[name] or "nan") for name in NUMBERS]
                _ = int(line["seed"]), int(line["steps"])
                if len(line["key"]) == KEY:
                    yield line


def csv_text(columns: Sequence[str], lines: Iterable[Mapping[str, Any]]) -> str:
    """A table as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


@dataclass(frozen=True)
class Entry:
    """A contender on a task: its runs by value of the main constant, a run a seed."""

    contender: Contender
    runs: dict[float | None, tuple[TaskRun, ...]]

    @property
    def default(self) -> float | None:
        """The value of the main constant with nothing set; None: none."""
        return self.contender.default


@dataclass(frozen=True)
class Plan:
    """All contenders on one task."""

    task: Task
    steps: int
    start: tuple[TaskRun, ...]
    entries: dict[str, Entry]
    left_out: dict[str, str]

    def stored(self, results: Mapping[str, Columns]) -> "Plan | None":
        """The part of it that is done: constants with a run for each seed."""
        entries = {}
        for name, entry in self.entries.items():
            done = {v: r for v, r in entry.runs.items() if all(run.key() in results for run in r)}
            if entry.default in done:
                entries[name] = replace(entry, runs=done)
        begun = all(run.key() in results for run in self.start)
        return replace(self, entries=entries) if begun and entries else None

    def all_runs(self) -> list[TaskRun]:
        entries = self.entries.values()
        return [*self.start, *(r for e in entries for runs in e.runs.values() for r in runs)]


def plans(
    tasks: Sequence[str] = (),
    methods: Sequence[str] = (),
    *,
    seeds: int | None = None,
    per_decade: int | None = None,
    steps: int | None = None,
    device: str | None = None,
    average: bool = False,
    quick: bool = False,
    stored: bool = False,
) -> tuple[list[Plan], list[str]]:
    """The plan of each task, and a line for everything that cannot be done here.

    Args:
        tasks: names or paths; none: the usual ones.
        methods: names; none: the usual ones.
        seeds: runs of each; None: those of the task, quick 1.
        per_decade: values of the main constant in a decade; None: 1, quick none.
        steps: the length of a run; None: that of the task.
        device: ``"cpu"`` or ``"cuda"``; None: that of the task.
        average: whether averaged iterates are measured too.
        quick: whether runs are fewer and shorter.
        stored: whether nothing is to be run, so that neither data nor a GPU is needed.

    Raises:
        ValueError: a name is unknown, a number out of range, or nothing can be done.
        TypeError: a method has no such option.
    """
    for name, number in (("seeds", seeds), ("per_decade", per_decade), ("steps", steps)):
        if number is not None:
            validation.integer(name, number, least=0 if name == "per_decade" else 1)
    if device is not None:
        the_device(device)
    per_decade = (0 if quick else 1) if per_decade is None else per_decade
    contenders = {each.name: each for each in map(contender_of, methods or USUAL)}
    gpus = torch.cuda.is_available() and device != "cpu"
    usual = QUICK_TASKS if quick else [n for n, t in TASKS.items() if gpus or not t.gpu]
    found, lines = [], []
    for task in map(task_of, dict.fromkeys(tasks or usual)):
        place = device or ("cuda" if task.gpu else "cpu")
        reason = "" if stored else task.missing()
        if not stored and place == "cuda" and not torch.cuda.is_available():
            reason = "it needs a GPU, and torch sees none; --device cpu does it here, slowly"
        if reason:
            lines.append(f"{task.name} is left out: {reason}")
            continue
        length = steps or task.length(quick=quick)
        entries, left_out = {}, {}
        count = seeds or (1 if quick else task.seeds)
        for name, contender in contenders.items():
            why = contender.left_out()
            if task.problem is not None and (not contender.ours or contender.cosine):
                why = "only methods of the registry are simulated, without a schedule"
            if why:
                left_out[name] = why
                continue
            values = [contender.default, *contender.values(per_decade)]
            entries[name] = Entry(contender, {
                value: tuple(
                    TaskRun(task.name, name, value, seed, length, place, average)
                    for seed in range(count)
                )
                for value in dict.fromkeys(values)
            })  # fmt: skip
        start = tuple(TaskRun(task.name, START, None, seed, 0, place) for seed in range(count))
        found.append(Plan(task, length, start, entries, left_out))
    if not any(plan.entries for plan in found):
        whys = [f"{name}: {why}" for plan in found for name, why in plan.left_out.items()]
        raise ValueError("; ".join(["nothing can be run", *lines, *whys]))
    return found, lines


class Cell(NamedTuple):
    """A contender on a task, means over seeds. Failed runs count as the start.

    Args:
        task: its name.
        method: the contender.
        constant: the name of its main constant.
        loss: with nothing set, as all that do not say more.
        metric: on unseen data.
        average_metric: at the averaged iterate; NaN if nobody asked.
        regret: how far the loss is above the best of anybody with any constant, in percent of
            what that one gained.
        behind: how far the metric is behind the best of anybody, in levels of the task.
        best_at: the constant with the least loss.
        best_loss: the loss there.
        best_regret: the regret there.
        best_metric_at: the constant with the best metric.
        best_metric: the metric there.
        sensitivity: the mean regret over the grid.
        failed: runs over the grid that stopped, or ended above the start.
        seconds: of a run with nothing set.
    """

    task: str
    method: str
    constant: str
    loss: float
    metric: float
    average_metric: float
    regret: float
    behind: float
    best_at: str
    best_loss: float
    best_regret: float
    best_metric_at: str
    best_metric: float
    sensitivity: float
    failed: int
    seconds: float


@dataclass(frozen=True)
class Outcome:
    """What came of the runs on one task.

    Args:
        start: mean loss and metric before the first step.
        best: the least mean loss and the best mean metric of anybody with any constant.
        losses: means over seeds by contender and value.
    """

    plan: Plan
    start: tuple[float, float]
    best: tuple[float, float]
    losses: dict[str, dict[float | None, float]]
    cells: tuple[Cell, ...] = ()

    def regret(self, loss: float) -> float:
        """How far a loss is above the best, in percent of what the best has gained."""
        gained = self.start[0] - self.best[0]
        return 100.0 * (loss - self.best[0]) / gained if gained > 0.0 else 0.0

    def behind(self, metric: float) -> float:
        """How far a metric is behind the best, in levels."""
        kind = self.plan.task.metric
        return kind.behind(metric, self.best[1]) / kind.close


def outcome_of(plan: Plan, results: Mapping[str, Columns]) -> Outcome:
    """What the runs of a plan say; ``results`` are numbers by key.

    Contenders with a run that is missing are left out.
    """
    better = plan.task.metric.better

    def numbers(runs: Iterable[TaskRun], name: str) -> list[float]:
        return [float(results[run.key()][name][0]) for run in runs]

    first = {name: numbers(plan.start, name) for name in ("loss", "metric")}

    def mean(runs: Sequence[TaskRun], name: str, sign: int) -> float:
        """With failed runs counted as the start, and nothing worse than that."""
        pairs = zip(numbers(runs, name), first[name], strict=True)
        return fmean(s if math.isnan(s - v) or sign * v < sign * s else v for v, s in pairs)

    entries = {
        name: entry for name, entry in plan.entries.items()
        if all(run.key() in results for runs in entry.runs.values() for run in runs)
    }  # fmt: skip
    has_metric = not any(map(math.isnan, first["metric"]))
    losses = {n: {v: mean(r, "loss", LOWER) for v, r in e.runs.items()} for n, e in entries.items()}
    metrics = {
        n: {v: mean(r, "metric", better) if has_metric else math.nan for v, r in e.runs.items()}
        for n, e in entries.items()
    }
    least = min(value for each in losses.values() for value in each.values())
    most = max((value for each in metrics.values() for value in each.values()),
               key=lambda value: better * value)  # fmt: skip
    begun = (fmean(first["loss"]), fmean(first["metric"]))
    outcome = Outcome(plan, begun, (least, most), losses)
    cells = []
    for name, entry in entries.items():
        loss, metric = losses[name], metrics[name]
        unset, grid = entry.runs[entry.default], [v for v in entry.runs if v is not None]
        at = min(loss, key=lambda v: loss[v])
        metric_at = max(metric, key=lambda v: better * metric[v])
        ends = [numbers(entry.runs[v], "loss") for v in grid]
        cells.append(Cell(
            plan.task.name, name, entry.contender.main, loss[entry.default], metric[entry.default],
            fmean(numbers(unset, "average_metric")), outcome.regret(loss[entry.default]),
            outcome.behind(metric[entry.default]), value_text(at), loss[at],
            outcome.regret(loss[at]), value_text(metric_at), metric[metric_at],
            fmean([outcome.regret(loss[v]) for v in grid] or [math.nan]),
            sum(not end <= s for each in ends for end, s in zip(each, first["loss"], strict=True)),
            fmean(numbers(unset, "seconds")),
        ))  # fmt: skip
    return replace(outcome, cells=tuple(cells))


def value_text(value: float | None) -> str:
    """A value of a main constant in a table."""
    return "unset" if value is None else f"{value:.3g}"


class Row(NamedTuple):
    """A contender over all tasks; see :class:`Cell` for the units.

    Args:
        regret: the mean with nothing set.
        worst: the largest.
        worst_on: its task.
        level: on how many tasks the regret is at most :data:`LEVEL`.
        behind: the mean of the metric.
        metric_worst: the largest.
        metric_level: on how many tasks the metric is level with the best of anybody.
        one: the constant that is best for all tasks together.
        one_regret: the mean regret with it.
        tuned: the mean regret with the best constant of each task.
        tasks: how many there are.
    """

    method: str
    regret: float
    worst: float
    worst_on: str
    level: int
    behind: float
    metric_worst: float
    metric_level: int
    one: str
    one_regret: float
    tuned: float
    tasks: int


def rows_of(outcomes: Sequence[Outcome]) -> list[Row]:
    """A row for each contender, over the tasks that all of them have done; the least regret first.

    If there is no such task, over all tasks, and only those who have done all.
    """
    everybody = set().union(*(outcome.losses for outcome in outcomes))
    outcomes = [each for each in outcomes if set(each.losses) == everybody] or list(outcomes)
    names = set.intersection(*(set(outcome.losses) for outcome in outcomes))
    rows = []
    for name in names:
        cells = [cell for outcome in outcomes for cell in outcome.cells if cell.method == name]
        worst = max(cells, key=lambda cell: cell.regret)
        metric = [cell.behind for cell in cells if not math.isnan(cell.behind)] or [math.nan]
        common = set.intersection(*(set(outcome.losses[name]) for outcome in outcomes))
        means = {
            value: fmean(outcome.regret(outcome.losses[name][value]) for outcome in outcomes)
            for value in common
        }
        one = min(means, key=lambda value: means[value])
        rows.append(Row(
            name, fmean(cell.regret for cell in cells), worst.regret, worst.task,
            sum(cell.regret <= LEVEL for cell in cells), fmean(metric), max(metric),
            sum(value <= 1.0 for value in metric), value_text(one), means[one],
            fmean(cell.best_regret for cell in cells), len(cells),
        ))  # fmt: skip
    return sorted(rows, key=lambda row: (row.regret, row.method))
