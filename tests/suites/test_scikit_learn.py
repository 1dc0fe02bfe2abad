"""scikit-learn's own tests of logistic regression, run on ours in its place.

They come with scikit-learn and are called as they are. What changes is the name that they look up:
an estimator with the arguments that they give, and with a tolerance that is finer than its own.
"""

import inspect
import itertools

import numpy as np
import pytest
import sklearn

from heavystep.linear import SHBLogisticRegression

theirs = pytest.importorskip("sklearn.linear_model.tests.test_logistic")

SEED, SOLVER = 42, "lbfgs"
"""For tests over seeds, and for those over solvers: ours is one."""


class Adapted(SHBLogisticRegression):
    """Ours, with the arguments of scikit-learn's as far as these tests give them."""

    def __init__(
        self, C=1.0, *, tol=1e-4, fit_intercept=True, class_weight=None, random_state=None,
        solver=SOLVER, max_iter=100, warm_start=False,
    ):  # fmt: skip
        super().__init__(
            C=C, tol=tol, fit_intercept=fit_intercept, class_weight=class_weight,
            max_iter=max_iter, random_state=random_state, warm_start=warm_start,
        )  # fmt: skip
        self.solver = solver

    def fit(self, X, y, sample_weight=None):
        # Their tolerance is one of gradients, ours of what the loss falls by.
        given = self.tol, self.max_iter
        self.tol, self.max_iter = 1e-10, 3000
        try:
            return super().fit(X, y, sample_weight)
        finally:
            self.tol, self.max_iter = given


APPLY = {
    "test_predict_2_classes",
    "test_predict_3_classes",
    "test_c_inf_no_warning",
    "test_inconsistent_input",
    "test_write_parameters",
    "test_nan",
    "test_multinomial_logistic_regression_string_inputs",
    "test_logistic_regression_class_weights",
    "test_logistic_regression_sample_weights",
    "test_logistic_regression_solver_class_weights",
    "test_logistic_regression_solvers",
    "test_sample_weight_not_modified",
    "test_liblinear_decision_function_zero",
    "test_large_sparse_matrix",
    "test_dtype_match",
    "test_single_feature_newton_cg",
    "test_warm_start_converge_LR",
    "test_passing_params_without_enabling_metadata_routing",
}
SLOW = {"test_dtype_match", "test_logistic_regression_class_weights"}
PATH = "of logistic_regression_path, a function that ours has not"
CV = "of LogisticRegressionCV, which ours is not"
L1 = "an l1 penalty, which ours has not"
SOFTMAX = "one multinomial problem of all classes: ours fits one against the rest"
ARGUMENT = "about an argument that ours has not"
ONE_SOLVER = "about one of scikit-learn's solvers"
DO_NOT_APPLY = {
    "test_LogisticRegressionCV_GridSearchCV_elastic_net": CV,
    "test_LogisticRegressionCV_elasticnet_attribute_shapes": CV,
    "test_LogisticRegressionCV_no_refit": CV,
    "test_LogisticRegressionCV_on_folds": CV,
    "test_LogisticRegression_elastic_net_objective": L1,
    "test_check_solver_option": ARGUMENT,
    "test_consistency_path": PATH,
    "test_elastic_net_coeffs": L1,
    "test_elastic_net_l1_l2_equivalence": L1,
    "test_elastic_net_versus_sgd": L1,
    "test_elastic_net_vs_l1_l2": L1,
    "test_elasticnet_l1_ratio_err_helpful": L1,
    "test_get_default_scorer": CV,
    "test_l1_ratio_None_deprecated": L1,
    "test_l1_ratio_non_elasticnet": L1,
    "test_liblinear_dual_random_state": ONE_SOLVER,
    "test_liblinear_multiclass_raises": ONE_SOLVER,
    "test_liblinear_not_stuck": L1,
    "test_liblinear_with_large_values": ONE_SOLVER + ", which refuses them; ours has no limit",
    "test_logistic_cv": CV,
    "test_logistic_cv_folds_with_classes_missing": CV,
    "test_logistic_cv_mock_scorer": CV,
    "test_logistic_cv_multinomial_score": CV,
    "test_logistic_cv_refit_false_non_elasticnet": CV,
    "test_logistic_cv_sparse": CV,
    "test_logistic_glmnet": SOFTMAX + "; its two classes are those of "
    "test_two_classes_have_the_coefficients_of_glmnet",
    "test_logistic_regression_array_api_compliance": "arrays of other libraries than numpy",
    "test_logistic_regression_array_api_warm_start": "arrays of other libraries than numpy",
    "test_logistic_regression_callback_fitted_estimator": "callbacks, which ours has not",
    "test_logistic_regression_callback_support": "callbacks, which ours has not",
    "test_logistic_regression_callback_support_warning": "callbacks, which ours has not",
    "test_logistic_regression_cv_refit": CV,
    "test_logistic_regression_path_coefs_multinomial": PATH,
    "test_logistic_regression_path_convergence_fail": PATH,
    "test_logistic_regression_path_init_coefs": PATH,
    "test_logistic_regression_solvers_multiclass": SOFTMAX,
    "test_logistic_regression_solvers_multiclass_unpenalized": SOFTMAX,
    "test_logistic_regressioncv_class_weights": CV,
    "test_logisticregression_liblinear_sample_weight": L1,
    "test_logisticregression_warns_with_n_jobs": ARGUMENT,
    "test_logisticregressioncv_warns_with_use_legacy_attributes": CV,
    "test_logreg_intercept_scaling_zero": ARGUMENT,
    "test_logreg_l1": L1,
    "test_logreg_predict_proba_multinomial": SOFTMAX,
    "test_lr_cv_scores_differ_when_sample_weight_is_requested": CV,
    "test_lr_cv_scores_without_enabling_metadata_routing": CV,
    "test_lr_penalty_l1ratio_incompatible": L1,
    "test_lr_scoring_warns": CV,
    "test_max_iter": "iterations of their solvers; our passes are tested in tests/linear",
    "test_multinomial_cv_iris": CV,
    "test_multinomial_identifiability_on_iris": SOFTMAX,
    "test_n_iter": "iterations of their solvers, one number for all classes",
    "test_newton_cholesky_fallback_to_lbfgs": ONE_SOLVER,
    "test_penalty_deprecated": ARGUMENT,
    "test_penalty_none": ARGUMENT,
    "test_saga_vs_liblinear": L1,
    "test_sample_and_class_weight_equivalence_liblinear": L1,
    "test_scores_attribute_layout_elasticnet": CV,
    "test_sparsify": "sparsify(), which ours has not: its coefficients are not sparse",
    "test_warm_start": "that a start elsewhere ends elsewhere by more than its tolerance: ours ends "
    "at the minimum",
    "test_warm_start_newton_solver": ONE_SOLVER,
    "test_zero_max_iter": "max_iter = 0, which ours refuses",
}
"""What does not apply, and why."""
LISTED_FOR = "1.9"
"""The version of scikit-learn that these lists were made with."""


def arguments_of(name):
    """The arguments with which pytest would call a test of theirs."""
    function = getattr(theirs, name)
    axes = []
    for mark in getattr(function, "pytestmark", ()):
        if mark.name == "parametrize":
            names, rows = mark.args[0], mark.args[1]
            names = names.replace(" ", "").split(",") if isinstance(names, str) else list(names)
            axes.append([dict(zip(names, row_of(row, names), strict=True)) for row in rows])
    for parts in itertools.product(*axes):
        found = {key: value for part in parts for key, value in part.items()}
        if found.get("solver", SOLVER) == SOLVER:
            seeded = "global_random_seed" in inspect.signature(function).parameters
            yield {**found, **({"global_random_seed": SEED} if seeded else {})}


def row_of(row, names):
    row = row.values if hasattr(row, "marks") else row
    return row if len(names) > 1 or (type(row) is tuple and len(row) == 1) else (row,)


def cases():
    for name in sorted(APPLY & set(dir(theirs))):
        marks = [pytest.mark.slow] if name in SLOW else []
        for place, arguments in enumerate(arguments_of(name)):
            yield pytest.param(name, arguments, id=f"{name}-{place}", marks=marks)


@pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::sklearn.exceptions.ConvergenceWarning"
)
@pytest.mark.parametrize(("name", "arguments"), list(cases()))
def test_scikit_learns(name, arguments, monkeypatch):
    monkeypatch.setattr(theirs, "LogisticRegression", Adapted)
    getattr(theirs, name)(**arguments)


def test_every_test_of_theirs_is_run_or_has_a_reason():
    assert not APPLY & set(DO_NOT_APPLY)
    if not sklearn.__version__.startswith(LISTED_FOR):
        return  # other versions have others
    there = {name for name in dir(theirs) if name.startswith("test_")}
    assert there == APPLY | set(DO_NOT_APPLY)


def test_two_classes_have_the_coefficients_of_glmnet():
    X = np.array([[-4, -3, -2, -1, 0, 1, 2, 3, 4], [0, 0, 1, 0, 1, 1, 1, 0, 0]]).T
    y = np.array([0, 0, 0, 1, 1, 1, 1, 1, 1])
    model = Adapted(C=1 / len(y)).fit(X, y)
    np.testing.assert_allclose(model.intercept_, 0.89230405539, rtol=1e-5)
    np.testing.assert_allclose(model.coef_, [[0.44464569182, 0.01457563448]], rtol=1e-5)


def test_the_adapter_is_the_objective_of_theirs():
    rng = np.random.default_rng(SEED)
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] + rng.normal(size=60) > 0).astype(int)
    ours = Adapted(C=0.3, random_state=0).fit(X, y)
    reference = sklearn.linear_model.LogisticRegression(C=0.3, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(ours.coef_, reference.coef_, rtol=1e-4)
