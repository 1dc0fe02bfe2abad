"""The eight methods of Appendix E, and how Figures 2 and 3 show them."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Canvas

from heavystep.lab import plot
from heavystep.lab.figures.figure import Figure, Panel
from heavystep.lab.figures.measures import mean_and_half_width
from heavystep.methods import method_of

BETA = 0.9
MAX_STEP = 1.0
SCALING = "practical"  # the scaling of the methods with momentum; the others have no choice of it
FAMILIES = {"PS": ("SHB-PS", "SPS"), "ALS": ("SHB-ALS", "SLS")}
"""The method with momentum, and its counterpart without."""
ADAPTIVE = tuple(label for family in FAMILIES.values() for label in family)
"""The methods that choose their steps."""
FIXED_STEPS = (1e-4, 1e-3, 1e-2, 1e-1)
FIXED = tuple(f"SHB {step:g}" for step in FIXED_STEPS)
SEARCH = {"c": 0.1, "decrease_factor": 0.9, "growth": 2.0}
METHODS: dict[str, tuple[str, dict[str, float]]] = {
    "SHB-PS": ("SHBPolyak", {"momentum": BETA, "c": 1.0, "growth": 4.0}),
    "SPS": ("SPS", {"c": 0.1, "growth": 4.0}),
    "SHB-ALS": ("SHBArmijo", {"momentum": BETA, **SEARCH}),
    "SLS": ("SLS", SEARCH),
    **{f"SHB {step:g}": ("SHB", {"lr": step, "momentum": BETA}) for step in FIXED_STEPS},
}
"""Names in the registry and constants, in the order of legends and tables. n_b and the largest step
of the adaptive methods are set by each figure."""


def options_of(label: str, common: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a method, and those among ``common`` that it has."""
    name, constants = METHODS[label]
    known = {option.name for option in method_of(name).options}
    return {each: value for each, value in common.items() if each in known} | constants


def by_data_set(figure: Figure, results: Mapping[Any, Any]) -> dict[str, dict[str, Any]]:
    """Results, given by run, by data set and then by method in the order of the legend."""
    found: dict[str, dict[str, Any]] = {}
    for panel in figure.panels:
        for curve in panel.curves:
            found.setdefault(panel.name, {})[curve.label] = results[curve.run]
    return {
        name: {label: runs[label] for label in METHODS if label in runs}
        for name, runs in found.items()
    }


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
COLUMNS = 4
PERCENT = {"test_accuracy"}
"""Metrics that are shares and shown in percent; those of other metrics have a logarithmic axis."""
SEEDS_OF_A_BAND = 3
"""The interval of two reaches six times their distance to both sides: it would hide all lines."""


def picture(
    figure: Figure,
    results: Mapping[Any, Any],
    draw: Callable[[Any, Panel, int], object],
    titles: list[str],
    places: tuple[str, str],
    room: float,
) -> Canvas:
    """Four panels in a row, with means over seeds and their 95% confidence bands.

    ``draw`` completes the axes of a panel at a place. ``titles`` are parts of the title, ``places``
    say in the legend where the two families are, and ``room`` is that of both, in inches.
    """
    names = dict[str, str]()
    for pair in zip(*FAMILIES.values(), strict=True):
        both = ", ".join(f"{name} ({place})" for name, place in zip(pair, places, strict=True))
        names |= dict.fromkeys(pair, both)
    for label, step in zip(FIXED, FIXED_STEPS, strict=True):
        names[label] = rf"SHB, $\gamma = 10^{{{round(np.log10(step))}}}$"
    rows = len(figure.panels) // COLUMNS
    canvas = Canvas(figsize=(7.2, 1.75 * rows + room), layout="constrained")
    axes = list(canvas.subplots(rows, COLUMNS, squeeze=False).flat)
    for place, (ax, panel) in enumerate(zip(axes, figure.panels, strict=True)):
        if panel.curves:
            _mean_curves(ax, panel, results, names)
        draw(ax, panel, place)
    most = max((len(result.seeds) for result in results.values()), default=0)
    said = "means with 95% confidence bands" if most >= SEEDS_OF_A_BAND else "means"
    plot.entitle(canvas, titles[0], *([said] if most > 1 else []), *titles[1:])
    plot.legend_below(canvas, plot.named_lines(axes), columns=3)
    return canvas


def _mean_curves(ax: Any, panel: Panel, results: Mapping[Any, Any], names: dict[str, str]) -> None:
    """Draw the mean over seeds of each curve, with its 95% confidence band if there are enough."""
    percent = panel.curves[0].metric in PERCENT
    ax.set_yscale("linear" if percent else "log")
    for label, run, metric in panel.curves:
        result, look = results[run], LOOKS[label]
        values = (100.0 if percent else 1.0) * result.metrics[metric]
        mean, half_width = mean_and_half_width(values)
        ax.plot(result.k, plot.visible(mean), label=names[label], **look)
        if len(values) >= SEEDS_OF_A_BAND:
            low = np.maximum(mean - half_width, plot.FLOOR)  # a logarithmic axis has no zero
            band = {"color": look["color"], "alpha": 0.25, "linewidth": 0.0}
            ax.fill_between(result.k, low, mean + half_width, zorder=look["zorder"] - 0.5, **band)
    if not percent:  # bands do not count: one that reaches down to 0 would leave no room for lines
        plot.log_limits(ax, np.concatenate([line.get_ydata() for line in ax.get_lines()]))
    plot.grid(ax)
