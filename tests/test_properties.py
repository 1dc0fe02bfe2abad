"""Properties that hold for every input: step bounds, Lemmas 1 and 2, the Armijo inequality."""

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from heavystep import SHBArmijo, rules
from heavystep.rules.armijo import backtracking
from tests.conformance.test_rules import search_of
from tests.helpers.cases import OPTIMIZERS, over
from tests.helpers.examples import examples

positive = st.floats(1e-6, 1e6)
unit = st.floats(0.01, 0.99)
momentum = st.floats(0.0, 0.99)
scalings = st.sampled_from(rules.SCALINGS)


@given(gap=st.floats(-1e6, 1e6), g2=st.floats(0, 1e12), bound=st.floats(-1e3, 1e3), c=positive,
       beta=momentum, scaling=scalings, cap=positive)  # fmt: skip
def test_polyak_step_is_between_zero_and_its_cap(gap, g2, bound, c, beta, scaling, cap):
    step = rules.polyak_step(bound + gap, g2, bound, c, rules.kappa(scaling, beta), cap)
    assert 0.0 <= step <= cap


@st.composite
def quadratics(draw):
    """f(x) = sum_j a_j (x_j - m_j)^2 / 2, off-centre and anisotropic, with a start."""
    curvatures = np.array(draw(st.lists(st.floats(0.01, 100.0), min_size=3, max_size=3)))
    centre, start = (
        np.array(draw(st.lists(st.floats(-5.0, 5.0), min_size=3, max_size=3))) for _ in range(2)
    )
    assume(np.abs(centre - start).max() > 1e-2)
    return curvatures, centre, start


@examples(60)
@given(
    quadratics(),
    st.floats(0.01, 0.95),
    st.floats(0.1, 0.9),
    momentum,
    scalings,
    st.floats(1e-3, 10.0),
)
def test_armijo_accepts_the_largest_step_of_the_grid_and_keeps_the_lemmas(
    quadratic, c, omega, beta, scaling, max_step
):
    curvatures, centre, start = quadratic
    smoothness = curvatures.max()

    def value(x):
        return 0.5 * (curvatures * (x - centre) ** 2).sum()

    grad = curvatures * (start - centre)
    g2, loss = grad @ grad, value(start)
    theta = torch.tensor(start, requires_grad=True)
    tensors = [torch.tensor(v) for v in (curvatures, centre)]
    opt = SHBArmijo([theta], momentum=beta, scaling=scaling, c=c, decrease_factor=omega,
                    max_step=max_step, steps_per_epoch=None, max_trials=10_000)  # fmt: skip
    opt.step(lambda: 0.5 * (tensors[0] * (theta - tensors[1]) ** 2).sum())
    step, kappa = opt.info.step, rules.kappa(scaling, beta)
    t = step / kappa
    slack = 1e-9 * loss
    # The inequality, recomputed from scratch, and its failure one grid point above.
    assert value(start - t * grad) <= loss - c * t * g2 + slack
    if not opt.info.capped:
        above = t / omega
        assert value(start - above * grad) > loss - c * above * g2 - slack
    # Lemma 1 with f* = 0, and Lemma 2.
    assert step * g2 <= kappa / c * loss * (1 + 1e-9)
    assert step <= max_step * (1 + 1e-12)
    assert step >= min(max_step, 2 * kappa * omega * (1 - c) / smoothness) * (1 - 1e-9)
    # As many trials as the grid needs to come down to the step that always succeeds.
    ratio = max_step / kappa * smoothness / (2 * (1 - c))
    assert opt.info.trials <= 2 + max(0.0, math.log(ratio) / -math.log(omega))


@given(
    loss=st.floats(1e-300, 1e6),
    grad_sqnorm=st.floats(1e-6, 1e300),
    height=st.floats(1e-9, 1.0),
    first=st.floats(1e-6, 1e9),
    c=st.floats(0.05, 0.95),
    omega=st.floats(0.1, 0.95),
)
def test_skipping_at_once_is_skipping_one_by_one(loss, grad_sqnorm, height, first, c, omega):
    """From no bound to a bound: the same trial as after all that the bound rules out."""
    bound, numbers = loss * (1.0 - height), (c, omega, 10**9, 2.2e-16)
    constants, memory, free = search_of((loss, grad_sqnorm, -math.inf, *numbers), first)
    one = rules.ARMIJO.start(constants, memory, free)
    while one.active:
        most = loss - c * one.trial * grad_sqnorm + 4.0 * 2.2e-16 * loss
        if most >= bound:
            break
        one = rules.ARMIJO.advance(constants, memory, free, one, math.inf)
    at_once = rules.ARMIJO.start(constants, memory, free._replace(lower_bound=bound))
    assert (
        at_once._replace(accepted=one.accepted, trial_loss=one.trial_loss, trials=one.trials) == one
    )
    assert at_once.trials == 0
    assert at_once.accepted == one.active


@over([case for case in OPTIMIZERS if case.bounded])
def test_only_the_height_of_the_loss_above_its_bound_matters(case):
    """Loss and bound shifted by numbers without rounding: the same steps, in closed forms to the bit."""
    runs, weights = [], torch.tensor([1.3, 0.4], dtype=torch.float64)
    for shift in (0.0, 4.0, -64.0):
        theta = torch.tensor([1.0, 0.5], dtype=torch.float64, requires_grad=True)
        opt = case.make([theta], **case.taken(lower_bound=shift, loss_eps=0.0))
        steps = []
        for k in range(6):
            centre = torch.tensor([3.0, -1.0 - 0.25 * k], dtype=torch.float64)
            if case.needs_closure:
                opt.step(lambda c=centre: (weights * (theta - c) ** 2).sum() + shift)
            else:
                theta.grad = 0.5 * centre
                opt.step(loss=1.5 + 0.25 * k + shift)
            steps.append(float(opt.info.step))
        runs.append((steps, theta.detach()))
    assert min(runs[0][0]) > 0.0
    exactly = case.sees_gradient_only and not case.needs_closure
    for steps, theta in runs[1:]:
        assert steps == (runs[0][0] if exactly else pytest.approx(runs[0][0], rel=1e-9))
        torch.testing.assert_close(theta, runs[0][1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("first", [0.0, 5e-324])
def test_a_search_without_a_smaller_trial_is_over(first):
    """Nothing is evaluated for a first trial that cannot succeed, if there is none below it."""
    case = search_of((1.0, 1.0, 0.0, 0.5, 0.7, 50, 0.0), 1.0)
    search = backtracking(lambda *_: (first, True), level=lambda *_: -1.0)
    end = search["start"](*case)
    assert (end.trial, end.active, end.accepted, end.capped) == (0.0, False, False, False)
