"""What all pictures share: looks, legends and files."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from heavystep.arrays import Array
from heavystep.files import write_atomically

# Okabe and Ito: distinct for the colour-blind, and in grey by the line styles.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00")
STYLE: Any = {
    "font.size": 7.0,
    "axes.titlesize": 7.0,
    "axes.linewidth": 0.6,
    "legend.fontsize": 6.0,
    "svg.hashsalt": "heavystep",
    "pdf.fonttype": 42,
}
FLOOR = 1e-300
"""What is not above it counts as 0."""
FEW_DECADES, ONE_DECADE, NARROW = 200.0, 20.0, 3.0
"""Spans of an axis below which ticks need more than powers of ten, many more, or no powers."""


def styled() -> AbstractContextManager[None]:
    """Draw in the house style."""
    return mpl.rc_context(STYLE)


def visible(values: Array) -> Array:
    """Zeros end a line: a logarithmic axis has none."""
    return np.where(values > FLOOR, values, np.nan)


def log_limits(ax: Any, values: Array, margin: float = 1.06) -> None:
    """A logarithmic axis around ``values`` with readable ticks, however few decades it spans."""
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


def thousands(axis: Any, name: str) -> None:
    """Ticks in thousands; without a name they have no labels."""
    axis.set_major_locator(MaxNLocator(4))
    axis.set_major_formatter(NullFormatter())
    if name:
        axis.set_major_formatter(FuncFormatter(lambda value, place: f"{value / 1000:g}"))
        axis.set_label_text(f"{name} / 1000")


def entitle(canvas: Canvas, *parts: str) -> None:
    """One title above all panels."""
    canvas.suptitle(", ".join(parts), fontsize=8.0)


def say_missing(ax: Any, text: str) -> None:
    """An empty panel with the reason."""
    ax.set_xticks([])
    ax.set_yticks([])
    ax.text(0.5, 0.5, text, ha="center", va="center", transform=ax.transAxes, color="#606060")


def named_lines(axes: list[Any]) -> dict[str, Any]:
    """One line for each label in any of the panels."""
    named: dict[str, Any] = {}
    for ax in axes:
        lines, labels = ax.get_legend_handles_labels()
        named |= dict(zip(labels, lines, strict=True))
    return named


def legend_below(canvas: Canvas, named: dict[str, Any], columns: int) -> None:
    """One legend for all panels."""
    canvas.legend(
        list(named.values()),
        list(named),
        loc="outside lower center",
        ncol=columns,
        frameon=False,
    )


def save(canvas: Canvas, path: Path) -> list[Path]:
    """Write the picture with the endings .png and .pdf, the same bytes for the same picture."""
    metadata: dict[str, dict[str, Any]] = {
        "png": {"Software": None},
        "pdf": {"CreationDate": None},
    }
    canvas.draw_without_rendering()
    canvas.set_layout_engine("none")  # laid out once, not for every format
    paths = []
    for kind, fixed in metadata.items():
        paths.append(path.with_name(f"{path.name}.{kind}"))
        write_atomically(
            paths[-1],
            lambda part: canvas.savefig(part, format=kind, dpi=300, metadata=fixed),  # noqa: B023
        )
    return paths
