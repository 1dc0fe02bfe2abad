"""A comparison as tables: a row for each method, and one for each constant."""

import math
from typing import NamedTuple

import numpy as np

from heavystep.compare.outcome import MethodOutcome, Outcome
from heavystep.paper.interval import mean_and_half_width
from heavystep.paper.table import Table, csv_text, piped

SCORE = "mean over the grid of min{l_0, l} - l*"
"""What the sensitivity is."""


class Row(NamedTuple):
    """One method; numbers are means over seeds, with the default unless they say otherwise."""

    method: str
    constant: str
    """The name of its main constant."""
    default: float
    final_loss: float
    """NaN if a run had none that is finite."""
    half_width: float
    """Half the width of its 95% confidence interval."""
    least_loss: float
    """The least final loss over the grid."""
    least_at: float
    """The constant that gives it."""
    sensitivity: float
    forwards: float
    """Losses of batches that were evaluated: one a step, and the trials of a line search."""
    backwards: float
    """Gradients of batches that were evaluated: one a step."""
    seconds: float
    """The median over seeds of the wall time."""
    failed: int
    """How many runs over the whole grid ended above l_0, or stopped."""


class GridRow(NamedTuple):
    """One method with one constant."""

    method: str
    constant: str
    value: float
    final_loss: float
    half_width: float
    counted: float
    """The mean over seeds of min{l_0, l}."""
    forwards: float
    seconds: float


def rows_of(outcome: Outcome) -> list[Row]:
    """A row for each method, the least final loss first; at rounding level the steadiest first."""
    rows = [_row(outcome, method) for method in outcome.methods]

    def rank(row: Row) -> tuple[bool, float, float]:
        return math.isnan(row.final_loss), max(row.final_loss, outcome.floor), row.sensitivity

    return sorted(rows, key=rank)


def _row(outcome: Outcome, each: MethodOutcome) -> Row:
    entry, centre = each.entry, each.entry.centre
    loss, half_width = interval(each, centre)
    means = outcome.means[entry.method]
    place = int(np.argmin(means))
    steps = float(each.steps[centre].mean())
    with np.errstate(invalid="ignore"):
        failed = int(np.sum(~(each.final <= outcome.start)))
    return Row(
        entry.method,
        entry.main,
        entry.constants[centre],
        loss,
        half_width,
        float(means[place]),
        entry.constants[place],
        outcome.scores[entry.method],
        steps + float(each.trials[centre].mean()),
        steps,
        float(np.median(each.seconds[centre])),
        failed,
    )


def interval(each: MethodOutcome, place: int) -> tuple[float, float]:
    """Mean and half-width of the final losses with one constant; NaN if one is not finite."""
    final = each.final[place]
    if not np.isfinite(final).all():
        return math.nan, math.nan
    mean, half_width = mean_and_half_width(final)
    return float(mean), float(half_width)


def grid_rows(outcome: Outcome) -> list[GridRow]:
    """A row for each method and constant."""
    return [
        GridRow(
            each.entry.method,
            each.entry.main,
            value,
            *interval(each, place),
            float(outcome.means[each.entry.method][place]),
            float((each.steps + each.trials)[place].mean()),
            float(np.median(each.seconds[place])),
        )
        for each in outcome.methods
        for place, value in enumerate(each.entry.constants)
    ]


HEADING = [
    "method", "constant", "final loss", "least loss, at", "sensitivity", "forwards", "backwards",
    "seconds", "failed",
]  # fmt: skip


def table_of(outcome: Outcome) -> Table:
    """The table: the file has all numbers, the terminal and the page what fits."""
    rows = rows_of(outcome)
    lines = [HEADING, *(_line(row) for row in rows)]
    problem, size = outcome.plan.problem, outcome.plan.size
    epochs = size.iterations / problem.batches(size.batch_size)
    title = (
        f"{problem.title}: {size.iterations:,} steps ({epochs:.3g} epochs) with batches of "
        f"{size.batch_size}, {size.seeds} seeds"
    )
    ruler = ["---"] * 2 + ["---:"] * (len(HEADING) - 2)
    markdown = piped((HEADING, ruler, *lines[1:]))
    return Table(title, csv_text(rows), markdown, lines, note_of(outcome))


def note_of(outcome: Outcome) -> str:
    """What the columns mean, with the numbers that belong to all methods."""
    start = float(outcome.start.mean())
    return (
        f"Loss: {outcome.plan.problem.loss_name}, mean over seeds with its 95% confidence "
        f"interval, with the default constant; l_0 = {start:.6g} at the start. Sensitivity: "
        f"{SCORE}, with l* = {outcome.least:.6g} the least loss here; the worst possible is "
        f"{start - outcome.least:.4g}. Failed: runs over the grid that stopped or ended above l_0, "
        "which count as l_0. Seconds: the wall time of a run, without compiling and evaluation, "
        "with other runs beside it (--jobs 1: alone)."
    )


def _line(row: Row) -> list[str]:
    half_width = f" ± {row.half_width:.1g}" if math.isfinite(row.half_width) else ""
    loss = f"{row.final_loss:.5g}{half_width}" if math.isfinite(row.final_loss) else "diverged"
    return [
        row.method,
        f"{row.constant} = {row.default:g}",
        loss,
        f"{row.least_loss:.5g}, {row.least_at:g}",
        f"{row.sensitivity:.4g}",
        f"{row.forwards:,.0f}",
        f"{row.backwards:,.0f}",
        f"{row.seconds:.3g}",
        str(row.failed),
    ]
