"""Draw ``docs/front.png`` and ``docs/steps.png``: a minute on one core.

python docs/make_pictures.py, or ``make pictures``

The first picture trains a small network on scikit-learn's digits: HeavyStep with nothing set, AdamW
and SGD along a grid of learning rates. The second one shows the steps of two runs of HeavyStep.
"""

from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy

from heavystep import HeavyStep, Recorder
from heavystep.pictures import running_median

DOCS = Path(__file__).parent
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#E69F00", "#009E73", "#888888"
STEPS, BATCH, SEEDS = 400, 64, 3
RATES = np.logspace(-5, 1, 13)
RIVALS = {
    "AdamW": (lambda params, lr: torch.optim.AdamW(params, lr=lr, weight_decay=0.0), ORANGE),
    "SGD with momentum": (lambda params, lr: torch.optim.SGD(params, lr=lr, momentum=0.9), GREEN),
}


def main() -> None:
    """Draw both."""
    torch.set_num_threads(1)
    front().savefig(DOCS / "front.png", dpi=110)
    steps().savefig(DOCS / "steps.png", dpi=110)


def trained(make, seed: int, noise: float = 0.0, steps: int = STEPS):
    """The loss over all digits after training, and the record of a run of HeavyStep."""
    digits = load_digits()
    generator = torch.Generator().manual_seed(seed)
    x = torch.tensor(digits.data, dtype=torch.float32) / 16.0
    y = torch.tensor(digits.target)
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


def mean(make) -> float:
    """The geometric mean over seeds, which suits a logarithmic axis; a run that fails counts 10."""
    losses = np.array([trained(make, seed)[0] for seed in range(SEEDS)])
    return float(np.exp(np.log(np.nan_to_num(losses, nan=10.0).clip(1e-9, 10.0)).mean()))


def front() -> Figure:
    """Loss against the learning rate: valleys, and one line."""
    canvas = Figure(figsize=(7.0, 3.4), layout="constrained")
    ax = canvas.subplots()
    for name, (make, colour) in RIVALS.items():
        losses = [mean(lambda params, make=make, lr=lr: make(params, lr)) for lr in RATES]
        ax.plot(RATES, losses, "o-", color=colour, ms=4, lw=1.8, label=name)
    ours = mean(HeavyStep)
    ax.axhline(ours, color=BLUE, lw=3.0)
    ax.annotate("HeavyStep: no rate to set", (RATES[0], ours), (0, 6), color=BLUE,
                textcoords="offset points", fontsize=12, weight="bold")  # fmt: skip
    ax.set(xscale="log", yscale="log")
    ax.set_xlabel("learning rate that you would have to find", fontsize=12)
    ax.set_ylabel(f"loss after {STEPS} steps", fontsize=12)
    finish(ax)
    return canvas


def steps() -> Figure:
    """Steps above, losses below: a network that fits its labels, and one that cannot."""
    canvas = Figure(figsize=(7.0, 4.4), layout="constrained")
    axes = canvas.subplots(2, 2, sharex=True)
    titles = ("labels that a network can fit", "a third of the labels wrong")
    for column, (title, noise) in enumerate(zip(titles, (0.0, 0.33), strict=True)):
        _, record = trained(HeavyStep, 0, noise, 1500)
        for ax, values, colour in (
            (axes[0, column], record.gamma, BLUE), (axes[1, column], record.loss, ORANGE)
        ):  # fmt: skip
            values = np.asarray(values, dtype=float).ravel()
            ax.plot(values, ".", ms=2, alpha=0.3, color=colour)
            ax.plot(running_median(values, 41), color=colour, lw=2)
            ax.set_yscale("log")
            finish(ax, legend=False)
        axes[0, column].set_title(title, fontsize=12)
        axes[1, column].set_xlabel("step", fontsize=12)
    axes[0, 0].set_ylabel("chosen step", fontsize=12)
    axes[1, 0].set_ylabel("loss of the batch", fontsize=12)
    return canvas


def finish(ax, *, legend: bool = True) -> None:
    """Fonts that can be read on a phone."""
    ax.tick_params(labelsize=11)
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
    if legend:
        ax.legend(frameon=False, fontsize=11, loc="upper center")


if __name__ == "__main__":
    main()
