"""Draw the two pictures of the front page, ``docs/front_sensitivity.png`` and ``front_steps.png``.

python docs/make_front.py, or ``make front``. The first is drawn from the tables of
``docs/results/sensitivity``; the second trains on scikit-learn's digits, some seconds.
"""

import copy
import csv
from collections import defaultdict
from pathlib import Path
from statistics import mean

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.ticker import NullFormatter, NullLocator, StrMethodFormatter
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy

from heavystep import SHBPolyak
from heavystep.pictures.steps import running_median

DOCS = Path(__file__).parent
TABLES = DOCS / "results" / "sensitivity"
TASKS = {  # one where the default is level with the best of all grids, and one where it is not
    "cnn": "digits, convolutional network",
    "frozen": "a head on frozen random features",
}
OURS = {"SHBPolyak": "#d95f02", "SHBAdam": "#0072b2"}
OTHERS = {"SGD": "#009e73", "AdamW": "#666666", "Prodigy": "#7b3294", "ScheduleFree": "#a6761d"}
DEFAULTS = {"SHBPolyak": 1e3, "SHBAdam": 1e3}  # their grid is 1 to 10^6, for "no largest step"
BATCH, EPOCHS, WRONG = 64, 40, 0.2
WINDOW = 31  # steps of a running median
LOG_SPAN = 20.0  # an axis with less between its ends has plain numbers


def main() -> None:
    """Draw both."""
    save(sensitivity(), "front_sensitivity.png")
    save(chosen_steps(), "front_steps.png")


def save(figure: plt.Figure, name: str) -> None:
    """The picture, in a size that a page shows unscaled."""
    figure.savefig(DOCS / name, dpi=110)
    plt.close(figure)


def sensitivity() -> plt.Figure:
    """Final training loss against six decades of the constant, ours and others."""
    figure, axes = plt.subplots(1, len(TASKS), figsize=(9, 4), layout="constrained")
    for ax, (task, title) in zip(axes, TASKS.items(), strict=True):
        curves = read(TABLES / f"{task}_grid.csv")
        for name, colour in {**OTHERS, **OURS}.items():
            grid, untouched = curves[name]
            ours = name in OURS
            scale = DEFAULTS[name] if ours else untouched[0]
            ax.plot(
                [value / scale for value, _ in grid],
                [loss for _, loss in grid],
                color=colour,
                linewidth=4 if ours else 1.4,
                marker=None if ours else "o",
                markersize=3.5,
                label=f"{name} ({'max_step' if ours else 'lr'})",
            )
        ax.set(xscale="log", yscale="log", xlabel="constant / its default")
        ax.set_title(f"{title}: ours are flat,\n{behind(task)}", fontsize=10)
        ax.axvline(1.0, color="black", linewidth=0.8, linestyle=":")
        low, high = ax.get_ylim()
        if high < LOG_SPAN * low:
            ax.yaxis.set_major_locator(NullLocator())
            ax.set_yticks([0.8, 1.0, 1.5, 2.0])
            ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            ax.yaxis.set_minor_formatter(NullFormatter())
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("final training loss")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def behind(task: str) -> str:
    """How far the untouched defaults are behind the best rival with its grid, from and to."""
    rows = csv.DictReader((TABLES / "verdicts.csv").open())
    points = [
        float(row["metric_behind"]) for row in rows if row["task"] == task and row["method"] in OURS
    ]
    return f"{min(points):.1f} to {max(points):.1f} points of test accuracy behind the best"


def read(path: Path) -> dict[str, tuple[list[tuple[float, float]], tuple[float, float]]]:
    """Of each method the means over seeds, by constant, and that of the untouched run.

    Of a run that ended with a loss above that at the start, or with none, the loss is as it is in
    the table: the score counts it as that at the start, a picture need not.
    """
    losses: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in csv.DictReader(path.open()):
        losses[row["method"]][row["value"]].append(float(row["loss"]))
    found = {}
    for method, by_value in losses.items():
        means = {value: mean(each) for value, each in by_value.items()}
        grid = sorted((float(value), loss) for value, loss in means.items() if value != "default")
        middle = grid[len(grid) // 2][0]
        found[method] = (grid, (middle, means.get("default", dict(grid)[middle])))
    return found


def chosen_steps() -> plt.Figure:
    """The steps on digits, where a network fits all labels and where nothing can."""
    digits = load_digits()
    x = torch.tensor(digits.data / 16, dtype=torch.float32)
    y = torch.tensor(digits.target)
    torch.manual_seed(0)
    noisy = torch.where(torch.rand(len(y)) < WRONG, torch.randint(10, (len(y),)), y)
    total = EPOCHS * (len(x) // BATCH)
    cases = {
        "a network that fits all labels": (
            nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)),
            y,
        ),
        f"a linear model, {WRONG:.0%} of the labels random": (nn.Linear(64, 10), noisy),
    }
    figure, axes = plt.subplots(2, 2, figsize=(9, 4.6), sharex=True, layout="constrained")
    for column, (title, (net, labels)) in zip(axes.T, cases.items(), strict=True):
        for label, colour, options in (
            ("nothing set", "#d95f02", {}),
            (f"total_steps={total}", "#0072b2", {"total_steps": total}),
        ):
            for ax, values in zip(column, train(net, x, labels, **options), strict=True):
                ax.plot(values, color=colour, alpha=0.2, linewidth=0.8)
                smooth = running_median(np.array(values), WINDOW)
                ax.plot(smooth, color=colour, linewidth=2, label=label)
                ax.set(yscale="log")
                ax.grid(alpha=0.3)
        column[0].set_title(title, fontsize=10)
        column[1].set_xlabel("step number")
    axes[0, 0].set_ylabel("step")
    axes[1, 0].set_ylabel("loss of the batch")
    axes[0, 0].legend(loc="upper left")
    return figure


def train(
    start: nn.Module, x: torch.Tensor, y: torch.Tensor, **options: int
) -> tuple[list[float], list[float]]:
    """The steps and losses of one run."""
    torch.manual_seed(0)
    net = copy.deepcopy(start)
    opt = SHBPolyak(net.parameters(), **options)
    steps, losses = [], []
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(x))[: len(x) // BATCH * BATCH].split(BATCH):
            opt.zero_grad()
            loss = cross_entropy(net(x[rows]), y[rows])
            loss.backward()
            opt.step(loss=loss)
            steps.append(float(opt.info.step))
            losses.append(loss.item())
    return steps, losses


if __name__ == "__main__":
    main()
