"""With a diagonal that stays the same, a method is the one without it in other coordinates."""

import numpy as np
import pytest
import torch

from heavystep.methods import Method
from heavystep.momentum import AVERAGED, HEAVY_BALL, Diagonal
from heavystep.optim.optimizer import RuleOptimizer
from heavystep.rules import POLYAK, STEADY_POLYAK
from heavystep.theory import strongly_convex

SQUARES = torch.tensor([4.0, 0.25, 9.0], dtype=torch.float64)
"""Of the diagonal's entries."""
FIXED = Diagonal(
    name="fixed",
    formula="",
    reference="",
    average=lambda squares, gradient, beta2: SQUARES.clone(),
    weigh=lambda weight, beta2: weight,
    divisor=lambda squares, weight, eps: squares**0.5,
)
CURVATURE = torch.tensor([[3.0, 0.4, 0.0], [0.4, 0.5, -0.2], [0.0, -0.2, 8.0]], dtype=torch.float64)
MINIMISER = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
THEORY = {"c": 0.75, "momentum": 0.5, "scaling": "theory", "max_step": 1.0}


def loss_at(theta, k=0):
    away = theta - MINIMISER
    return (1.0 + 0.3 * (k % 4)) * (away @ CURVATURE @ away) / 2


def optimizer(rule, diagonal=None, **options):
    """Makes optimizers of a method that has no name."""
    form = AVERAGED if rule.averages else HEAVY_BALL
    method = Method("Unnamed", "", "", rule, form, diagonal)
    kind = type("Unnamed", (RuleOptimizer,), {"method": method})
    return lambda params: kind(params, options)


@pytest.mark.parametrize(
    ("rule", "options"), [(POLYAK, THEORY), (STEADY_POLYAK, {"momentum": 0.8, "outlook": 1.2})]
)
def test_it_is_the_method_in_other_coordinates(rule, options):
    theta = torch.tensor([3.0, 1.0, -1.0], dtype=torch.float64, requires_grad=True)
    stretch = SQUARES**0.25  # the root of the diagonal
    phi = (stretch * theta.detach()).requires_grad_(True)
    stretched = optimizer(rule, FIXED, **options)([theta])
    plain = optimizer(rule, **options)([phi])
    for k in range(120):
        stretched.step(lambda k=k: loss_at(theta, k))
        plain.step(lambda k=k: loss_at(phi / stretch, k))
        assert float(stretched.info.base_step) == pytest.approx(float(plain.info.base_step))
    np.testing.assert_allclose((stretch * theta).tolist(), phi.tolist(), rtol=1e-9)
    assert loss_at(theta).item() < 1.0


def test_the_rate_is_that_of_the_stretched_problem():
    """Theorem 1 holds with L and mu of D^-1/2 H D^-1/2, and distances in the norm of D."""
    scaled = CURVATURE / torch.outer(SQUARES**0.25, SQUARES**0.25)
    mu, L = (float(value) for value in torch.linalg.eigvalsh(scaled)[[0, -1]])
    theta = torch.tensor([3.0, 1.0, -1.0], dtype=torch.float64, requires_grad=True)
    opt = optimizer(POLYAK, FIXED, **THEORY)([theta])

    def distance():
        away = theta.detach() - MINIMISER
        return float(away @ (SQUARES**0.5 * away))

    promised = strongly_convex(
        "polyak", L=L, mu=mu, beta=THEORY["momentum"], c=THEORY["c"], gamma_max=THEORY["max_step"],
        dist0_sq=distance(),
    )  # fmt: skip
    for k in range(1, 301):
        opt.step(lambda: loss_at(theta))
        assert distance() <= promised.bound(k)
    assert promised.bound(300) < 0.1 * promised.bound(0)
