"""Common parts of all pictures: style, axes, legends and files."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from heavystep.arrays import Array
from heavystep.lab.store import write_atomically

# Okabe and Ito: distinct for the colour-blind, and in grey by the line styles.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00")
STYLE: Any = {
    "font.size": 7.0,
    "axes.titlesize": 7.0,
    "axes.titley": 1.0,  # else it is looked for at every draw: a fifth of the time
    "axes.linewidth": 0.6,
    "legend.fontsize": 6.0,
    "svg.hashsalt": "heavystep",
    "pdf.fonttype": 42,
}
FLOOR = 1e-300  # values that are not above this count as 0
FEW_DECADES, ONE_DECADE, NARROW = 200.0, 20.0, 3.0
"""Ratios of the ends of an axis. Below the first, ticks at powers of ten are too few; below the
second there are still more ticks, and below the third they are evenly spaced."""
METADATA: dict[str, dict[str, Any]] = {"png": {"Software": None}, "pdf": {"CreationDate": None}}
"""Metadata that are left out, by file ending, so that equal pictures have equal bytes."""


def styled() -> AbstractContextManager[None]:
    """Use the style of all pictures within the block."""
    return mpl.rc_context(STYLE)


def visible(values: Array) -> Array:
    """The values with NaN in place of zeros, which a logarithmic axis cannot show."""
    return np.where(values > FLOOR, values, np.nan)


def log_limits(ax: Any, values: Array, margin: float = 1.06) -> None:
    """Set the limits of a logarithmic axis to ``values``, with readable ticks at any span."""
    shown = values[np.isfinite(values)]
    if not len(shown):
        return
    margin = margin if shown.max() > shown.min() else NARROW
    low, high = shown.min() / margin, shown.max() * margin
    ax.set_ylim(low, high)
    if high / low < FEW_DECADES:
        subs = (1.0, 2.0, 3.0, 5.0) if high / low < ONE_DECADE else (1.0, 3.0)
        even, rounded = MaxNLocator(5, steps=[1, 2, 5, 10]), LogLocator(subs=subs)
        ax.yaxis.set_major_locator(even if high / low < NARROW else rounded)
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())


def grid(ax: Any) -> None:
    """Draw thin lines at the major ticks."""
    ax.grid(visible=True, which="major", linewidth=0.3, alpha=0.6)


def entitle(canvas: Canvas, *parts: str) -> None:
    """Write one title above all panels."""
    canvas.suptitle(", ".join(parts), fontsize=8.0)


def say_missing(ax: Any, text: str) -> None:
    """Show the reason in a panel that has no curves."""
    ax.set_xticks([])
    ax.set_yticks([])
    ax.text(0.5, 0.5, text, ha="center", va="center", transform=ax.transAxes, color="#606060")


def named_lines(axes: list[Any]) -> dict[str, Any]:
    """One line for each label that occurs in the panels."""
    named: dict[str, Any] = {}
    for ax in axes:
        lines, labels = ax.get_legend_handles_labels()
        named |= dict(zip(labels, lines, strict=True))
    return named


def legend_below(canvas: Canvas, named: dict[str, Any], columns: int) -> None:
    """Draw one legend for all panels, below them."""
    lines, place = list(named.values()), "outside lower center"
    canvas.legend(lines, list(named), loc=place, ncol=columns, frameon=False)  # type: ignore[call-overload]


def save(
    canvas: Canvas, path: Path, dpi: int = 300, endings: Sequence[str] = ("png", "pdf")
) -> list[Path]:
    """Write a picture with some endings; the same picture gives the same bytes."""
    if (layout := canvas.get_layout_engine()) is not None:
        layout.execute(canvas)
    canvas.set_layout_engine(None)  # laid out once, not for every format; "none" would draw twice
    paths = []
    for kind in endings:
        how: Any = {"format": kind, "dpi": dpi, "metadata": METADATA[kind]}
        content = BytesIO()
        paths.append(path.with_name(f"{path.name}.{kind}"))
        canvas.savefig(content, **how)
        write_atomically(paths[-1], content.getvalue())
    return paths
