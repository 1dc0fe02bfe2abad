"""Finite sums that are off-centre and anisotropic, with points around their minimisers."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from heavystep.problems import (
    Cosine,
    FiniteSum,
    LeastSquares,
    LogisticRegression,
    paper_cosine,
    paper_least_squares,
)


def features(seed, n=40, dim=4):
    """Anisotropic, off-centre and correlated."""
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((n, dim)) + 0.5) * [1.0, 0.3, 2.0, 0.7] @ mixing(dim)


def mixing(dim):
    return np.eye(dim) + 0.4 * np.eye(dim, k=1)


def least_squares(noise, zero_row=False):
    rng = np.random.default_rng(1)
    a = features(1)
    if zero_row:
        a[7] = 0.0
    b = a @ np.array([1.0, -2.0, 0.5, 3.0]) + noise * rng.standard_normal(len(a))
    b[7] += 5.0 * zero_row
    return LeastSquares(a, b, theta0=[0.3, -1.0, 2.0, 0.1])


def cosine(pulled):
    """Tilts of every size against scales that differ; ``pulled``: mean of s xi is not 0."""
    rng = np.random.default_rng(2)
    half = 3.0 * rng.standard_normal((6, 3))
    s = rng.uniform(0.4, 2.0, 12 if pulled else 6)
    return Cosine(s if pulled else np.tile(s, 2), np.concatenate([half, -half]))


def logistic(l2):
    a = features(3)
    rng = np.random.default_rng(3)
    chance = 1.0 / (1.0 + np.exp(-a @ np.array([1.0, -0.5, 0.3, 0.2])))
    y = np.where(rng.random(len(a)) < chance, 1.0, -1.0)
    a[5] = 0.0
    return LogisticRegression(a, y, l2=l2, theta0=[0.1, 0.2, -0.3, 0.4])


@dataclass(frozen=True)
class Case:
    make: Callable[[], FiniteSum]
    interpolates: bool = False


CASES = {
    "least squares, fitted": Case(lambda: least_squares(0.0), interpolates=True),
    "least squares, noisy": Case(lambda: least_squares(0.7)),
    "least squares, zero row": Case(lambda: least_squares(0.7, zero_row=True)),
    "least squares, fitted but for a zero row": Case(
        lambda: least_squares(0.0, zero_row=True), interpolates=True
    ),
    "cosine": Case(lambda: cosine(pulled=False)),
    "cosine, pulled": Case(lambda: cosine(pulled=True)),
    "logistic": Case(lambda: logistic(0.05)),
    "logistic, small penalty": Case(lambda: logistic(1e-6)),
    "paper, interpolation": Case(lambda: paper_least_squares(), interpolates=True),
    "paper, noise": Case(lambda: paper_least_squares(noise=0.3)),
    "paper, strong growth": Case(lambda: paper_cosine("strong_growth"), interpolates=True),
    "paper, perturbed": Case(lambda: paper_cosine("noise")),
}


def points(problem, count, scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    return problem.theta_star + 0.2 + scale * rng.standard_normal((count, problem.dim))


def every_gradient(problem, theta):
    """(n, d) gradients of all terms at one point."""
    return problem.gradients(theta, np.arange(problem.n))


def numerical_hessian(gradient, theta, h=1e-4):
    columns = [
        (8 * (gradient(theta + h * e) - gradient(theta - h * e))
         - gradient(theta + 2 * h * e) + gradient(theta - 2 * h * e)) / (12 * h)
        for e in np.eye(len(theta))
    ]  # fmt: skip
    return np.stack(columns, axis=-1)


LEAST_SQUARES = [name for name in CASES if isinstance(CASES[name].make(), LeastSquares)]
