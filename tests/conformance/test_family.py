"""The relatives of the paper's methods follow their publications, in every driver."""

import copy
import math
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from heavystep.methods import FAMILY
from heavystep.optimizers import optimizer_class
from heavystep.problems import Cosine
from tests import reference_averages as averages
from tests import reference_family as literal

STEPS, ETA = 150, 0.8
RNG = np.random.default_rng(8)
XI = 0.4 * RNG.normal(size=(6, 3))
# Off its centre, with infima that are not 0.
PROBLEM = Cosine(
    RNG.uniform(0.5, 1.5, 12), np.concatenate([XI, -XI]), theta0=np.array([1.5, -0.7, 2.2])
)
SAMPLES = RNG.integers(0, 12, size=(2, STEPS))


class Case(NamedTuple):
    """Options, every one away from its default, and the same method as a literal loop."""

    options: dict[str, Any]
    stepper: Any


CASES = {
    "DecSPS": Case({"c": 0.7, "max_step": 0.4}, lambda: literal.decsps(0.7, 0.4, 0.0, eta=ETA)),
    "MomDecSPS": Case(
        {"c": 0.7, "max_step": 3.0, "momentum": 0.6}, lambda: literal.decsps(0.7, 3.0, 0.6, eta=ETA)
    ),
    "AdaSPS": Case({"c": 0.6}, lambda: literal.adasps(0.6, 0.0, eta=ETA)),
    "MomAdaSPS": Case({"c": 0.6, "momentum": 0.7}, lambda: literal.adasps(0.6, 0.7, eta=ETA)),
    "SHBIMA": Case({"lr": ETA, "eta_power": 0.4}, lambda: literal.shb_ima(0.4, eta=ETA)),
    "SPSSafe": Case({"safeguard": 2.0}, lambda: literal.sps_safe(2.0, eta=ETA)),
    "IMASPSSafe": Case(
        {"safeguard": 0.7, "momentum": 0.6}, lambda: averages.ima_sps_safe(0.7, 1.5, eta=ETA)
    ),
    "SFPolyak": Case(
        {"c": 1.3, "max_step": 0.4, "power": 1.0, "momentum": 0.7},
        lambda: averages.schedule_free_polyak(1.3, 0.4, 1.0, 0.7, eta=ETA),
    ),
    "ScheduleFreePlus": Case(
        {"c": 1.3, "max_step": 0.4, "momentum": 0.7},
        lambda: averages.schedule_free_polyak(1.3, 0.4, 0.0, 0.7, eta=ETA, adam=True),
    ),
    "MomSPS": Case(
        {"c": 1.3, "max_step": 0.15, "momentum": 0.6}, lambda: literal.momsps_max(1.3, 0.15, 0.6, eta=ETA)
    ),
    "MomSPSSmooth": Case(
        {"c": 1.3, "first_step": 0.2, "growth": 3.0, "steps_per_epoch": 9, "momentum": 0.6},
        lambda: literal.momsps_smooth(1.3, 0.2, 3.0, 9, 0.6, eta=ETA),
    ),
    "ALIG": Case(
        {"max_step": 0.3, "eps": 0.2, "momentum": 0.5}, lambda: literal.alig(0.3, 0.2, 0.5, eta=ETA)
    ),
    "L4": Case(
        {"fraction": 0.1, "least_share": 0.8, "first_share": 0.6, "forget": 50.0, "eps": 0.01,
         "momentum": 0.8},
        lambda: literal.l4(0.1, 0.8, 0.6, 50.0, 0.01, 0.8, eta=ETA),
    ),
    "ALRSMAG": Case(
        {"c": 1.6, "max_step": 0.2, "momentum": 0.7}, lambda: literal.alr_smag(1.6, 0.2, 0.7, eta=ETA)
    ),
    "SGDMAPS": Case(
        {"c": 0.8, "first_step": 0.05, "growth": 3.0, "steps_per_epoch": 7, "momentum": 0.6},
        lambda: literal.sgdm_aps(0.8, 0.05, 3.0, 7, 0.6, eta=ETA),
    ),
    "NGN": Case({"c": 0.3}, lambda: literal.ngn(0.3, 0.0, eta=ETA)),
    "NGNM": Case({"c": 0.9, "momentum": 0.7}, lambda: literal.ngn(0.9, 0.7, eta=ETA)),
    "IAM": Case({"max_step": 0.3, "momentum": 0.6}, lambda: averages.iam(0.3, 1.5, eta=ETA)),
    "ALRSHB": Case(
        {"c": 1.7, "max_step": 0.25, "momentum": 0.6}, lambda: averages.alr_shb(1.7, 0.25, 0.6, eta=ETA)
    ),
    "MoMo": Case({"max_step": 0.3, "momentum": 0.6}, lambda: averages.momo(0.3, 0.6, eta=ETA)),
    "NGNMD": Case(
        {"c": 0.7, "momentum": 0.6},
        lambda: averages.ngn_md(0.7, 0.6, 0.999, 1e-20, eta=ETA),
    ),
    "IAMAdam": Case(
        {"max_step": 0.3, "momentum": 0.6},
        lambda: averages.iam(0.3, 1.5, eta=ETA, beta2=0.999, eps=1e-20),
    ),
    "MoMoAdam": Case(
        {"max_step": 0.3, "momentum": 0.6},
        lambda: averages.momo(0.3, 0.6, eta=ETA, beta2=0.999, eps=1e-20),
    ),
    "SPSDec": Case(
        {"c": 0.7, "max_step": 0.4, "eta_power": 0.6, "max_step_power": 0.2, "horizon": 20.0},
        lambda: literal.sps_dec(0.7, 0.4, 0.6, 0.2, 20.0, eta=ETA),
    ),
}  # fmt: skip
every_case = pytest.mark.parametrize("name", CASES)


def options(name):
    return {"lr": ETA, **CASES[name].options}


def expected(name, samples, stepper=None):
    """Iterates of the literal loop."""
    theta, step = np.array(PROBLEM.theta0), (stepper or CASES[name].stepper)()
    iterates = [theta]
    for i in samples:
        f, g = float(PROBLEM.losses(theta, i)), PROBLEM.gradients(theta, i)
        theta = step(theta, f, g, PROBLEM.f_star[i])
        iterates.append(theta)
    return np.array(iterates)


def close(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-11)


def test_every_relative_has_a_case():
    """Searches have theirs in ``test_searches.py``."""
    apart = [method for method in FAMILY if method.rule.searches]
    assert set(CASES) == {method.name for method in FAMILY} - {method.name for method in apart}


def torch_run(name, given=None):
    """Iterates and steps of the optimizer, on losses and gradients of the problem."""
    theta = torch.tensor(PROBLEM.theta0, requires_grad=True)
    opt = optimizer_class(name)([theta], **(options(name) if given is None else given))
    reads_bound = "lower_bound" in opt.method.rule.reads
    iterates, steps = [theta.detach().numpy().copy()], []
    for i in SAMPLES[0]:
        point = theta.detach().numpy()
        theta.grad = torch.tensor(PROBLEM.gradients(point, i))
        bound = {"lower_bound": float(PROBLEM.f_star[i])} if reads_bound else {}
        opt.step(loss=float(PROBLEM.losses(point, i)), **bound)
        iterates.append(theta.detach().numpy().copy())
        steps.append(float(opt.info.step))
    return np.array(iterates), np.array(steps)


@every_case
def test_torch(name):
    iterates, steps = torch_run(name)
    close(iterates, expected(name, SAMPLES[0]))
    assert len(np.unique(np.round(steps, 12))) > 5


def test_without_a_safeguard_the_first_norm_is_it():
    iterates, _ = torch_run("SPSSafe", {"lr": ETA, "safeguard": 0.0})
    close(iterates, expected("SPSSafe", SAMPLES[0], lambda: literal.sps_safe(0.0, eta=ETA)))


def loss_at(theta, scale=1.0):
    return scale * ((theta - torch.tensor([1.0, 2.0], dtype=torch.float64)) ** 2).sum()


@every_case
def test_zero_gradients_and_losses_are_no_nan(name):
    """Where loss and gradient vanish together, public implementations divide 0 by 0."""
    theta = torch.tensor([3.0, -1.0], dtype=torch.float64, requires_grad=True)
    opt = optimizer_class(name)([theta], weight_decay=0.1, **options(name))
    opt.step(lambda: loss_at(theta))
    opt.step(lambda: loss_at(theta, 0.0) + 1.0)
    assert opt.info.accepted
    opt.step(lambda: loss_at(theta, 0.0))
    assert opt.info.accepted
    opt.step(lambda: loss_at(theta))
    assert theta.abs().max() < 100.0
    assert float(opt.info.step) > 0.0


@every_case
def test_a_vanished_gradient_takes_no_step(name):
    theta = torch.tensor([3.0, -1.0], dtype=torch.float64, requires_grad=True)
    opt = optimizer_class(name)([theta], **options(name))
    opt.step(lambda: loss_at(theta, 0.0) + 1.0)
    assert float(opt.info.step) == 0.0
    assert theta.tolist() == [3.0, -1.0]


@every_case
def test_a_loss_below_its_bound_takes_no_step_uphill(name):
    theta = torch.tensor([3.0, -1.0], dtype=torch.float64, requires_grad=True)
    opt = optimizer_class(name)([theta], **CASES[name].options)
    opt.step(lambda: loss_at(theta) - 100.0)
    assert float(opt.info.step) >= 0.0


@every_case
def test_resume_is_exact_and_a_bad_batch_changes_nothing(name):
    def steps(opt, theta, count):
        for k in range(count):
            opt.step(lambda k=k: loss_at(theta, 1.0 + 0.1 * (k % 3)))
        return theta.detach().clone()

    theta = torch.tensor([3.0, -1.0], dtype=torch.float64, requires_grad=True)
    opt = optimizer_class(name)([theta], **CASES[name].options)
    middle, memory = steps(opt, theta, 6), copy.deepcopy(opt.state_dict())
    for bad in (math.nan, math.inf, -math.inf):
        opt.zero_grad()
        loss_at(theta).backward()  # a good gradient, and a loss that is not
        opt.step(loss=bad)
        assert not opt.info.accepted
        opt.step(lambda bad=bad: loss_at(theta) * bad)
        assert not opt.info.accepted
        assert torch.equal(theta, middle)
        assert str(opt.state_dict()) == str(memory)
    state = copy.deepcopy(opt.state_dict())
    end = steps(opt, theta, 6)
    again = middle.clone().requires_grad_(True)
    other = optimizer_class(name)([again], **CASES[name].options)
    other.load_state_dict(state)
    assert torch.equal(steps(other, again, 6), end)


def path(name, **given):
    """Iterates of one run with heavy noise."""
    return torch_run(name, {"lr": 1.0, **given})[0]


SPECIAL = {
    "MomSPS without momentum is SPS": (
        ("MomSPS", {"momentum": 0.0, "c": 0.8, "max_step": 0.7}),
        ("SPS", {"c": 0.8, "max_step": 0.7}),
    ),
    "MomDecSPS without momentum is DecSPS": (
        ("MomDecSPS", {"momentum": 0.0}),
        ("DecSPS", {}),
    ),
    "MomAdaSPS without momentum is AdaSPS": (
        ("MomAdaSPS", {"momentum": 0.0}),
        ("AdaSPS", {}),
    ),
    "NGN-M without momentum is NGN": (
        ("NGNM", {"momentum": 0.0, "c": 0.4}),
        ("NGN", {"c": 0.4}),
    ),
    "NGN with an endless cap is SPS with c = 1/2": (
        ("NGN", {"c": 1e13, "lr": 0.3}),
        ("SPS", {"c": 0.5, "max_step": 1e9, "lr": 0.3}),
    ),
    "ALR-SMAG with all steps at the cap is heavy ball": (
        ("ALRSMAG", {"c": 1e-9, "max_step": 0.01, "momentum": 0.8}),
        ("SHB", {"lr": 0.01, "momentum": 0.8}),
    ),
    "SPS_safe with a small safeguard is SPS": (
        ("SPSSafe", {"safeguard": 1e-12, "lr": 0.5}),
        ("SPS", {"c": 1.0, "max_step": 1e9, "lr": 0.5}),
    ),
    "IAM without momentum is SPS": (
        ("IAM", {"momentum": 0.0, "max_step": 0.4}),
        ("SPS", {"c": 1.0, "max_step": 0.4}),
    ),
    "IAM with all steps at the cap is heavy ball": (
        ("IAM", {"max_step": 1e-3, "momentum": 0.8}),
        ("SHB", {"lr": 0.2e-3, "momentum": 0.8}),
    ),
    "ALR-SHB without momentum is SPS": (
        ("ALRSHB", {"momentum": 0.0, "c": 0.8, "max_step": 0.4}),
        ("SPS", {"c": 0.8, "max_step": 0.4}),
    ),
    "MoMo without momentum is SPS": (
        ("MoMo", {"momentum": 0.0, "max_step": 0.4}),
        ("SPS", {"c": 1.0, "max_step": 0.4}),
    ),
    "SPSDec that does not fade is SPS": (
        ("SPSDec", {"c": 0.8, "max_step": 0.7, "eta_power": 0.0, "max_step_power": 0.0}),
        ("SPS", {"c": 0.8, "max_step": 0.7}),
    ),
    "SHB-PS with kappa = 1 - beta is MomSPS": (
        ("MomSPS", {"momentum": 0.6, "max_step": 0.5}),
        ("SHBPolyak", {"momentum": 0.6, "scaling": "plain", "lr": 0.4, "max_step": 0.5}),
    ),
}


@pytest.mark.parametrize("case", SPECIAL)
def test_special_cases(case):
    one, other = (path(name, **options) for name, options in SPECIAL[case])
    np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8)
    assert abs(one[-1] - one[0]).max() > 0.1
