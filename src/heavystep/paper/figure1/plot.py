"""Figure 1 as a picture."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from heavystep.arrays import Array
from heavystep.paper.figure1.bounds import bound, rate
from heavystep.paper.plot import COLOURS, entitle, legend_below, named_lines, visible
from heavystep.paper.simulated import Curve, Figure, Panel
from heavystep.sweeps.runner import Results

STYLES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
DIMINISHING = "#000000"
LOWEST = 1e-40
"""The lower end of a panel. Below it, a line that converges to 0 shows nothing new."""


def figure1_pictures(figure: Figure, results: Results) -> dict[str, Canvas]:
    """The picture with all eight panels."""
    canvas = Canvas(figsize=(9.0, 4.9), layout="constrained")
    axes = list(canvas.subplots(2, 4).flat)
    for ax, panel in zip(axes, figure.panels, strict=True):
        _panel(ax, panel, results)
    named = named_lines(axes)  # a momentum looks the same in each panel
    named["bound of the theorem"] = Line2D([], [], color="grey", linewidth=0.4)
    named["slope of 1/S_k (diminishing)"] = Line2D([], [], color=DIMINISHING, linewidth=0.4)
    legend_below(canvas, named, columns=len(named))
    entitle(canvas, figure.headline())
    return {figure.name: canvas}


def _panel(ax: Any, panel: Panel, results: Results) -> None:
    ax.set_xscale("log")
    ax.set_yscale("log")
    for curve in panel.curves:
        result = results[curve.run.key()]
        values = result.metrics[curve.metric]
        if curve.diminishing:
            middle, label = values.max(axis=0), f"{curve.label} (largest)"
            colour, style = DIMINISHING, STYLES[0]
        else:
            middle, label = values.mean(axis=0), curve.label
            colour, style = COLOURS[curve.style], STYLES[curve.style]
        line = {"color": colour, "linestyle": style}
        ax.plot(result.k, visible(middle), label=label, linewidth=1.2, **line)
        promised = _promised(curve, result.k, middle)
        ax.plot(result.k, promised, color=colour, linewidth=0.4, alpha=0.8)
    ax.set_title(f"({panel.id}) " + panel.title.replace(", ", "\n", 1))
    ax.set_xlabel("k")
    ax.set_ylabel(panel.ylabel)
    ax.grid(visible=True, which="major", linewidth=0.3, alpha=0.6)
    if ax.get_ylim()[0] < LOWEST:
        highest = max(
            np.nanmax(line.get_ydata()) for line in ax.get_lines() if len(line.get_ydata())
        )
        ax.set_ylim(LOWEST, 10.0 * highest)


def _promised(curve: Curve, k: Array, values: Array) -> Array:
    """The bound of the theorem; for O(1 / S_k), a line of that slope through the middle."""
    if not curve.diminishing:
        return bound(curve.run, k)
    rates = rate(curve.run, k)
    anchor = len(k) // 2
    scaled: Array = rates * (values[anchor] / rates[anchor])
    return scaled
