"""The numbers of a task as tables: a row for each contender, and one for each constant."""

import math
from typing import NamedTuple

from heavystep.bench.sensitivity.outcome import ContenderOutcome, Numbers, Outcome, best_of
from heavystep.compare.table import SCORE
from heavystep.paper.table import Table, csv_text, piped


class Row(NamedTuple):
    """A contender; numbers are means over seeds of runs with nothing set, unless they say more."""

    method: str
    constant: str
    """The name of its main constant."""
    loss: float
    """Final training loss; a run that failed counts as l_0."""
    metric: float
    average_metric: float
    """At the averaged iterate; NaN if nobody asked."""
    best_loss: float
    """The least over the grid."""
    best_loss_at: str
    best_metric: float
    best_metric_at: str
    sensitivity: float
    ratio: float
    """The sensitivity as a part of AdamW's."""
    failed: int
    """How many runs over the grid stopped or ended above l_0."""
    same: int
    """How many constants end precisely where nothing set does: they decided no step."""
    warnings: float
    """Different ones that a run gave."""
    trials: float
    seconds: float


class GridRow(NamedTuple):
    """A contender with one constant, from one seed."""

    method: str
    constant: str
    value: str
    seed: int
    loss: float
    metric: float
    average_loss: float
    average_metric: float
    trials: float
    warnings: float
    seconds: float


def rows_of(outcome: Outcome) -> list[Row]:
    """A row for each contender, ours first, the steadiest first."""
    rows = [_row(outcome, each) for each in outcome.contenders]
    ours = {each.name: each.ours for each in outcome.contenders}
    return sorted(rows, key=lambda row: (not ours[row.method], row.sensitivity))


def _row(outcome: Outcome, each: ContenderOutcome) -> Row:
    loss, metric = (best_of(outcome, each, what) for what in ("loss", "metric"))
    at = ["default" if best.value is None else f"{best.value:.3g}" for best in (loss, metric)]
    default = each.default
    return Row(
        each.name,
        each.entry.contender.main,
        float(outcome.losses(default).mean()),
        float(outcome.metrics(default).mean()),
        float(default.average_metric.mean()),
        loss.result, at[0], metric.result, at[1],
        outcome.scores[each.name],
        outcome.ratio(each.name),
        outcome.failed(each),
        int((each.grid.loss == default.loss).all(axis=-1).sum()),
        float(default.warnings.mean()),
        float(default.trials.mean()),
        float(default.seconds.mean()),
    )  # fmt: skip


def grid_rows(outcome: Outcome) -> list[GridRow]:
    """A row for each contender, constant and seed; the untouched default comes first."""
    rows = []
    for each in outcome.contenders:
        values = ["default", *(f"{value:.12g}" for value in each.entry.values)]
        for place, value in enumerate(values):
            for seed in range(outcome.plan.seeds):
                at = (seed,) if place == 0 else (place - 1, seed)
                numbers = each.default if place == 0 else each.grid
                rows.append(
                    GridRow(each.name, each.entry.contender.main, value, seed, *_at(numbers, at))
                )
    return rows


def _at(numbers: Numbers, place: tuple[int, ...]) -> list[float]:
    return [float(getattr(numbers, name)[place]) for name in GridRow._fields[4:]]


def table_of(outcome: Outcome) -> Table:
    """The table: the file has all numbers, the page what fits."""
    rows, task, plan = rows_of(outcome), outcome.plan.task, outcome.plan
    columns = ["method", "constant", "loss", task.metric.name]
    columns += ["at the average"] if plan.average else []
    columns += ["best loss, at", f"best {task.metric.name}, at", "score", "of AdamW's", "failed"]
    columns += ["same", "warnings", "seconds"]
    lines = [columns, *(_line(row, plan.average) for row in rows)]
    ruler = ["---"] * 2 + ["---:"] * (len(columns) - 2)
    markdown = piped((columns, ruler, *lines[1:]))
    where = "a GPU" if plan.device == "cuda" else "the CPU"
    seeds = f"{plan.seeds} seed" + ("s" if plan.seeds > 1 else "")
    title = f"{task.title}: {plan.size.steps:,} steps on {where}, {seeds}"
    return Table(title, csv_text(rows), markdown, lines, note_of(outcome))


def note_of(outcome: Outcome) -> str:
    """What the columns mean, with the numbers that belong to all contenders."""
    return (
        f"Loss and {outcome.plan.task.metric.name}: with nothing set, means over seeds; "
        f"l_0 = {float(outcome.start.mean()):.5g} at the start. Score: {SCORE}, with "
        f"l* = {outcome.least:.5g} the least loss here; the worst possible is "
        f"{outcome.worst:.4g}. Failed: runs over the grid that stopped or ended above l_0, which "
        "count as l_0. Same: constants with which a run ends precisely where the untouched one "
        "does, because they decide no step. Warnings: different ones that an untouched run gave."
    )


def _line(row: Row, average: bool) -> list[str]:
    averaged = [f"{row.average_metric:.4g}" if math.isfinite(row.average_metric) else "-"]
    return [
        row.method,
        row.constant,
        f"{row.loss:.4g}",
        f"{row.metric:.4g}",
        *(averaged if average else []),
        f"{row.best_loss:.4g}, {row.best_loss_at}",
        f"{row.best_metric:.4g}, {row.best_metric_at}",
        f"{row.sensitivity:.3g}",
        f"{row.ratio:.2g}",
        str(row.failed),
        str(row.same),
        f"{row.warnings:.2g}",
        f"{row.seconds:.3g}",
    ]
