"""One picture a task: final loss and metric over six decades, ours beside the others."""

from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import NullLocator

from heavystep.arrays import Array
from heavystep.bench.sensitivity.contract import HORIZON
from heavystep.bench.sensitivity.outcome import ContenderOutcome, Outcome
from heavystep.compare.grid import DECADES
from heavystep.compare.looks import OTHER_COLOURS, PAPER_COLOURS
from heavystep.paper.plot import entitle, legend_below, log_limits, named_lines

WIDTH, HEIGHT, COLUMNS = 7.0, 3.3, 5
HANDLE, LETTER = 0.4, 0.05
"""Widths in a legend, in inches."""
SPAN = 20.0
"""An axis is logarithmic if its largest value is more than this times its least one, > 0."""
MARGIN = 0.04
"""Room above and below, as a part of a linear axis."""
BESIDE, EDGE = 10.0, 3.0
"""As factors: how far right of the grid a default is drawn that is not on it, and how far left of
that a line parts the two."""
OURS = (*PAPER_COLOURS, "#882255", "#117733")
OTHERS = (*OTHER_COLOURS, "#661100", "#999933")
DASHES = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)))
MARKERS = "osD^vP<>X"


class Look(NamedTuple):
    """How a contender is drawn."""

    colour: str
    dashes: Any
    marker: str
    width: float
    zorder: float


def looks_of(outcome: Outcome) -> dict[str, Look]:
    """Ours are thick and drawn last, a method told the horizon as the same one with dashes.

    Colours or dashes, and markers, differ from one to the next, for print in grey.
    """
    ours = [each.name for each in outcome.contenders if each.ours]
    methods = list(dict.fromkeys(name.removesuffix(HORIZON) for name in ours))
    others = [each.name for each in outcome.contenders if not each.ours]
    looks: dict[str, Look] = {}
    for names, colours, width, zorder in (
        (ours, OURS, 2.2, 5.0), (others, OTHERS, 1.0, 3.0),
    ):  # fmt: skip
        for place, name in enumerate(names):
            if names is ours:
                again, colour = divmod(methods.index(name.removesuffix(HORIZON)), len(colours))
                dashes = DASHES[(2 * again + name.endswith(HORIZON)) % len(DASHES)]
            else:
                colour, dashes = place % len(colours), DASHES[place % len(DASHES)]
            marker = MARKERS[len(looks) % len(MARKERS)]
            looks[name] = Look(colours[colour], dashes, marker, width, zorder)
    return looks


def picture(outcome: Outcome) -> Canvas:
    """The picture of a task."""
    canvas = Canvas(figsize=(WIDTH, HEIGHT), layout="constrained")
    looks, metric = looks_of(outcome), outcome.plan.task.metric
    panels = canvas.subplots(1, 2)
    for ax, measure, start, title in (
        (panels[0], outcome.losses, outcome.start, "final training loss"),
        (panels[1], outcome.metrics, outcome.start_metric, metric.name),
    ):
        shown = [np.atleast_1d(start.mean())]
        for each in outcome.contenders:
            place = 1.0 if each.entry.on_grid else _beside(outcome)
            shown += _line(ax, each, measure, looks[each.name], place)
        _finish(ax, np.concatenate(shown), float(start.mean()), title)
        _ticks(ax, outcome)
    named = named_lines(panels)
    legend_below(canvas, named, _columns([len(label) for label in named]))
    seeds = f"{outcome.plan.seeds} seeds, means and ranges" if outcome.plan.seeds > 1 else "1 seed"
    steps = f"{outcome.plan.size.steps:,} steps"
    # In two lines: a long title would be wider than the picture.
    entitle(canvas, f"{outcome.plan.task.title}\n{steps}", seeds, "large marks: nothing set")
    return canvas


def _columns(lengths: list[int]) -> int:
    """How many columns of labels of these lengths fit below a picture, one under the other."""
    for columns in range(COLUMNS, 1, -1):
        parts = [part for part in np.array_split(lengths, columns) if len(part)]
        if sum(HANDLE + LETTER * float(part.max()) for part in parts) <= WIDTH:
            return columns
    return 1


def _line(ax: Any, each: ContenderOutcome, measure: Any, look: Look, place: float) -> list[Array]:
    """Means over seeds with their range, and the default; returns what it has drawn."""
    values, default = measure(each.grid), float(measure(each.default).mean())
    x = np.array(each.entry.values) / each.entry.contender.centre
    mean = values.mean(axis=-1)
    style = {"color": look.colour, "zorder": look.zorder}
    ax.plot(
        x, mean, linestyle=look.dashes, linewidth=look.width, marker=look.marker, markersize=2.5,
        label=f"{each.name} ({each.entry.contender.main})", **style,
    )  # fmt: skip
    ax.fill_between(x, values.min(axis=-1), values.max(axis=-1), alpha=0.13, linewidth=0, **style)
    size = 9.0 if each.ours else 6.5
    ax.plot(
        place, default, marker="*" if each.ours else look.marker, markersize=size, linestyle="",
        markeredgecolor="white", markeredgewidth=0.5, color=look.colour, zorder=look.zorder + 3,
    )  # fmt: skip
    return [mean, np.atleast_1d(default)]


def _finish(ax: Any, values: Array, start: float, title: str) -> None:
    low, high = float(values.min()), float(values.max())
    ax.axhline(start, color="#404040", linewidth=0.6, linestyle=(0, (4, 2)))
    if low > 0.0 and high / low > SPAN:
        ax.set_yscale("log")
        log_limits(ax, values)
    else:
        room = MARGIN * ((high - low) or 1.0)
        ax.set_ylim(low - room, high + room)
    ax.set_title(f"{title} (dashed: at the start)")
    ax.grid(visible=True, which="major", linewidth=0.3, alpha=0.6)


def _beside(outcome: Outcome) -> float:
    """Where a default is drawn that is not on its grid: right of all grids."""
    return BESIDE * max(
        each.entry.values[-1] / each.entry.contender.centre for each in outcome.contenders
    )


def _ticks(ax: Any, outcome: Outcome) -> None:
    """Decades of the constant, and a place of its own for defaults that are not on the grid."""
    beside = [each.entry.contender for each in outcome.contenders if not each.entry.on_grid]
    powers = range(-DECADES, DECADES + 1)
    places, names = [10.0**power for power in powers], [f"$10^{{{power}}}$" for power in powers]
    label = "main constant / its default"
    if beside:
        place = _beside(outcome)
        places, names = [*places, place], [*names, "not set"]
        ax.axvline(place / EDGE, color="#404040", linewidth=0.6)
        units = {each.main: each.centre for each in beside}
        label += "".join(f" ({name} / {unit:g})" for name, unit in units.items())
    ax.set_xscale("log")
    ax.set_xticks(places, names)
    ax.set_xlim(places[0] / 2.0, places[-1] * (EDGE if beside else 2.0))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel(label)
