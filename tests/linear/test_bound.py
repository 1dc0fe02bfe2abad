"""The proven gap is a bound, and a fit says so when it has none."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from heavystep.linear import SHBLogisticRegression, bound
from heavystep.linear.bound import decrement_bound, newton_bound, penalty_bound
from heavystep.linear.columns import Columns
from heavystep.linear.objective import Objective
from heavystep.linear.rows import sparse_rows
from heavystep.linear.tables import table_of
from tests.helpers.classified import objective, problem

RNG = np.random.default_rng(5)


def at_the_minimum(alpha, intercept=True, n=300):
    """The objective and its minimiser, by Newton's method with the dense formulas."""
    X, y = problem(n=n)
    columns = Columns.of(
        sparse_rows(X), np.ones(n), alpha, fit_intercept=intercept, stored=np.ones_like
    )
    signs, shares = np.where(y > 0, 1.0, -1.0), np.full(n, 1 / n)
    whole = Objective(table_of(X), signs, shares, columns, alpha)
    inner = columns.transform(sparse_rows(X))
    dense = inner.values.reshape(n, inner.dim)
    theta = np.zeros(inner.dim)
    for _ in range(30):
        point = whole.at(theta)
        curvatures = whole.curvatures(point)
        matrix = (dense * curvatures[:, None]).T @ dense + np.diag(whole.penalties)
        theta = theta - np.linalg.solve(matrix, point.gradient)
    assert np.abs(whole.at(theta).gradient).max() < 1e-14
    return whole, theta


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("alpha", [1e-4, 1e-2, 1.0])
def test_with_a_penalty_it_is_a_bound(alpha, intercept):
    whole, best = at_the_minimum(alpha, intercept)
    minimum = whole.at(best).value
    finite = 0
    for size in np.logspace(-7, 1, 40):
        point = whole.at(best + size * RNG.normal(size=len(best)))
        for each in (penalty_bound(whole, point), newton_bound(whole, point)):
            assert each >= (point.value - minimum) * (1 - 1e-9) - 1e-15
            finite += np.isfinite(each)
    assert finite > 40


def test_without_a_penalty_it_is_a_bound_and_a_sharp_one():
    whole, best = at_the_minimum(0.0)
    minimum = whole.at(best).value
    for size in np.logspace(-4, -2, 20):
        point = whole.at(best + size * RNG.normal(size=len(best)))
        assert penalty_bound(whole, point) == np.inf
        gap = point.value - minimum
        assert gap <= newton_bound(whole, point) * (1 + 1e-6) <= 1.3 * gap
    far = whole.at(best + 10.0 * RNG.normal(size=len(best)))
    assert newton_bound(whole, far) == np.inf


def test_an_intercept_that_is_off_counts():
    """The gradient of the coefficients alone says too little."""
    whole, best = at_the_minimum(1e-2)
    moved = best.copy()
    moved[-1] += 0.3
    point = whole.at(moved)
    g, penalties = point.gradient[:-1], whole.penalties[:-1]
    assert penalty_bound(whole, point) > 0.5 * (g**2 / penalties).sum()
    assert penalty_bound(whole, point) >= point.value - whole.at(best).value


def test_the_formula_of_the_decrement():
    """It is the largest gap of a function whose second derivative falls as e^(-reach r)."""
    for decrement, reach in [(0.3, 1.0), (0.9, 1.0), (0.01, 50.0), (1e-5, 1.0)]:
        r = np.linspace(0.0, -np.log(1 - decrement * reach) / reach * 3, 200_001)
        value = -decrement * r + (np.expm1(-reach * r) + reach * r) / reach**2
        found = decrement_bound(decrement, reach)
        assert found >= -value.min() * (1 - 1e-6)
        assert found == pytest.approx(-value.min(), rel=1e-4)


@pytest.mark.parametrize("chunk", [7, 10_000])
def test_chunks_do_not_matter(monkeypatch, chunk):
    whole, best = at_the_minimum(0.0)
    point = whole.at(best + 1e-3)
    expected = newton_bound(whole, point)
    monkeypatch.setattr(bound, "CHUNK", chunk)
    assert newton_bound(whole, point) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("alpha", [0.0, 1e-4])
def test_columns_that_repeat_each_other(alpha):
    """The Hessian is singular: gaps are proven all the same."""
    X, y = problem()
    X = np.column_stack([X, X[:, 0] + X[:, 1], np.zeros(len(y))])
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = SHBLogisticRegression(alpha, random_state=0, tol=1e-6).fit(X, y)
        plain = SHBLogisticRegression(alpha, random_state=0, tol=1e-12).fit(X[:, :-2], y)
    assert model.gap_[0] <= 1e-6 * model.loss_curve_[-1]
    if not alpha:
        assert model.loss_curve_[-1] == pytest.approx(plain.loss_curve_[-1], rel=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_separable_data_without_a_penalty_in_any_units(seed):
    """The loss falls to zero at infinity, where the inverse of the Hessian overflows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 20)) * 10.0 ** rng.uniform(-6, 6, size=20 if seed % 2 else 1)
    y = (X / np.abs(X).max(axis=0) @ rng.normal(size=20) > 0).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SHBLogisticRegression(C=np.inf, max_iter=3000, tol=1e-12, random_state=0).fit(X, y)
    assert model.score(X, y) == 1.0


def test_what_is_said_of_a_fit_is_true():
    X, y = problem(n=2000)
    for alpha, tol, budget in [(1e-4, 1e-4, 1000), (1e-4, 1e-12, 3), (0.0, 1e-7, 1000)]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = SHBLogisticRegression(alpha, tol=tol, max_iter=budget, random_state=0).fit(X, y)
            exact = SHBLogisticRegression(alpha, tol=1e-14, random_state=1).fit(X, y)
        found, best = (
            objective(one.coef_[0], one.intercept_[0], X, y, alpha) for one in (model, exact)
        )
        assert found - best <= model.gap_[0] * (1 + 1e-9) + 1e-14
        assert model.gap_.shape == (1,)


def test_without_a_bound_there_is_a_warning():
    """More columns than rows and no penalty: the infimum is 0 and not attained."""
    rng = np.random.default_rng(0)
    X = sp.random(100, 600, density=0.05, rng=rng, format="csr")
    y = rng.integers(0, 2, size=100)
    with pytest.warns(ConvergenceWarning, match=r"proven to be at most 1\.0e\+00 of the objective"):
        model = SHBLogisticRegression(0.0, max_iter=60, random_state=0).fit(X, y)
    assert model.gap_[0] == model.loss_curve_[-1] > 0.0  # losses are never negative
    with pytest.warns(ConvergenceWarning, match=r"at most \d\.\de-\d\d of the objective"):
        SHBLogisticRegression(1e-2, max_iter=4, random_state=0).fit(X, y)


def test_one_class_with_weight_is_fitted_exactly():
    """The infimum 0 is reached, as far as numbers go."""
    X, y = problem(n=50)
    model = SHBLogisticRegression(1e-3).fit(X, y, sample_weight=(y == 1).astype(float))
    assert (model.predict(X) == 1).all()
    assert model.gap_[0] <= 1e-4 * model.loss_curve_[-1]
