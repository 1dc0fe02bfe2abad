"""No unit of the loss or of the parameters matters to the default rule."""

from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from heavystep import HeavyStep
from heavystep.momentum import EPS, divisor
from heavystep.rules import heavystep as rule
from tests.helpers.examples import examples

STEPS, DIM = 150, 5
BITS = {torch.float32: 2.0**-23, torch.float64: 2.0**-52}
DIAGONALS = [None, "tensor", "element"]
FORMATS = [torch.float32, torch.float64]
every_format = pytest.mark.parametrize("dtype", FORMATS, ids=str)
few = examples(12)
every_diagonal = pytest.mark.parametrize("diagonal", DIAGONALS)
LEAST = 0.3
"""Entries of the diagonal of the problem below are larger."""
POWERS = st.integers(-40, 40)
pytestmark = pytest.mark.filterwarnings("ignore:the loss stays below")


@cache
def plain_run(dtype, diagonal, bound=0.0, shift=0.0):
    return run(dtype, diagonal, bound=bound, shift=shift)


def run(dtype, diagonal, *, loss_unit=1.0, units=1.0, bound=0.0, shift=0.0, turned=None):
    """Iterates in the units of the problem.

    The loss is multiplied by ``loss_unit``; the optimizer holds turned @ theta * units.
    """
    rng = np.random.default_rng(0)
    A = torch.tensor(rng.normal(size=(20, DIM)), dtype=dtype)
    b = torch.tensor(3.0 + rng.normal(size=20), dtype=dtype)
    start = rng.normal(size=DIM) + 1.0
    turn = torch.tensor(np.eye(DIM) if turned is None else turned, dtype=dtype)
    held = (turn @ torch.tensor(start, dtype=dtype) * units).requires_grad_(True)
    opt = HeavyStep([held], diagonal=diagonal, lower_bound=bound)
    iterates = []
    for k in range(STEPS):
        rows = torch.arange(4) + 4 * (k % 5)
        opt.zero_grad()
        residual = A[rows] @ (turn.T @ held / units) - b[rows]
        loss = (0.5 * (residual**2).mean() + shift) * loss_unit
        loss.backward()
        opt.step(loss=loss)
        iterates.append((turn.T @ held.detach() / units).double().numpy().copy())
    assert np.abs(iterates[-1] - start).max() > 0.1
    return np.array(iterates)


def assert_same(other, base, dtype, diagonal, least):
    """The same to the last digit, but for what eps is of the smallest entry of the diagonal.

    In float32 a step goes into torch's kernel as a part of 1 + step, which has digits of its own.
    """
    lost = 0.0 if diagonal is None else EPS / least
    if dtype == torch.float64 and diagonal is None:
        np.testing.assert_array_equal(other, base)
    else:
        tolerance = STEPS * (lost + BITS[dtype]) * np.abs(base).max()
        np.testing.assert_allclose(other, base, rtol=0.0, atol=tolerance)


@every_format
@every_diagonal
@given(
    power=POWERS, bound=st.sampled_from([0.0, 0.25, None]), shift=st.sampled_from([0.0, -7.0, 50.0])
)
@few
def test_the_unit_of_the_loss(dtype, diagonal, power, bound, shift):
    """Powers of 2 change no digit. A lower bound is a loss."""
    unit = 2.0**power
    base = plain_run(dtype, diagonal, bound, shift)
    other = run(dtype, diagonal, bound=bound and bound * unit, shift=shift, loss_unit=unit)
    assert_same(other, base, dtype, diagonal, LEAST * unit)


@every_format
@every_diagonal
@given(power=POWERS)
@few
def test_the_unit_of_all_parameters(dtype, diagonal, power):
    """The gradient is divided by it, moves are multiplied by it."""
    base, other = plain_run(dtype, diagonal), run(dtype, diagonal, units=2.0**power)
    assert_same(other, base, dtype, diagonal, LEAST * 2.0**-power)


@pytest.mark.parametrize("diagonal", [None, "tensor"])
@given(seed=st.integers(0, 100))
@few
def test_directions_are_alike_unless_each_element_has_its_own_unit(diagonal, seed):
    """An orthogonal change of variables within a tensor, to the rounding of its products.

    All but trust, whose size of the parameters is a mean of absolute values.
    """
    turned = np.linalg.qr(np.random.default_rng(seed).normal(size=(DIM, DIM)))[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rule, "TRUST", 1e6)
        base, other = (run(torch.float64, diagonal, turned=each) for each in (None, turned))
    rounding = STEPS * DIM * 4 * BITS[torch.float64]
    np.testing.assert_allclose(other, base, rtol=0.0, atol=100.0 * rounding * np.abs(base).max())


def test_small_gradients_are_divided_by_their_own_size():
    assert divisor(1e-30, 1.0) == pytest.approx(1e-15, rel=1e-4)
