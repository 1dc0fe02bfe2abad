"""What a batch costs whose gradient is a hundred times too large: losses and steps, drawn.

Writes ``outliers.png`` and the table ``outliers.md`` to ``docs/results/outliers``. Two minutes on
two cores; ``--seeds`` for less.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure as Canvas
from rich.progress import track

from heavystep import paper_settings
from heavystep.bench.tasks import task_of
from heavystep.optim import create, searches
from heavystep.paper.plot import STYLE, entitle, legend_below, named_lines, visible

TASK, FACTOR = "mlp", 100.0
BATCHES = 21
"""In an epoch of the task."""
METHODS = {
    "SHBPolyak": ("SHBPolyak", {}),
    "SHBAdam": ("SHBAdam", {}),
    "SHBArmijo": ("SHBArmijo", {}),
    "SHBPolyak, paper": ("SHBPolyak", paper_settings("SHBPolyak", steps_per_epoch=BATCHES)),
    "SHBArmijo, paper": ("SHBArmijo", paper_settings("SHBArmijo", steps_per_epoch=BATCHES)),
}
NONE, LOSS, GRADIENT = "undisturbed", "loss x 100", "gradient alone x 100"
LOOKS = {NONE: ("#999999", 2.2, "-"), LOSS: ("#0072B2", 0.8, "-"), GRADIENT: ("#D55E00", 0.8, "-")}
OUTLIERS = (150, 151, 400)
"""Steps whose batch is spoilt: two in a row, and one alone."""
WINDOW, SMOOTH = 10, 20
"""Steps on each side of which the undisturbed run's median is taken, and over which losses are
averaged in the picture."""
DPI = 130


class Run(NamedTuple):
    """One run."""

    losses: np.ndarray
    """(steps,) of the batches, without the factor."""
    steps: np.ndarray
    """(steps,) the step sizes."""
    final: float
    """The training loss at the end."""
    metric: float


def train(method, kind, seed, steps, outliers=OUTLIERS):
    """A run of the task; ``kind`` is what is multiplied in the batches of ``outliers``."""
    task, (name, options) = task_of(TASK), METHODS[method]
    work = task.begun(seed, torch.device("cpu"), task.usual._replace(steps=steps))
    factors = {"loss": 1.0, "gradient": 1.0}
    for param in work.parameters():
        param.register_hook(lambda grad: grad * factors["gradient"])
    optimizer = create(name, work.parameters(), **options)
    losses, sizes = [], []
    for k in range(steps):
        spoilt = k in outliers
        factors["loss"] = FACTOR if spoilt and kind == LOSS else 1.0
        factors["gradient"] = FACTOR if spoilt and kind == GRADIENT else 1.0
        work.next()
        step(optimizer, lambda: work.loss() * factors["loss"])
        losses.append(float(optimizer.info.loss) / factors["loss"])
        sizes.append(float(optimizer.info.step))
    return Run(np.array(losses), np.array(sizes), *work.measured())


def step(optimizer, closure):
    """A step as users write it."""
    if searches(optimizer):
        optimizer.step(closure)
        return
    optimizer.zero_grad()
    loss = closure()
    loss.backward()
    optimizer.step(loss=loss)


def typical(steps):
    """(steps,) running medians."""
    padded = np.pad(steps, WINDOW, mode="edge")
    return np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * WINDOW + 1), axis=-1)


def steps_back(disturbed, undisturbed, outlier):
    """Steps after an outlier until they are at least half of what the undisturbed run has there.

    One large step is not enough: the median of the ten from there on must be that large too. None:
    never; 1 is the next one.
    """
    medians = np.median(np.lib.stride_tricks.sliding_window_view(disturbed, WINDOW), axis=-1)
    k, least = np.arange(len(medians)), np.minimum(medians, disturbed[: len(medians)])
    back = np.flatnonzero((k > outlier) & (least >= 0.5 * typical(undisturbed)[k]))
    return int(back[0]) - outlier if len(back) else None


def draw(runs):
    """Losses above, steps below, a column a method; of the first seed."""
    canvas = Canvas(figsize=(9.0, 3.6), layout="constrained")
    panels = canvas.subplots(2, len(METHODS), sharex=True, sharey="row", squeeze=False)
    mean = np.ones(SMOOTH) / SMOOTH
    for column, method in enumerate(METHODS):
        for kind, (colour, width, dashes) in LOOKS.items():
            run = runs[method, kind][0]
            look = {"color": colour, "linewidth": width, "linestyle": dashes, "label": kind}
            k = np.arange(len(run.steps))
            panels[0, column].plot(k[SMOOTH - 1 :], np.convolve(run.losses, mean, "valid"), **look)
            panels[1, column].plot(k, visible(run.steps), **look)
        for ax in panels[:, column]:
            ax.set_yscale("log")
            ax.grid(visible=True, linewidth=0.3, alpha=0.6)
            for outlier in OUTLIERS:
                ax.axvline(outlier, color="#404040", linewidth=0.5, linestyle=(0, (2, 2)))
        panels[0, column].set_title(method)
        panels[1, column].set_xlabel("step")
    panels[0, 0].set_ylabel(f"loss, mean over {SMOOTH} batches")
    panels[1, 0].set_ylabel("step size")
    legend_below(canvas, named_lines(list(panels.flat)), len(LOOKS))
    entitle(canvas, task_of(TASK).title, f"batches {', '.join(map(str, OUTLIERS))} spoilt")
    return canvas


def table(runs):
    """Steps until the step is back, the worst over seeds, and what the runs end with."""
    ends = [outlier for outlier in OUTLIERS if outlier + 1 not in OUTLIERS]
    heads = ["method", "spoilt", *(f"steps back after {end}" for end in ends)]
    lines = [[*heads, "training loss", "test accuracy"], ["---"] * 2 + ["---:"] * (len(ends) + 2)]
    for (method, kind), found in runs.items():
        counts = []
        for end in ends if kind != NONE else ():
            pairs = zip(found, runs[method, NONE], strict=True)
            each = [steps_back(run.steps, plain.steps, end) for run, plain in pairs]
            counts.append("never" if None in each else str(max(each)))
        counts = counts or ["-"] * len(ends)
        final, metric = (np.mean([run[place] for run in found]) for place in (2, 3))
        lines.append([method, kind, *counts, f"{final:.3g}", f"{metric:.2f}"])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("docs/results/outliers"))
    arguments = parser.parse_args()
    steps = task_of(TASK).usual.steps
    settings = [(method, kind) for method in METHODS for kind in LOOKS]
    runs = {
        setting: [train(*setting, seed, steps) for seed in range(arguments.seeds)]
        for setting in track(settings, description="training")
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "outliers.md").write_text(table(runs))
    with mpl.rc_context(STYLE):
        draw(runs).savefig(arguments.out / "outliers.png", dpi=DPI)


if __name__ == "__main__":
    main()
