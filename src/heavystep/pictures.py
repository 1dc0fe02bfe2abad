"""The steps that an optimizer chose: the schedule that nobody wrote."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure as Canvas

from heavystep.arrays import Array
from heavystep.optim.recorder import Recorder
from heavystep.records import Record

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00")
"""Okabe and Ito, distinct for the colour-blind."""
WINDOW = 25
"""A bold line is the median over a window of one such part of the run."""
GREY = "#606060"


def plot_steps(recorder: Recorder | Record) -> Canvas:
    """Draw the steps of a recorded run, above its losses.

    Dots are single steps, the line is their running median; dashes are the largest step that was
    allowed, if one was set, and crosses are batches that were refused.

    Args:
        recorder: what followed the optimizer, or the record that it gave.

    Returns:
        A figure of matplotlib: ``figure.savefig("steps.png")``, or the last line of a notebook's
        cell.

    >>> import torch
    >>> from heavystep import Recorder, SHBPolyak
    >>> theta = torch.tensor([3.0, -1.0], requires_grad=True)
    >>> opt = SHBPolyak([theta])
    >>> with Recorder(opt) as recorder:
    ...     for _ in range(30):
    ...         _ = opt.step(lambda: ((theta - 1.0) ** 2).sum())
    >>> [ax.get_ylabel() for ax in plot_steps(recorder).axes]
    ['step', 'loss']
    """
    if not isinstance(recorder, (Recorder, Record)):
        raise TypeError(f"plot_steps draws a Recorder or a Record, got {type(recorder).__name__}")
    record = recorder.record() if isinstance(recorder, Recorder) else recorder
    canvas = Canvas(figsize=(6.4, 4.8), layout="constrained")
    above, below = canvas.subplots(2, 1, sharex=True)
    runs = zip(record.gamma, record.loss, record.accepted, strict=True)
    for number, (steps, losses, accepted) in enumerate(runs):
        colour = COLOURS[number % len(COLOURS)]
        _draw(above, np.where(accepted, steps, np.nan), colour)
        _draw(below, np.asarray(losses, dtype=float), colour)
        refused = np.flatnonzero(~accepted)
        if len(refused):
            low, along = np.full(len(refused), 0.03), above.get_xaxis_transform()
            label = f"refused: {len(refused)}"
            above.plot(refused, low, "x", color=GREY, ms=4, label=label, transform=along)
    cap = np.asarray(record.gamma_max * record.eta, dtype=float)
    # A cap far above everything else plays no part.
    if np.isfinite(cap).all() and cap.min() <= 100.0 * np.nanmax(record.gamma, initial=0.0):
        above.plot(np.arange(len(cap)), cap, "--", color=GREY, lw=0.9, label="largest step allowed")
    for ax, name in ((above, "step"), (below, "loss")):
        _scale(ax)
        ax.set_ylabel(name)
        ax.grid(alpha=0.25)
    below.set_xlabel("number of the step")
    scaling = "" if record.scaling in record.rule else f", {record.scaling} scaling"
    above.set_title(f"the steps that {record.rule} chose{scaling}")
    if above.get_legend_handles_labels()[1]:
        above.legend(frameon=False)
    return canvas


def running_median(values: Array, window: int) -> Array:
    """The median of the finite values around each place; NaN where there are none.

    >>> running_median(np.array([1.0, 50.0, 3.0, np.nan]), 3).tolist()
    [25.5, 3.0, 26.5, 3.0]
    """
    half = window // 2
    padded = np.pad(values.astype(float), half, constant_values=np.nan)
    padded[~np.isfinite(padded)] = np.nan
    around = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1)
    found = np.full(len(values), np.nan)
    some = ~np.isnan(around).all(axis=1)
    found[some] = np.nanmedian(around[some], axis=1)
    return found


def _draw(ax: Any, values: Array, colour: str) -> None:
    k = np.arange(len(values))
    ax.plot(k, values, ".", ms=2.5, alpha=0.35, color=colour, rasterized=len(k) > 2000)
    ax.plot(k, running_median(values, max(len(k) // WINDOW, 1)), color=colour, lw=1.5)


def _scale(ax: Any) -> None:
    """A logarithmic axis if all values are positive, but for steps of 0, which it cannot show."""
    lines = [line.get_ydata() for line in ax.lines if line.get_transform() == ax.transData]
    finite = np.concatenate(lines)
    finite = finite[np.isfinite(finite)]
    if len(finite) and (finite >= 0.0).all() and (finite > 0.0).any():
        ax.set_yscale("log", nonpositive="mask")
        positive = finite[finite > 0.0]
        ax.set_ylim(positive.min() / 1.1, positive.max() * 1.1)
