"""A task that trains in milliseconds: regression off centre, with BatchNorm and dropout or without."""

import torch
from torch import nn
from torch.nn.functional import mse_loss

from heavystep.bench.tasks import LOWER, Metric, Size, Task
from heavystep.bench.tasks.batches import Examples, Split
from heavystep.bench.tasks.supervised import Supervised

STEPS = 12
ERROR = Metric("test error", LOWER, "%", 2.0)


def examples(count, seed):
    inputs = torch.randn(count, 3, generator=torch.Generator().manual_seed(seed))
    return Examples(inputs, inputs @ torch.tensor([1.0, -2.0, 0.5]) + 3.0)


def error(outputs, test):
    return float(mse_loss(outputs.squeeze(1), test.targets))


def work_of(network, seed, device):
    return Supervised(
        network, Split(examples(24, 0), examples(10, 1)),
        lambda outputs, targets: mse_loss(outputs.squeeze(1), targets), error,
        batch_size=6, seed=seed, device=device,
    )  # fmt: skip


def plain(seed, device, size):
    return work_of(nn.Linear(3, 1), seed, device)


def normed(seed, device, size):
    network = nn.Sequential(
        nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.25), nn.Linear(8, 1)
    )
    return work_of(network, seed, device)


SIZES = (Size(STEPS), Size(STEPS // 2))
PLAIN = Task("tiny", "a line", ERROR, *SIZES, plain)
NORMED = Task("tiny normed", "a line through BatchNorm", ERROR, *SIZES, normed)
LOST = Task("tiny lost", "a line", ERROR, *SIZES, plain, lambda: "its data are at sea")
TINY = {task.name: task for task in (PLAIN, NORMED, LOST)}
