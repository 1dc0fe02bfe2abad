"""Small finite sums, off-centre and anisotropic, with exact constants."""

from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True)
class LeastSquares:
    """f_i = (a_i . theta - b_i)^2 / 2 + v_i; f_i* = v_i, L = max |a_i|^2."""

    a: np.ndarray
    b: np.ndarray
    f_star: np.ndarray
    theta0: np.ndarray

    @property
    def smoothness(self):
        return (self.a**2).sum(axis=1).max()

    def value(self, theta, i):
        return 0.5 * (self.a[i] @ theta - self.b[i]) ** 2 + self.f_star[i]

    def grad(self, theta, i):
        return (self.a[i] @ theta - self.b[i]) * self.a[i]

    def loss(self, theta, i):
        a, b = torch.as_tensor(self.a[i]).to(theta), float(self.b[i])
        return 0.5 * (a @ theta - b) ** 2 + float(self.f_star[i])


@dataclass(frozen=True)
class Logistic:
    """f_i = log(1 + exp(-a_i . theta)), f_i* = 0, L = max |a_i|^2 / 4."""

    a: np.ndarray
    f_star: np.ndarray
    theta0: np.ndarray

    @property
    def smoothness(self):
        return (self.a**2).sum(axis=1).max() / 4

    def value(self, theta, i):
        return np.logaddexp(0.0, -self.a[i] @ theta)

    def grad(self, theta, i):
        return -self.a[i] / (1.0 + np.exp(self.a[i] @ theta))

    def loss(self, theta, i):
        return torch.nn.functional.softplus(
            -(torch.as_tensor(self.a[i]).to(theta) @ theta), threshold=1e6
        )


@dataclass(frozen=True)
class Cosine:
    """Non-convex: f_i = s_i sum_j w_j [x_j^2 / 2 + 2 (1 - cos x_j)] - xi_i . x, x = theta - centre.

    ``f_star`` is the minimum of the part without cosine, a lower bound.
    """

    s: np.ndarray
    w: np.ndarray
    xi: np.ndarray
    centre: np.ndarray
    theta0: np.ndarray

    @property
    def smoothness(self):
        return 3.0 * self.s.max() * self.w.max()

    @property
    def f_star(self):
        return -(self.xi**2 / (2.0 * self.s[:, None] * self.w)).sum(axis=1)

    def value(self, theta, i):
        x = theta - self.centre
        bowl = (self.w * (0.5 * x**2 + 4.0 * np.sin(0.5 * x) ** 2)).sum()
        return self.s[i] * bowl - self.xi[i] @ x

    def grad(self, theta, i):
        x = theta - self.centre
        return self.s[i] * self.w * (x + 2.0 * np.sin(x)) - self.xi[i]

    def loss(self, theta, i):
        x = theta - torch.as_tensor(self.centre).to(theta)
        w, xi = (torch.as_tensor(v).to(theta) for v in (self.w, self.xi[i]))
        bowl = (w * (0.5 * x**2 + 4.0 * torch.sin(0.5 * x) ** 2)).sum()
        return float(self.s[i]) * bowl - xi @ x


def _make():
    rng = np.random.default_rng(20)
    scales = np.array([0.3, 1.0, 1.7, 0.6])
    a = rng.normal(size=(24, 4)) * scales
    optimum = np.array([1.0, -2.0, 0.5, 3.0])
    noise = 0.4 * rng.normal(size=24)
    return {
        "least squares": LeastSquares(
            a, a @ optimum + noise, rng.uniform(-1.0, 2.0, size=24), np.array([3.0, 1.0, -1.0, 0.0])
        ),
        "logistic": Logistic(
            a * np.sign(a @ optimum + 0.5 * noise)[:, None],
            np.zeros(24),
            np.array([-1.0, 1.0, 0.3, -0.2]),
        ),
        "cosine": Cosine(
            rng.uniform(0.5, 1.5, size=24),
            scales,
            rng.choice([-0.3, 0.3], size=(24, 4)),
            optimum,
            optimum + 2.0,
        ),
    }


PROBLEMS = _make()


def index_sequence(length, seed=3):
    return np.random.default_rng(seed).integers(0, 24, size=length)
