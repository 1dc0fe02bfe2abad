"""Defects of related implementations, one test each, that must never become ours.

Others have their test where they belong: resume and group overrides in
``optim/test_state.py`` and ``test_parameters.py``, NaN and zero steps that stick in
``test_failure.py``, random streams and BatchNorm in ``test_replay.py``, momentum that is not
heavy ball in ``conformance/test_optimizers.py``.
"""

import inspect
import warnings
from itertools import pairwise

import pytest
import torch

from heavystep import SLS, SHBArmijo, SHBPolyak
from tests.helpers.cases import OPTIMIZERS
from tests.helpers.training import flat, loss_of, make_batches, make_net, take_step

CHANGED = {
    "lr": 0.3,
    "momentum": 0.35,
    "c": 0.77,
    "max_step": 1e-4,
    "decrease_factor": 0.61,
    "lower_bound": 0.2,
    "scaling": "plain",
    "steps_per_epoch": 3,
    "growth": 1.01,
    "max_trials": 1,
    "weight_decay": 0.2,
    "decay": "objective",
    "loss_eps": 0.2,
}
"""For each argument a value that must show in the run."""

NO_EFFECT_ON_STEPS = {"params", "foreach", "buffers", "process_group"}


def trajectory(case, **options):
    # A weight decay and a reset that bites, so that their modifiers have something to modify.
    base = {"weight_decay": 0.05}
    if case.adaptive:
        base |= {"steps_per_epoch": 2, "growth": 1.5, "max_step": 3.0}
    net, batches = make_net(), make_batches(12)
    opt = case.make(net.parameters(), **{**base, **options})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # max_trials=1 fails searches
        for batch in batches:
            take_step(opt, net, batch, case)
    return flat(net)


@pytest.mark.parametrize("case", OPTIMIZERS, ids=lambda case: case.id)
def test_every_argument_acts(case):
    """Accepted but unused arguments: weight_decay, f_star, nesterov, per-group values."""
    arguments = set(inspect.signature(case.cls).parameters) - NO_EFFECT_ON_STEPS
    assert arguments <= set(CHANGED), "give the new argument a row in CHANGED"
    reference = trajectory(case)
    for name in sorted(arguments):
        if name == "lower_bound" and case.needs_closure:
            continue  # there it only saves evaluations: tested to change no step
        value = CHANGED[name]
        assert not torch.equal(trajectory(case, **{name: value}), reference), name


def test_a_gradient_is_never_edited():
    """Decay or a guard against zero added to p.grad."""
    for case in OPTIMIZERS:
        for decay in ("decoupled", "objective"):
            net, batch = make_net(), make_batches(1)[0]
            opt = case.make(net.parameters(), weight_decay=0.5, decay=decay)
            expected = torch.autograd.grad(loss_of(net, batch), list(net.parameters()))
            take_step(opt, net, batch, case)
            for p, g in zip(net.parameters(), expected, strict=True):
                assert torch.equal(p.grad, g), case.id


def test_parameters_keep_their_memory():
    """Trials that bind p.data to new tensors break views, flat parameters and captured graphs."""
    for case in OPTIMIZERS:
        net, batch = make_net(), make_batches(1)[0]
        places = [p.data_ptr() for p in net.parameters()]
        opt = case.make(net.parameters())
        for _ in range(2):
            take_step(opt, net, batch, case)
        assert [p.data_ptr() for p in net.parameters()] == places, case.id


def test_armijo_steps_stay_below_max_step_and_grow_again():
    """A line search without a cap, and one whose step can only shrink."""
    theta = torch.tensor([2.0], requires_grad=True)
    opt = SHBArmijo([theta], momentum=0.0, max_step=0.6, steps_per_epoch=4)
    steps = []
    for curvature in [0.1, 500.0, *[0.1] * 40]:
        opt.step(lambda a=curvature: 0.5 * a * ((theta - 1.0) ** 2).sum())
        steps.append(opt.info.step)
    assert steps[0] == pytest.approx(0.6)
    assert steps[1] < 0.01
    assert all(b <= a * 2 ** (1 / 4) * (1 + 1e-12) for a, b in pairwise(steps[1:]))
    assert steps[-1] == pytest.approx(0.6)


def test_smooth_polyak_keeps_both_its_lower_bound_and_its_cap():
    """A smooth variant that forgets f* and eta_max."""
    theta = torch.tensor([1.0], requires_grad=True)
    opt = SHBPolyak(
        [theta], momentum=0.0, max_step=0.3, lower_bound=2.0, steps_per_epoch=1, growth=10.0
    )
    for loss, gradient, expected in ((3.0, 2.0, 0.125), (4.0, 0.1, 0.3), (4.0, 10.0, 0.01)):
        theta.grad = torch.tensor([gradient])
        opt.step(loss=loss)
        assert float(opt.info.step) == pytest.approx(expected, rel=1e-6)


def test_groups_are_searched_together():
    """Searching one group after another compares a stale loss with a moved point."""
    a, b = (torch.tensor([2.0], requires_grad=True) for _ in range(2))
    opt = SLS([{"params": [a]}, {"params": [b]}], max_step=10.0, decrease_factor=0.5)
    seen = []

    def loss():
        seen.append((float(a.detach()), float(b.detach())))
        return (a**2 + 9.0 * b**2).sum()

    opt.step(loss)
    first = seen[0]
    for x, y in seen[1:]:
        # Both coordinates moved by the same t: (2 - x) / 4 = (2 - y) / 36.
        assert (first[0] - x) / 4.0 == pytest.approx((first[1] - y) / 36.0, rel=1e-5)


def test_the_search_is_not_moved_by_momentum():
    """Armijo measured from the momentum-extrapolated point."""
    theta = torch.tensor([2.0, 1.0], requires_grad=True)
    opt = SHBArmijo([theta], momentum=0.9)
    for _ in range(5):
        before, grads = theta.detach().clone(), []
        seen = []

        def loss():
            seen.append(theta.detach().clone())
            return (torch.tensor([1.0, 4.0]) * (theta - 0.5) ** 2).sum()

        opt.step(loss)
        grads = theta.grad
        for point in seen[1:]:
            t = (before - point)[0] / grads[0]
            torch.testing.assert_close(point, before - t * grads, rtol=1e-5, atol=1e-6)


def test_armijo_tries_at_the_step_divided_by_kappa():
    """The trial is larger than the step applied: 2 gamma / s_beta in theory scaling."""
    theta = torch.tensor([2.0], dtype=torch.float64, requires_grad=True)
    opt = SHBArmijo([theta], momentum=0.25, scaling="theory", max_step=1e-3)
    seen = []

    def loss():
        seen.append(theta.item())
        return ((theta - 1.0) ** 2).sum()

    opt.step(loss)
    assert opt.info.step == pytest.approx(1e-3)
    assert seen == pytest.approx([2.0, 2.0 - 2e-3 / 0.25 * 2.0])
    assert theta.item() == pytest.approx(2.0 - 1e-3 * 2.0)
