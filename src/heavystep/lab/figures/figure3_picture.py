"""Figure 3 as pictures: losses and accuracies, and how the methods chose their steps."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from heavystep.lab.data import CIFAR
from heavystep.lab.figures.appendix_e import ADAPTIVE, FAMILIES, LOOKS, STEP_LOOKS, SWEEP_NAMES
from heavystep.lab.figures.figure import Figure, Panel
from heavystep.lab.figures.figure3 import METRICS
from heavystep.lab.plot import (
    bands_said,
    entitle,
    legend_below,
    log_limits,
    mean_with_band,
    named_lines,
    say_missing,
    visible,
)
from heavystep.lab.training.runs import TrainedCurve, TrainedResults, sizes_text

UNFINISHED: dict[str, Any] = {
    "color": "black", "linewidth": 0.4, "linestyle": "-", "zorder": 5,
    "marker": "o", "markersize": 1.8, "markevery": [-1],
}  # fmt: skip
COLUMNS = len(FAMILIES) * len(METRICS)
NAMES = {
    **dict.fromkeys(("SHB-PS", "SHB-ALS"), "SHB-PS (left), SHB-ALS (right)"),
    **dict.fromkeys(("SPS", "SLS"), "SPS (left), SLS (right)"),
    **SWEEP_NAMES,
}
STEPS = {
    "step": (r"mean step $\gamma_k$", ADAPTIVE),
    "capped": ("steps at the upper limit [%]", ADAPTIVE),
    "trials": ("losses a line search", FAMILIES["ALS"]),
}
"""The columns of the second picture: the name of the axis, and the methods that are drawn."""


def pictures(figure: Figure, results: TrainedResults) -> dict[str, Canvas]:
    """The pictures of losses and accuracies and of the steps, by the names of their files."""
    return {
        figure.name: curves_picture(figure, results),
        f"{figure.name}_steps": steps_picture(figure, results),
    }


def curves_picture(figure: Figure, results: TrainedResults) -> Canvas:
    """A row of panels for each data set, with means and their 95% confidence bands."""
    rows = len(figure.panels) // COLUMNS
    canvas = Canvas(figsize=(7.2, 1.75 * rows + 0.7), layout="constrained")
    axes = canvas.subplots(rows, COLUMNS, squeeze=False)
    for ax, panel in zip(axes.flat, figure.panels, strict=True):
        ax.set_title(panel.title)
        if panel.curves:
            _panel(ax, panel, results)
        else:
            say_missing(ax, panel.missing)
    said = bands_said(len(result.seeds) for result in results.values())
    if any(result.unfinished for result in results.values()):
        said.append("thin: unfinished runs")
    entitle(canvas, f"{figure.title}: {sizes_text(results)}", *said)
    legend_below(canvas, named_lines(list(axes.flat)), columns=3)
    return canvas


def _panel(ax: Any, panel: Panel, results: TrainedResults) -> None:
    share = panel.curves[0].metric == "test_accuracy"
    ax.set_yscale("linear" if share else "log")
    for curve in panel.curves:
        result = results[curve.run.key()]
        factor = 100.0 if share else 1.0
        values = factor * result.metrics[curve.metric]
        mean_with_band(ax, result.k, values, NAMES[curve.label], LOOKS[curve.label])
        for metrics in result.unfinished.values():
            begun = factor * metrics[curve.metric]
            ax.plot(result.k[: len(begun)], begun, **UNFINISHED)
    lines = [line.get_ydata() for line in ax.get_legend_handles_labels()[0]]
    if share:
        _accuracy_limits(ax, lines)
    else:
        # Bands do not count: one that reaches down to 0 would leave no room for the lines.
        log_limits(ax, np.concatenate(lines))
    ax.set_ylabel(panel.ylabel)
    _epochs(ax, panel.curves[0].run.epochs)


def _accuracy_limits(ax: Any, lines: list[Any]) -> None:
    """Show the second half of every curve; the whole range would hide the differences."""
    highest = max((np.nanmax(line) for line in lines if np.isfinite(line).any()), default=0.0)
    middles = [line[len(line) // 2] for line in lines if np.isfinite(line[len(line) // 2])]
    if middles and highest > 0.0:
        margin = 0.06 * max(highest - min(middles), 0.1 * highest)
        ax.set_ylim(max(min(middles) - margin, 0.0), highest + margin)


def _epochs(ax: Any, epochs: int) -> None:
    """Label the horizontal axis with whole epochs."""
    ax.set_xlim(1 if epochs > 1 else 0, epochs)
    ax.xaxis.set_major_locator(MaxNLocator(4, integer=True, steps=[1, 2, 5, 10]))
    ax.set_xlabel("epoch")
    ax.grid(visible=True, which="major", linewidth=0.3, alpha=0.6)


def steps_picture(figure: Figure, results: TrainedResults) -> Canvas:
    """For each data set, the steps of the adaptive methods, their share at the cap, and trials."""
    panels, runs = figure.panels[::COLUMNS], figure.by_data_set(results)
    canvas = Canvas(figsize=(7.2, 1.9 * len(panels) + 0.6), layout="constrained")
    axes = canvas.subplots(len(panels), len(STEPS), squeeze=False)
    for row, panel in zip(axes, panels, strict=True):
        name = panel.data_set
        for ax, metric in zip(row, STEPS, strict=True):
            ax.set_title(CIFAR[name].title)
            shown = {m: runs[name][m] for m in STEPS[metric][1] if m in runs.get(name, {})}
            if shown:
                _choices(ax, metric, shown)
            else:
                say_missing(ax, panel.missing)
    entitle(canvas, f"{figure.title}: {sizes_text(results)}", "steps of the adaptive methods")
    legend_below(canvas, named_lines(list(axes.flat)), columns=len(ADAPTIVE))
    return canvas


def _choices(ax: Any, metric: str, shown: dict[str, TrainedCurve]) -> None:
    """Draw the mean over seeds of each method."""
    ax.set_yscale("log" if metric == "step" else "linear")
    means = {name: result.metrics[metric].mean(axis=0) for name, result in shown.items()}
    for name, mean in means.items():
        values = {"step": visible(mean), "capped": 100.0 * mean}.get(metric, mean)
        ax.plot(shown[name].k, values, label=name, **STEP_LOOKS[name])
    if metric == "step":
        log_limits(ax, np.concatenate([visible(mean) for mean in means.values()]), margin=1.4)
    elif metric == "capped":
        ax.set_ylim(-4.0, 104.0)
    ax.set_ylabel(STEPS[metric][0])
    _epochs(ax, len(next(iter(shown.values())).k))
