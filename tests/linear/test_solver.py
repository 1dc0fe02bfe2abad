"""The first phase of the solver: its sample, its batches, its passes."""

import numpy as np
import pytest
import scipy.sparse as sp

from heavystep.linear import solver
from heavystep.linear.columns import Columns
from heavystep.linear.rows import sparse_rows, with_intercept
from heavystep.linear.tables import table_of
from heavystep.problems import SparseLogistic
from heavystep.simulation.logistic import mean_square_length
from tests.helpers.classified import problem

RNG = np.random.default_rng(5)
SETTINGS = solver.Settings(momentum=0.9, max_step=None, batch_size=10, max_iter=100, tol=1e-4)


def signs(y):
    return np.where(y > 0, 1.0, -1.0)


def test_intercept_column_and_lengths():
    X = np.array([[3.0, 4.0], [0.0, 1.0], [0.0, 0.0]])
    for matrix in (X, sp.csr_matrix(X)):
        rows = with_intercept(sparse_rows(matrix), 7.0)
        np.testing.assert_array_equal(rows.dot(np.array([1.0, 10.0, 100.0])), [743.0, 710.0, 700.0])
    weights = np.array([1.0, 2.0, 5.0])
    assert mean_square_length(sparse_rows(X), weights) == pytest.approx((25 + 2) / 8)


def test_the_cap_is_in_the_units_of_the_data():
    X, y = problem(n=1000)
    whole = SparseLogistic(sparse_rows(X), signs(y), 1e-3)
    cap = 8 / (np.mean((X**2).sum(axis=1)) + 4e-3)
    steps = solver.start(whole, SETTINGS._replace(batch_size=100))
    assert steps.run.configuration["max_step"] == pytest.approx(cap)
    few = solver.start(whole, SETTINGS._replace(batch_size=4000))
    assert few.run.configuration["max_step"] == pytest.approx(cap / 4)
    given = solver.start(whole, SETTINGS._replace(max_step=0.5, momentum=0.3))
    assert given.run.configuration["max_step"] == 0.5
    assert given.run.configuration["momentum"] == 0.3


def test_a_pass_uses_every_row(monkeypatch):
    X, y = problem(n=103)
    steps, seen = solver.start(SparseLogistic(sparse_rows(X), signs(y)), SETTINGS), []
    taken = solver._mean_of_steps
    monkeypatch.setattr(
        solver,
        "_mean_of_steps",
        lambda stochastic, batches: (seen.append(batches), taken(stochastic, batches))[1],
    )
    solver.average_pass(steps, np.random.default_rng(0))
    indices, counts = np.unique(np.concatenate(seen), return_counts=True)
    assert len(indices) == 103
    assert counts.sum() == 110
    assert counts.max() == 2


def iterates(whole, batches):
    again, found = solver.start(whole, SETTINGS), []
    for batch in batches:
        again.run.advance(1, batch[None])
        found.append(again.run.state.theta.copy())
    return found


def test_the_result_of_a_pass_is_the_weighted_mean_of_its_iterates(monkeypatch):
    X, y = problem(n=90)
    whole = SparseLogistic(sparse_rows(X), signs(y))
    monkeypatch.setattr(solver, "SNAPSHOTS", 3)
    mean = solver.average_pass(solver.start(whole, SETTINGS), np.random.default_rng(0))
    every = iterates(whole, np.random.default_rng(0).permutation(90).reshape(9, 10))
    np.testing.assert_allclose(mean, np.average(every[2::3], axis=0, weights=[1, 2, 3]), rtol=1e-12)


def test_the_first_phase_averages_its_second_half():
    X, y = problem(n=90)
    whole, order = (
        SparseLogistic(sparse_rows(X), signs(y)),
        np.random.default_rng(0).permutation(90),
    )
    mean, count = solver.first_phase(solver.start(whole, SETTINGS), order, most=100)
    assert count == solver.PASSES * 9
    half = iterates(whole, np.resize(order, (18, 10)))[9:]
    np.testing.assert_allclose(mean, np.average(half, axis=0, weights=range(1, 10)), rtol=1e-12)
    assert solver.first_phase(solver.start(whole, SETTINGS), order, most=5)[1] == 5


def test_with_one_batch_nothing_is_stochastic():
    X, y = problem(n=90)
    steps = solver.start(
        SparseLogistic(sparse_rows(X), signs(y)), SETTINGS._replace(batch_size=200)
    )
    point, count = solver.first_phase(steps, np.arange(90), most=100)
    assert count == 0
    np.testing.assert_array_equal(point, 0.0)


def drawn(n, weights=None, **settings):
    X, _ = problem(n=n)
    weights = np.ones(n) if weights is None else weights
    return solver.scene(
        table_of(X), weights, 1e-3, SETTINGS._replace(**settings),
        fit_intercept=True, rng=np.random.default_rng(0),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("n", "size"),
    [
        (500, 500),
        (solver.LEAST * 10 + 1, solver.LEAST * 10),
        (solver.LEAST * 10 * solver.PART + 40, solver.LEAST * 10 + 10),
        (solver.STEPS * 10 * solver.PART + 40, solver.STEPS * 10),
    ],
)
def test_the_size_of_the_sample(n, size):
    sample = drawn(n).sample
    assert len(sample.places) == sample.rows.n == size
    assert (np.diff(sample.places) > 0).all()
    np.testing.assert_array_equal(np.sort(sample.order), np.arange(size))
    assert (np.diff(sample.order) < 0).any()


def test_rows_without_weight_are_not_drawn():
    weights = np.where(np.arange(1000) % 2, 3.0, 0.0)
    scene = drawn(1000, weights)
    assert (scene.sample.places % 2 == 1).all()
    assert scene.shares.sum() == pytest.approx(1.0)
    X, _ = problem(n=1000)
    chosen = sparse_rows(X[scene.sample.places])
    columns = Columns.of(chosen, np.ones(chosen.n), 1e-3, fit_intercept=True, stored=np.ones_like)
    np.testing.assert_allclose(scene.columns.shift, columns.shift, rtol=1e-12)
    np.testing.assert_allclose(
        scene.sample.rows.values, columns.transform(chosen).values, rtol=1e-9, atol=1e-12
    )


def test_a_first_phase_that_ends_badly_is_forgotten(monkeypatch):
    X, y = problem(n=1000)
    monkeypatch.setattr(
        solver, "first_phase", lambda steps, order, most: (1e3 * np.ones(X.shape[1] + 1), 7)
    )
    found = solver.fit(drawn(1000), signs(y), SETTINGS, None)
    assert found.values[0] == pytest.approx(np.log(2.0))
    assert found.converged


def test_a_column_full_in_the_sample_only_is_not_centred():
    """Its entries that are not stored would stay 0 in centred columns."""
    rng = np.random.default_rng(0)
    n = solver.STEPS * 10 * 8
    X = rng.normal(size=(n, 3)) + 5.0
    places = drawn(n).sample.places
    outside = np.setdiff1d(np.arange(n), places)
    X[outside[0], 1] = 0.0
    scene = solver.scene(
        table_of(sp.csr_matrix(X)), np.ones(n), 1e-3, SETTINGS,
        fit_intercept=True, rng=np.random.default_rng(0),
    )  # fmt: skip
    np.testing.assert_array_equal(scene.sample.places, places)
    assert scene.columns.shift[1] == 0.0
    assert (np.delete(scene.columns.shift, 1) > 4.0).all()
