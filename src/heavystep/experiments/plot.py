"""A figure of the paper as a picture."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure as Canvas

from heavystep.arrays import Array
from heavystep.experiments.runner import Results
from heavystep.experiments.specification import Curve, Figure, Panel
from heavystep.experiments.store import write_atomically
from heavystep.experiments.theory_bounds import bound, rate

# Okabe and Ito: distinct for the colour-blind, and in grey by the line styles.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00")
STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
DIMINISHING = "#000000"
STYLE: Any = {
    "font.size": 8.0,
    "axes.titlesize": 8.0,
    "legend.fontsize": 7.0,
    "svg.hashsalt": "heavystep",
    "pdf.fonttype": 42,
}
FLOOR = 1e-300


def draw(figure: Figure, results: Results, folder: Path) -> list[Path]:
    """Write ``NAME.png`` and ``NAME.pdf``; returns their paths."""
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(13.0, 6.4), layout="constrained")
        axes = canvas.subplots(2, 4).flat
        for ax, panel in zip(axes, figure.panels, strict=True):
            _panel(ax, panel, results)
        canvas.suptitle(figure.title, fontsize=10.0)
        paths = [folder / f"{figure.name}.{ending}" for ending in ("png", "pdf")]
        for path in paths:
            write_atomically(path, lambda part: _save(canvas, part, path.suffix[1:]))  # noqa: B023
    return paths


def _save(canvas: Canvas, path: Path, kind: str) -> None:
    metadata: dict[str, Any] = {"CreationDate": None} if kind == "pdf" else {"Software": None}
    canvas.savefig(path, format=kind, dpi=200, metadata=metadata)


def _panel(ax: Any, panel: Panel, results: Results) -> None:
    ax.set_xscale("log")
    ax.set_yscale("log")
    for number, curve in enumerate(panel.curves):
        result = results[curve.run.key()]
        values = result.metrics[curve.metric]
        colour = DIMINISHING if curve.diminishing else COLOURS[number % len(COLOURS)]
        style = "-" if curve.diminishing else STYLES[number % len(STYLES)]
        middle = values.max(axis=0) if curve.diminishing else values.mean(axis=0)
        label = f"{curve.label} (largest)" if curve.diminishing else curve.label
        ax.plot(
            result.k, _visible(middle), color=colour, linestyle=style, linewidth=1.4, label=label
        )
        ax.plot(
            result.k, _promised(curve, result.k, middle), color=colour, linewidth=0.5, alpha=0.8
        )
    ax.plot([], [], color="grey", linewidth=0.5, label="bound of the theorem")
    if panel.curves[-1].diminishing:
        ax.plot([], [], color=DIMINISHING, linewidth=0.5, label="slope of 1/S_k")
    ax.set_title(f"({panel.id}) {panel.title}")
    ax.set_xlabel("k")
    ax.set_ylabel(panel.ylabel)
    ax.grid(visible=True, which="major", linewidth=0.3, alpha=0.6)
    ax.legend(frameon=False, loc="lower left")


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
