"""Regression: with noise, in several units, with a variance to learn, and of raw features."""

from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from heavystep.arrays import Array
from heavystep.bench.tasks.batches import Examples, Split
from heavystep.bench.tasks.contract import LOWER, Metric, Size, Task, Work
from heavystep.bench.tasks.packages import without_sklearn
from heavystep.bench.tasks.supervised import Supervised

ROWS, COLUMNS, HIDDEN = 2000, 8, 64
BATCH, DIABETES_BATCH, DIABETES_TRAIN = 64, 32, 342
QUIET, NOISY = 0.05, 0.5
"""Standard deviation of the noise; the clean function has 1."""
LOG_VARIANCE = 12.0
"""Logarithms of variances are cut off beyond this."""
UNEXPLAINED = Metric("test 1 - R2", LOWER, "%", 20.0)


class Units(NamedTuple):
    """In what everything is measured."""

    targets: float = 1.0
    inputs: float = 1.0
    summed: bool = False
    """Whether the loss of a batch is the sum over its examples."""


def _examples(inputs: Array, targets: Array) -> Examples:
    return Examples(*(torch.tensor(part, dtype=torch.float32) for part in (inputs, targets)))


@cache
def wavy(noise: float) -> Split:
    """A function of five of eight normal features; targets to learn from are noisy, others not."""
    rng = np.random.default_rng(7)
    train, test = (rng.standard_normal((ROWS, COLUMNS)) for _ in range(2))
    deviation = _wave(train).std()
    targets = _wave(train) / deviation + noise * rng.standard_normal(ROWS)
    return Split(_examples(train, targets), _examples(test, _wave(test) / deviation))


def _wave(x: Array) -> Array:
    values: Array = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.5 * abs(x[:, 3]) + 0.3 * x[:, 4]
    return values


@cache
def uneven() -> Split:
    """Targets whose small noise depends on a feature."""
    rng = np.random.default_rng(8)
    features = [rng.standard_normal((ROWS, COLUMNS)) for _ in range(2)]
    parts = []
    for x in features:
        clean, deviation = 0.3 * np.sin(x[:, 0]) + 0.1 * x[:, 1], 0.02 + 0.02 * abs(x[:, 2])
        parts.append(_examples(x, clean + deviation * rng.standard_normal(ROWS)))
    return Split(*parts)


@cache
def diabetes() -> Split:
    """scikit-learn's diabetes: features as it gives them, targets from 25 to 346."""
    from sklearn.datasets import load_diabetes

    found = load_diabetes()
    order = np.random.default_rng(0).permutation(len(found.target))
    parts = (order[:DIABETES_TRAIN], order[DIABETES_TRAIN:])
    return Split(*(_examples(found.data[part], found.target[part]) for part in parts))


def _network(inputs: int, outputs: int = 1) -> nn.Module:
    return nn.Sequential(
        nn.Linear(inputs, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(),
        nn.Linear(HIDDEN, outputs),
    )  # fmt: skip


def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean over examples."""
    return mse_loss(outputs.squeeze(1), targets)


def summed_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """The sum over examples."""
    return mse_loss(outputs.squeeze(1), targets, reduction="sum")


def error(outputs: Tensor, test: Examples) -> float:
    """The mean squared error."""
    return float(squared_error(outputs, test.targets))


def unexplained(outputs: Tensor, test: Examples) -> float:
    """1 - R2: the part of the variance that is not explained."""
    return error(outputs, test) / float(test.targets.var())


def gaussian_nll(outputs: Tensor, targets: Tensor) -> Tensor:
    """Negative log-likelihood of a mean and a log-variance, up to a constant; may be negative."""
    mean, log_variance = outputs[:, 0], outputs[:, 1].clamp(-LOG_VARIANCE, LOG_VARIANCE)
    return 0.5 * (log_variance + (targets - mean) ** 2 * torch.exp(-log_variance)).mean()


def noisy_regression(seed: int, device: torch.device, size: Size) -> Work:
    """Noise stays; what counts is the distance to the clean function."""
    return Supervised(
        _network(COLUMNS), wavy(NOISY), squared_error, error, batch_size=BATCH, seed=seed,
        device=device,
    )  # fmt: skip


def in_units(units: Units, seed: int, device: torch.device, size: Size) -> Work:
    """The same problem in other units."""
    split = Split(*(Examples(units.inputs * x, units.targets * y) for x, y in wavy(QUIET)))
    criterion = summed_error if units.summed else squared_error
    return Supervised(
        _network(COLUMNS), split, criterion, unexplained, batch_size=BATCH, seed=seed,
        device=device,
    )  # fmt: skip


def likelihood(seed: int, device: torch.device, size: Size) -> Work:
    """Mean and variance are learnt."""
    return Supervised(
        _network(COLUMNS, 2), uneven(), gaussian_nll,
        lambda outputs, test: float(gaussian_nll(outputs, test.targets)),
        batch_size=BATCH, seed=seed, device=device,
    )  # fmt: skip


def raw_diabetes(seed: int, device: torch.device, size: Size) -> Work:
    """Nothing is scaled."""
    split = diabetes()
    return Supervised(
        _network(split.train.inputs.shape[1]), split, squared_error, unexplained,
        batch_size=DIABETES_BATCH, seed=seed, device=device,
    )  # fmt: skip


def _measured_in(name: str, title: str, units: Units) -> Task:
    build: Callable[[int, torch.device, Size], Work] = partial(in_units, units)
    return Task(name, f"regression, {title}", UNEXPLAINED, Size(1500), Size(31), build)


REGRESSION = (
    Task("regression", "regression with noise", Metric("error to clean", LOWER, "%", 2.0),
         Size(1500), Size(31), noisy_regression),
    Task("nll", "regression, Gaussian likelihood", Metric("test NLL", LOWER, "nats", 0.05),
         Size(1500), Size(31), likelihood),
    _measured_in("units", "targets of size 1", Units()),
    _measured_in("targets-0.01", "targets x 0.01", Units(targets=0.01)),
    _measured_in("targets-100", "targets x 100", Units(targets=100.0)),
    _measured_in("inputs-100", "inputs x 100", Units(inputs=100.0)),
    _measured_in("summed", "loss summed over a batch", Units(summed=True)),
    Task("diabetes", "raw diabetes", UNEXPLAINED, Size(1000), Size(31), raw_diabetes,
         without_sklearn),
)  # fmt: skip
