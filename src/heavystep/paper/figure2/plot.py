"""Figure 2 as pictures: the losses, and how the methods chose their steps."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure as Canvas

from heavystep.paper.appendix_e import FAMILIES
from heavystep.paper.appendix_e_plot import LOOKS, SWEEP_NAMES, bands_said, mean_with_band
from heavystep.paper.figure2.definition import COLUMNS
from heavystep.paper.figure2.steps_plot import steps_picture
from heavystep.paper.plot import (
    entitle,
    legend_below,
    log_limits,
    named_lines,
    say_missing,
    thousands,
)
from heavystep.paper.simulated import Figure, Panel
from heavystep.sweeps.runner import Results

NAMES = {
    **dict.fromkeys(("SHB-PS", "SHB-ALS"), "SHB-PS (upper rows), SHB-ALS (lower rows)"),
    **dict.fromkeys(("SPS", "SLS"), "SPS (upper rows), SLS (lower rows)"),
    **SWEEP_NAMES,
}


def figure2_pictures(figure: Figure, results: Results) -> dict[str, Canvas]:
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
