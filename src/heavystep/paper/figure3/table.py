"""Figure 3 in numbers: one row for each data set and method."""

from typing import NamedTuple

from heavystep.arrays import Array
from heavystep.paper.figure import Figure, by_data_set
from heavystep.paper.interval import mean_and_half_width
from heavystep.paper.table import Table, csv_text, markdown_text
from heavystep.training.results import TrainedCurve, TrainedResults
from heavystep.training.specification import TrainingRuns

LAST = 10
"""Final numbers are means over the last tenth of the epochs, because one epoch alone is noisy."""


class Row(NamedTuple):
    """One method on one data set; numbers are means over seeds."""

    data_set: str
    method: str
    seeds: int
    epochs: int
    final_loss: float
    """The training cross-entropy, a mean over the last tenth of the epochs."""
    loss_half_width: float
    """Half the width of its 95% confidence interval; NaN for one seed."""
    final_accuracy: float
    """The test accuracy, a mean over the last tenth of the epochs."""
    accuracy_half_width: float
    best_accuracy: float
    """The largest mean over seeds among the epochs."""
    mean_step: float
    at_cap: float
    """The share of steps at the largest that the cap and the smooth reset allowed."""
    trials: float
    """How many losses the line search evaluates in a step."""
    refused: float
    """How many steps of a run were not taken."""
    seconds: float
    """The wall time of an epoch, evaluation included."""


def final(values: Array) -> Array:
    """The mean over the last tenth of the epochs, at least one: (seeds, epochs) gives (seeds,).

    >>> import numpy as np
    >>> final(np.arange(25.0)[None]).tolist()
    [23.5]
    """
    mean: Array = values[:, -max(values.shape[1] // LAST, 1) :].mean(axis=1)
    return mean


def best_accuracy(result: TrainedCurve) -> float:
    """The largest over the epochs of the mean test accuracy."""
    return float(result.metrics["test_accuracy"].mean(axis=0).max())


def rows_of(figure: Figure[TrainingRuns], results: TrainedResults) -> list[Row]:
    """All rows, data set by data set."""
    return [
        _row(data_set, name, result)
        for data_set, runs in by_data_set(figure, results).items()
        for name, result in runs.items()
    ]


def _row(data_set: str, method: str, result: TrainedCurve) -> Row:
    metrics = result.metrics
    loss, loss_half_width = mean_and_half_width(final(metrics["loss"]))
    accuracy, accuracy_half_width = mean_and_half_width(final(metrics["test_accuracy"]))
    return Row(
        data_set,
        method,
        len(result.seeds),
        len(result.k),
        float(loss),
        float(loss_half_width),
        float(accuracy),
        float(accuracy_half_width),
        best_accuracy(result),
        float(metrics["step"].mean()),
        float(metrics["capped"].mean()),
        float(metrics["trials"].mean()),
        float(metrics["refused"].sum(axis=1).mean()),
        float(metrics["seconds"].mean()),
    )


def figure3_table(figure: Figure[TrainingRuns], results: TrainedResults) -> Table:
    """The table: files have all numbers, the terminal shows those that fit."""
    rows = rows_of(figure, results)
    heading = ["data set", "method", "runs", "loss", "accuracy %", "best %", "step", "at cap"]
    heading += ["trials", "refused", "s/epoch"]
    compact = [heading, *(_line(row) for row in rows)]
    markdown = markdown_text(rows, texts=2)
    return Table(figure.title, csv_text(rows), markdown, compact, where(results))


def _line(row: Row) -> list[str]:
    return [
        row.data_set,
        row.method,
        f"{row.seeds} x {row.epochs}",
        with_half_width(row.final_loss, row.loss_half_width, ".4g"),
        with_half_width(100.0 * row.final_accuracy, 100.0 * row.accuracy_half_width, ".2f"),
        f"{100.0 * row.best_accuracy:.2f}",
        f"{row.mean_step:.3g}",
        f"{row.at_cap:.0%}",
        f"{row.trials:.2f}",
        f"{row.refused:g}",
        f"{row.seconds:.1f}",
    ]


def with_half_width(value: float, half_width: float, form: str) -> str:
    """A mean with the half-width of its interval, which one seed does not have.

    >>> with_half_width(91.234, 0.25, ".2f"), with_half_width(91.234, float("nan"), ".2f")
    ('91.23 ±0.25', '91.23')
    """
    known = half_width == half_width
    return f"{value:{form}}" + (f" ±{half_width:.2g}" if known else "")


def where(results: TrainedResults) -> str:
    """Say on which machines the epochs were made; the one with the most comes first."""
    epochs: dict[str, int] = {}
    for result in results.values():
        for stretch in result.stretches:
            made = f"{stretch.device}, {stretch.precision}, {stretch.versions}"
            made += ", compiled" if stretch.compiled else ""
            last = min(stretch.last, len(result.k))
            epochs[made] = epochs.get(made, 0) + last - stretch.first + 1
    parts = sorted(epochs.items(), key=lambda item: (-item[1], item[0]))
    return "made on " + "; ".join(f"{made}: {number:,} epochs" for made, number in parts)
