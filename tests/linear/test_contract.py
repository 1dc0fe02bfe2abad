"""SHBLogisticRegression does what scikit-learn asks of an estimator, and refuses what it cannot take."""

import gc
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from heavystep.linear import SHBLogisticRegression, load_libsvm
from tests.helpers import data_sets
from tests.helpers.classified import problem

pytestmark = pytest.mark.slow


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


BAD = [
    ({"alpha": -1.0}, ValueError, r"alpha must be >= 0 and finite, got -1.0"),
    ({"C": 0.0}, ValueError, r"C must be > 0 and finite, got 0.0"),
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
    for weight in (-1.0, np.nan, np.inf):
        words = rf"class_weight must be >= 0 and finite, got \{{0: {weight}"
        weighted = SHBLogisticRegression(class_weight={0: weight, 1: 1.0})
        with pytest.raises(ValueError, match=words):
            weighted.fit(X, y)
        with pytest.raises(ValueError, match=words):
            weighted.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="sample_weight must have a finite sum"):
        SHBLogisticRegression().fit(X, y, np.full(len(y), 1e308))
    with pytest.raises(ValueError, match="C must be None in partial_fit"):
        SHBLogisticRegression(C=1.0).partial_fit(X, y, classes=[0, 1])
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


def test_a_libsvm_file_in_three_lines(monkeypatch):
    data_sets.require(monkeypatch, "mushrooms")
    X, y = load_libsvm("mushrooms")
    model = SHBLogisticRegression(random_state=0).fit(X, y)
    assert model.classes_.tolist() == [1.0, 2.0]
    assert model.score(X, y) > 0.99
