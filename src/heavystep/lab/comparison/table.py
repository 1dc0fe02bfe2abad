"""From runs to one table: the file of runs, and what they say of each task and over all."""

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from heavystep.lab.comparison.contenders import contender_of
from heavystep.lab.comparison.plans import Plan
from heavystep.lab.comparison.tasks import LOWER
from heavystep.lab.comparison.train import NUMBERS, START, TaskRun
from heavystep.lab.store import Columns, csv_text, write_atomically

KEY = 12  # letters of a run's key in a table
COLUMNS = ("task", "method", "constant", "value", "seed", *NUMBERS, "steps", "key")
LEVEL = 2.0  # a loss is level if its regret is at most so many percent: seeds differ by as much


class RunTable:
    """The file of runs: a sorted line each, written anew after each run.

    A line counts if its key is that of one of ``runs``, with the present task and method.

    Raises:
        ValueError: the path is that of another file.
    """

    def __init__(self, path: Path, runs: Iterable[TaskRun]) -> None:
        self.path, self._runs = path, {run.key(): run for run in runs}
        self.lines: dict[str, dict[str, str]] = {}
        if path.exists():
            with path.open(newline="") as file:
                reader = csv.DictReader(file)
                if tuple(reader.fieldnames or ()) != COLUMNS:
                    text = f"{path} is no table of runs: its columns are not {','.join(COLUMNS)}"
                    raise ValueError(text)
                # A line that is cut off has no whole key, which is the last column.
                self.lines = {n["key"]: n for n in reader if len(n["key"] or "") == KEY}

    def load(self, key: str, specification: str) -> Columns | None:
        line = self.lines.get(key[:KEY])
        if line is None:
            return None
        return {name: np.array([float(line[name] or "nan")]) for name in NUMBERS}

    def save(self, key: str, specification: str, columns: Columns) -> None:
        run = self._runs[key]
        constant = "" if run.contender == START else contender_of(run.contender).main
        value = "" if run.value is None else f"{run.value:.12g}"
        numbers = [float(columns[name][0]) for name in NUMBERS]
        shown = ["" if math.isnan(number) else f"{number:.9g}" for number in numbers]
        cells = (run.task, run.contender, constant, value, run.seed, *shown, run.steps, key[:KEY])
        self.lines[key[:KEY]] = dict(zip(COLUMNS, map(str, cells), strict=True))

        def place(line: Mapping[str, str]) -> tuple[Any, ...]:
            value, whole = float(line["value"] or "-inf"), (int(line[n]) for n in ("steps", "seed"))
            return (line["task"], line["method"], value, *whole, line["key"])

        text = csv_text(COLUMNS, sorted(self.lines.values(), key=place))
        write_atomically(self.path, text)


class Cell(NamedTuple):
    """A contender on a task, means over seeds. Failed runs count as the start.

    Args:
        constant: the name of its main constant.
        loss: with nothing set, as all that do not say more.
        metric: on unseen data.
        average_metric: at the averaged iterate; NaN if it was not asked for.
        regret: how far the loss is above the best of all contenders with any constant, in
            percent of what that one gained.
        behind: how far the metric is behind the best of all contenders, in levels of the task.
        best_at: the constant with the least loss.
        best_metric_at: the constant with the best metric.
        sensitivity: the mean regret over the grid.
        failed: runs over the grid that stopped, or ended above the start.
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


@dataclass(frozen=True)
class Outcome:
    """Results of the runs on one task.

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
        """Distance of a loss above the best one, in percent of the decrease of the best run."""
        gained = self.start[0] - self.best[0]
        return 100.0 * (loss - self.best[0]) / gained if gained > 0.0 else 0.0

    def behind(self, metric: float) -> float:
        """Distance of a metric behind the best one, in differences that count as level."""
        kind = self.plan.task.metric
        return kind.behind(metric, self.best[1]) / kind.close


def outcome_of(plan: Plan, results: Mapping[str, Columns]) -> Outcome:
    """Results of a plan whose runs are all done; ``results`` are numbers by key."""
    better = plan.task.metric.better

    def numbers(runs: Iterable[TaskRun], name: str) -> list[float]:
        return [float(results[run.key()][name][0]) for run in runs]

    first = {name: numbers(plan.start, name) for name in ("loss", "metric")}
    has_metric = not any(map(math.isnan, first["metric"]))

    def means(name: str, sign: int) -> dict[str, dict[float | None, float]]:
        """The mean, with failed runs counted as the start, and nothing worse than that."""

        def mean(runs: Sequence[TaskRun]) -> float:
            pairs = zip(numbers(runs, name), first[name], strict=True)
            return fmean(s if math.isnan(s - v) or sign * v < sign * s else v for v, s in pairs)

        return {n: {v: mean(runs) for v, runs in e.items()} for n, e in plan.entries.items()}

    losses, metrics = means("loss", LOWER), means("metric", better)
    if not has_metric:
        metrics = {n: dict.fromkeys(values, math.nan) for n, values in metrics.items()}
    least = min(value for each in losses.values() for value in each.values())
    most = max((value for each in metrics.values() for value in each.values()),
               key=lambda value: better * value)  # fmt: skip
    begun = (fmean(first["loss"]), fmean(first["metric"]))
    outcome, cells = Outcome(plan, begun, (least, most), losses), []
    for name, runs in plan.entries.items():
        loss, metric, contender = losses[name], metrics[name], contender_of(name)
        default, grid = contender.default, [v for v in runs if v is not None]
        at = min(loss, key=lambda v: loss[v])
        metric_at = max(metric, key=lambda v: better * metric[v])
        ends = [numbers(runs[v], "loss") for v in grid]
        cells.append(Cell(
            plan.task.name, name, contender.main, loss[default], metric[default],
            fmean(numbers(runs[default], "average_metric")), outcome.regret(loss[default]),
            outcome.behind(metric[default]), value_text(at), loss[at], outcome.regret(loss[at]),
            value_text(metric_at), metric[metric_at],
            fmean([outcome.regret(loss[v]) for v in grid] or [math.nan]),
            sum(not end <= s for each in ends for end, s in zip(each, first["loss"], strict=True)),
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
    """One row for each contender, over the tasks that all of them have done, least regret first.

    If there is no such task, over all tasks, and only those who have done all.
    """
    everybody = set().union(*(outcome.losses for outcome in outcomes))
    outcomes = [each for each in outcomes if set(each.losses) == everybody] or list(outcomes)
    rows = []
    for name in set.intersection(*(set(outcome.losses) for outcome in outcomes)):
        cells = [cell for outcome in outcomes for cell in outcome.cells if cell.method == name]
        worst = max(cells, key=lambda cell: cell.regret)
        metric = [cell.behind for cell in cells if not math.isnan(cell.behind)] or [math.nan]
        means = {
            value: fmean(outcome.regret(outcome.losses[name][value]) for outcome in outcomes)
            for value in set.intersection(*(set(outcome.losses[name]) for outcome in outcomes))
        }
        one = min(means, key=lambda value: means[value])
        rows.append(Row(
            name, fmean(cell.regret for cell in cells), worst.regret, worst.task,
            sum(cell.regret <= LEVEL for cell in cells), fmean(metric), max(metric),
            sum(value <= 1.0 for value in metric), value_text(one), means[one],
            fmean(cell.best_regret for cell in cells), len(cells),
        ))  # fmt: skip
    return sorted(rows, key=lambda row: (row.regret, row.method))
