"""The torch optimizers follow the literal loops of the paper to rounding."""

from functools import partial

import numpy as np
import pytest
import torch

from heavystep import Diminishing, SHBArmijo, SHBPolyak
from tests import reference
from tests.helpers.problems import PROBLEMS, index_sequence
from tests.helpers.runs import torch_run

STEPS = 100
RULES = {
    "polyak": (SHBPolyak, {"c": 0.75, "growth": 3.0}),
    "armijo": (SHBArmijo, {"c": 0.6, "growth": 1.7, "decrease_factor": 0.7}),
}

# The whole Polyak or Armijo step is too long for momentum 0.9: larger c keep the runs stable
# without a cap that hides the rule.
C = {
    ("polyak", "theory"): 0.75, ("polyak", "practical"): 4.0, ("polyak", "plain"): 8.0,
    ("armijo", "theory"): 0.6, ("armijo", "practical"): 0.9, ("armijo", "plain"): 0.95,
}  # fmt: skip


@pytest.mark.parametrize("n_b", [None, 10], ids=["no reset", "reset"])
@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("scaling", ["theory", "practical", "plain"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", PROBLEMS)
def test_follows_the_paper(name, rule, scaling, momentum, n_b):
    problem, (cls, options) = PROBLEMS[name], RULES[rule]
    c, max_step, lr = C[rule, scaling], 0.4, 0.8
    indices = index_sequence(STEPS)
    make = partial(cls, lr=lr, momentum=momentum, scaling=scaling, max_step=max_step,
                   steps_per_epoch=n_b, **{**options, "c": c})  # fmt: skip
    iterates, steps, *_ = torch_run(make, problem, indices)
    expected, expected_steps = reference.trajectory(
        rule, problem, problem.theta0, indices,
        scaling=scaling, beta=momentum, c=c, gamma_max=max_step, eta=lr,
        omega=options.get("decrease_factor"), n_b=n_b, growth=options["growth"],
    )  # fmt: skip
    np.testing.assert_allclose(steps, expected_steps, rtol=1e-10)
    np.testing.assert_allclose(iterates, expected, rtol=1e-12, atol=1e-12)
    # A run whose steps are all max_step would agree whatever the rule.
    assert (steps < 0.999 * lr * max_step).mean() > 0.1
    assert len(np.unique(steps.round(12))) >= 3


def followed(rule, indices, *, dtype=torch.float64, beta=0.7, gamma_max=0.1, **decay):
    """Iterates of practical scaling with a reset on least squares, and those of the literal loop."""
    problem, (cls, options) = PROBLEMS["least squares"], RULES[rule]
    make = partial(cls, momentum=beta, max_step=gamma_max, scaling="practical", steps_per_epoch=10,
                   **options, **decay)  # fmt: skip
    iterates, *_ = torch_run(make, problem, indices, dtype)
    kind = {f"{decay['decay']}_decay": decay["weight_decay"]} if decay else {}
    expected, _ = reference.trajectory(
        rule, problem, problem.theta0, indices, scaling="practical", beta=beta, c=options["c"],
        gamma_max=gamma_max, omega=options.get("decrease_factor"), n_b=10,
        growth=options["growth"], **kind,
    )  # fmt: skip
    return iterates, expected


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", ["decoupled", "objective"])
def test_weight_decay(rule, kind):
    found = followed(rule, index_sequence(STEPS), weight_decay=0.3, decay=kind)
    np.testing.assert_allclose(*found, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("rule", RULES)
def test_diminishing_variants(rule):
    """Section 4: eta_k, beta_k and gamma_max,k all move."""
    problem, (cls, options) = PROBLEMS["least squares"], RULES[rule]
    indices = index_sequence(STEPS)

    def make(params):
        opt = cls(params, scaling="plain", max_step=0.3, **options)
        schedule = Diminishing(opt, eta0=0.6, beta0=0.8, horizon=50.0)
        opt.register_step_post_hook(lambda *_: schedule.step())
        return opt

    iterates, *_ = torch_run(make, problem, indices)
    expected, _ = reference.trajectory(
        rule, problem, problem.theta0, indices, scaling="plain", c=options["c"],
        beta=lambda k: 0.8 * (1 + k / 50) ** -1.1,
        gamma_max=lambda k: 0.3 * (1 + k / 50) ** -0.3,
        eta=lambda k: 0.6 * (1 + k / 50) ** -0.4,
        omega=options.get("decrease_factor"),
    )  # fmt: skip
    np.testing.assert_allclose(iterates, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("scaling", ["theory", "practical", "plain"])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_skipping_hopeless_trials_changes_no_step_and_saves_forwards(scaling, momentum):
    """Equal to the bit, and the saving is counted."""
    make = partial(SHBArmijo, momentum=momentum, scaling=scaling, c=0.5, decrease_factor=0.9,
                   max_trials=1000, steps_per_epoch=None)  # fmt: skip
    few, all_trials = (
        torch_run(make, PROBLEMS["logistic"], index_sequence(150), bounded=bounded)
        for bounded in (True, False)
    )
    np.testing.assert_array_equal(few[0], all_trials[0])
    calls, calls_of_all = (150 + sum(run[2]) for run in (few, all_trials))
    assert 150 < calls < calls_of_all
    if scaling == "theory" and momentum == 0.9:
        # The first trial is 759 max_step: most of the forwards go into coming down from it.
        assert calls < 0.5 * calls_of_all
