"""The family's line searches follow their publications, in every driver."""

import copy
import math
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from heavystep.methods import FAMILY
from heavystep.optim import CapturedStep
from heavystep.optimizers import optimizer_class
from heavystep.schedules import PowerLaw
from tests import reference_searches as literal
from tests.conformance.test_family import ETA, PROBLEM, SAMPLES, loss_at


class Case(NamedTuple):
    """A method, options away from their defaults, and the same method as a literal loop."""

    name: str
    options: dict[str, Any]
    stepper: Any


SHRINK = {"c": 0.3, "max_step": 2.5, "decrease_factor": 0.7}
KEEP, SMOOTH = {"growth": 1.0, "steps_per_epoch": 4}, {"growth": 5.0, "steps_per_epoch": 3}
LAWS = {"max_step": 2.5, "eta_power": 0.6, "max_step_power": 0.2, "horizon": 20.0}
CASES = {
    "SLS, reset 0": Case("SLS", {**SHRINK, **KEEP},
                         lambda: literal.sls(0.3, 2.5, 0.7, "keep", eta=ETA)),
    "SLS, reset 1": Case("SLS", {**SHRINK, **SMOOTH},
                         lambda: literal.sls(0.3, 2.5, 0.7, "smooth", 5.0, 3, eta=ETA)),
    "SLS, reset 2": Case("SLS", {**SHRINK, "steps_per_epoch": None},
                         lambda: literal.sls(0.3, 2.5, 0.7, "first", eta=ETA)),
    "AdaSLS": Case("AdaSLS", {**SHRINK, "divisor": 1.4},
                   lambda: literal.adasls(0.3, 1.4, 2.5, 0.7, eta=ETA)),
    "PoNoS": Case(
        "PoNoS",
        {"c": 0.4, "polyak_c": 0.3, "max_step": 0.8, "min_step": 0.45, "decrease_factor": 0.7,
         "keeping": 0.8},
        lambda: literal.ponos(0.4, 0.3, 0.8, 0.45, 0.7, 0.8, eta=ETA)),
    "SLSDec": Case("SLSDec", {**SHRINK, **LAWS},
                   lambda: literal.sls_dec(0.3, 2.5, 0.7, 0.6, 0.2, 20.0, eta=ETA)),
    "SaLSA": Case(
        "SaLSA",
        {"c": 0.3, "first_step": 0.7, "increase_factor": 1.2, "decrease_factor": 0.7,
         "smoothing": 0.8, "longest_pause": 7},
        lambda: literal.salsa(0.3, 0.7, 1.2, 0.7, 0.8, 7, eta=ETA)),
    "MSL": Case("MSL", {**SHRINK, **SMOOTH, "momentum": 0.95},
                lambda: literal.msl(0.3, 2.5, 0.7, 5.0, 3, 0.95, 0.5, eta=ETA)),
    "MSL that restarts": Case("MSL", {**SHRINK, **SMOOTH, "momentum": 0.95, "uphill": "restart"},
                              lambda: literal.msl(0.3, 2.5, 0.7, 5.0, 3, 0.95, 0.0, eta=ETA)),
    "DirectionalSLS": Case(
        "DirectionalSLS",
        {**SHRINK, **SMOOTH, "momentum": 0.95, "least_slope": 0.4, "most_length": 1.5},
        lambda: literal.directional(0.3, 2.5, 0.7, 5.0, 3, 0.95, 0.4, 1.5, eta=ETA)),
    "MBCG": Case(
        "MBCG",
        {"c": 0.4, "polyak_c": 0.3, "max_step": 0.8, "min_step": 0.05, "decrease_factor": 0.7,
         "keeping": 0.8, "most_momentum": 1.2},
        lambda: literal.mbcg(0.4, 0.3, 0.8, 0.05, 0.7, 0.8, 1.2, eta=ETA)),
    "SLiSeS": Case(
        "SLiSeS", {"c": 0.3, "max_step": 1.1, "min_step": 0.2, "kept": 4, "decrease_factor": 0.7},
        lambda: literal.slises(0.3, 1.1, 0.2, 4, 0.7, eta=ETA)),
}  # fmt: skip
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def made(case, params, **given):
    return optimizer_class(case.name)(params, **{"lr": ETA, **case.options, **given})


def expected(case, samples):
    """Iterates of the literal loop."""
    theta, step = np.array(PROBLEM.theta0), case.stepper()
    iterates = [theta]
    for i in samples:
        f, g = float(PROBLEM.losses(theta, i)), PROBLEM.gradients(theta, i)
        theta = step(theta, f, g, PROBLEM.f_star[i], lambda p, i=i: float(PROBLEM.losses(p, i)))
        iterates.append(theta)
    return np.array(iterates)


def close(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


def test_every_search_has_a_case():
    searches = {method.name for method in FAMILY if method.rule.searches}
    assert searches <= {case.name for case in CASES.values()}


@every_case
def test_torch(case):
    theta = torch.tensor(PROBLEM.theta0, requires_grad=True)
    opt = made(case, [theta])
    reads_bound = "lower_bound" in opt.method.rule.reads
    iterates, steps, trials = [theta.detach().numpy().copy()], [], []
    for i in SAMPLES[0]:

        def closure(i=i):
            point = theta.detach().numpy()
            theta.grad = torch.tensor(PROBLEM.gradients(point, i))
            return float(PROBLEM.losses(point, i))

        opt.step(closure, **({"lower_bound": float(PROBLEM.f_star[i])} if reads_bound else {}))
        iterates.append(theta.detach().numpy().copy())
        steps.append(float(opt.info.step))
        trials.append(opt.info.trials)
    close(iterates, expected(case, SAMPLES[0]))
    assert len(np.unique(np.round(steps, 12))) >= 3
    assert max(trials) > 1


def parameter():
    return torch.tensor([3.0, -1.0], dtype=torch.float64, requires_grad=True)


@every_case
def test_a_vanished_gradient_takes_no_step_and_is_no_nan(case):
    theta = parameter()
    opt = made(case, [theta])
    for scale in (0.0, 1.0, 0.0, 1.0):
        before = theta.detach().clone()
        opt.step(lambda scale=scale: loss_at(theta, scale) + 1.0)
        assert opt.info.accepted
        assert (float(opt.info.step) > 0.0) == (scale > 0.0)
        assert (scale > 0.0) or opt.method.keeps_buffer or torch.equal(theta, before)
    assert theta.abs().max() < 100.0


@every_case
def test_resume_is_exact_and_a_bad_batch_changes_nothing(case):
    def steps(opt, theta, count):
        for k in range(count):
            opt.step(lambda k=k: loss_at(theta, 1.0 + 0.1 * (k % 3)) + 0.5)
        return theta.detach().clone()

    theta = parameter()
    opt = made(case, [theta], lr=0.3)
    middle, memory = steps(opt, theta, 6), copy.deepcopy(opt.state_dict())
    for bad in (math.nan, math.inf, -math.inf):

        def only_the_loss_is_bad(bad=bad):
            theta.grad = torch.ones_like(theta)
            return bad

        for closure in (only_the_loss_is_bad, lambda bad=bad: loss_at(theta) * bad):
            opt.step(closure)
            assert not opt.info.accepted
            assert torch.equal(theta, middle)
            assert str(opt.state_dict()) == str(memory)
    end = steps(opt, theta, 6)
    again = middle.clone().requires_grad_(True)
    other = made(case, [again], lr=0.3)
    other.load_state_dict(memory)
    assert torch.equal(steps(other, again, 6), end)


@every_case
def test_a_search_that_fails_refuses_the_batch(case):
    """Trial losses that are not finite are failures, and after the last one nothing changes."""
    theta = parameter()
    opt = made(case, [theta], max_trials=4)
    memory, calls = copy.deepcopy(opt.state_dict()), []

    def closure():
        calls.append(loss_at(theta) + 0.5)
        return calls[0] if len(calls) == 1 else calls[-1] * math.nan

    with pytest.warns(RuntimeWarning, match="line search failed"):
        opt.step(closure)
    assert len(calls) == 5
    assert theta.tolist() == [3.0, -1.0]
    assert opt.state_dict()["param_groups"] == memory["param_groups"]
    for buffer in (tensor for own in opt.state.values() for tensor in own.values()):
        assert not buffer.any()  # made to be looked at, and still as at the start


@every_case
def test_a_loss_below_its_bound_takes_no_step_uphill(case):
    """A rule that reads the bound takes none at all."""
    theta = parameter()
    opt = made(case, [theta])
    reads_bound = "lower_bound" in opt.method.rule.reads
    opt.step(lambda: loss_at(theta) - 100.0, **({"lower_bound": 0.0} if reads_bound else {}))
    assert opt.info.accepted
    assert (float(opt.info.step) > 0.0) != reads_bound
    assert loss_at(theta) <= loss_at(parameter())


@every_case
def test_captured(case):
    results = []
    for captured in (False, True):
        theta, scale = parameter(), torch.tensor(1.0, dtype=torch.float64)
        opt = made(case, [theta], lr=0.3)
        closure = lambda theta=theta, scale=scale: loss_at(theta, scale) + 0.5  # noqa: E731
        step = CapturedStep(opt, closure) if captured else lambda o=opt, c=closure: o.step(c)
        for k in range(12):
            scale.fill_(1.0 + 0.3 * (k % 4))
            step()
        results.append(theta.detach())
    torch.testing.assert_close(*results, rtol=1e-12, atol=1e-12)


SEARCH = {"c": 0.3, "decrease_factor": 0.8}
ANEW = {**SEARCH, "max_step": 2.0, "steps_per_epoch": None}
LAW, FADING = {"power": 0.3, "horizon": 20.0}, {"power": 0.4, "horizon": 20.0}
SPECIAL = {
    "SLSHeavyBall without momentum is SLS": (
        ("SLSHeavyBall", {**ANEW, "momentum": 0.0}), ("SLS", ANEW),
    ),
    "SLSHeavyBall is the plain SHB-ALS": (
        ("SLSHeavyBall", {**ANEW, "momentum": 0.8}),
        ("SHBArmijo", {**ANEW, "momentum": 0.8, "scaling": "plain"}),
    ),
    "SLSNesterov without momentum is SLS": (
        ("SLSNesterov", {**ANEW, "momentum": 0.0}), ("SLS", ANEW),
    ),
    "Goldstein whose steps are never too short is SLS": (
        ("SLSGoldstein", {**ANEW, "c": 1e-3, "first_step": 2.0}), ("SLS", {**ANEW, "c": 1e-3}),
    ),
    "PoNoS without past and from its cap is SLS": (
        ("PoNoS", {**SEARCH, "polyak_c": 1e-200, "keeping": 0.0, "max_step": 2.0}), ("SLS", ANEW),
    ),
    "PoNoS with a Polyak step that is accepted at once is SPS": (
        ("PoNoS", {"c": 1e-3, "polyak_c": 6.0, "keeping": 0.0, "max_step": 0.1}),
        ("SPS", {"c": 6.0, "max_step": 0.1}),
    ),
    "SLSDec that does not fade is SLS without a reset": (
        ("SLSDec", {**SEARCH, "max_step": 2.0, "eta_power": 0.0, "max_step_power": 0.0}),
        ("SLS", ANEW),
    ),
    "SLSDec is SLS with schedules": (
        ("SLSDec", {**SEARCH, "max_step": 2.0, "eta_power": 0.4, "max_step_power": 0.3,
                    "horizon": 20.0}),
        ("SLS", {**ANEW, "lr": PowerLaw(1.0, **FADING), "max_step": PowerLaw(2.0, **LAW)}),
    ),
    "MSL without momentum is SLS": (("MSL", {**ANEW, "momentum": 0.0}), ("SLS", ANEW)),
    "MBCG without momentum is PoNoS": (
        ("MBCG", {**SEARCH, "polyak_c": 0.5, "max_step": 0.9, "most_momentum": 1e-300}),
        ("PoNoS", {**SEARCH, "polyak_c": 0.5, "max_step": 0.9}),
    ),
    "SLiSeS with new batches from its cap is SLS": (
        ("SLiSeS", {**SEARCH, "kept": 1, "max_step": 1.0}), ("SLS", {**ANEW, "max_step": 1.0}),
    ),
    "SaLSA without averages is SLS": (
        ("SaLSA", {**SEARCH, "first_step": 100.0, "increase_factor": 1.3, "smoothing": 0.0,
                   "longest_pause": 1}),
        ("SLS", {**SEARCH, "max_step": 130.0, "growth": 1.3, "steps_per_epoch": 1}),
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:lr .eta. is 0.001")
def test_salsa_searches_seldom():
    """Where nothing changes it comes to search as seldom as it may."""
    theta = parameter()
    opt = optimizer_class("SaLSA")([theta], lr=1e-3, increase_factor=1.0, first_step=0.3)
    searched = []
    for _ in range(700):
        opt.step(lambda: loss_at(theta))
        searched.append(opt.info.trials > 0)
        assert float(opt.info.step) == pytest.approx(3e-4)
    assert all(searched[:20])
    assert 10 <= sum(searched[-100:]) <= 15


@pytest.mark.parametrize("name", ["PoNoS", "MBCG", "SLiSeS"])
def test_bounds_of_first_trials_are_in_order(name):
    with pytest.raises(ValueError, match=r"min_step must be at most max_step = 1\.0, got 5\.0"):
        optimizer_class(name)([parameter()], min_step=5.0, max_step=1.0)
