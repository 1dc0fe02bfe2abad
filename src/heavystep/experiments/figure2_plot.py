"""Figure 2 as pictures: the losses, and how the steps were chosen."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure as Canvas

from heavystep.experiments.appendix_e import FAMILIES, FIXED, FIXED_STEPS
from heavystep.experiments.figure2 import COLUMNS
from heavystep.experiments.figure2_steps_plot import steps_picture
from heavystep.experiments.interval import mean_and_half_width
from heavystep.experiments.plot_style import (
    FLOOR,
    entitle,
    legend_below,
    log_limits,
    named_lines,
    say_missing,
    thousands,
    visible,
)
from heavystep.experiments.runner import Results
from heavystep.experiments.specification import Curve, Figure, Panel

WITH_MOMENTUM = {"color": "#D55E00", "linestyle": "-", "linewidth": 1.5, "zorder": 4}
WITHOUT = {"color": "#56B4E9", "linestyle": (0, (3, 1.5)), "linewidth": 1.7, "zorder": 3}
# The sweep is the background: greys, darker for larger steps.
SWEEP: tuple[dict[str, Any], ...] = (
    {"color": "#b0b0b0", "linestyle": (0, (1, 1))},
    {"color": "#8c8c8c", "linestyle": (0, (3, 1, 1, 1))},
    {"color": "#5c5c5c", "linestyle": (0, (6, 1.5))},
    {"color": "#1c1c1c", "linestyle": "-"},
)
LOOKS: dict[str, dict[str, Any]] = {
    **{pair[0]: WITH_MOMENTUM for pair in FAMILIES.values()},
    **{pair[1]: WITHOUT for pair in FAMILIES.values()},
    **{FIXED[i]: {"linewidth": 0.9, "zorder": 2, **look} for i, look in enumerate(SWEEP)},
}
NAMES = {
    **dict.fromkeys(("SHB-PS", "SHB-ALS"), "SHB-PS (upper rows), SHB-ALS (lower rows)"),
    **dict.fromkeys(("SPS", "SLS"), "SPS (upper rows), SLS (lower rows)"),
    **{
        name: rf"SHB, $\gamma = 10^{{{round(np.log10(step))}}}$"
        for name, step in zip(FIXED, FIXED_STEPS, strict=True)
    },
}


def figure2_pictures(figure: Figure, results: Results) -> dict[str, Canvas]:
    """The losses, and the steps."""
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
    entitle(canvas, figure, "means with 95% confidence bands")
    legend_below(canvas, named_lines(list(axes.flat)), columns=3)
    return canvas


def _panel(ax: Any, panel: Panel, results: Results, xlabel: str) -> None:
    if not panel.curves:
        say_missing(ax, panel.missing)
        return
    ax.set_yscale("log")
    for curve in panel.curves:
        _curve(ax, curve, results)
    # Bands do not count: one that reaches down to 0 would leave no room for the lines.
    log_limits(ax, np.concatenate([line.get_ydata() for line in ax.get_lines()]))
    ax.set_xlim(0, panel.curves[0].run.iterations)
    thousands(ax.xaxis, xlabel)
    ax.grid(visible=True, which="major", linewidth=0.3, alpha=0.6)


def _curve(ax: Any, curve: Curve, results: Results) -> None:
    result, look = results[curve.run.key()], LOOKS[curve.label]
    mean, half_width = mean_and_half_width(result.metrics[curve.metric])
    ax.plot(result.k, visible(mean), label=NAMES[curve.label], **look)
    ax.fill_between(
        result.k,
        np.maximum(mean - half_width, FLOOR),  # a logarithmic axis has no zero
        mean + half_width,
        color=look["color"],
        alpha=0.25,
        linewidth=0.0,
        zorder=look["zorder"] - 0.5,
    )
