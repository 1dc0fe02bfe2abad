"""Networks on scikit-learn's digits: 8 x 8 pixels, 1347 to learn from and 450 to test on."""

from functools import cache

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from heavystep.bench.tasks.batches import Examples, Split
from heavystep.bench.tasks.contract import HIGHER, LOWER, Metric, Size, Task, Work
from heavystep.bench.tasks.packages import without_sklearn
from heavystep.bench.tasks.supervised import Supervised, accuracy

BATCH, TRAIN = 64, 1347
ACCURACY = Metric("test accuracy", HIGHER, "points", 0.5)
LATENT, HIDDEN = 8, 128


@cache
def digits() -> Split:
    """The digits, in one split for all seeds; pixels are in [0, 1]."""
    from sklearn.datasets import load_digits

    found = load_digits()
    pixels = torch.tensor(found.data / 16.0, dtype=torch.float32)
    classes = torch.tensor(found.target, dtype=torch.int64)
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(classes)))
    parts = (order[:TRAIN], order[TRAIN:])
    return Split(*(Examples(pixels[part], classes[part]) for part in parts))


def _as_images(split: Split) -> Split:
    return Split(*(Examples(part.inputs.view(-1, 1, 8, 8), part.targets) for part in split))


def classifier(network: nn.Module, data: Split, seed: int, device: torch.device) -> Work:
    """A network that is trained to tell digits."""
    return Supervised(
        network, data, cross_entropy, accuracy, batch_size=BATCH, seed=seed, device=device
    )


def perceptron(seed: int, device: torch.device, size: Size) -> Work:
    """Two hidden layers."""
    network = nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)
    )
    return classifier(network, digits(), seed, device)


def convolutional(seed: int, device: torch.device, size: Size) -> Work:
    """Convolutions with BatchNorm, then dropout."""
    network = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.3), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip
    return classifier(network, _as_images(digits()), seed, device)


def frozen_body(seed: int, device: torch.device, size: Size) -> Work:
    """A random layer that stays as it is, and a trained one on its few features."""
    body = nn.Sequential(nn.Linear(64, 12), nn.ReLU()).requires_grad_(False)
    return classifier(nn.Sequential(body, nn.Linear(12, 10)), digits(), seed, device)


class Autoencoder(nn.Module):
    """A variational autoencoder with a Gaussian code."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(64, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 2 * LATENT))
        self.decode = nn.Sequential(nn.Linear(LATENT, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 64))

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logits of the pixels, mean and log-variance of the code."""
        mean, log_variance = self.encode(pixels).chunk(2, dim=1)
        code = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        return self.decode(code), mean, log_variance


def negative_elbo(outputs: tuple[Tensor, Tensor, Tensor], pixels: Tensor) -> Tensor:
    """Reconstruction error and Kullback-Leibler divergence to N(0, 1), a digit."""
    logits, mean, log_variance = outputs
    error = binary_cross_entropy_with_logits(logits, pixels, reduction="none").sum(dim=1)
    divergence = 0.5 * (mean**2 + log_variance.exp() - 1.0 - log_variance).sum(dim=1)
    return (error + divergence).mean()


def autoencoder(seed: int, device: torch.device, size: Size) -> Work:
    """Digits that are learnt without their classes."""
    split = Split(*(Examples(part.inputs, part.inputs) for part in digits()))
    return Supervised(
        Autoencoder(), split, negative_elbo,
        lambda outputs, test: float(negative_elbo(outputs, test.targets)),
        batch_size=BATCH, seed=seed, device=device, draws=size.evaluations,
    )  # fmt: skip


DIGITS = (
    Task("mlp", "digits, perceptron 64-128-64-10", ACCURACY, Size(630), Size(21), perceptron,
         without_sklearn),
    Task("cnn", "digits, convolutions with BatchNorm and dropout", ACCURACY, Size(420), Size(7),
         convolutional, without_sklearn),
    Task("frozen", "digits, head on a frozen random body", ACCURACY, Size(420), Size(21),
         frozen_body, without_sklearn),
    Task("vae", "digits, variational autoencoder", Metric("test -ELBO", LOWER, "nats", 0.05),
         Size(840, 8), Size(21, 2), autoencoder, without_sklearn),
)  # fmt: skip
