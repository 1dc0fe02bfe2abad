"""SHBLogisticRegression: scikit-learn's contract, the right minimum, weights, classes, resuming."""

import gc
import os
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from heavystep.linear import SHBLogisticRegression, load_libsvm, solver
from heavystep.linear.columns import Columns
from heavystep.linear.rows import sparse_rows, with_intercept
from heavystep.problems import SparseLogistic
from heavystep.simulation.logistic import mean_square_length
from tests.helpers import data_sets

RNG = np.random.default_rng(5)


def problem(n=400, dim=12, classes=2, seed=0):
    """Off-centre, correlated features of different size, noisy labels, classes not balanced."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, dim)) @ rng.normal(size=(dim, dim)) / 3 + 0.3
    scores = (
        X @ rng.normal(size=(dim, classes)) + rng.gumbel(size=(n, classes)) + np.arange(classes)
    )
    return X, scores.argmax(axis=1)


def objective(coef, intercept, X, y, alpha, weights=None):
    """The docstring's formula, written out."""
    weights = np.ones(len(y)) if weights is None else weights
    margins = np.where(y > 0, 1.0, -1.0) * (X @ coef + intercept)
    return weights @ np.logaddexp(0.0, -margins) / weights.sum() + alpha / 2 * coef @ coef


def least(X, y, alpha, weights=None, intercept=True):
    """The minimum by another method."""

    def value(theta):
        return objective(theta[:-1], theta[-1] if intercept else 0.0, X, y, alpha, weights)

    return minimize(value, np.zeros(X.shape[1] + 1), method="BFGS", options={"gtol": 1e-9}).fun


@parametrize_with_checks([SHBLogisticRegression()])
def test_scikit_learns_contract(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


@pytest.mark.slow
def test_check_estimator_whole():
    """Nothing skipped, nothing failed; one check needs a variable before scipy is imported."""
    code = (
        "import collections, warnings; warnings.simplefilter('ignore')\n"
        "from sklearn.utils.estimator_checks import check_estimator\n"
        "from heavystep.linear import SHBLogisticRegression\n"
        "found = check_estimator(SHBLogisticRegression(), on_fail=None)\n"
        "print(sorted({(one['status']) for one in found}), len(found) > 50)\n"
    )
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert run.stdout.strip() == "['passed'] True"


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
    columns = Columns.of(rows, weights, 0.01, fit_intercept=True, centre=True)
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
        model.set_params(max_iter=1).fit(X, y)
    assert objective(model.coef_[0], model.intercept_[0], X, y, 1e-4) <= before * (1 + 1e-12)


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


def test_small_chunks_are_not_noise():
    X, y = problem(n=2000)
    chunked, whole = SHBLogisticRegression(random_state=0), SHBLogisticRegression(random_state=0)
    for _ in range(3):
        whole.partial_fit(X, y, classes=[0, 1])
        for part in np.array_split(np.arange(2000), 200):
            chunked.partial_fit(X[part], y[part], classes=[0, 1])
    reached = objective(chunked.coef_[0], chunked.intercept_[0], X, y, 1e-4)
    assert reached / least(X, y, 1e-4) - 1 < 0.15


def test_memory_is_given_back():
    """A layout is kept no longer than its problem."""
    from heavystep.simulation.layout import _KNOWN

    gc.collect()
    before = len(_KNOWN)
    X, y = problem()
    SHBLogisticRegression().fit(X, y)
    gc.collect()
    assert len(_KNOWN) == before


def test_logarithms_of_small_probabilities():
    X, y = problem()
    model = SHBLogisticRegression().fit(X, y)
    far = 1e4 * X
    logs = model.predict_log_proba(far)
    assert np.isfinite(logs).all()
    np.testing.assert_allclose(np.exp(logs), model.predict_proba(far), atol=1e-300)
    generator = SHBLogisticRegression(random_state=np.random.default_rng(3)).fit(X, y)
    assert generator.score(X, y) > 0.7


def test_float32_stays_float32():
    X, y = problem()
    model = SHBLogisticRegression(0.01).fit(X.astype(np.float32), y)
    assert model.coef_.dtype == np.float32
    double = SHBLogisticRegression(0.01).fit(X, y)
    np.testing.assert_allclose(model.coef_, double.coef_, atol=0.02)


def test_it_fits_into_scikit_learn():
    X, y = problem()
    grid = GridSearchCV(
        make_pipeline(StandardScaler(), SHBLogisticRegression(random_state=0)),
        {"shblogisticregression__alpha": np.array([1e-4, 1e-1]),
         "shblogisticregression__batch_size": np.array([16, 64])},
        cv=3,
    ).fit(X, y)  # fmt: skip
    assert grid.best_score_ > 0.7
    assert clone(grid.best_estimator_[1]).get_params()["alpha"] in (1e-4, 1e-1)


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


BAD = [
    ({"alpha": -1.0}, ValueError, r"alpha must be >= 0 and finite, got -1.0"),
    ({"momentum": 1.0}, ValueError, r"momentum \(beta\) must be in \[0, 1\), got 1.0"),
    ({"batch_size": 0}, ValueError, r"batch_size must be >= 1, got 0"),
    ({"max_iter": 2.5}, TypeError, r"max_iter must be an int >= 1, got 2.5"),
    ({"max_step": 0.0}, ValueError, r"max_step \(gamma_max\) must be > 0"),
    ({"tol": float("nan")}, ValueError, r"tol must be >= 0"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), BAD)
def test_bad_arguments(arguments, error, message):
    X, y = problem(n=20)
    for call in ("fit", "partial_fit"):
        with pytest.raises(error, match=message):
            getattr(SHBLogisticRegression(**arguments), call)(X, y)


def test_bad_data():
    X, y = problem(n=20)
    model = SHBLogisticRegression()
    with pytest.raises(ValueError, match="at least 2 classes, got one class"):
        model.fit(X, np.zeros(20))
    with pytest.raises(ValueError, match=r"at least one non-zero|not be 0 for all rows"):
        model.fit(X, y, np.zeros(20))
    with pytest.raises(ValueError, match="must not be 0 for all rows"):
        SHBLogisticRegression(class_weight={0: 0.0, 1: 0.0}).fit(X, y)
    with pytest.raises(ValueError, match="classes must be given at the first call"):
        model.partial_fit(X, y)
    model.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="classes that were not announced"):
        model.partial_fit(X, y + 1)
    with pytest.raises(ValueError, match="classes must stay"):
        model.partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="class_weight must be a dict in partial_fit"):
        SHBLogisticRegression(class_weight="balanced").partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="not finite"):
        SHBLogisticRegression().fit(1e200 * X, y)


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
    assert progress.run.method.gamma_max == pytest.approx(8 / (np.mean((X**2).sum(axis=1)) + 4e-3))
    solver.minimise(progress, max_iter=500, tol=1e-5, rng=np.random.default_rng(0))
    assert progress.converged
    assert progress.batch_size == 1000
    assert progress.run.method.rule == "armijo"
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


def test_a_libsvm_file_in_three_lines(monkeypatch):
    data_sets.require(monkeypatch, "mushrooms")
    X, y = load_libsvm("mushrooms")
    model = SHBLogisticRegression(random_state=0).fit(X, y)
    assert model.classes_.tolist() == [1.0, 2.0]
    assert model.score(X, y) > 0.99
