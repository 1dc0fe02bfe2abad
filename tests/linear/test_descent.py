"""The last phase: passes over all rows, estimates of the Hessian, L-BFGS."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from heavystep.linear import SHBLogisticRegression, descent, kernels
from heavystep.linear.columns import Columns
from heavystep.linear.curvature import Curvature, Sample, hessian
from heavystep.linear.descent import Descent, descend
from heavystep.linear.objective import Objective
from heavystep.linear.rows import sparse_rows
from heavystep.linear.tables import table_of
from heavystep.problems import SparseLogistic
from tests.helpers.classified import objective, problem

RNG = np.random.default_rng(5)
ALPHA = 0.01


def made(n=400, sparse=False, intercept=True, dtype=np.float64, alpha=ALPHA):
    """Columns with offsets and units, one of them with holes; weights; the objective twice."""
    X, y = problem(n=n)
    X = X * 10.0 ** np.arange(-3, 9)[: X.shape[1]] + 2.0
    X[:, 3] *= RNG.random(n) < 0.5
    X = X.astype(dtype)
    weights = RNG.uniform(0.5, 2.0, size=n)
    rows = sparse_rows(sp.csr_matrix(X))
    columns = Columns.of(rows, weights, alpha, fit_intercept=intercept, stored=_full(X))
    signs = np.where(y > 0, 1.0, -1.0)
    table = table_of(sp.csr_matrix(X) if sparse else X)
    whole = Objective(table, signs, weights / weights.sum(), columns, alpha)
    inner = columns.transform(rows)
    return whole, SparseLogistic(inner, signs, columns.penalties(alpha), weights), inner


def _full(X):
    return lambda columns: (X[:, columns] != 0.0).all(axis=0)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
def test_a_pass_finds_value_and_gradient_in_the_parameters_units(sparse, intercept):
    whole, plain, _ = made(sparse=sparse, intercept=intercept)
    theta = RNG.normal(size=plain.dim)
    point = whole.at(theta)
    # Offsets of up to 2e3 units cancel, and 400 terms are added up.
    assert point.value == pytest.approx(float(plain.objective(theta)), rel=1e-9)
    np.testing.assert_allclose(point.gradient, plain.full_gradient(theta), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(point.margins, plain.margins(theta), rtol=1e-7, atol=1e-7)
    assert whole.passes == 1


@pytest.mark.parametrize("sparse", [True, False])
def test_single_precision_is_summed_in_double(sparse):
    rows = RNG.normal(size=(1000, 5)).astype(np.float32)
    table = table_of(sp.csr_matrix(rows) if sparse else rows)
    w, signs, weights = RNG.normal(size=5), np.ones(1000), np.full(1000, 1e-3)
    sums = table.sums(signs, weights, w, 0.5)
    exact = table_of(rows.astype(np.float64)).sums(signs, weights, w, 0.5)
    np.testing.assert_allclose(sums.gradient, exact.gradient, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(sums.margins, rows.astype(np.float64) @ w + 0.5, rtol=1e-12)
    assert sums.loss == pytest.approx(exact.loss, rel=1e-13)
    assert sums.by_intercept == pytest.approx(-(weights @ expit(-sums.margins)), rel=1e-12)


def test_second_derivatives():
    whole, plain, inner = made()
    theta = RNG.normal(size=plain.dim)
    point = whole.at(theta)
    dense = np.zeros((inner.n, inner.dim))
    dense[inner.row_of_entries(), inner.indices] = inner.values
    margins = plain.margins(theta)
    c = whole.weights * expit(margins) * expit(-margins)
    np.testing.assert_allclose(whole.curvatures(point), c, rtol=1e-6)
    exact = (dense * c[:, None]).T @ dense
    np.testing.assert_allclose(hessian(inner, np.arange(inner.n), c), exact, rtol=1e-9, atol=1e-12)
    some = np.array([7, 3, 100])
    part = (dense[some] * c[some, None]).T @ dense[some]
    np.testing.assert_allclose(hessian(inner, some, c[some]), part, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        whole.diagonal(c), np.diag(exact) + whole.penalties, rtol=1e-6, atol=1e-12
    )
    sample = Sample(np.arange(inner.n), inner, RNG.permutation(inner.n), True)
    curvature = Curvature(whole, point, sample)
    exact += np.diag(whole.penalties)
    vector = RNG.normal(size=plain.dim)
    np.testing.assert_allclose(exact @ curvature.solve(vector), vector, rtol=1e-5, atol=1e-5)
    assert curvature.along(vector) == pytest.approx(vector @ exact @ vector, rel=1e-6)


def test_slopes_along_a_line():
    margins, along, weights = RNG.normal(size=(3, 700))
    weights = np.abs(weights)
    slope, second = kernels.line_slope(margins, along, weights, 0.3)
    moved = margins + 0.3 * along
    assert slope == pytest.approx(-(weights * expit(-moved)) @ along, rel=1e-12)
    assert second == pytest.approx((weights * expit(moved) * expit(-moved)) @ along**2, rel=1e-12)


def test_an_estimate_from_a_sample_has_the_diagonal_of_all_rows():
    """A column that the sample misses, of unknown unit, gets its own second derivative."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4000, 6)) * np.array([1.0, 1.0, 1.0, 1.0, 1e3, 1e-3])
    X[200:, 4] = 0.0
    signs = np.where(rng.random(4000) < 0.5, 1.0, -1.0)
    places = np.arange(1000, 4000)
    rows = sparse_rows(sp.csr_matrix(X[places]))
    columns = Columns.of(rows, np.ones(rows.n), 1e-6, fit_intercept=False)
    assert not columns.alike
    table = table_of(sp.csr_matrix(X))
    whole = Objective(table, signs, np.full(4000, 1 / 4000), columns, 1e-6)
    point = whole.at(np.zeros(6))
    sample = Sample(places, columns.transform(rows), rng.permutation(3000), False)
    curvature = Curvature(whole, point, sample)
    unit = np.zeros(6)
    unit[4] = 1.0
    h = (X[:, 4] ** 2).mean() / 4 * columns.scale[4] ** 2 + whole.penalties[4]
    assert curvature.solve(unit)[4] == pytest.approx(1 / h)


IN_ORDER = [
    ([0, 2, 2, 3], [0, 3, 1], True),
    ([0, 2, 2, 3], [3, 0, 1], False),
    ([0, 2, 2, 3], [1, 1, 1], False),
    ([0, 2, 2, 3], [0, 4, 1], False),
    ([0, 2, 2, 3], [-1, 2, 1], False),
    ([0, 2, 1, 3], [0, 1, 2], False),
    ([0, 9, 2, 3], [0, 1, 2], False),
    ([1, 2, 2, 3], [0, 1, 2], False),
    ([0, 1, 1, 2], [0, 1, 2], False),
    ([0, 0, 0, 0], [], True),
]


@pytest.mark.parametrize(("indptr", "indices", "good"), IN_ORDER)
def test_order_is_seen(indptr, indices, good):
    found = kernels.in_order(np.array(indptr), np.array(indices, dtype=np.int32), 4)
    assert found is good


@pytest.mark.parametrize("limit", [512, 1])
def test_it_converges_where_gradients_would_not(monkeypatch, limit):
    """Columns that are nearly the same: condition 1e8. With the diagonal alone, too."""
    monkeypatch.setattr("heavystep.linear.curvature.LIMIT", limit)
    rng = np.random.default_rng(0)
    common = rng.normal(size=(3000, 1))
    X = common + 1e-2 * rng.normal(size=(3000, 8))
    y = (X.sum(axis=1) / 4 + 50 * (X[:, 0] - X[:, 1]) + rng.logistic(size=3000) > 0).astype(int)
    model = SHBLogisticRegression(1e-6, tol=1e-8, random_state=0).fit(X, y)
    found = objective(model.coef_[0], model.intercept_[0], X, y, 1e-6)
    # What can be proven ends near 1e-16 times the condition.
    exact = SHBLogisticRegression(1e-6, tol=1e-10, random_state=1).fit(X, y)
    best = objective(exact.coef_[0], exact.intercept_[0], X, y, 1e-6)
    assert -1e-10 * found <= found - best <= 1e-8 * found
    assert (np.diff(model.loss_curve_) <= 1e-15).all()


def test_rounding_ends_it():
    whole, plain, inner = made(alpha=0.0)
    sample = Sample(np.arange(inner.n), inner, np.arange(inner.n), True)
    run = Descent(whole, sample, whole.at(np.zeros(plain.dim)))
    descend(run, tol=0.0, most_passes=10_000)
    assert whole.passes < 100
    # A fall of g^2 / 2h is hidden by the rounding of F = 0.2 where g is about sqrt(eps F h).
    assert np.abs(run.point.gradient).max() < 1e-8


def test_steps_that_lower_nothing_end_it(monkeypatch):
    whole, plain, inner = made()
    sample = Sample(np.arange(inner.n), inner, np.arange(inner.n), True)
    run = Descent(whole, sample, whole.at(np.zeros(plain.dim)))
    monkeypatch.setattr(descent, "_line_search", lambda objective, point, step: point)
    descend(run, tol=0.0, most_passes=100)
    assert len(run.values) == 1 + descent.IDLE
    assert not run.converged


def test_no_pass_beyond_the_last():
    whole, plain, inner = made()
    sample = Sample(np.arange(inner.n), inner, np.arange(inner.n), True)
    run = Descent(whole, sample, whole.at(np.zeros(plain.dim)))
    descend(run, tol=1e-12, most_passes=3)
    assert not run.converged
    assert whole.passes in (3, 4)  # a step may need a second look
    assert np.isfinite(run.gap)


def test_the_search_on_a_line_finds_where_it_is_flat():
    whole, plain, _ = made()
    theta = RNG.normal(size=plain.dim)
    point = whole.at(theta)
    for length in (1e-4, 1.0, 1e4):
        step = -length * point.gradient
        new = whole.at(theta + step)
        slopes = (float(point.gradient @ step), float(new.gradient @ step))
        t = descent._flat_step(whole, point, step, new.margins - point.margins, slopes)
        slope = whole.at(theta + t * step).gradient @ step
        assert abs(slope) <= descent.FLATTER * -slopes[0] * (1 + 1e-6)


def test_one_large_entry_does_not_end_it_early():
    """Among 400 x 6 normals one entry of 1e4: the bound must not trust the largest curvature."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(400, 6))
        y = (X @ rng.normal(size=6) * 2 + rng.logistic(size=400) > 0).astype(int)
        X[rng.integers(400), rng.integers(6)] = 1e4
        model = SHBLogisticRegression(random_state=0).fit(X, y)
        found = objective(model.coef_[0], model.intercept_[0], X, y, 1e-4)
        theirs = LogisticRegression(C=25.0, solver="newton-cholesky", tol=1e-12).fit(X, y)
        best = objective(theirs.coef_[0], theirs.intercept_[0], X, y, 1e-4)  # alpha = 1 / (C n)
        assert -1e-12 <= found / best - 1 <= 1e-4
        assert model.gap_[0] <= 1e-4 * found
