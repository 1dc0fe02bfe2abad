"""The numpy driver of the tests equals the literal loop, run by run."""

import numpy as np
import pytest

from heavystep.problems import Cosine, LeastSquares, LogisticRegression
from heavystep.schedules import PowerLaw
from tests import reference
from tests.helpers.numpy_driver import draw_samples
from tests.helpers.paper_symbols import recorded

RNG = np.random.default_rng(5)
A = RNG.normal(size=(12, 3)) * [0.4, 1.0, 2.0]
XI = RNG.normal(size=(6, 3))
PROBLEMS = {
    "least squares": LeastSquares(A, RNG.normal(size=12), theta0=np.array([2.0, -1.0, 0.5])),
    "logistic": LogisticRegression(A, np.sign(RNG.normal(size=12)), l2=0.1, theta0=np.ones(3)),
    "cosine": Cosine(
        np.full(12, 0.7), np.concatenate([XI, -XI]), theta0=np.array([3.0, -2.0, 1.0])
    ),
}
LAWS = {
    "beta": PowerLaw(0.9, 1.1, 10.0),
    "gamma_max": PowerLaw(0.5, 0.3, 10.0),
    "eta": PowerLaw(0.5, 0.4, 10.0),
}
SETTINGS = {
    "theory": {"scaling": "theory", "beta": 0.6, "gamma_max": 0.7, "eta": 1.0},
    "practical": {"scaling": "practical", "beta": 0.9, "gamma_max": 0.3, "eta": 0.8},
    "diminishing": {"scaling": "plain", **LAWS},
    "smooth reset": {
        "scaling": "practical",
        "beta": 0.7,
        "gamma_max": 2.0,
        "n_b": 5,
        "growth": 1.5,
    },
}
RULES = {"polyak": {"c": 0.6}, "armijo": {"c": 0.4, "omega": 0.7}}


class Literal:
    """The interface of the literal loop over a finite sum."""

    def __init__(self, problem):
        self.problem, self.f_star = problem, problem.f_star

    def value(self, theta, i):
        return float(self.problem.losses(theta, i))

    def grad(self, theta, i):
        return self.problem.gradients(theta, i)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", PROBLEMS)
def test_batch_equals_the_literal_loop(name, rule, setting):
    problem, options = PROBLEMS[name], {**RULES[rule], **SETTINGS[setting]}
    samples = draw_samples(problem, runs=3, steps=40, seed=7)
    record = recorded(problem, rule, samples, **options)
    for r in range(3):
        iterates, steps = reference.trajectory(
            rule, Literal(problem), problem.theta0, samples[r], **options
        )
        np.testing.assert_allclose(record.iterates[r], iterates, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(record.gamma[r], steps, rtol=1e-9)
    np.testing.assert_array_equal(record.loss, problem.losses(record.iterates[:, :-1], samples))
