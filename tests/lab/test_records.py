"""Runs side by side equal the literal loop, run by run."""

import numpy as np
import pytest

from heavystep.lab.simulation.configuration import configure
from heavystep.lab.simulation.records import draw_samples, record_runs
from heavystep.problems import Cosine, LeastSquares, LogisticRegression
from heavystep.schedules import PowerLaw
from tests import reference
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
SETTINGS = {
    "theory": {"scaling": "theory", "beta": 0.6, "gamma_max": 0.7, "eta": 1.0},
    "practical": {"scaling": "practical", "beta": 0.9, "gamma_max": 0.3, "eta": 0.8},
    "diminishing": {
        "scaling": "plain",
        "beta": PowerLaw(0.9, 1.1, 10.0),
        "gamma_max": PowerLaw(0.5, 0.3, 10.0),
        "eta": PowerLaw(0.5, 0.4, 10.0),
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
    problem = PROBLEMS[name]
    samples = draw_samples(problem, runs=3, steps=40, seed=7)
    record = recorded(problem, rule, samples, **RULES[rule], **SETTINGS[setting])
    for r in range(3):
        iterates, steps = reference.trajectory(
            rule, Literal(problem), problem.theta0, samples[r], **RULES[rule], **SETTINGS[setting]
        )
        np.testing.assert_allclose(record.iterates[r], iterates, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(record.gamma[r], steps, rtol=1e-9)
    before = record.iterates[:, :-1]
    np.testing.assert_array_equal(record.loss, problem.losses(before, samples))
    np.testing.assert_array_equal(record.gradients, problem.gradients(before, samples))
    np.testing.assert_array_equal(record.f_star, problem.f_star[samples])


def test_runs_do_not_depend_on_their_neighbours():
    problem = PROBLEMS["cosine"]
    samples = draw_samples(problem, runs=4, steps=25, seed=1)
    options = {"beta": 0.5, "c": 0.5, "gamma_max": 1.0, "omega": 0.8}
    together = recorded(problem, "armijo", samples, **options)
    alone = recorded(problem, "armijo", samples[2:3], **options)
    np.testing.assert_array_equal(together.iterates[2], alone.iterates[0])


def test_streams_are_one_per_run():
    problem = PROBLEMS["least squares"]
    few, many = (draw_samples(problem, runs=r, steps=9, seed=3) for r in (2, 5))
    np.testing.assert_array_equal(few, many[:2])
    assert not np.array_equal(many[0], many[1])


def test_a_search_that_fails_is_told():
    problem = PROBLEMS["least squares"]
    samples = draw_samples(problem, runs=2, steps=20)
    options = {"beta": 0.5, "c": 0.75, "gamma_max": 1.0, "omega": 0.99, "max_trials": 1}
    with pytest.raises(ValueError, match=r"no step was accepted at step \d+"):
        recorded(problem, "armijo", samples, **options)


def test_a_run_that_diverges_is_told():
    problem = LeastSquares(1e6 * A, RNG.normal(size=12), theta0=np.full(3, 1e150))
    samples = draw_samples(problem, runs=2, steps=2)
    with (
        np.errstate(over="ignore", invalid="ignore"),
        pytest.raises(ValueError, match="loss or gradient is not finite at step 0"),
    ):
        recorded(problem, "polyak", samples, beta=0.5, c=0.5, gamma_max=1.0)


def test_smooth_reset_is_that_of_the_literal_loop():
    problem = PROBLEMS["cosine"]
    samples = draw_samples(problem, runs=2, steps=40, seed=2)
    options = {"beta": 0.7, "c": 0.6, "gamma_max": 2.0, "n_b": 5, "growth": 1.5}
    record = recorded(problem, "polyak", samples, scaling="practical", **options)
    for r in range(2):
        iterates, _ = reference.trajectory(
            "polyak", Literal(problem), problem.theta0, samples[r], scaling="practical", **options
        )
        np.testing.assert_allclose(record.iterates[r], iterates, rtol=1e-10, atol=1e-12)
    assert record.smooth_reset


def test_a_record_of_a_rule_without_theorems():
    problem = PROBLEMS["least squares"]
    samples = draw_samples(problem, runs=2, steps=9)
    record = record_runs(problem, configure("SHB", lr=0.01, momentum=0.5), samples)
    assert record.rule == "SHB"
    assert (record.gamma == 0.01).all()
    assert (record.gamma_max == np.inf).all()
    iterates = reference.fixed_step(
        Literal(problem), problem.theta0, samples[1], gamma=0.01, beta=0.5
    )
    np.testing.assert_allclose(record.iterates[1], iterates, rtol=1e-12)
