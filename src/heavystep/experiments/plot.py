"""A figure of the paper as a picture."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from heavystep.arrays import Array
from heavystep.experiments.runner import Results
from heavystep.experiments.specification import Curve, Figure, Panel
from heavystep.experiments.theory_bounds import bound, rate
from heavystep.files import write_atomically

# Okabe and Ito: distinct for the colour-blind, and in grey by the line styles.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00")
STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
DIMINISHING = "#000000"
STYLE: Any = {
    "font.size": 7.0,
    "axes.titlesize": 7.0,
    "axes.linewidth": 0.6,
    "legend.fontsize": 6.0,
    "svg.hashsalt": "heavystep",
    "pdf.fonttype": 42,
}
FLOOR = 1e-300
LOWEST = 1e-40
"""Where panels end: beyond, a line that converges to 0 only goes on down."""


def draw(figure: Figure, results: Results, folder: Path) -> list[Path]:
    """Write ``NAME.png`` and ``NAME.pdf``; returns their paths."""
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(9.0, 4.9), layout="constrained")
        axes = list(canvas.subplots(2, 4).flat)
        for ax, panel in zip(axes, figure.panels, strict=True):
            _panel(ax, panel, results)
        _legend(canvas, axes)
        run = figure.panels[0].curves[0].run
        canvas.suptitle(
            f"{figure.title}: {run.seeds} runs of {run.iterations:,} steps", fontsize=8.0
        )
        paths = [folder / f"{figure.name}.{ending}" for ending in ("png", "pdf")]
        for path in paths:
            write_atomically(path, lambda part: _save(canvas, part, path.suffix[1:]))  # noqa: B023
    return paths


def _save(canvas: Canvas, path: Path, kind: str) -> None:
    metadata: dict[str, Any] = {"CreationDate": None} if kind == "pdf" else {"Software": None}
    canvas.savefig(path, format=kind, dpi=300, metadata=metadata)


def _panel(ax: Any, panel: Panel, results: Results) -> None:
    ax.set_xscale("log")
    ax.set_yscale("log")
    for curve in panel.curves:
        result = results[curve.run.key()]
        values = result.metrics[curve.metric]
        look = _look(curve)
        middle = values.max(axis=0) if curve.diminishing else values.mean(axis=0)
        label = f"{curve.label} (largest)" if curve.diminishing else curve.label
        ax.plot(result.k, _visible(middle), label=label, linewidth=1.2, **look)
        promised = _promised(curve, result.k, middle)
        ax.plot(result.k, promised, color=look["color"], linewidth=0.4, alpha=0.8)
    ax.set_title(f"({panel.id}) " + panel.title.replace(", ", "\n", 1))
    ax.set_xlabel("k")
    ax.set_ylabel(panel.ylabel)
    ax.grid(visible=True, which="major", linewidth=0.3, alpha=0.6)
    if ax.get_ylim()[0] < LOWEST:
        highest = max(
            np.nanmax(line.get_ydata()) for line in ax.get_lines() if len(line.get_ydata())
        )
        ax.set_ylim(LOWEST, 10.0 * highest)


def _legend(canvas: Canvas, axes: list[Any]) -> None:
    """One for all panels, below them: a momentum looks the same in each."""
    named: dict[str, Any] = {}
    for ax in axes:
        lines, labels = ax.get_legend_handles_labels()
        named |= dict(zip(labels, lines, strict=True))
    named["bound of the theorem"] = Line2D([], [], color="grey", linewidth=0.4)
    named["slope of 1/S_k (diminishing)"] = Line2D([], [], color=DIMINISHING, linewidth=0.4)
    canvas.legend(
        list(named.values()),
        list(named),
        loc="outside lower center",
        ncol=len(named),
        frameon=False,
    )


def _look(curve: Curve) -> dict[str, Any]:
    """Colour and line style of a curve."""
    if curve.diminishing:
        return {"color": DIMINISHING, "linestyle": "-"}
    return {"color": COLOURS[curve.style], "linestyle": STYLES[curve.style]}


def _visible(values: Array) -> Array:
    """Zeros end a line: a logarithmic axis has none."""
    return np.where(values > FLOOR, values, np.nan)


def _promised(curve: Curve, k: Array, values: Array) -> Array:
    """The theorem's bound; for O(1 / S_k) a line of that slope through the middle of the run."""
    if not curve.diminishing:
        return bound(curve.run, k)
    rates = rate(curve.run, k)
    anchor = len(k) // 2
    scaled: Array = rates * (values[anchor] / rates[anchor])
    return scaled
