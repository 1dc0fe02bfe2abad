"""Colours and lines of the methods of Appendix E, in Figures 2 and 3."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from heavystep.arrays import Array
from heavystep.paper.appendix_e import FAMILIES, FIXED, FIXED_STEPS
from heavystep.paper.interval import mean_and_half_width
from heavystep.paper.plot import FLOOR, visible

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
SWEEP_NAMES = {
    name: rf"SHB, $\gamma = 10^{{{round(np.log10(step))}}}$"
    for name, step in zip(FIXED, FIXED_STEPS, strict=True)
}
# Where lines lie on each other, the wide ones below still show.
STEP_LOOKS: dict[str, dict[str, Any]] = {
    "SHB-PS": {"color": "#D55E00", "linestyle": "-", "linewidth": 2.2},
    "SPS": {"color": "#F0C000", "linestyle": "-", "linewidth": 1.0},
    "SHB-ALS": {"color": "#0072B2", "linestyle": (0, (4, 2)), "linewidth": 1.5},
    "SLS": {"color": "#000000", "linestyle": (0, (1, 2)), "linewidth": 1.2},
}


SEEDS_OF_A_BAND = 3
"""The interval of two reaches six times their distance to both sides: it would hide all lines."""


def bands_said(seeds: Iterable[int]) -> list[str]:
    """What a title says about the lines of curves with so many seeds each.

    >>> bands_said([1, 1]), bands_said([1, 2]), bands_said([1, 3])
    ([], ['means'], ['means with 95% confidence bands'])
    """
    most = max(seeds, default=0)
    if most <= 1:
        return []
    return ["means with 95% confidence bands" if most >= SEEDS_OF_A_BAND else "means"]


def mean_with_band(ax: Any, k: Array, values: Array, name: str, look: dict[str, Any]) -> None:
    """Draw the mean over seeds with its 95% confidence band, if there are enough of them.

    Args:
        ax: where to draw.
        k: (G,) positions on the horizontal axis.
        values: (seeds, G) values, none of them negative.
        name: what the legend says.
        look: colour and style of the line.
    """
    mean, half_width = mean_and_half_width(values)
    ax.plot(k, visible(mean), label=name, **look)
    if len(values) >= SEEDS_OF_A_BAND:
        ax.fill_between(
            k,
            np.maximum(mean - half_width, FLOOR),  # a logarithmic axis has no zero
            mean + half_width,
            color=look["color"],
            alpha=0.25,
            linewidth=0.0,
            zorder=look["zorder"] - 0.5,
        )
