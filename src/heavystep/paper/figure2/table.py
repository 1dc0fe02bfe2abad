"""Figure 2 in numbers: one row for each data set and method."""

import math
from typing import NamedTuple

import numpy as np

from heavystep.arrays import Array
from heavystep.paper.appendix_e import ADAPTIVE
from heavystep.paper.figure import by_data_set
from heavystep.paper.interval import mean_and_half_width
from heavystep.paper.simulated import Figure
from heavystep.paper.table import Table, csv_text, markdown_text
from heavystep.records import Trajectories
from heavystep.sweeps.runner import Results

TINY = float(np.finfo(np.float64).tiny)


class Row(NamedTuple):
    """One method on one data set; numbers are means over seeds."""

    data_set: str
    method: str
    final_loss: float
    half_width: float
    """Half the width of the 95% confidence interval of the final loss."""
    ratio_to_best: float
    """The final loss over the least one on the data set."""
    area: float
    """The area under the curve drawn: the mean over the iterations of log10 of the mean loss."""
    at_cap: float
    """The share of steps at gamma_max."""
    held: float
    """The share of steps that the smooth reset held below gamma_max."""
    mean_step: float
    trials: float
    """How many losses the line search evaluates in a step."""


def over_steps(result: Trajectories, values: Array) -> Array:
    """The mean over the steps of values recorded on the grid: (..., G) gives (...)."""
    mean: Array = np.average(values, axis=-1, weights=np.diff(result.k, prepend=0))
    return mean


def final_loss(result: Trajectories) -> float:
    """The mean over seeds of the last loss recorded."""
    return float(result.metrics["loss"][:, -1].mean())


def area(result: Trajectories) -> float:
    """The mean over the iterations of log10 of the mean loss; 0 counts as the least float."""
    curve = np.log10(np.maximum(result.metrics["loss"].mean(axis=0), TINY))
    return float(over_steps(result, curve))


def ratio(loss: float, other: float) -> float:
    """The ratio of two losses; NaN where the other one is not positive."""
    return loss / other if other > 0.0 else math.nan


def rows_of(figure: Figure, results: Results) -> list[Row]:
    """All rows, data set by data set."""
    rows = []
    for data_set, runs in by_data_set(figure, results).items():
        best = float(np.min([final_loss(result) for result in runs.values()]))
        rows += [_row(data_set, name, result, best) for name, result in runs.items()]
    return rows


def _row(data_set: str, method: str, result: Trajectories, best: float) -> Row:
    loss, half_width = mean_and_half_width(result.metrics["loss"][:, -1])
    share = {
        name: float(over_steps(result, result.metrics[name]).mean())
        for name in ("capped", "limited", "step")
    }
    return Row(
        data_set,
        method,
        float(loss),
        float(half_width),
        ratio(float(loss), best),
        area(result),
        share["capped"],
        share["limited"],
        share["step"],
        float(result.metrics["trials"][:, -1].mean() / result.k[-1]),
    )


def figure2_table(figure: Figure, results: Results) -> Table:
    """The table: files have all numbers, the terminal shows the final losses."""
    rows = rows_of(figure, results)
    title = f"{figure.title}: final loss"
    return Table(title, csv_text(rows), markdown_text(rows, texts=2), _compact(rows), _shares(rows))


def _shares(rows: list[Row]) -> str:
    """Say how the adaptive methods chose their steps, over all data sets."""
    parts = []
    for method in ADAPTIVE:
        of_method = [row for row in rows if row.method == method]
        cap, held = (
            np.mean([getattr(row, name) for row in of_method]) for name in ("at_cap", "held")
        )
        parts.append(f"{method} {cap:.0%} ({held:.0%})")
    return f"steps at the cap (held by the smooth reset): {', '.join(parts)}"


def _compact(rows: list[Row]) -> list[list[str]]:
    """A line for each data set, a column for each method; the least loss has a star."""
    lines: dict[str, list[str]] = {}
    for row in rows:
        star = "*" if row.ratio_to_best == 1.0 else ""
        number = f"{row.final_loss:.4g}{star}\n±{row.half_width:.1g}"
        lines.setdefault(row.data_set, [row.data_set]).append(number)
    return [["data set", *dict.fromkeys(row.method for row in rows)], *lines.values()]
