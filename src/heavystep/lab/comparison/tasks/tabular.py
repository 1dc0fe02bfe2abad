"""Tasks on numbers: digits, regression in several units, logistic regression, ratings."""

from collections.abc import Callable
from functools import cache, lru_cache, partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import (
    binary_cross_entropy_with_logits,
    cross_entropy,
    mse_loss,
    silu,
    softplus,
)

from heavystep.arrays import Array
from heavystep.lab import data
from heavystep.lab.comparison.tasks.contract import (
    HIGHER,
    LOWER,
    Metric,
    Supervised,
    Task,
    accuracy,
    supervised,
)
from heavystep.lab.data import Examples, Split
from heavystep.lab.training.trainer import EVALUATION_SEED, Measured, Work

ACCURACY = Metric("test accuracy", HIGHER, "points", 0.5)
RIGHT = Metric("training accuracy", HIGHER, "points", 0.5)
UNEXPLAINED = Metric("test 1 - R2", LOWER, "%", 20.0)
DIGITS_TRAIN = 1347
LATENT, HIDDEN = 8, 128  # sizes of the autoencoder
ROWS, COLUMNS = 2000, 8
QUIET, NOISY = 0.05, 0.5  # standard deviation of the noise; the clean function has 1
LOG_VARIANCE = 12.0  # logarithms of variances are cut off beyond this
LOGISTIC_SETS = ("a9a", "cod-rna", "ijcnn1", "mushrooms", "phishing", "svmguide1", "w8a")
USERS, ITEMS, RANK, RATINGS = 600, 400, 6, (80_000, 8_000)
NOISE = 77  # added to the seed of a run for the noise that a diffusion model learns


@cache
def digits() -> Split:
    """scikit-learn's digits, 8 x 8, in one split for all seeds; pixels are in [0, 1]."""
    from sklearn.datasets import load_digits

    found = load_digits()
    pixels = torch.tensor(found.data / 16.0, dtype=torch.float32)
    classes = torch.tensor(found.target, dtype=torch.int64)
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(classes)))
    parts = (order[:DIGITS_TRAIN], order[DIGITS_TRAIN:])
    return Split(*(Examples(pixels[part], classes[part]) for part in parts))


def _perceptron(*sizes: int) -> nn.Module:
    layers = [nn.Linear(*pair) for pair in pairwise(sizes)]
    return nn.Sequential(*(each for layer in layers for each in (layer, nn.ReLU())))[:-1]


def _convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.3), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


def _on_a_frozen_body() -> nn.Module:
    body = nn.Sequential(nn.Linear(64, 12), nn.ReLU()).requires_grad_(False)
    return nn.Sequential(body, nn.Linear(12, 10))


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


def pictures() -> Split:
    """Digits that are their own targets."""
    return Split(*(Examples(part.inputs, part.inputs) for part in digits()))


def negative_elbo(outputs: tuple[Tensor, Tensor, Tensor], pixels: Tensor) -> Tensor:
    """Reconstruction error and Kullback-Leibler divergence to N(0, 1), a digit."""
    logits, mean, log_variance = outputs
    error = binary_cross_entropy_with_logits(logits, pixels, reduction="none").sum(dim=1)
    divergence = 0.5 * (mean**2 + log_variance.exp() - 1.0 - log_variance).sum(dim=1)
    return (error + divergence).mean()


class Denoiser(nn.Module):
    """Predicts the noise in a digit, from the noisy digit and its time in (0, 1)."""

    frequencies: Tensor

    def __init__(self, width: int = 192) -> None:
        super().__init__()
        self.time, self.digit = nn.Linear(16, width), nn.Linear(64, width)
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)
        self.noise = nn.Linear(width, 64)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.register_buffer("frequencies", torch.exp(0.7 * torch.arange(8)), persistent=False)

    def forward(self, noisy: Tensor, time: Tensor) -> Tensor:
        angle = time[:, None] * self.frequencies
        h = silu(self.digit(noisy) + self.time(torch.cat([angle.sin(), angle.cos()], dim=1)))
        h = h + silu(self.first(self.norms[0](h)))
        h = h + silu(self.second(self.norms[1](h)))
        out: Tensor = self.noise(h)
        return out


class Diffusion(Supervised):
    """Noise prediction: the noisy digit is cos(pi t / 2) x + sin(pi t / 2) n, x in [-1, 1].

    Reference: J. Ho, A. Jain, P. Abbeel (2020), Denoising Diffusion Probabilistic Models, eq. 14.
    """

    def __init__(self, seed: int, device: torch.device) -> None:
        pixels = Split(*(Examples(2 * part.inputs - 1, part.targets) for part in digits()))
        super().__init__(seed, device, Denoiser(), pixels, mse_loss)
        draws = torch.Generator().manual_seed(EVALUATION_SEED)
        repeated = (self.train.inputs.repeat(2, 1), self.test.inputs.repeat(6, 1))
        self._fixed = [(x, *self._drawn(x, draws)) for x in repeated]
        self._times, self._noises = self._drawn(self.batch.inputs, draws)
        self._noise = torch.Generator().manual_seed(seed + NOISE)

    def _drawn(self, pixels: Tensor, stream: torch.Generator) -> tuple[Tensor, Tensor]:
        times = torch.rand(len(pixels), generator=stream)
        noise = torch.randn(len(pixels), 64, generator=stream)
        return times.to(self.device), noise.to(self.device)

    def next(self) -> None:
        super().next()
        times, noises = self._drawn(self.batch.inputs, self._noise)
        self._times.copy_(times)
        self._noises.copy_(noises)

    def _error(
        self, network: Callable[..., Tensor], pixels: Tensor, times: Tensor, noise: Tensor
    ) -> Tensor:
        kept = torch.cos(0.5 * torch.pi * times)[:, None]
        noisy = kept * pixels + torch.sqrt(1.0 - kept * kept) * noise
        return mse_loss(network(noisy, times), noise)

    def loss(self) -> Tensor:
        return self._error(self.forward, self.batch.inputs, self._times, self._noises)

    def evaluate(self) -> Measured:
        """The error on all digits, with the same noise each time."""
        return Measured(*(float(self._error(self.network, *each)) for each in self._fixed))


def _examples(inputs: Array, targets: Array) -> Examples:
    return Examples(*(torch.tensor(part, dtype=torch.float32) for part in (inputs, targets)))


@cache
def wavy(noise: float) -> Split:
    """A function of five of eight normal features; targets to learn from are noisy, others not."""

    def wave(x: Array) -> Array:
        values: Array = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.5 * abs(x[:, 3]) + 0.3 * x[:, 4]
        return values

    rng = np.random.default_rng(7)
    train, test = (rng.standard_normal((ROWS, COLUMNS)) for _ in range(2))
    deviation = wave(train).std()
    targets = wave(train) / deviation + noise * rng.standard_normal(ROWS)
    return Split(_examples(train, targets), _examples(test, wave(test) / deviation))


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
    parts = (order[:342], order[342:])
    return Split(*(_examples(found.data[part], found.target[part]) for part in parts))


def squared_error(outputs: Tensor, targets: Tensor, reduction: str = "mean") -> Tensor:
    """The mean, or the sum, over examples."""
    return mse_loss(outputs.squeeze(1), targets, reduction=reduction)


def unexplained(outputs: Tensor, targets: Tensor) -> float:
    """1 - R2: the part of the variance that is not explained."""
    return float(squared_error(outputs, targets)) / float(targets.var())


def gaussian_nll(outputs: Tensor, targets: Tensor) -> Tensor:
    """Negative log-likelihood of a mean and a log-variance, up to a constant; may be negative."""
    mean, log_variance = outputs[:, 0], outputs[:, 1].clamp(-LOG_VARIANCE, LOG_VARIANCE)
    return 0.5 * (log_variance + (targets - mean) ** 2 * torch.exp(-log_variance)).mean()


@cache
def bent() -> Split:
    """512 examples of a bent plane and a product of two features."""
    rng = np.random.default_rng(3)
    slopes, parts = rng.standard_normal((20, 1)), []
    for _ in range(2):
        x = rng.standard_normal((512, 20))
        y = np.tanh(x @ slopes[:, 0] * 0.5) + 0.5 * x[:, 0] * x[:, 1]
        parts.append(_examples(x, y))
    return Split(*parts)


@lru_cache(2)
def rows_of(name: str) -> Examples:
    """Rows of unit length in float64, and labels -1 and +1."""
    found = data.load(name)
    dense = data.unit_length(found.inputs).toarray()
    return Examples(torch.from_numpy(dense), torch.from_numpy(data.binary_labels(found.targets)))


def logistic_loss(margins: Tensor, labels: Tensor) -> Tensor:
    """Mean of log(1 + exp(-y a'theta))."""
    return softplus(-labels * margins.squeeze(1), threshold=40.0).mean()


def right_side(margins: Tensor, labels: Tensor) -> Tensor:
    """The share of rows on the right side in percent."""
    return 100.0 * (labels * margins.squeeze(1) > 0).double().mean()


def on_rows(name: str, source: str, missing: Callable[[], str] = str, seeds: int = 3) -> Task:
    """Logistic regression as in Figure 2, without a penalty; rows are drawn independently."""

    def build(seed: int, device: torch.device) -> Work:
        rows = rows_of(source)
        network = nn.Linear(rows.inputs.shape[1], 1, bias=False, dtype=torch.float64)
        nn.init.zeros_(network.weight)
        both = Split(rows, rows)
        return Supervised(seed, device, network, both, logistic_loss, right_side, 128, drawn=True)

    title = f"logistic regression on {Path(source).name}"
    return Task(name, title, RIGHT, 20_000, build, missing, seeds=seeds)


@cache
def ratings() -> Split:
    """Users' verdicts on items, drawn from tastes of low rank; few items have most of them."""
    rng = np.random.default_rng(11)
    users, items = rng.standard_normal((USERS, RANK)), rng.standard_normal((ITEMS, RANK))
    user_bias, item_bias = 0.7 * rng.standard_normal(USERS), 0.7 * rng.standard_normal(ITEMS)
    popularity = 1.0 / (1.0 + np.arange(ITEMS)) ** 0.6
    count = sum(RATINGS)
    who = rng.integers(USERS, size=count)
    what = rng.choice(ITEMS, count, p=popularity / popularity.sum())
    taste = 0.6 * (users[who] * items[what]).sum(axis=1) + user_bias[who] + item_bias[what]
    verdicts = rng.random(count) < 1.0 / (1.0 + np.exp(-taste))
    pairs = torch.from_numpy(np.stack([who, what], axis=1))
    said = torch.tensor(verdicts, dtype=torch.float32)
    first = RATINGS[0]
    return Split(Examples(pairs[:first], said[:first]), Examples(pairs[first:], said[first:]))


class Towers(nn.Module):
    """Logits <user, item>, a perceptron of both, and a bias of each."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.user, self.item = nn.Embedding(USERS, width), nn.Embedding(ITEMS, width)
        self.user_bias, self.item_bias = nn.Embedding(USERS, 1), nn.Embedding(ITEMS, 1)
        self.top = nn.Sequential(nn.Linear(2 * width, 32), nn.ReLU(), nn.Linear(32, 1))
        for table in (self.user, self.item):
            nn.init.normal_(table.weight, 0.0, 0.1)
        for bias in (self.user_bias, self.item_bias):
            nn.init.zeros_(bias.weight)

    def forward(self, pairs: Tensor) -> Tensor:
        who, what = pairs.unbind(dim=1)
        user, item = self.user(who), self.item(what)
        bias = (self.user_bias(who) + self.item_bias(what)).squeeze(1)
        both = self.top(torch.cat([user, item], dim=1)).squeeze(1)
        logits: Tensor = (user * item).sum(dim=1) + both + bias
        return logits


def _in_units(name: str, title: str, targets: float = 1.0, inputs: float = 1.0,
              reduction: str = "mean") -> Task:  # fmt: skip
    """The same regression with little noise, its numbers and its loss in some units."""

    def data() -> Split:
        return Split(*(Examples(inputs * x, targets * y) for x, y in wavy(QUIET)))

    criterion = partial(squared_error, reduction=reduction)
    build = supervised(partial(_perceptron, COLUMNS, 64, 64, 1), data, criterion, unexplained)
    return Task(name, f"regression, {title}", UNEXPLAINED, 1500, build)


def _on_digits(name: str, title: str, steps: int, network: Callable[..., nn.Module]) -> Task:
    build = supervised(network, digits, cross_entropy, accuracy)
    return Task(name, f"digits, {title}", ACCURACY, steps, build)


def _toy(steps: int) -> Task:
    build = supervised(partial(_perceptron, 20, 64, 64, 1), bent, squared_error)
    metric = Metric("test error", LOWER, "%", 5.0)
    return Task(f"toy-{steps}", f"small regression, {steps} steps", metric, steps, build)


SMALL = partial(_perceptron, 64, 128, 64, 10)
TABULAR = (
    _on_digits("mlp", "perceptron 64-128-64-10", 630, SMALL),
    _on_digits("cnn", "convolutions with BatchNorm and dropout", 420, _convolutional),
    _on_digits("frozen", "head on a frozen random body", 420, _on_a_frozen_body),
    Task("vae", "digits, variational autoencoder", Metric("test -ELBO", LOWER, "nats", 0.05), 840,
         supervised(Autoencoder, pictures, negative_elbo, draws=8)),
    Task("regression", "regression with noise", Metric("error to clean", LOWER, "%", 2.0), 1500,
         supervised(partial(_perceptron, COLUMNS, 64, 64, 1), partial(wavy, NOISY), squared_error)),
    Task("nll", "regression, Gaussian likelihood", Metric("test NLL", LOWER, "nats", 0.05), 1500,
         supervised(partial(_perceptron, COLUMNS, 64, 64, 2), uneven, gaussian_nll)),
    _in_units("units", "targets of size 1"),
    _in_units("targets-0.01", "targets x 0.01", targets=0.01),
    _in_units("targets-100", "targets x 100", targets=100.0),
    _in_units("inputs-100", "inputs x 100", inputs=100.0),
    _in_units("summed", "loss summed over a batch", reduction="sum"),
    Task("diabetes", "raw diabetes", UNEXPLAINED, 1000,
         supervised(partial(_perceptron, 10, 64, 64, 1), diabetes, squared_error, unexplained, 32)),
    *(on_rows(name, name, partial(data.missing_text, [name]), 1) for name in LOGISTIC_SETS),
    Task("recommender", "ratings, embeddings of users and items",
         Metric("test log-loss", LOWER, "nats", 0.005), 1500,
         supervised(Towers, ratings, binary_cross_entropy_with_logits, batch_size=128)),
    Task("diffusion", "digits, prediction of noise", Metric("test error", LOWER, "%", 2.0), 1200,
         Diffusion),
    _toy(30), _toy(110),
    _on_digits("digits-30", "perceptron, 30 steps", 30, SMALL),
    _on_digits("digits-110", "perceptron, 110 steps", 110, SMALL),
)  # fmt: skip
