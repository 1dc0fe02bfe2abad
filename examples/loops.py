"""Loops that people have: those of nanoGPT, minGPT and PyTorch's MNIST example, at small size.

``python examples/loops.py`` prints a table (``--quick`` for short runs). If a model returns its
loss, one line is changed: the optimizer is ``heavystep.attach(model)``. If not, ``step()`` becomes
``step(loss=loss)``, too. Schedules and clipping are left out.
"""

import argparse
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import torch
from parts import GPT, RIVALS, Batch, Rival, evaluating, excerpts, manual, row, validation
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import nll_loss
from torch.nn.utils import clip_grad_norm_
from torch.optim import Adadelta, AdamW
from torch.utils.data import DataLoader, Dataset, TensorDataset

import heavystep


def optimizer_of(model: nn.Module, rival: Rival) -> Any:
    """The line that is changed."""
    if rival.make is heavystep.HeavyStep:
        return heavystep.attach(model)
    return rival.optimizer(model.parameters())


def nano_gpt(rival: Rival, steps: int) -> float:
    """Micro-batches, and a learning rate that the script writes into the groups."""
    text = manual()
    train, unseen = text[: int(0.9 * len(text))], text[int(0.9 * len(text)) :]
    model = GPT()
    optimizer = optimizer_of(model, rival)
    for k in range(steps):
        rival.set_rate(optimizer, k, steps)
        for _ in range(2):
            _, loss = model(*excerpts(train, 16))
            (loss / 2).backward()
        if not isinstance(optimizer, heavystep.HeavyStep):
            clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    with evaluating(optimizer):
        return validation(model, unseen)


class Sums(Dataset[Batch]):
    """The digits of a + b = c, c from its end; only c is to be learnt."""

    def __len__(self) -> int:
        return 5000

    def __getitem__(self, place: int) -> Batch:
        a, b = divmod(place * 7919 % 10_000, 100)
        digits = [*map(int, f"{a:02}{b:02}"), *map(int, reversed(f"{a + b:03}"))]
        return torch.tensor(digits[:-1]), torch.tensor([-1, -1, -1, *digits[4:]])


class Trainer:
    """Takes a configuration and asks the model for its optimizer; callbacks see the loss."""

    def __init__(self, model: GPT, rival: Rival, steps: int) -> None:
        self.model, self.rival, self.steps = model, rival, steps
        self.optimizer = optimizer_of(model, rival)
        self.losses: list[float] = []

    def run(self) -> None:
        loader = DataLoader(Sums(), batch_size=64, shuffle=True)
        batches = (batch for _ in range(self.steps) for batch in loader)
        for k, (x, y) in zip(range(self.steps), batches, strict=False):
            self.rival.set_rate(self.optimizer, k, self.steps)
            _, loss = self.model(x, y)
            self.model.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
            self.losses.append(loss.item())


def min_gpt(rival: Rival, steps: int) -> float:
    """The mean of the last losses of a GPT that adds."""
    trainer = Trainer(GPT(letters=10), rival, steps)
    trainer.run()
    return fmean(trainer.losses[-steps // 10 :])


def mnist(rival: Rival, steps: int) -> float:
    """Test loss of a network with convolutions and dropout; digits of 8 x 8 pixels."""
    digits = load_digits()
    x, y = torch.tensor(digits.images[:, None] / 16, dtype=torch.float32), digits.target
    data = TensorDataset(x[:1500], torch.tensor(y[:1500]))
    loader = DataLoader(data, batch_size=64, shuffle=True)
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Dropout(0.25), nn.Flatten(), nn.Linear(256, 128), nn.ReLU(), nn.Dropout(0.5),
        nn.Linear(128, 10), nn.LogSoftmax(dim=1),
    )  # fmt: skip
    optimizer = rival.optimizer(model.parameters())
    k, epochs = 0, max(steps // EPOCH, 1)
    for _ in range(epochs):
        for images, labels in loader:
            rival.set_rate(optimizer, k, epochs * EPOCH)
            k += 1
            optimizer.zero_grad()
            loss = nll_loss(model(images), labels)
            loss.backward()
            if isinstance(optimizer, heavystep.HeavyStep):
                optimizer.step(loss=loss)
            else:
                optimizer.step()
    model.eval()
    with torch.no_grad(), evaluating(optimizer):
        return nll_loss(model(x[1500:]), torch.tensor(y[1500:])).item()


LOOPS = {"nanoGPT": nano_gpt, "minGPT": min_gpt, "MNIST": mnist}
EPOCH = 24
"""Batches of 64 of the 1500 digits."""
OWN = {
    "nanoGPT": RIVALS["AdamW, schedule"],
    "minGPT": Rival(AdamW, 5e-4),
    "MNIST": Rival(Adadelta, 1.0, lambda k, _: 0.7 ** (k // EPOCH)),
}
"""What the scripts have themselves."""


def main(words: Sequence[str] | None = None) -> dict[str, float]:
    parser = argparse.ArgumentParser(description="Loops of other people, one line changed.")
    parser.add_argument("--quick", action="store_true", help="short runs")
    parser.add_argument("--seeds", type=int, default=2)
    arguments = parser.parse_args(words)
    torch.set_num_threads(1)  # the networks are tiny
    seeds, steps = (1, 30) if arguments.quick else (arguments.seeds, 400)
    ours = {}
    row("loop", "its own", *RIVALS)
    row("---", *["---"] * (1 + len(RIVALS)))
    for name, loop in LOOPS.items():
        found = []
        for rival in (OWN[name], *RIVALS.values()):
            losses = []
            for seed in range(seeds):
                torch.manual_seed(seed)
                losses.append(loop(rival, steps))
            found.append(fmean(losses))
        row(name, *found)
        ours[name] = found[-1]
    return ours


if __name__ == "__main__":
    main()
