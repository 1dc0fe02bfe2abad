"""The estimator: what scikit-learn asks of a classifier, around :mod:`heavystep.linear.solver`."""

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from heavystep import validation
from heavystep.arrays import Array
from heavystep.linear import solver
from heavystep.linear.columns import Columns
from heavystep.linear.probabilities import log_probabilities, probabilities
from heavystep.linear.randomness import generator_of
from heavystep.linear.rows import sparse_rows
from heavystep.linear.tables import table_of
from heavystep.linear.targets import announced_classes, classes_of, row_weights
from heavystep.problems import SparseLogistic
from heavystep.simulation.run import full_loss

DTYPES = (np.float64, np.float32)


class SHBLogisticRegression(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    r"""Logistic regression: stochastic heavy ball with the Polyak step size, L-BFGS at the end.

    .. math:: \min_{w, b}\ \frac{\sum_i s_i \log(1 + e^{-y_i (x_i^\top w + b)})}{\sum_i s_i}
              + \frac{\alpha}{2} \|w\|^2

    with sample weights :math:`s_i`. There is no learning rate. Minibatches of a sample, each with
    the step that its loss and gradient allow, come near the minimum; a few steps of L-BFGS on all
    rows, which begin with the Hessian of the sample, finish. The fit ends when the distance to the
    minimum is proven to be small, and warns if it is not: see :mod:`heavystep.linear.solver` and
    :mod:`heavystep.linear.bound`. Columns may have any unit: see :mod:`heavystep.linear.columns`.
    More than two classes are fitted one against the rest. ``partial_fit`` is stochastic heavy ball
    alone.

    Args:
        alpha: penalty, >= 0; the intercept is not penalised.
        C: the penalty as scikit-learn's ``LogisticRegression(C=C)`` has it, > 0: alpha is then
            :math:`1 / (C \sum_i s_i)`, and 0 for infinity; None: ``alpha`` counts.
        fit_intercept: whether there is a b.
        batch_size: rows of a minibatch, >= 1.
        momentum: beta, in [0, 1).
        max_step: largest step; None: from the size of the rows.
        max_iter: most passes over the data, >= 1; one that is begun counts.
        tol: converged when the objective is proven to exceed its minimum by at most this part of
            itself, >= 0.
        class_weight: weights of the classes, a dict or ``"balanced"``; None: all 1.
        random_state: seed, ``RandomState`` or ``Generator`` of the sample and its order.
        warm_start: begin at the last fit's coefficients, with L-BFGS.

    Attributes:
        classes_: the classes.
        coef_: (1, features) w, or one row a class.
        intercept_: (1,) b, or one a class.
        n_iter_: (1,) passes over the data, or one a class.
        gap_: (1,) the proven bound of the objective less its minimum, or one a class; the objective
            itself if none is known. Of a ``fit``, before coefficients are rounded to float32.
        loss_curve_: objective after the minibatches and after each step on all rows, averaged over
            the classes' problems.
        n_features_in_: number of features.

    >>> X = np.array([[0.0, 1.0], [0.2, 0.8], [1.0, 0.0], [0.9, 0.3]])
    >>> model = SHBLogisticRegression(alpha=0.01).fit(X, ["no", "no", "yes", "yes"])
    >>> model.predict([[0.8, 0.1]]).tolist()
    ['yes']
    """

    def __init__(
        self,
        alpha: float = 1e-4,
        *,
        C: float | None = None,  # noqa: N803
        fit_intercept: bool = True,
        batch_size: int = 128,
        momentum: float = 0.9,
        max_step: float | None = None,
        max_iter: int = 1000,
        tol: float = 1e-4,
        class_weight: Any = None,
        random_state: Any = None,
        warm_start: bool = False,
    ) -> None:
        self.alpha = alpha
        self.C = C
        self.fit_intercept = fit_intercept
        self.batch_size = batch_size
        self.momentum = momentum
        self.max_step = max_step
        self.max_iter = max_iter
        self.tol = tol
        self.class_weight = class_weight
        self.random_state = random_state
        self.warm_start = warm_start

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that sparse matrices are accepted."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803
        """Fit all rows until the objective is proven to be near its minimum.

        Args:
            X: (n, features) dense or sparse.
            y: (n,) classes.
            sample_weight: (n,) weights, >= 0; None: all 1.
        """
        self._check_arguments()
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=DTYPES)  # noqa: N806
        classes = classes_of(y)
        known = self._known(classes) if self.warm_start else None
        self.classes_ = classes
        weights = row_weights(X, y, sample_weight, self.class_weight, classes)
        alpha = self.alpha if self.C is None else 1.0 / (self.C * weights.sum())
        settings, table = self._settings(), table_of(X)
        scene = solver.scene(
            table,
            weights,
            alpha,
            settings,
            fit_intercept=self.fit_intercept,
            rng=generator_of(self.random_state),
        )
        self._columns, runs = scene.columns, []
        for index, signs in enumerate(self._signs(y)):
            start = None if known is None else scene.columns.parameters(*known[index])
            runs.append(solver.fit(scene, signs, settings, start))
        self._keep([(run.theta, run.stochastic.run.state) for run in runs], table.dtype)
        self.n_iter_ = np.array([run.passes for run in runs])
        self.gap_ = np.array([run.gap for run in runs])
        self.loss_curve_ = _mean_curve([run.values for run in runs])
        if not all(run.converged for run in runs):
            self._warn(max(run.gap / run.values[-1] for run in runs if not run.converged))
        return self

    def partial_fit(
        self,
        X: Any,  # noqa: N803
        y: Any,
        classes: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """One pass over these rows, from where the last call or fit ended.

        The rows of the first call decide the units of the columns, so they should be typical. Each
        call should have at least ``batch_size`` rows where you can choose.

        Args:
            X: (n, features) dense or sparse.
            y: (n,) classes.
            classes: all classes there will be; needed at the first call.
            sample_weight: (n,) weights, >= 0; None: all 1.
        """
        self._check_arguments()
        first = not hasattr(self, "coef_")
        X, y = validate_data(  # noqa: N806
            self, X, y, accept_sparse="csr", dtype=DTYPES, reset=first
        )
        self.classes_ = announced_classes(y, classes, None if first else self.classes_)
        if isinstance(self.class_weight, str):
            raise ValueError("class_weight must be a dict in partial_fit: other rows may follow")
        if not first:
            if self.fit_intercept != (self._columns.intercept > 0.0):
                raise ValueError("fit_intercept must stay as it was at the first call")
            self._forget_centres()
        if self.C is not None:
            raise ValueError("C must be None in partial_fit: other rows may follow; give alpha")
        problems = self._problems(X, y, sample_weight, None if first else self._columns)
        rng = generator_of(self.random_state)
        kept, losses = [], []
        for index, problem in enumerate(problems):
            steps = solver.start(problem, self._settings())
            if not first:
                _continue(steps, self._states[index])
            point = solver.average_pass(steps, rng)
            kept.append((point, steps.run.state))
            losses.append(full_loss(steps.run, point))
        self._keep(kept, kept[0][0].dtype)
        self.n_iter_ = np.ones(len(problems), dtype=int) + (0 if first else self.n_iter_)
        curve = [] if first else list(self.loss_curve_)
        self.loss_curve_ = np.array([*curve, np.mean(losses)])
        return self

    def decision_function(self, X: Any) -> Array:  # noqa: N803
        """(n,) x . w + b, or (n, classes) for more than two classes."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=DTYPES, reset=False)  # noqa: N806
        scores: Array = np.asarray(X @ self.coef_.T + self.intercept_)
        return scores.ravel() if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> Array:  # noqa: N803
        """(n,) the class with the largest score."""
        scores = self.decision_function(X)
        index = (scores > 0.0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        classes: Array = self.classes_[index]
        return classes

    def predict_proba(self, X: Any) -> Array:  # noqa: N803
        """(n, classes) probabilities.

        With more than two classes, those of each class against the rest, divided by their sum.
        """
        return probabilities(self.decision_function(X))

    def predict_log_proba(self, X: Any) -> Array:  # noqa: N803
        """(n, classes) logarithms of :meth:`predict_proba`."""
        return log_probabilities(self.decision_function(X))

    def _check_arguments(self) -> None:
        validation.real("alpha", self.alpha, validation.NON_NEGATIVE)
        if self.C is not None and np.inf != self.C:
            validation.real("C", self.C, validation.POSITIVE)
        validation.integer("batch_size", self.batch_size, least=1)
        validation.real("momentum", self.momentum, validation.UNIT)
        if self.max_step is not None:
            validation.real("max_step", self.max_step, validation.POSITIVE)
        validation.integer("max_iter", self.max_iter, least=1)
        validation.real("tol", self.tol, validation.NON_NEGATIVE)

    def _settings(self) -> solver.Settings:
        return solver.Settings(
            self.momentum, self.max_step, self.batch_size, self.max_iter, self.tol
        )

    def _signs(self, y: Array) -> list[Array]:
        """Labels -1 and +1: of the second class, or of each class against the rest."""
        positives = self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        return [np.where(y == positive, 1.0, -1.0) for positive in positives]

    def _problems(
        self,
        X: Any,  # noqa: N803
        y: Array,
        sample_weight: Any,
        columns: Columns | None,
    ) -> list[SparseLogistic]:
        """The problems of ``partial_fit``, in units of ``columns`` if there are some already."""
        rows = sparse_rows(X)
        weights = row_weights(X, y, sample_weight, self.class_weight, self.classes_)
        if columns is None:
            columns = Columns.of(rows, weights, self.alpha, fit_intercept=self.fit_intercept)
        self._columns = columns
        inner, penalties = columns.transform(rows), columns.penalties(self.alpha)
        return [SparseLogistic(inner, signs, penalties, weights) for signs in self._signs(y)]

    def _warn(self, gap: float) -> None:
        """Say that convergence is not proven, and what to do."""
        warnings.warn(
            f"not converged after max_iter = {self.max_iter} passes, or as far as rounding "
            f"allows: the gap is proven to be at most {gap:.1e} of the objective, not tol = "
            f"{self.tol}; raise max_iter, tol or alpha",
            ConvergenceWarning,
            stacklevel=3,
        )

    def _known(self, classes: Array) -> list[tuple[Array, float]] | None:
        """The w and b of the last fit, if that was of the same classes and features."""
        fitted = hasattr(self, "coef_") and np.array_equal(self.classes_, classes)
        if not fitted or self.coef_.shape[1] != self.n_features_in_:
            return None
        return [(w, float(b)) for w, b in zip(self.coef_, self.intercept_, strict=True)]

    def _keep(self, results: list[tuple[Array, Any]], dtype: Any) -> None:
        """Keep the coefficients, and the states from which ``partial_fit`` goes on."""
        models = [self._columns.coefficients(point) for point, _ in results]
        self._states = [state for _, state in results]
        self.coef_ = np.stack([w for w, _ in models]).astype(dtype)
        self.intercept_ = np.array([b for _, b in models], dtype=dtype)

    def _forget_centres(self) -> None:
        """Express the states in columns without centres: further rows may have zeros there."""
        plain = self._columns.without_centres()
        for state in self._states:
            for vector in (state.theta, state.buffer):
                vector[:] = plain.parameters(*self._columns.coefficients(vector))
        self._columns = plain


def _continue(steps: solver.Stochastic, state: Any) -> None:
    """Go on from the state of another run."""
    for mine, theirs in zip(steps.run.state, state, strict=True):
        mine[:] = theirs


def _mean_curve(curves: list[list[float]]) -> Array:
    """Mean over problems, round by round; a problem that ended keeps its last loss."""
    rounds = max(len(curve) for curve in curves)
    padded = [curve + [curve[-1]] * (rounds - len(curve)) for curve in curves]
    mean: Array = np.mean(padded, axis=0)
    return mean
