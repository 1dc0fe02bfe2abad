"""A changing quadratic for recorders to watch, and every method that chooses its step."""

import torch

from tests.helpers.cases import KINDS, OPTIMIZERS, over

ADAPTIVE = [case for case in OPTIMIZERS if case.adaptive]
every_adaptive = over(ADAPTIVE)
heavy_ball_of_a_kind = over([case for case in KINDS if case.adaptive and case.heavy_ball])


def quadratic(theta, k):
    """Losses of a changing batch, off-centre and anisotropic, with minimum 0."""
    weights = torch.linspace(1.0, 4.0, theta.numel(), dtype=theta.dtype) * (1.0 + 0.1 * (k % 3))
    return 0.5 * (weights * (theta - 0.3 * (k % 2) - 2.0) ** 2).sum()


def run(opt, theta, steps, first=0, **kwargs):
    for k in range(first, first + steps):
        opt.step(lambda: quadratic(theta, k), **kwargs)


def start(dtype=torch.float64):
    return torch.tensor([3.0, -1.0, 0.5], dtype=dtype, requires_grad=True)
