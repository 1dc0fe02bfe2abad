"""The relatives of the paper's methods follow their publications."""

import copy
import math
from functools import partial

import numpy as np
import pytest
import torch

from heavystep.methods import FAMILY, METHODS
from heavystep.optimizers import optimizer_class
from heavystep.problems import Cosine
from tests import reference_family as literal
from tests.helpers.runs import torch_run
from tests.reference_family import ETA

STEPS = 150
RNG = np.random.default_rng(8)
XI = 0.4 * RNG.normal(size=(6, 3))
# Off its centre, with infima that are not 0.
PROBLEM = Cosine(
    RNG.uniform(0.5, 1.5, 12), np.concatenate([XI, -XI]), theta0=np.array([1.5, -0.7, 2.2])
)
SAMPLES = RNG.integers(0, 12, size=(2, STEPS))


SHRINK = {"c": 0.3, "max_step": 2.5, "decrease_factor": 0.7}
RESET = {"growth": 5.0, "steps_per_epoch": 3}
CASES = {
    "DecSPS": (literal.decsps, {"c": 0.7, "max_step": 0.4}),
    "MomDecSPS": (literal.decsps, {"c": 0.7, "max_step": 3.0, "momentum": 0.6}),
    "AdaSPS": (literal.adasps, {"c": 0.6}),
    "MomAdaSPS": (literal.adasps, {"c": 0.6, "momentum": 0.7}),
    "SPSSafe": (literal.sps_safe, {"safeguard": 2.0}),
    "SPSSafe, the first norm": (literal.sps_safe, {"safeguard": 0.0}),
    "IMASPSSafe": (literal.ima_sps_safe, {"safeguard": 0.7, "momentum": 0.6}),
    "SFPolyak": (literal.schedule_free_polyak,
                 {"c": 1.3, "max_step": 0.4, "momentum": 0.7, "power": 1.0}),
    "ScheduleFreePlus": (partial(literal.schedule_free_polyak, adam=True),
                         {"c": 1.3, "max_step": 0.4, "momentum": 0.7}),
    "MomSPS": (literal.momsps_max, {"c": 1.3, "max_step": 0.15, "momentum": 0.6}),
    "ALIG": (literal.alig, {"max_step": 0.3, "eps": 0.2, "momentum": 0.5}),
    "L4": (literal.l4, {"fraction": 0.1, "least_share": 0.8, "first_share": 0.6, "forget": 50.0,
                        "eps": 0.01, "momentum": 0.8}),
    "ALRSMAG": (literal.alr_smag, {"c": 1.6, "max_step": 0.2, "momentum": 0.7}),
    "SGDMAPS": (literal.sgdm_aps, {"c": 0.8, "first_step": 0.05, "growth": 3.0,
                                   "steps_per_epoch": 7, "momentum": 0.6}),
    "NGN": (literal.ngn, {"c": 0.3}),
    "NGNM": (literal.ngn, {"c": 0.9, "momentum": 0.7}),
    "NGNMD": (literal.ngn_md, {"c": 0.7, "momentum": 0.6}),
    "IAM": (literal.iam, {"max_step": 0.3, "momentum": 0.6}),
    "IAMAdam": (partial(literal.iam, adam=True), {"max_step": 0.3, "momentum": 0.6}),
    "ALRSHB": (literal.alr_shb, {"c": 1.7, "max_step": 0.25, "momentum": 0.6}),
    "MoMo": (literal.momo, {"max_step": 0.3, "momentum": 0.6}),
    "MoMoAdam": (partial(literal.momo, adam=True), {"max_step": 0.3, "momentum": 0.6}),
    "SLS, reset 0": (literal.sls, {**SHRINK, "growth": 1.0, "steps_per_epoch": 4}),
    "SLS, reset 1": (literal.sls, {**SHRINK, **RESET}),
    "SLS, reset 2": (literal.sls, {**SHRINK, **RESET, "steps_per_epoch": None}),
    "AdaSLS": (literal.adasls, {**SHRINK, "divisor": 1.4}),
    "PoNoS": (literal.ponos, {"c": 0.4, "polyak_c": 0.3, "max_step": 0.8, "min_step": 0.45,
                              "decrease_factor": 0.7, "keeping": 0.8}),
    "SaLSA": (literal.salsa, {"c": 0.3, "first_step": 0.7, "increase_factor": 1.2,
                              "decrease_factor": 0.7, "smoothing": 0.8, "longest_pause": 7}),
    "MSL": (literal.msl, {**SHRINK, **RESET, "momentum": 0.95}),
    "MSL, restarts": (literal.msl, {**SHRINK, **RESET, "momentum": 0.95, "uphill": "restart"}),
}  # fmt: skip
"""The method as a literal loop, and its options in that loop's order, away from their defaults."""
SEARCHES = [name for name in CASES if METHODS[name.partition(",")[0]].rule.searches]


def made(name, params, **given):
    method = name.partition(",")[0]
    return optimizer_class(method)(params, **{"lr": ETA, **CASES[name][1], **given})


def test_every_relative_has_a_case():
    assert {method.name for method in FAMILY} <= {name.partition(",")[0] for name in CASES}


@pytest.mark.parametrize("name", CASES)
def test_torch(name):
    theta, (literal_of, options) = np.array(PROBLEM.theta0), CASES[name]
    step = literal_of(*options.values())
    expected = [theta]
    for i in SAMPLES[0]:
        f, g = float(PROBLEM.losses(theta, i)), PROBLEM.gradients(theta, i)
        value = lambda p, i=i: float(PROBLEM.losses(p, i))  # noqa: E731
        theta = step(theta, f, g, PROBLEM.f_star[i], value)
        expected.append(theta)
    iterates, steps, trials, _ = torch_run(partial(made, name), PROBLEM, SAMPLES[0])
    np.testing.assert_allclose(iterates, np.array(expected), rtol=1e-11, atol=1e-11)
    assert len(np.unique(np.round(steps, 12))) >= 3
    assert name not in SEARCHES or max(trials) > 1


def parameter():
    return torch.tensor([3.0, -1.0], dtype=torch.float64, requires_grad=True)


def loss_at(theta, scale=1.0):
    return scale * ((theta - torch.tensor([1.0, 2.0], dtype=torch.float64)) ** 2).sum()


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_that_fails_refuses_the_batch(name):
    """Trial losses that are not finite are failures, and after the last one nothing changes."""
    theta = parameter()
    opt = made(name, [theta], max_trials=4)
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


ANEW = {"c": 0.3, "decrease_factor": 0.8, "max_step": 2.0, "steps_per_epoch": None}
SEARCH = {"c": 0.3, "decrease_factor": 0.8}
SPECIAL = {
    "plain Polyak without momentum is eta times SPS": (
        ("SHBPolyak", {"lr": 0.7, "momentum": 0.0, "scaling": "plain", "c": 0.6, "max_step": 0.2}),
        ("SPS", {"lr": 0.7, "c": 0.6, "max_step": 0.2})),
    "plain Armijo without momentum is eta times SLS": (
        ("SHBArmijo", {"lr": 0.7, "momentum": 0.0, "scaling": "plain", "c": 0.3, "max_step": 0.8}),
        ("SLS", {"lr": 0.7, "c": 0.3, "max_step": 0.8})),
    "MomSPS without momentum is SPS": (
        ("MomSPS", {"momentum": 0.0, "c": 0.8, "max_step": 0.7}),
        ("SPS", {"c": 0.8, "max_step": 0.7})),
    "NGN with an endless cap is SPS with c = 1/2": (
        ("NGN", {"c": 1e13, "lr": 0.3}), ("SPS", {"c": 0.5, "max_step": 1e9, "lr": 0.3})),
    "ALR-SMAG with all steps at the cap is heavy ball": (
        ("ALRSMAG", {"c": 1e-9, "max_step": 0.01, "momentum": 0.8}),
        ("SHB", {"lr": 0.01, "momentum": 0.8})),
    "SPS_safe with a small safeguard is SPS": (
        ("SPSSafe", {"safeguard": 1e-12, "lr": 0.5}),
        ("SPS", {"c": 1.0, "max_step": 1e9, "lr": 0.5})),
    "IAM without momentum is SPS": (
        ("IAM", {"momentum": 0.0, "max_step": 0.4}), ("SPS", {"c": 1.0, "max_step": 0.4})),
    "IAM with all steps at the cap is heavy ball": (
        ("IAM", {"max_step": 1e-3, "momentum": 0.8}), ("SHB", {"lr": 0.2e-3, "momentum": 0.8})),
    "ALR-SHB without momentum is SPS": (
        ("ALRSHB", {"momentum": 0.0, "c": 0.8, "max_step": 0.4}),
        ("SPS", {"c": 0.8, "max_step": 0.4})),
    "MoMo without momentum is SPS": (
        ("MoMo", {"momentum": 0.0, "max_step": 0.4}), ("SPS", {"c": 1.0, "max_step": 0.4})),
    "SHB-PS with kappa = 1 - beta is MomSPS": (
        ("MomSPS", {"momentum": 0.6, "max_step": 0.5}),
        ("SHBPolyak", {"momentum": 0.6, "scaling": "plain", "lr": 0.4, "max_step": 0.5})),
    "PoNoS without past and from its cap is SLS": (
        ("PoNoS", {**SEARCH, "polyak_c": 1e-200, "keeping": 0.0, "max_step": 2.0}), ("SLS", ANEW)),
    "PoNoS with a Polyak step that is accepted at once is SPS": (
        ("PoNoS", {"c": 1e-3, "polyak_c": 6.0, "keeping": 0.0, "max_step": 0.1}),
        ("SPS", {"c": 6.0, "max_step": 0.1})),
    "MSL without momentum is SLS": (("MSL", {**ANEW, "momentum": 0.0}), ("SLS", ANEW)),
    "SaLSA without averages is SLS": (
        ("SaLSA", {**SEARCH, "first_step": 100.0, "increase_factor": 1.3, "smoothing": 0.0,
                   "longest_pause": 1}),
        ("SLS", {**SEARCH, "max_step": 130.0, "growth": 1.3, "steps_per_epoch": 1}),
    ),
}  # fmt: skip


@pytest.mark.parametrize("uphill", ["correct", "restart"])
def test_a_vanished_gradient_leaves_the_momentum_of_a_search(uphill):
    theta = torch.tensor([1.0], requires_grad=True)
    opt = optimizer_class("MSL")([theta], momentum=0.5, uphill=uphill)
    opt.step(lambda: (theta**2).sum() + 1.0)
    (kept,) = opt.state.values()
    before = kept["momentum_buffer"].clone()
    opt.step(lambda: (theta * 0.0).sum() + 1.0)
    assert opt.info.accepted
    assert torch.equal(kept["momentum_buffer"], 0.5 * before)


@pytest.mark.parametrize("case", SPECIAL)
def test_special_cases(case):
    paths = []
    for name, given in SPECIAL[case]:
        make = partial(optimizer_class(name), **{"lr": 1.0, **given})
        paths.append(torch_run(make, PROBLEM, SAMPLES[0])[0])
    np.testing.assert_allclose(*paths, rtol=1e-8, atol=1e-8)
    assert abs(paths[0][-1] - paths[0][0]).max() > 0.1


def test_bounds_of_first_trials_are_in_order():
    with pytest.raises(ValueError, match=r"min_step must be at most max_step = 1\.0, got 5\.0"):
        optimizer_class("PoNoS")([parameter()], min_step=5.0, max_step=1.0)
