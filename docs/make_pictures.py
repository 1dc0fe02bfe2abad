"""Draw the pictures of the pages, each for light and for dark ones: two minutes on one core.

python docs/make_pictures.py [NAME ...], or ``make pages``

front: a small network on scikit-learn's digits, HeavyStep with nothing set, AdamW and SGD along a
grid of learning rates. steps: the steps of two runs of HeavyStep. regret: everybody with nothing
set, from ``docs/results/compare/methods.csv``. path: an ill-conditioned quadratic, animated.
momentum: what the bounds of Theorems 1 to 3 lose by it.
"""

import csv
import sys
from functools import partial
from pathlib import Path

import matplotlib
import numpy as np
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from PIL import Image
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy

from heavystep import HeavyStep, Recorder
from heavystep.pictures import running_median
from heavystep.theory import side_by_side

DOCS = Path(__file__).parent
WIDTH, DPI, GIF_DPI = 5.2, 200, 110
"""Inches and dots an inch: texts of 11 points can be read on a phone."""
COLOURS = {
    "": ("#0072B2", "#D55E00", "#009E73", "#888888", "white", "#222222"),
    "-dark": ("#56B4E9", "#E69F00", "#3CC8A0", "#888888", "#1e2129", "#d8d8de"),
}
"""Blue, orange, green (for the colour-blind), grey, background and texts, by end of the name."""
STEPS, BATCH, SEEDS = 400, 64, 3
RATES = np.logspace(-5, 1, 13)
RIVALS = {
    "AdamW": partial(torch.optim.AdamW, weight_decay=0.0),
    "SGD with momentum": partial(torch.optim.SGD, momentum=0.9),
}
NAMES = {"momo-opt": "MoMo", "momo-opt-Adam": "MoMo-Adam", "ScheduleFree": "Schedule-Free",
         "ScheduleFreePlus": "ScheduleFree+", "SFPolyak": "SF-Polyak"}  # fmt: skip
"""What pages call contenders whose own names are others."""
CURVATURE, START, CENTRE = torch.tensor([1.0, 40.0]), (-3.0, 1.0), torch.tensor([1.0, -0.5])
FRAMES = 80


def main(names: list[str]) -> None:
    """Draw those pictures, or all."""
    torch.set_num_threads(1)
    for name in names or DRAWN:
        numbers, draw = DRAWN[name]
        found = numbers()
        for end, (*colours, background, text) in COLOURS.items():
            style = {
                "font.size": 11, "text.color": text, "figure.facecolor": background,
                "axes.facecolor": background, "axes.edgecolor": text, "axes.labelcolor": text,
                "xtick.color": text, "ytick.color": text, "axes.spines.top": False,
                "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.25,
                "legend.frameon": False,
            }  # fmt: skip
            with matplotlib.rc_context(style):
                drawn = draw(found, colours)
                if isinstance(drawn, Figure):
                    image(drawn, DPI).quantize(64).save(DOCS / f"{name}{end}.png", optimize=True)
                else:
                    animated(drawn, DOCS / f"{name}{end}.gif")


def panels(height: float, rows: int = 1, columns: int = 1, **options) -> tuple[Figure, np.ndarray]:
    """An empty picture."""
    canvas = Figure(figsize=(WIDTH, height), layout="constrained")
    return canvas, canvas.subplots(rows, columns, **options)


def image(canvas: Figure, dpi: int) -> Image.Image:
    """The picture as pixels."""
    canvas.set_dpi(dpi)
    drawn = FigureCanvasAgg(canvas)
    drawn.draw()
    return Image.fromarray(np.asarray(drawn.buffer_rgba())).convert("RGB")


def trained(make, seed: int, noise: float = 0.0, steps: int = STEPS):
    """The loss over all digits after training, and the record of a run of HeavyStep."""
    digits = load_digits()
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.tensor(digits.data, dtype=torch.float32) / 16.0, torch.tensor(digits.target)
    wrong = torch.rand(len(y), generator=generator) < noise
    y = torch.where(wrong, torch.randint(10, y.shape, generator=generator), y)
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    opt = make(model.parameters())
    recorder = Recorder(opt) if isinstance(opt, HeavyStep) else None
    for _ in range(steps):
        batch = torch.randint(len(x), (BATCH,), generator=generator)
        opt.zero_grad()
        loss = cross_entropy(model(x[batch]), y[batch])
        loss.backward()
        opt.step(loss=loss) if recorder else opt.step()
    with torch.no_grad():
        final = float(cross_entropy(model(x), y))
    return final, recorder.record() if recorder else None


def losses_by_rate() -> dict[str, list[float]]:
    """Of each rival at each rate, and the one loss of HeavyStep; a run that fails counts 10."""

    def mean(make) -> float:  # the geometric one, which suits a logarithmic axis
        losses = np.array([trained(make, seed)[0] for seed in range(SEEDS)])
        return float(np.exp(np.log(np.nan_to_num(losses, nan=10.0).clip(1e-9, 10.0)).mean()))

    found = {name: [mean(partial(make, lr=lr)) for lr in RATES] for name, make in RIVALS.items()}
    return found | {"HeavyStep": [mean(HeavyStep)]}


def front(found: dict[str, list[float]], colours: list[str]) -> Figure:
    """Loss against the learning rate: valleys, and one line."""
    canvas, ax = panels(3.5)
    blue, *others, _ = colours
    for name, colour in zip(RIVALS, others, strict=True):
        ax.plot(RATES, found[name], "o-", color=colour, ms=4.5, lw=2, label=name)
    (ours,) = found["HeavyStep"]
    ax.axhline(ours, color=blue, lw=3.5)
    ax.annotate("HeavyStep: no rate to set", (RATES[0], ours), (0, -19), color=blue,
                textcoords="offset points", fontsize=13, weight="bold")  # fmt: skip
    lowest = min(ours, *(min(found[name]) for name in RIVALS))
    ax.set(xscale="log", yscale="log", ylim=(lowest / 3.0, 40.0))
    ax.set_xlabel("learning rate that you would have to find", fontsize=12)
    ax.set_ylabel(f"loss after {STEPS} steps", fontsize=12)
    ax.legend(fontsize=12, loc="upper left", ncols=2)
    return canvas


def two_records() -> dict[str, object]:
    """A network that can fit its labels, and one that cannot."""
    noises = {"labels that can be fitted": 0.0, "a third of labels wrong": 0.33}
    return {title: trained(HeavyStep, 0, noise, 1500)[1] for title, noise in noises.items()}


def steps(found: dict[str, object], colours: list[str]) -> Figure:
    """Steps above, losses below."""
    canvas, axes = panels(4.6, 2, 2, sharex=True, sharey="row")
    for column, (title, record) in enumerate(found.items()):
        for ax, values, colour in zip(
            axes[:, column], (record.gamma, record.loss), colours, strict=False
        ):
            values = np.asarray(values, dtype=float).ravel()
            ax.plot(values, ".", ms=2, alpha=0.3, color=colour)
            ax.plot(running_median(values, 41), color=colour, lw=2)
            ax.set_yscale("log")
        axes[0, column].set_title(title, fontsize=11)
        axes[1, column].set_xlabel("step", fontsize=12)
    axes[0, 0].set_ylabel("chosen step", fontsize=12)
    axes[1, 0].set_ylabel("loss of the batch", fontsize=12)
    return canvas


def regrets() -> dict[str, tuple[float, int]]:
    """Mean regret and number of tasks of each contender; the best first."""
    with (DOCS / "results" / "compare" / "methods.csv").open(newline="") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: float(row["regret"]))
    names = [NAMES.get(row["method"], row["method"].replace(":diagonal=", ", ")) for row in rows]
    numbers = [(float(row["regret"]), int(row["tasks"])) for row in rows]
    return dict(zip(names, numbers, strict=True))


def regret(found: dict[str, tuple[float, int]], colours: list[str]) -> Figure:
    """Everybody with nothing set; our own in blue."""
    canvas, ax = panels(0.9 + 0.32 * len(found))
    blue, *_, grey = colours
    names, (values, counts) = list(found), zip(*found.values(), strict=True)
    own = [blue if name.startswith("HeavyStep") else grey for name in names]
    bars = ax.barh(names, values, color=own, height=0.72)
    ax.bar_label(bars, [f"{value:.1f}" for value in values], padding=4, fontsize=11)
    ax.invert_yaxis()
    ax.grid(visible=False)
    ax.tick_params(left=False)
    ax.set_xlim(0.0, 1.12 * max(values))
    ax.spines["left"].set_visible(False)
    ax.set_xlabel(f"regret in %, mean over {max(counts)} tasks, nothing set", fontsize=12)
    return canvas


def paths() -> dict[str, np.ndarray]:
    """Iterates of optimizers on f = sum of h (theta - centre)^2 / 2."""
    makers = {
        "SGD, its best step": partial(torch.optim.SGD, lr=2.0 / float(CURVATURE.sum())),
        "HeavyStep(diagonal=None)": partial(HeavyStep, diagonal=None),
        "HeavyStep": HeavyStep,
    }
    found = {}
    for name, make in makers.items():
        theta = torch.tensor(START, requires_grad=True)
        opt, points = make([theta]), [np.array(START, dtype=np.float32)]
        for _ in range(FRAMES):
            opt.zero_grad()
            loss = (CURVATURE * (theta - CENTRE) ** 2).sum() / 2
            loss.backward()
            opt.step(loss=loss) if hasattr(opt, "info") else opt.step()
            points.append(theta.detach().numpy().copy())
        found[name] = np.array(points)
    return found


def path(found: dict[str, np.ndarray], colours: list[str]) -> list[Image.Image]:
    """One frame a step."""
    canvas, ax = panels(3.5)
    blue, orange, green, grey = colours
    x, y = np.meshgrid(np.linspace(-3.3, 2.3, 200), np.linspace(-2.2, 1.5, 120))
    height = (x - float(CENTRE[0])) ** 2 + 40.0 * (y - float(CENTRE[1])) ** 2
    ax.contour(x, y, height, np.geomspace(0.1, 200.0, 12), colors=grey, linewidths=0.6)
    ax.plot(*CENTRE, "+", color=grey, ms=12, mew=2)
    ax.grid(visible=False)
    ax.set(xticks=[], yticks=[])
    lines = [
        ax.plot([], [], "o-", ms=3.5, lw=1.6, color=colour, label=name)[0]
        for name, colour in zip(found, (green, orange, blue), strict=True)
    ]
    ax.legend(loc="upper right", fontsize=11, frameon=True, framealpha=1.0, edgecolor="none")
    frames = []
    for k in range(1, FRAMES + 1):
        for line, points in zip(lines, found.values(), strict=True):
            line.set_data(*points[: k + 1].T)
        ax.set_title(f"condition number 40, step {k}", fontsize=12)
        frames.append(image(canvas, GIF_DPI))
    return frames


def animated(frames: list[Image.Image], place: Path) -> None:
    """Frames as a GIF with the palette of the last one, which stays for two seconds."""
    palette = frames[-1].quantize(24)
    small = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    times = [90] * (len(small) - 1) + [2000]
    small[0].save(place, save_all=True, append_images=small[1:], duration=times, loop=0)


def momentum(rows, colours: list[str]) -> Figure:
    """Above, steps that a theorem needs for the same bound; below, the largest gamma_max."""
    canvas, (costs, limits) = panels(6.2, 2, sharex=True)
    blue, orange, green, grey = colours
    beta, first = np.array([row.beta for row in rows]), rows[0]
    curves = (
        ("Theorem 1", "o-", blue, [first.contraction / row.contraction for row in rows]),
        ("Theorem 2", "s--", orange, [row.A / first.A for row in rows]),
        ("Theorem 3", "^:", green, [row.best / first.best for row in rows]),
    )
    for label, line, colour, values in curves:
        costs.plot(beta, values, line, color=colour, label=label)
    costs.plot(beta, (1 - beta**0.5) ** -2, color=grey, lw=1.0, label=r"$(1-\sqrt{\beta})^{-2}$")
    costs.set_title("steps for the same bound, relative to beta = 0", fontsize=11)
    limits.plot(beta, [row.gamma_max_limit for row in rows], "^:", color=green, label="Theorem 3")
    limits.plot(beta, [row.momsps_gamma_max for row in rows], "v-", color=grey, label="MomSPS")
    limits.set_title("largest gamma_max (Theorems 1 and 2: any)", fontsize=11)
    limits.set_xlabel("momentum beta", fontsize=12)
    for ax in (costs, limits):
        ax.set_yscale("log")
        ax.yaxis.set_minor_formatter(NullFormatter())
        ax.legend()
    return canvas


DRAWN = {
    "front": (losses_by_rate, front),
    "steps": (two_records, steps),
    "regret": (regrets, regret),
    "path": (paths, path),
    "momentum": (lambda: side_by_side(L=1.0, mu=0.1), momentum),
}
"""By name: the numbers, and how they are drawn."""

if __name__ == "__main__":
    main(sys.argv[1:])
