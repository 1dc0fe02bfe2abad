"""One picture for a problem: losses, final losses over the constants, and the score."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Canvas

from heavystep.arrays import Array
from heavystep.compare.looks import GREY, Look, looks_of, spread
from heavystep.compare.outcome import Outcome
from heavystep.compare.table import SCORE
from heavystep.paper.interval import mean_and_half_width
from heavystep.paper.plot import entitle, log_limits

WIDTH, LEAST_HEIGHT, LINE = 11.0, 4.0, 0.135
"""Inches: of the picture, and of a line of names."""
MARGIN = 0.02
"""Room above and below the lines, as a part of the axis."""
BAND = 10.0
"""A band ends at this part of the mean at the latest: a logarithmic axis has no 0."""
NOISY = 1e-2
"""If l* is more than this part of l_0, no method fits the data, and pictures show l - l*."""
NOISY_FLOOR = 1e-4
"""The part of l_0 - l* below which such a picture shows nothing."""
NOTHING = 1e-6
"""Scores below this part of the worst one are written as 0."""


@dataclass(frozen=True)
class Scale:
    """What the vertical axes show."""

    shift: float
    """Taken from all losses: l*, or 0."""
    floor: float
    """Lower losses are drawn here."""
    top: float
    """l_0."""
    label: str

    @classmethod
    def of(cls, outcome: Outcome) -> "Scale":
        """The losses themselves, or what they are above the least one."""
        start, name = float(outcome.start.mean()), outcome.plan.problem.loss_name
        if outcome.least <= NOISY * start:
            return cls(0.0, outcome.floor, start, name)
        above = start - outcome.least
        return cls(outcome.least, NOISY_FLOOR * above, above, f"{name} - $l^*$")


def picture(outcome: Outcome) -> Canvas:
    """The picture of a problem."""
    looks, scale = looks_of(outcome), Scale.of(outcome)
    height = max(LEAST_HEIGHT, 1.1 + LINE * len(outcome.methods))
    canvas = Canvas(figsize=(WIDTH, height), layout="constrained")
    losses, constants, scores = canvas.subplots(1, 3, width_ratios=(1.25, 1.0, 0.8))
    _losses(losses, outcome, looks, scale)
    _constants(constants, outcome, looks, scale)
    _scores(scores, outcome, looks)
    size = outcome.plan.size
    entitle(
        canvas, outcome.plan.problem.title, f"batches of {size.batch_size}",
        f"{size.seeds} seeds, means with 95% confidence bands",
    )  # fmt: skip
    return canvas


def _line(ax: Any, x: Array, values: Array, scale: Scale, look: Look | None, **more: Any) -> Array:
    """Draw the mean over seeds, not below the floor; a method in colour also has its band."""
    mean, half_width = mean_and_half_width(values)
    shown: Array = np.maximum(mean - scale.shift, scale.floor)
    if look is None:
        ax.plot(x, shown, color=GREY, linewidth=0.7, zorder=2, **more)
        return shown
    ax.plot(x, shown, color=look.colour, linewidth=look.width, zorder=look.zorder, **more)
    inside = shown <= scale.top
    low = np.maximum(shown - half_width, np.maximum(shown / BAND, scale.floor))
    ax.fill_between(
        x, low, shown + half_width, where=inside, color=look.colour, alpha=0.15, linewidth=0
    )
    return shown


def _losses(ax: Any, outcome: Outcome, looks: dict[str, Look], scale: Scale) -> None:
    """Loss against epochs, with the default constants and a name beside each line."""
    problem, size = outcome.plan.problem, outcome.plan.size
    ends, everything = {}, [np.array([scale.top])]
    for each in outcome.methods:
        name = each.entry.method
        losses = np.where(np.isfinite(each.default), each.default, np.nan)
        x = each.k / problem.batches(size.batch_size)
        shown = _line(ax, x, losses, scale, looks.get(name))
        ends[name] = float(shown[-1])
        everything.append(shown[shown <= scale.top])
    _finish(ax, np.concatenate(everything), scale.label)
    ax.set_xlim(0, x[-1])
    ax.set_xlabel("epochs")
    ax.set_title("with the default of the main constant")
    _names(ax, ends, looks)


def _names(ax: Any, ends: dict[str, float], looks: dict[str, Look]) -> None:
    """The names of all lines at the right edge, in the order of their ends."""
    low, high = np.log(ax.get_ylim())
    exact = {name: (np.log(end) - low) / (high - low) for name, end in ends.items()}
    where = {name: 1.0 if np.isnan(y) else float(np.clip(y, 0, 1)) for name, y in exact.items()}
    order = sorted(where, key=lambda name: (where[name], np.nan_to_num(ends[name], nan=np.inf)))
    gap = LINE * 0.85 / (ax.figure.get_figheight() - 1.0)
    for name, y in zip(order, spread([where[n] for n in order], gap, 0.0, 1.0), strict=True):
        look = looks.get(name)
        ax.annotate(
            name if exact[name] <= 1.0 else f"{name} (above)",
            (1.0, where[name]),
            (1.05, y),
            xycoords="axes fraction",
            va="center",
            fontsize=5.8,
            fontweight="bold" if look else "normal",
            color=look.colour if look else "#606060",
            arrowprops={
                "arrowstyle": "-", "color": look.colour if look else GREY, "linewidth": 0.4,
                "relpos": (0.0, 0.5), "shrinkA": 0.0, "shrinkB": 0.0,
            },
            annotation_clip=False,
        )  # fmt: skip


def _constants(ax: Any, outcome: Outcome, looks: dict[str, Look], scale: Scale) -> None:
    """Final loss against the constant in units of its default."""
    everything = [np.array([scale.top])]
    for each in outcome.methods:
        constants = np.array(each.entry.constants)
        x, losses = constants / constants[each.entry.centre], outcome.counted(each).T
        look, dots = looks.get(each.entry.method), {"marker": "o", "markersize": 2.2}
        everything.append(_line(ax, x, losses, scale, look, **dots))
    ax.axhline(scale.top, color="#404040", linewidth=0.6, linestyle=(0, (4, 2)))
    ax.annotate("$l_0$", (1.0, scale.top), (3, -2), ax.get_yaxis_transform(), "offset points")
    ax.set_xscale("log")
    _finish(ax, np.concatenate(everything), f"final {scale.label}, at most $l_0$")
    ax.set_xlabel("main constant / its default")
    ax.set_title("over six decades of the main constant")


def _finish(ax: Any, values: Array, label: str) -> None:
    """A logarithmic axis with some room at both ends."""
    ax.set_yscale("log")
    log_limits(ax, values, margin=(np.nanmax(values) / np.nanmin(values)) ** MARGIN)
    ax.set_ylabel(label)
    ax.grid(visible=True, which="major", linewidth=0.3, alpha=0.6)


def _scores(ax: Any, outcome: Outcome, looks: dict[str, Look]) -> None:
    """The sensitivity of each method as a bar, the least first."""
    mains = {each.entry.method: each.entry.main for each in outcome.methods}
    order = sorted(outcome.scores, key=lambda name: outcome.scores[name])
    values = np.array([outcome.scores[name] for name in order])
    worst, places = float(outcome.start.mean()) - outcome.least, np.arange(len(order))
    colours = [looks[name].colour if name in looks else "#c8c8c8" for name in order]
    ax.barh(places, values, color=colours, height=0.72)
    right = 1.18 * max(float(values.max()), NOTHING * worst)
    for place, value in zip(places, values, strict=True):
        text = f"{value:.3g}" if value > NOTHING * worst else "0"
        ax.text(value + 0.01 * right, place, text, va="center", fontsize=5.2)
    ax.set_yticks(places, [f"{name}, {mains[name]}" for name in order], fontsize=5.8)
    for name, label in zip(order, ax.get_yticklabels(), strict=True):
        if name in looks:
            label.set(color=looks[name].colour, fontweight="bold")
    ax.set_ylim(len(order) - 0.4, -0.6)
    ax.set_xlim(0, right)
    ax.set_xlabel(SCORE.replace("l_0, l}", r"$l_0, l$}").replace("l*", "$l^*$"))
    ax.set_title("sensitivity: less is better")
    ax.tick_params(axis="y", length=0)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
