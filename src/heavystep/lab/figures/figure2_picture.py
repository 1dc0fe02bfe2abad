"""Figure 2 as pictures: the losses, and how the methods chose their steps."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Patch

from heavystep.lab.figures.appendix_e import ADAPTIVE, FAMILIES, LOOKS, STEP_LOOKS, SWEEP_NAMES
from heavystep.lab.figures.figure import Figure, Panel
from heavystep.lab.figures.figure2 import COLUMNS, over_steps
from heavystep.lab.figures.simulated import Results
from heavystep.lab.plot import (
    bands_said,
    entitle,
    legend_below,
    log_limits,
    mean_with_band,
    named_lines,
    say_missing,
    thousands,
    visible,
)
from heavystep.records import Trajectories

NAMES = {
    **dict.fromkeys(("SHB-PS", "SHB-ALS"), "SHB-PS (upper rows), SHB-ALS (lower rows)"),
    **dict.fromkeys(("SPS", "SLS"), "SPS (upper rows), SLS (lower rows)"),
    **SWEEP_NAMES,
}


def pictures(figure: Figure, results: Results) -> dict[str, Canvas]:
    """The picture of the losses and the one of the steps, by the names of their files."""
    return {
        figure.name: losses_picture(figure, results),
        f"{figure.name}_steps": steps_picture(figure, results),
    }


def losses_picture(figure: Figure, results: Results) -> Canvas:
    """Mean training losses with their 95% confidence bands, two rows for four data sets."""
    rows = len(figure.panels) // COLUMNS
    canvas = Canvas(figsize=(7.2, 1.75 * rows + 0.5), layout="constrained")
    axes = canvas.subplots(rows, COLUMNS, squeeze=False)
    for place, panel in enumerate(figure.panels):
        row, column = divmod(place, COLUMNS)
        ax, upper = axes[row, column], row % len(FAMILIES) == 0
        _panel(ax, panel, results, xlabel="" if upper else "iterations")
        ax.set_title(panel.title if upper else "")
        ax.set_ylabel(panel.ylabel if column == 0 else "")
    said = bands_said(len(result.seeds) for result in results.values())
    entitle(canvas, figure.headline(), *said)
    legend_below(canvas, named_lines(list(axes.flat)), columns=3)
    return canvas


def _panel(ax: Any, panel: Panel, results: Results, xlabel: str) -> None:
    if not panel.curves:
        say_missing(ax, panel.missing)
        return
    ax.set_yscale("log")
    for curve in panel.curves:
        result = results[curve.run.key()]
        mean_with_band(
            ax, result.k, result.metrics[curve.metric], NAMES[curve.label], LOOKS[curve.label]
        )
    # Bands do not count: one that reaches down to 0 would leave no room for the lines.
    log_limits(ax, np.concatenate([line.get_ydata() for line in ax.get_lines()]))
    ax.set_xlim(0, panel.curves[0].run.iterations)
    thousands(ax.xaxis, xlabel)
    ax.grid(visible=True, which="major", linewidth=0.3, alpha=0.6)


SHARES: dict[str, dict[str, Any]] = {
    r"at $\gamma_{\max}$": {"facecolor": "#606060"},
    "held by the smooth reset": {"facecolor": "#9ecae1", "hatch": "/////"},
    "chosen by the rule": {"facecolor": "#ffffff"},
}
EDGE: dict[str, Any] = {"edgecolor": "#303030", "linewidth": 0.5}


def steps_picture(figure: Figure, results: Results) -> Canvas:
    """For each data set the mean step over iterations, and below it what decided the steps."""
    runs = figure.by_data_set(results)
    panels = [panel for panel in figure.panels if panel.id.endswith(f".{next(iter(FAMILIES))}")]
    blocks = len(panels) // COLUMNS
    canvas = Canvas(figsize=(7.2, 3.2 * blocks + 0.6), layout="constrained")
    axes = canvas.subplots(2 * blocks, COLUMNS, squeeze=False, height_ratios=[3, 2] * blocks)
    for place, panel in enumerate(panels):
        block, column = divmod(place, COLUMNS)
        above, below = axes[2 * block : 2 * block + 2, column]
        above.set_title(panel.title)
        if not panel.curves:
            say_missing(above, panel.missing)
            below.set_axis_off()
            continue
        found = runs[panel.data_set]
        _steps(above, found, first=column == 0)
        _shares(below, found, first=column == 0)
    drawn = [ax for ax in axes[::2].flat if ax.get_lines()]
    steps = [line.get_ydata() for ax in drawn for line in ax.get_lines()]
    for ax in drawn:  # one scale, so that data sets can be compared
        log_limits(ax, np.concatenate(steps), margin=1.4)
    entitle(canvas, figure.headline(), "steps of the adaptive methods")
    named = named_lines(list(axes.flat))
    named |= {name: Patch(**look, **EDGE) for name, look in SHARES.items()}
    legend_below(canvas, named, columns=4)
    return canvas


def _steps(ax: Any, runs: dict[str, Trajectories], *, first: bool) -> None:
    ax.set_yscale("log")
    for name in ADAPTIVE:
        mean = runs[name].metrics["step"].mean(axis=0)
        ax.plot(runs[name].k, visible(mean), label=name, **STEP_LOOKS[name])
    ax.set_xlim(0, runs[ADAPTIVE[0]].k[-1])
    thousands(ax.xaxis, "iterations")
    ax.grid(visible=True, which="major", linewidth=0.3, alpha=0.6)
    if first:
        ax.set_ylabel(r"mean step $\gamma_k$")


def _shares(ax: Any, runs: dict[str, Trajectories], *, first: bool) -> None:
    """Draw a bar for each method, divided by what decided its steps."""
    for place, name in enumerate(ADAPTIVE):
        result = runs[name]
        at_cap, held = (
            float(over_steps(result, result.metrics[metric]).mean())
            for metric in ("capped", "limited")
        )
        left = 0.0
        for share, look in zip((at_cap, held, 1.0 - at_cap - held), SHARES.values(), strict=True):
            ax.barh(place, 100.0 * share, left=100.0 * left, height=0.7, **look, **EDGE)
            left += share
    ax.set_ylim(len(ADAPTIVE) - 0.4, -0.6)
    ax.set_yticks(range(len(ADAPTIVE)), ADAPTIVE if first else [""] * len(ADAPTIVE))
    ax.tick_params(axis="y", length=0)
    ax.set_xlim(0, 100)
    ax.set_xlabel("share of steps [%]")
