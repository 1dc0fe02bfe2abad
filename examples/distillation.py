"""Distillation: the entropy of the teacher is the lower bound of the student's loss.

``python examples/distillation.py`` (``--quick`` for a short run). The cross-entropy with soft
targets cannot fall to 0, only to the entropy of the targets. A Polyak step that takes 0 for the
bound is too long near the end; with the right bound it shrinks as the student approaches.
"""

import argparse
from collections.abc import Sequence

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from heavystep import HeavyStep, lower_bounds

BATCH, TEMPERATURE = 64, 2.0


def network(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))


def batches(x: Tensor, epochs: int) -> list[Tensor]:
    """Rows of each step."""
    return [rows for _ in range(epochs) for rows in torch.randperm(len(x)).split(BATCH)]


def main(words: Sequence[str] | None = None) -> tuple[float, float]:
    parser = argparse.ArgumentParser(description="Distillation with the teacher's bound.")
    parser.add_argument("--quick", action="store_true", help="fewer epochs")
    epochs = 8 if parser.parse_args(words).quick else 40
    torch.manual_seed(0)
    digits = load_digits()
    x, y = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)

    teacher = network(256)
    opt = HeavyStep(teacher.parameters())
    for rows in batches(x, epochs):
        opt.zero_grad()
        loss = cross_entropy(teacher(x[rows]), y[rows], label_smoothing=0.1)
        loss.backward()
        opt.step(loss=loss, lower_bound=lower_bounds.label_smoothing(0.1, classes=10))
    with torch.no_grad():
        logits = teacher(x)

    student = network(32)
    opt = HeavyStep(student.parameters())
    for rows in batches(x, epochs):
        opt.zero_grad()
        targets = (logits[rows] / TEMPERATURE).softmax(dim=1)
        loss = TEMPERATURE**2 * cross_entropy(student(x[rows]) / TEMPERATURE, targets)
        loss.backward()
        opt.step(loss=loss, lower_bound=lower_bounds.distillation(logits[rows], TEMPERATURE))
    gap = loss.item() - float(lower_bounds.distillation(logits[rows], TEMPERATURE))
    agreement = float((student(x).argmax(1) == logits.argmax(1)).float().mean())
    print(f"loss above its bound {gap:.4f}; student and teacher agree on {agreement:.1%}")
    return gap, agreement


if __name__ == "__main__":
    main()
