"""A comparison: runs that are missing are made, then a picture, tables and a page are written."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Canvas
from PIL import Image

from heavystep.lab.comparison.contenders import contender_of
from heavystep.lab.comparison.plans import plans as plans_of
from heavystep.lab.comparison.table import (
    LEVEL,
    Cell,
    Outcome,
    Row,
    RunTable,
    outcome_of,
    rows_of,
)
from heavystep.lab.engines import Engine
from heavystep.lab.plot import legend_below, log_limits, save, styled
from heavystep.lab.store import Columns, claim_folder, csv_text, expanded, write_atomically
from heavystep.lab.sweeps import FailedRunsError, Progress, complete

FOLDER, RUNS = "compare", "runs.csv"  # within the output folder, and the file of runs there
DPI, PANELS_DPI = 110, 80
"""Resolutions of the overview and of three dozen small panels: both stay under 150 kB."""
CELL, AROUND = (0.36, 0.17), (2.0, 1.5)
"""Inches: of a cell of the overview, and of what is around all cells."""
COLUMNS = 6  # panels in a row
DARK = 0.55  # above this part of the scale, texts are white
SPAN = 20.0
"""An axis is logarithmic if its largest value is more than this times its least one, > 0."""
UNSET = 1e4
"""Place of a default that is no number of the grid, as a part of the others' defaults."""
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8F6B32")
"""Okabe and Ito, distinct for the colour-blind."""
DASHES = ("-", (0, (4, 1.5)), (0, (1, 1)))
EXPLAINED = f"""Means over seeds; a run that failed counts as the start.
Regret: how far the final training loss is above the best of anybody with any constant, in percent
of what that one gained. Level: regret at most {LEVEL:g}%. Behind: how far the metric on unseen data
is behind the best of anybody with any constant, in units of the difference that counts as level.
One constant: the main constant that is best for all tasks together, and its mean regret. Tuned: the
mean regret with the best constant of each task."""


@dataclass(frozen=True)
class Comparison:
    """Files of a comparison, and their contents."""

    outcomes: list[Outcome]
    rows: list[Row]
    paths: list[Path]
    failed: bool  # whether runs failed, and are left out


def compare(
    tasks: Sequence[str] = (),
    methods: Sequence[str] = (),
    *,
    out: Path | str = "results",
    engine: str = "local",
    jobs: int | None = None,
    address: str | None = None,
    progress: Progress | None = None,
    command: str = "heavystep compare",
    stored: bool = False,
    **wanted: Any,
) -> Comparison:
    """Compare methods on tasks, as ``heavystep compare`` does: tables, pictures and a page.

    Args:
        tasks: names or paths; none: the usual ones.
        methods: names, perhaps with options and an ending; none: the usual ones.
        out: the folder; what is in its ``compare/runs.csv`` is not run again.
        engine: who does the runs: ``"local"``, ``"ray"`` or ``"dask"``.
        jobs: how many at a time.
        address: of a started cluster.
        progress: told how far they are; None: notes are logged.
        command: what the page says that it was made by.
        stored: nothing is run, and what is missing is left out.
        wanted: ``seeds`` of each run (default: those of the task, quick 1), values of the main
            constant ``per_decade`` (1, quick 0), ``steps`` of a run and ``device`` (those of the
            task), whether the ``average`` is measured too, and ``quick``: fewer and shorter runs.

    Raises:
        ValueError: a name is unknown, a number out of range, nothing can be run, or the folder
            holds other files.
        TypeError: a method has no such option.
    """
    plans, lines = plans_of(tasks, methods, stored=stored, **wanted)
    progress, out = progress or Progress(), expanded(out)
    left_out = {name: why for plan in plans for name, why in plan.left_out.items()}
    for line in (*lines, *(f"{name} is left out: {why}" for name, why in left_out.items())):
        progress.note(line)
    claim_folder(out)
    folder, runs = out / FOLDER, [run for plan in plans for run in plan.all_runs()]
    store, failed = RunTable(folder / RUNS, runs), False
    results: dict[str, Columns]
    if stored:
        found = {run.key(): store.load(run.key(), "") for run in runs}
        results = {key: columns for key, columns in found.items() if columns is not None}
    else:
        gpus = float(any(run.device == "cuda" for run in runs))
        try:
            results = complete(runs, store, progress, Engine(engine, jobs, address, gpus))  # type: ignore[arg-type]
        except FailedRunsError as error:
            results, failed = error.results, True
    outcomes = [outcome_of(done, results) for plan in plans if (done := plan.done(results))]
    if not outcomes:
        raise ValueError(f"no task has a whole set of runs in {folder / RUNS}")
    rows, cells = rows_of(outcomes), [cell for outcome in outcomes for cell in outcome.cells]
    with styled():
        paths = save(overview(outcomes, rows), folder / "overview", DPI, ("png",))
        if has_curves(outcomes):
            paths += save(curves(outcomes), folder / "curves", PANELS_DPI, ("png",))
    for path in paths:  # in a few colours, which are a third of the bytes and look the same
        Image.open(path).convert("RGB").quantize(48, dither=Image.Dither.NONE).save(path)
    texts = {"tasks.csv": _csv(Cell, cells), "methods.csv": _csv(Row, rows),
             "README.md": page(outcomes, rows, command)}  # fmt: skip
    for name, text in texts.items():
        paths.append(folder / name)
        write_atomically(paths[-1], text)
    return Comparison(outcomes, rows, [folder / RUNS, *paths], failed)


def has_curves(outcomes: Sequence[Outcome]) -> bool:
    """True if a contender was run with more than one value of its main constant."""
    return any(len(values) > 1 for outcome in outcomes for values in outcome.losses.values())


def _csv(kind: Any, rows: Sequence[Any]) -> str:
    return csv_text(kind._fields, (
        {name: f"{value:.6g}" if isinstance(value, float) else value
         for name, value in row._asdict().items()}
        for row in rows
    ))  # fmt: skip


def short(value: float) -> str:
    """A number in few letters.

    >>> short(0.04), short(12.34), short(1234.0), short(float("nan")), short(-1e-9)
    ('0.04', '12', '1,234', '-', '0')
    """
    if math.isnan(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 10.0 else f"{round(value, 4) + 0.0:.2g}"


def exact(value: float) -> str:
    """A number with four digits."""
    return "-" if math.isnan(value) else f"{value:.4g}"


def page(outcomes: Sequence[Outcome], rows: Sequence[Row], command: str) -> str:
    """The page of a comparison: all tasks in one table, then a table a task."""
    heading: tuple[str, ...] = ("method", "regret %", "worst", "level", "behind", "worst", "level",
                                "one constant", "%", "tuned %")  # fmt: skip
    lines: list[tuple[str, ...]] = [
        (row.method, short(row.regret), f"{short(row.worst)} {row.worst_on}",
         f"{row.level}/{row.tasks}", short(row.behind), short(row.metric_worst),
         f"{row.metric_level}/{row.tasks}", row.one, short(row.one_regret), short(row.tuned))
        for row in rows
    ]  # fmt: skip
    parts = ["# Comparison", f"Made by `{command}`; `runs.csv` has all runs. {EXPLAINED}",
             "![overview](overview.png)", _piped([heading, *lines])]  # fmt: skip
    if has_curves(outcomes):
        parts.append("![Final loss against the main constant](curves.png)")
    for outcome in outcomes:
        plan, metric = outcome.plan, outcome.plan.task.metric
        seeds = f"{len(plan.start)} seed" + ("s" if len(plan.start) > 1 else "")
        parts.append(f"## {plan.task.name}: {plan.task.title}")
        parts.append(
            f"{plan.steps:,} steps, {seeds}; level: {metric.close:g} {metric.unit}; loss "
            f"{outcome.start[0]:.4g} at the start, {outcome.best[0]:.4g} at best."
        )
        heading = ("method", "loss", metric.name, "regret %", "behind", "best loss, at",
                   f"best {metric.name}, at", "six decades %", "failed")  # fmt: skip
        lines = [
            (cell.method, exact(cell.loss), exact(cell.metric), short(cell.regret),
             short(cell.behind), f"{exact(cell.best_loss)}, {cell.best_at}",
             f"{exact(cell.best_metric)}, {cell.best_metric_at}", short(cell.sensitivity),
             str(cell.failed))
            for cell in sorted(outcome.cells, key=lambda cell: cell.regret)
        ]  # fmt: skip
        parts.append(_piped([heading, *lines]))
        parts += [f"- {name} is left out: {why}" for name, why in plan.left_out.items()]
    return "\n\n".join(parts) + "\n"


def _piped(lines: Sequence[Sequence[str]]) -> str:
    heading, *rows = lines
    ruler = ["---", *["---:"] * (len(heading) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (heading, ruler, *rows))


def overview(outcomes: Sequence[Outcome], rows: Sequence[Row]) -> Canvas:
    """Contenders by tasks, nothing set: regret, and how far the metric is behind."""
    names, tasks = [row.method for row in rows], [each.plan.task.name for each in outcomes]
    width = 2 * (CELL[0] * len(tasks)) + AROUND[0]
    height = CELL[1] * len(names) + AROUND[1]
    canvas = Canvas(figsize=(max(width, 7.0), height), layout="constrained")
    for ax, field, most, title in zip(
        canvas.subplots(1, 2, sharey=True), ("regret", "behind"), (20.0, 5.0),
        ("regret with nothing set [%]", "metric behind the best of anybody [levels]"), strict=True,
    ):  # fmt: skip
        cells = [{cell.method: getattr(cell, field) for cell in each.cells} for each in outcomes]
        values = np.array([[each.get(name, math.nan) for each in cells] for name in names])
        ax.imshow(values.clip(0.0, most), vmin=0.0, vmax=most, cmap="viridis_r", aspect="auto")
        for (row, column), value in np.ndenumerate(values):
            colour = "white" if value > DARK * most else "black"
            text = short(value) if not abs(value) >= 1000 else ">"
            ax.text(column, row, text, ha="center", va="center", fontsize=5, color=colour)
        ax.set_xticks(range(len(tasks)), tasks, rotation=60, ha="right")
        ax.set_yticks(range(len(names)), names)
        ax.set_title(title)
    return canvas


def curves(outcomes: Sequence[Outcome]) -> Canvas:
    """A panel a task: the final loss against the main constant; large marks: nothing set."""
    columns = min(COLUMNS, len(outcomes))
    rows = math.ceil(len(outcomes) / columns)
    canvas = Canvas(figsize=(max(1.9 * columns, 5.5), 1.7 * rows + 0.9), layout="constrained")
    axes = canvas.subplots(rows, columns, squeeze=False).ravel()
    names = dict.fromkeys(name for outcome in outcomes for name in outcome.losses)
    heads, named = list(dict.fromkeys(name.partition("+")[0] for name in names)), dict[str, Any]()
    for ax, outcome in zip(axes, outcomes, strict=False):
        ticks = {1e-3: "1/1000", 1.0: "default", 1e3: "x1000"}
        for name, losses in outcome.losses.items():
            contender, (head, schedule, _) = contender_of(name), name.partition("+")
            again, place = divmod(heads.index(head), len(COLOURS))
            colour, dashes = COLOURS[place], DASHES[(again + bool(schedule)) % len(DASHES)]
            default, width = contender.default, 1.5 if contender.ours else 0.8
            grid = sorted(value for value in losses if value is not None)
            x = np.array(grid) / (default or 1.0)  # without a default there is no grid
            (line,) = ax.plot(x, [losses[value] for value in grid], color=colour, linewidth=width,
                              linestyle=dashes)  # fmt: skip
            ticks |= {UNSET: "unset"} if default is None else {}
            ax.plot(1.0 if default is not None else UNSET, losses[default], "o", ms=3.5,
                    color=colour, mec="white", mew=0.4)  # fmt: skip
            named.setdefault(name, line)
        ax.axhline(outcome.start[0], color="#404040", linewidth=0.6, linestyle=(0, (4, 2)))
        ax.set_xscale("log")
        ax.set_xticks(list(ticks), list(ticks.values()), rotation=30)
        ax.minorticks_off()
        all_losses = [loss for losses in outcome.losses.values() for loss in losses.values()]
        shown = np.array([outcome.start[0], *all_losses])
        if shown.min() > 0.0 and shown.max() / shown.min() > SPAN:
            ax.set_yscale("log")
            log_limits(ax, shown)
        ax.set_title(outcome.plan.task.name)
        ax.tick_params(labelsize=5)
    for ax in axes[len(outcomes) :]:
        ax.set_axis_off()
    legend_below(canvas, named, max(2, columns))
    return canvas
