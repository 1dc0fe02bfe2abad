"""The minimum is the right one: penalty, intercept, weights, classes, units of the columns."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from heavystep.linear import SHBLogisticRegression
from heavystep.linear.columns import Columns
from heavystep.linear.rows import sparse_rows
from tests.helpers.classified import least, objective, problem

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("alpha", [1e-3, 0.1])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
def test_it_finds_the_minimum(alpha, intercept, sparse):
    X, y = problem()
    data = sp.csr_matrix(X) if sparse else X
    model = SHBLogisticRegression(alpha, fit_intercept=intercept, tol=1e-9, random_state=1)
    model.fit(data, y)
    found = objective(model.coef_[0], model.intercept_[0], X, y, alpha)
    best = least(X, y, alpha, intercept=intercept)
    assert 0.0 <= found / best - 1 < 1e-6
    assert intercept or model.intercept_[0] == 0.0
    assert model.loss_curve_.min() == pytest.approx(found, rel=1e-12)
    assert len(model.n_iter_) == 1
    assert model.n_iter_[0] >= len(model.loss_curve_)


def test_defaults_come_close_enough():
    """tol = 1e-4 ends within a few parts in a thousand, on features that were not scaled."""
    for seed in range(4):
        X, y = problem(n=3000, seed=seed)
        model = SHBLogisticRegression(random_state=seed).fit(X, y)
        found = objective(model.coef_[0], model.intercept_[0], X, y, 1e-4)
        assert 0.0 <= found / least(X, y, 1e-4) - 1 < 3e-3


def test_the_objective_is_that_of_scikit_learn():
    X, y = problem()
    ours = SHBLogisticRegression(1 / (0.3 * len(y)), tol=1e-12, max_iter=20_000).fit(X, y)
    theirs = LogisticRegression(C=0.3, tol=1e-10, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)


def test_c_is_scikit_learns_penalty():
    """Weights count there as rows do: twice the weight is half the penalty."""
    X, y = problem()
    weights = RNG.uniform(0, 3, size=len(y))
    for given in (None, weights):
        ours = SHBLogisticRegression(C=0.3, tol=1e-12).fit(X, y, given)
        theirs = LogisticRegression(C=0.3, tol=1e-10, max_iter=10_000).fit(X, y, given)
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
        np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4)


def test_sparse_and_dense_agree():
    X, y = problem(n=3000)
    X[:, 2] *= RNG.random(3000) < 0.3
    dense, sparse = (
        SHBLogisticRegression(1e-3, tol=1e-12, random_state=0).fit(Z, y)
        for Z in (X, sp.csr_matrix(X))
    )
    np.testing.assert_allclose(dense.loss_curve_[0], sparse.loss_curve_[0], rtol=1e-9)
    np.testing.assert_allclose(dense.coef_, sparse.coef_, rtol=1e-4, atol=1e-6)


def test_weights_and_classes_weigh():
    X, y = problem()
    weights = RNG.uniform(0, 3, size=len(y))
    model = SHBLogisticRegression(0.01, tol=1e-9).fit(X, y, sample_weight=weights)
    found = objective(model.coef_[0], model.intercept_[0], X, y, 0.01, weights)
    assert 0.0 <= found / least(X, y, 0.01, weights) - 1 < 1e-6
    of_class = {0: 2.0, 1: 0.5}
    model = SHBLogisticRegression(0.01, tol=1e-9, class_weight=of_class).fit(X, y, weights)
    both = weights * np.where(y == 0, 2.0, 0.5)
    found = objective(model.coef_[0], model.intercept_[0], X, y, 0.01, both)
    assert 0.0 <= found / least(X, y, 0.01, both) - 1 < 1e-6


def test_balanced_classes_have_equal_weight():
    X, y = problem()
    weights = RNG.uniform(0, 3, size=len(y))
    model = SHBLogisticRegression(0.01, tol=1e-9, class_weight="balanced").fit(X, y, weights)
    both = weights / np.array([weights[y == 0].sum(), weights[y == 1].sum()])[y]
    found = objective(model.coef_[0], model.intercept_[0], X, y, 0.01, both)
    assert 0.0 <= found / least(X, y, 0.01, both) - 1 < 1e-6


def test_three_classes_are_one_against_the_rest():
    X, y = problem(classes=3)
    names = np.array(["c", "a", "b"])[y]
    model = SHBLogisticRegression(0.01, tol=1e-9).fit(X, names)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.coef_.shape == (3, X.shape[1])
    for row, name in enumerate("abc"):
        found = objective(model.coef_[row], model.intercept_[row], X, names == name, 0.01)
        assert 0.0 <= found / least(X, names == name, 0.01) - 1 < 1e-6
    probabilities = model.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[probabilities.argmax(axis=1)], model.predict(X))
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), probabilities)


def test_the_scale_of_the_data_does_not_matter():
    X, y = problem()
    curves = [
        SHBLogisticRegression(0.0, random_state=0, tol=1e-3)
        .fit(scale * X, y).loss_curve_
        for scale in (1.0, 2.0**20, 2.0**-20)
    ]  # fmt: skip
    np.testing.assert_allclose(curves[1], curves[0], rtol=1e-10)
    np.testing.assert_allclose(curves[2], curves[0], rtol=1e-10)


@pytest.mark.parametrize("sparse", [True, False])
def test_the_units_of_the_columns_do_not_matter(sparse):
    """Grams beside tonnes, and degrees Kelvin: the same run as in one unit, around 0."""
    X, y = problem(n=1000)
    units, offsets = 10.0 ** RNG.integers(-8, 9, size=X.shape[1]), RNG.normal(size=X.shape[1]) * 50
    odd = (X + offsets) * units
    plain, scaled = (
        SHBLogisticRegression(0.0, random_state=0, tol=1e-5).fit(
            sp.csr_matrix(Z) if sparse else Z, y
        )
        for Z in (X, odd)
    )
    np.testing.assert_allclose(scaled.loss_curve_, plain.loss_curve_, rtol=1e-6)
    np.testing.assert_allclose(
        scaled.decision_function(odd), plain.decision_function(X), rtol=1e-4, atol=1e-4
    )


def test_sparse_columns_of_any_unit():
    """Columns with zeros are scaled and not centred; the penalty counts in the user's unit."""
    X, y = problem(n=600)
    X = X * (RNG.random(X.shape) < 0.4) * 10.0 ** np.arange(-3, 9)[: X.shape[1]]
    model = SHBLogisticRegression(1e-2, tol=1e-9, random_state=0).fit(sp.csr_matrix(X), y)
    found = objective(model.coef_[0], model.intercept_[0], X, y, 1e-2)
    units = np.abs(X).max(axis=0)

    def value(theta):
        return objective(theta[:-1] / units, theta[-1], X, y, 1e-2)

    options = {"maxiter": 20_000, "maxfun": 10**6, "ftol": 1e-15, "gtol": 1e-10}
    best = minimize(value, np.zeros(len(units) + 1), method="L-BFGS-B", options=options).fun
    assert found / best - 1 < 1e-5


def test_columns_and_back():
    X, _ = problem()
    X[:, 3] *= X[:, 3] > 0.5
    weights = RNG.uniform(0, 2, size=len(X))
    rows = sparse_rows(sp.csr_matrix(X))
    columns = Columns.of(rows, weights, 0.01, fit_intercept=True, stored=np.ones_like)
    assert columns.shift[3] == 0.0
    assert (np.delete(columns.shift, 3) != 0.0).all()
    theta = RNG.normal(size=X.shape[1] + 1)
    coefficients, intercept = columns.coefficients(theta)
    np.testing.assert_allclose(
        columns.transform(rows).dot(theta), X @ coefficients + intercept, rtol=1e-9, atol=1e-9
    )
    np.testing.assert_allclose(columns.parameters(coefficients, intercept), theta, rtol=1e-9)
    penalties = columns.penalties(0.01)
    assert penalties @ theta**2 == pytest.approx(0.01 * coefficients @ coefficients)
    assert penalties.max() <= 0.25
    assert penalties[-1] == 0.0


def test_tiny_columns_do_not_stop_the_others():
    """A large penalty in a small unit is no reason for small steps everywhere."""
    X, y = problem(n=1000)
    X = np.column_stack([X, 1e-9 * RNG.normal(size=len(y))])
    model = SHBLogisticRegression(1e-3, tol=1e-8, random_state=0).fit(X, y)
    found = objective(model.coef_[0], model.intercept_[0], X, y, 1e-3)
    assert found / least(X[:, :-1], y, 1e-3) - 1 < 1e-5


@pytest.mark.parametrize(
    ("dtype", "scale"),
    [(np.float64, 1e-160), (np.float64, 1e150), (np.float32, 1e-30), (np.float32, 1e18)],
)
def test_features_of_any_size(dtype, scale):
    X, y = problem()
    for matrix in (X, X * (RNG.random(X.shape) < 0.7)):
        tiny = sp.csr_matrix((matrix * scale).astype(dtype))
        model = SHBLogisticRegression(0.0, random_state=0).fit(tiny, y)
        plain = SHBLogisticRegression(0.0, random_state=0).fit(sp.csr_matrix(matrix), y)
        assert min(model.loss_curve_) == pytest.approx(min(plain.loss_curve_), rel=1e-3)


def test_separable_data_without_penalty_ends():
    X = np.array([[0.0, 1.0], [0.2, 0.8], [1.0, 0.0], [0.9, 0.3]])
    with pytest.warns(ConvergenceWarning, match="not converged after max_iter = 50 passes"):
        model = SHBLogisticRegression(0.0, max_iter=50, tol=1e-9).fit(X, [0, 0, 1, 1])
    assert np.isfinite(model.coef_).all()
    assert model.score(X, [0, 0, 1, 1]) == 1.0


def test_rows_of_zeros_are_harmless():
    model = SHBLogisticRegression().fit(np.zeros((6, 3)), [0, 0, 0, 0, 1, 1])
    np.testing.assert_array_equal(model.coef_, 0.0)
    np.testing.assert_allclose(model.predict_proba(np.zeros((1, 3))), [[2 / 3, 1 / 3]], atol=0.01)
