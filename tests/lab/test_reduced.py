"""Variance-reduced losses equal their literal loop, and belong to one run each."""

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from heavystep.lab.simulation.configuration import configure
from heavystep.lab.simulation.run import OneRun, simulate
from heavystep.methods import METHODS
from heavystep.problems import (
    Cosine,
    LeastSquares,
    LogisticRegression,
    SparseLogistic,
    VarianceReduced,
    paper_cosine,
    paper_least_squares,
)
from heavystep.problems.variance_reduced import PUBLISHED
from tests import reference_reduced as literal
from tests.helpers.streams import index_stream, unit_stream

N, STEPS, SEED = 12, 60, 4
RNG = np.random.default_rng(21)
A = RNG.normal(size=(N, 4)) * [0.4, 1.0, 2.0, 0.7]
A[3] = 0.0  # whose infimum is not 0
XI = RNG.normal(size=(N // 2, 4))
Y, L2, WEIGHTS = np.sign(RNG.normal(size=N)), np.array([0.1, 0.0, 0.3, 0.2]), RNG.uniform(1, 3, N)
NUDGE = 1e-13 * np.array([1.0, -1.0, -1.0, 1.0])


class FiniteSumTerms:
    """Batches of a finite sum for the literal loop."""

    def __init__(self, problem):
        self.problem, self.full_grad = problem, problem.full_gradient

    def value(self, x, batch):
        return np.mean([self.problem.losses(x, i) for i in batch])

    def grad(self, x, batch):
        return np.mean([self.problem.gradients(x, i) for i in batch], axis=0)

    def infimum(self, batch):
        return self.problem.f_star[batch].mean()


class LogisticTerms:
    """The same for weighted logistic regression with a penalty, on dense rows."""

    weights = WEIGHTS / WEIGHTS.mean()

    def value(self, x, batch):
        losses = np.logaddexp(0.0, -Y[batch] * (A[batch] @ x))
        return np.mean(self.weights[batch] * losses) + 0.5 * L2 @ x**2

    def grad(self, x, batch):
        slopes = -self.weights[batch] * Y[batch] / (1 + np.exp(Y[batch] * (A[batch] @ x)))
        return slopes @ A[batch] / len(batch) + L2 * x

    def infimum(self, batch):
        return np.mean(self.weights[batch] * np.where(batch == 3, np.log(2.0), 0.0))

    def full_grad(self, x):
        return self.grad(x, np.arange(N))


SQUARES = LeastSquares(A, RNG.normal(size=N) + 1.0, theta0=RNG.normal(size=4))
TILTED = Cosine(
    RNG.uniform(0.5, 1.5, N), np.concatenate([XI, -XI]), theta0=np.array([1.5, -0.7, 2.2, 3.0])
)
LOGISTIC = SparseLogistic(csr_array(A), Y, l2=L2, weights=WEIGHTS)
PROBLEMS: dict[str, Any] = {
    "least squares": (SQUARES, FiniteSumTerms(SQUARES)),
    "tilted cosine": (TILTED, FiniteSumTerms(TILTED)),
    "sparse logistic": (LOGISTIC, LogisticTerms()),
}  # fmt: skip


LOSSES, SLOPES = {"sparse logistic"}, {"tilted cosine"}
"""Of which the loss is measured in place of the gap, and of which the full gradient."""


RULES = {
    "AdaSVRPS": ("AdaSPS", {"c": 2.5}, lambda: literal.adasps(2.5)),
    "SPS": ("SPS", {"c": 0.7, "max_step": 0.4}, lambda: literal.sps(0.7, 0.4)),
    "SLS": (
        "SLS", {"c": 0.3, "decrease_factor": 0.7, "max_step": 0.9},
        lambda: literal.sls(0.3, 0.7, 0.9),
    ),
    "SHB-PS": (
        "SHBPolyak", {"c": 0.6, "max_step": 0.3, "momentum": 0.5, "scaling": "theory"},
        lambda: literal.sps(2 * 0.6 / (1 - 0.5**0.5) ** 2, 0.3),
    ),
}  # fmt: skip
"""The method, its options and its literal rule."""
CHANCES = {"every step": 1.0, "never": 1e-9, "sometimes": 0.2, "once an epoch": None}


@pytest.mark.slow  # a kernel for each rule and problem
@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize("chance", CHANCES)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", PROBLEMS)
def test_iterates_are_those_of_the_literal_loop(name, rule, chance, batch_size):
    (problem, terms), p = PROBLEMS[name], CHANCES[chance]
    method, options, stepper = RULES[rule]
    reduced, beta = VarianceReduced(problem, p, curvature=0.8), options.get("momentum", 0.0)
    batches = index_stream(SEED, N, STEPS * batch_size).reshape(STEPS, batch_size)
    follows = unit_stream(SEED, STEPS) < (batch_size / N if p is None else p)

    @np.errstate(divide="ignore")  # a gradient that is 0 to the last bit
    def wanted(theta0):
        return literal.iterates(terms, theta0, batches, follows, 0.8, stepper(), beta)

    points, anchor = wanted(problem.theta0)
    # Rounding acts as a change of the start by some 1e-15, and some of these loops make 1e4 of it.
    apart = np.abs(wanted(problem.theta0 * (1.0 + NUDGE))[0][-1] - points[-1]).max()
    close = {"rtol": 0.0, "atol": max(1e-11, apart)}
    run = OneRun(reduced, configure(method, **options), SEED, np.array([STEPS]), batch_size)
    assert run.advance(STEPS, batches[:0]) == STEPS
    np.testing.assert_allclose(run.state.theta, points[-1], **close)
    np.testing.assert_allclose(run.data.anchor, anchor, **close)
    assert apart < 1e-6
    assert np.linalg.norm(points[-1] - points[0]) > 0.5  # it has gone somewhere


@pytest.mark.slow  # a kernel each
@pytest.mark.parametrize("name", PROBLEMS)
def test_metrics_are_those_of_the_problem_itself(name):
    """Of the iterates, not of the surrogates."""
    (problem, _), k = PROBLEMS[name], np.arange(1, STEPS + 1)
    run, points = OneRun(VarianceReduced(problem), configure("AdaSPS"), SEED, k, 2), []
    for _ in k:
        run.advance(1, np.empty((0, 2), dtype=np.int64))
        points.append(run.state.theta.copy())
    metric, measure = ("loss", problem.objective) if name in LOSSES else ("gap_last", problem.gap)
    wanted = [float(measure(point)) for point in points]
    np.testing.assert_allclose(run.out[metric], wanted, rtol=1e-10)
    if name in SLOPES:
        squares = [np.sum(problem.full_gradient(point) ** 2) for point in points]
        np.testing.assert_allclose(run.out["grad_last"], squares, rtol=1e-9)


@pytest.mark.slow  # a kernel each
@pytest.mark.parametrize("name", sorted(set(PROBLEMS) - LOSSES))
def test_no_step_is_shorter_than_the_smoothness_of_the_surrogates_allows(name):
    """So that their lower bounds lie below their infima."""
    reduced = VarianceReduced(PROBLEMS[name][0])
    for method in ("SHBPolyak", "SHBArmijo"):
        options = {"momentum": 0.3, "scaling": "theory", "max_step": 0.5}
        found = simulate(reduced, method, seeds=3, iterations=300, **options)
        assert (found.metrics["lowest"] >= 1.0 - 1e-9).all()
        assert (found.metrics["lowest"][:, -1] < 10.0).all()


CONVERGES = {
    "least squares": (paper_least_squares(noise=0.3), 1e-5, 1e-9),
    "cosine": (paper_cosine("noise"), 1e-3, 1e-30),
}
"""Without a point that fits all terms. Without reduction the gap stays above the first number."""


@pytest.mark.slow
@pytest.mark.parametrize("published", [p for p, method in PUBLISHED.items() if method in METHODS])
@pytest.mark.parametrize("name", CONVERGES)
def test_adaptive_steps_converge_where_without_reduction_they_stall(name, published):
    """After 60,000 steps, from every seed."""
    (problem, stalled, reached), method = CONVERGES[name], PUBLISHED[published]
    options = {"seeds": 3, "iterations": 60_000, "grid": np.array([60_000])}
    plain = simulate(problem, method, **options)
    reduced = simulate(VarianceReduced(problem), method, **options)
    assert (plain.metrics["gap_last"] > stalled).all()
    assert (reduced.metrics["gap_last"] < reached).all()


@pytest.mark.parametrize(("curvature", "longest"), [(1.0, 1.0), (0.1, 0.02)])
def test_line_searches_are_not_stopped_by_the_rounding_of_losses(curvature, longest):
    """Gradients of the surrogates vanish while the sampled losses, and their rounding, do not."""
    problem = paper_least_squares(noise=0.3)
    reduced = VarianceReduced(problem, curvature=curvature * problem.L)
    found = simulate(reduced, "SLS", max_step=longest, seeds=3, iterations=60_000)
    assert (found.metrics["gap_last"][:, -1] < 1e-12).all()


DENSE = LogisticRegression(A, Y, l2=0.1)
BAD = [
    (lambda: VarianceReduced(SQUARES, probability=0.0), ValueError, r"probability \(p\) must be in \(0, 1\], got 0"),
    (lambda: VarianceReduced(SQUARES, probability=1.5), ValueError, r"probability \(p\) must be in \(0, 1\], got 1.5"),
    (lambda: VarianceReduced(SQUARES, probability="1"), TypeError, r"probability \(p\) must be a real number"),
    (lambda: VarianceReduced(SQUARES, curvature=0), ValueError, r"curvature \(mu\) must be > 0 and finite, got 0"),
    (lambda: VarianceReduced(SQUARES, curvature=np.nan), ValueError, r"curvature \(mu\) must be > 0"),
    (lambda: VarianceReduced(A), TypeError, "problem must be a finite sum or .*, got ndarray"),
    (lambda: VarianceReduced(VarianceReduced(SQUARES)), TypeError, "got VarianceReduced"),
    (lambda: simulate(VarianceReduced(DENSE), "SPS", seeds=1, iterations=1), TypeError, "no compiled kernels for LogisticRegression"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "error", "message"), BAD)
def test_bad_input(make, error, message):
    with pytest.raises(error, match=message):
        make()
