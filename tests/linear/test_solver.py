"""The solver behind the estimator: when it stops, its batches, its passes."""

import numpy as np
import pytest
import scipy.sparse as sp

from heavystep.linear import solver
from heavystep.linear.rows import sparse_rows, with_intercept
from heavystep.problems import SparseLogistic
from heavystep.simulation.logistic import mean_square_length
from tests.helpers.classified import problem

RNG = np.random.default_rng(5)


def test_stopping_needs_more_than_a_slow_fall(monkeypatch):
    """Steps that are too small lower the loss slowly; that is no convergence."""
    X, y = problem()
    whole = SparseLogistic(sparse_rows(X), np.where(y > 0, 1.0, -1.0), 1e-3)
    progress = solver.start(whole, momentum=0.0, max_step=None, batch_size=len(y))
    monkeypatch.setattr(solver, "FAR", 1e-6)
    solver.minimise(progress, max_iter=200, tol=1e-4, rng=np.random.default_rng(0))
    assert not progress.converged
    assert solver.possible_fall(whole, progress.best) > 1e-3 * progress.least


def test_possible_fall_is_one():
    X, y = problem()
    whole = SparseLogistic(
        sparse_rows(X), np.where(y > 0, 1.0, -1.0), RNG.uniform(0, 0.1, X.shape[1])
    )
    theta = RNG.normal(size=X.shape[1])
    promised = solver.possible_fall(whole, theta)
    gradient = whole.full_gradient(theta)
    curvature = (X**2).mean(axis=0) / 4 + whole.l2
    falls = []
    for j in range(X.shape[1]):
        moved = theta.copy()
        moved[j] -= gradient[j] / curvature[j]
        falls.append(whole.objective(theta) - whole.objective(moved))
    assert 0.0 < promised <= max(falls)
    assert promised == pytest.approx((gradient**2 / (2 * curvature)).max())


def test_intercept_column_and_lengths():
    X = np.array([[3.0, 4.0], [0.0, 1.0], [0.0, 0.0]])
    for matrix in (X, sp.csr_matrix(X)):
        rows = with_intercept(sparse_rows(matrix), 7.0)
        np.testing.assert_array_equal(rows.dot(np.array([1.0, 10.0, 100.0])), [743.0, 710.0, 700.0])
    weights = np.array([1.0, 2.0, 5.0])
    assert mean_square_length(sparse_rows(X), weights) == pytest.approx((25 + 2) / 8)


def test_batches_grow_until_they_are_everything():
    X, y = problem(n=1000)
    whole = SparseLogistic(sparse_rows(X), np.where(y > 0, 1.0, -1.0), 1e-3)
    progress = solver.start(whole, momentum=0.9, max_step=None, batch_size=100)
    cap = 8 / (np.mean((X**2).sum(axis=1)) + 4e-3)
    assert progress.run.configuration["max_step"] == pytest.approx(cap)
    solver.minimise(progress, max_iter=500, tol=1e-5, rng=np.random.default_rng(0))
    assert progress.converged
    assert progress.batch_size == 1000
    assert progress.run.configuration.rule.searches
    assert whole.objective(progress.best) == pytest.approx(min(progress.losses), rel=1e-12)


def test_a_pass_uses_every_row(monkeypatch):
    X, y = problem(n=103)
    whole = SparseLogistic(sparse_rows(X), np.where(y > 0, 1.0, -1.0))
    progress, seen = solver.start(whole, momentum=0.9, max_step=None, batch_size=10), []
    advance = solver._advance

    def seen_and_taken(run, batches):
        seen.append(batches)
        advance(run, batches)

    monkeypatch.setattr(solver, "_advance", seen_and_taken)
    solver.average_pass(progress, np.random.default_rng(0))
    indices, counts = np.unique(np.concatenate(seen), return_counts=True)
    assert len(indices) == 103
    assert counts.sum() == 110
    assert counts.max() == 2


def test_the_result_of_a_pass_is_the_weighted_mean_of_its_iterates(monkeypatch):
    X, y = problem(n=90)
    whole = SparseLogistic(sparse_rows(X), np.where(y > 0, 1.0, -1.0))
    monkeypatch.setattr(solver, "SNAPSHOTS", 3)
    progress = solver.start(whole, momentum=0.9, max_step=None, batch_size=10)
    mean = solver.average_pass(progress, np.random.default_rng(0))
    again = solver.start(whole, momentum=0.9, max_step=None, batch_size=10)
    batches = np.random.default_rng(0).permutation(90).reshape(9, 10)
    iterates = []
    for batch in batches:
        again.run.advance(1, batch[None])
        iterates.append(again.run.state.theta.copy())
    expected = np.average(iterates[2::3], axis=0, weights=[1, 2, 3])
    np.testing.assert_allclose(mean, expected, rtol=1e-12)
