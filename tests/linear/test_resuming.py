"""Seeds, partial fits and warm starts."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from heavystep.linear import SHBLogisticRegression
from heavystep.linear.rows import sparse_rows
from tests.helpers.classified import least, objective, problem

RNG = np.random.default_rng(5)


def test_partial_fits_take_rows_with_zeros_in_full_columns():
    """Centres of full columns are given up, at no change of the model, before such rows come."""
    X, y = problem(n=400)
    X = X + 3.0
    model = SHBLogisticRegression(0.01, random_state=0).fit(X, y)
    before = [state.theta.copy() for state in model._states]
    margins = model._columns.transform(sparse_rows(X)).dot(before[0])
    model._forget_centres()
    after = model._columns.transform(sparse_rows(X)).dot(model._states[0].theta)
    np.testing.assert_allclose(after, margins, rtol=1e-9, atol=1e-9)
    model = SHBLogisticRegression(0.01, random_state=0).fit(X, y)
    holes = sp.csr_matrix(X * (RNG.random(X.shape) < 0.5))
    for _ in range(40):
        model.partial_fit(holes, y)
    found = objective(model.coef_[0], model.intercept_[0], holes.toarray(), y, 0.01)
    assert found / least(holes.toarray(), y, 0.01) - 1 < 0.05


def test_a_seed_is_a_run():
    X, y = problem(n=2000)
    first, again, other = (
        SHBLogisticRegression(random_state=seed).fit(X, y).coef_ for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_partial_fit_goes_on_where_it_was():
    X, y = problem(n=2000)
    model, parts = SHBLogisticRegression(random_state=0), np.array_split(np.arange(2000), 8)
    scores = []
    for _ in range(3):
        for part in parts:
            model.partial_fit(X[part], y[part], classes=[0, 1])
            scores.append(objective(model.coef_[0], model.intercept_[0], X, y, 1e-4))
    assert scores[-1] < scores[0]
    assert scores[-1] / least(X, y, 1e-4) - 1 < 0.1
    assert model.n_iter_.tolist() == [24]
    assert len(model.loss_curve_) == 24
    copy = pickle.loads(pickle.dumps(model))
    for one in (model, copy):
        one.partial_fit(X, y)
    np.testing.assert_array_equal(model.coef_, copy.coef_)


def test_partial_fit_after_fit_stays_near():
    X, y = problem(n=2000)
    model = SHBLogisticRegression(random_state=0).fit(X, y)
    before = objective(model.coef_[0], model.intercept_[0], X, y, 1e-4)
    model.partial_fit(X, y)
    assert objective(model.coef_[0], model.intercept_[0], X, y, 1e-4) < 1.05 * before


def test_warm_start_begins_at_the_last_fit():
    X, y = problem(n=2000)
    model = SHBLogisticRegression(random_state=0, warm_start=True).fit(X, y)
    first = model.loss_curve_
    model.fit(X, y)
    assert model.loss_curve_[0] < first[0]
    assert model.loss_curve_[0] < 1.02 * first.min()
    model.fit(X[:, :5], y)  # other features: nothing to begin with
    assert model.coef_.shape == (1, 5)


def test_a_warm_start_returns_nothing_worse():
    X, y = problem(n=2000)
    model = SHBLogisticRegression(random_state=0, warm_start=True, tol=1e-7).fit(X, y)
    before = objective(model.coef_[0], model.intercept_[0], X, y, 1e-4)
    with pytest.warns(ConvergenceWarning):
        model.set_params(max_iter=1, tol=1e-15).fit(X, y)
    assert objective(model.coef_[0], model.intercept_[0], X, y, 1e-4) <= before * (1 + 1e-12)


def test_a_warm_start_that_is_there_already_takes_no_step():
    X, y = problem(n=2000)
    model = SHBLogisticRegression(random_state=0, warm_start=True, tol=1e-7).fit(X, y)
    before = model.coef_.copy()
    model.set_params(tol=1e-6).fit(X, y)
    np.testing.assert_allclose(model.coef_, before, rtol=1e-9)
    assert len(model.loss_curve_) == 1
    assert model.n_iter_.tolist() == [1]


@pytest.mark.parametrize("first", [True, False])
def test_an_intercept_may_come_and_go(first):
    X, y = problem()
    model = SHBLogisticRegression(0.01, fit_intercept=first, warm_start=True, tol=1e-9).fit(X, y)
    model.set_params(fit_intercept=not first)
    with pytest.raises(ValueError, match="fit_intercept must stay"):
        model.partial_fit(X, y)
    model.fit(X, y)
    found = objective(model.coef_[0], model.intercept_[0], X, y, 0.01)
    assert found / least(X, y, 0.01, intercept=not first) - 1 < 1e-6


def test_small_chunks_are_not_noise():
    X, y = problem(n=2000)
    chunked, whole = SHBLogisticRegression(random_state=0), SHBLogisticRegression(random_state=0)
    for _ in range(3):
        whole.partial_fit(X, y, classes=[0, 1])
        for part in np.array_split(np.arange(2000), 200):
            chunked.partial_fit(X[part], y[part], classes=[0, 1])
    reached = objective(chunked.coef_[0], chunked.intercept_[0], X, y, 1e-4)
    assert reached / least(X, y, 1e-4) - 1 < 0.15
