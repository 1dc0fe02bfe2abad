"""The estimator: what scikit-learn asks of a classifier, around :mod:`heavystep.linear.solver`."""

import warnings
from typing import Any, Self

import numpy as np
from scipy.special import expit, log_expit, logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from heavystep import validation
from heavystep.arrays import Array
from heavystep.linear import solver
from heavystep.linear.columns import Columns
from heavystep.linear.rows import sparse_rows
from heavystep.linear.targets import announced_classes, classes_of, row_weights
from heavystep.problems import SparseLogistic
from heavystep.simulation.run import full_loss

DTYPES = (np.float64, np.float32)


class SHBLogisticRegression(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    r"""Logistic regression by stochastic heavy ball with the Polyak step size.

    .. math:: \min_{w, b}\ \frac{\sum_i s_i \log(1 + e^{-y_i (x_i^\top w + b)})}{\sum_i s_i}
              + \frac{\alpha}{2} \|w\|^2

    with sample weights :math:`s_i`. There is no learning rate: each minibatch gets the step that
    its loss and gradient allow, and batches grow until the loss no longer falls; see
    :mod:`heavystep.linear.solver`. Columns may have any unit: see :mod:`heavystep.linear.columns`.
    More than two classes are fitted one against the rest.

    Args:
        alpha: penalty, >= 0; the intercept is not penalised. ``alpha = 1 / (n C)`` is the objective
            of scikit-learn's ``LogisticRegression(C=C)``.
        fit_intercept: whether there is a b.
        batch_size: rows of the first minibatches, >= 1.
        momentum: beta, in [0, 1).
        max_step: largest step; None: from the size of the rows.
        max_iter: most passes over the data, >= 1.
        tol: converged when the loss falls by less than this part in two rounds on all rows, >= 0.
        class_weight: weights of the classes, a dict or ``"balanced"``; None: all 1.
        random_state: seed, ``RandomState`` or ``Generator`` of the order of the rows.
        warm_start: begin at the last fit's coefficients.

    Attributes:
        classes_: the classes.
        coef_: (1, features) w, or one row a class.
        intercept_: (1,) b, or one a class.
        n_iter_: (1,) passes over the data, or one a class.
        loss_curve_: objective after each round, averaged over the classes' problems.
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
        """Fit all rows until the loss no longer falls.

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
        problems = self._problems(X, y, sample_weight, None, centre=True)
        rng = self._generator()
        starts: list[Any] = [None] * len(problems) if known is None else list(known)
        runs = [self._fitted(one, start, rng) for one, start in zip(problems, starts, strict=True)]
        self._keep([(run.best, run.run.state) for run in runs])
        self.n_iter_ = np.array([run.passes for run in runs])
        self.loss_curve_ = _mean_curve([run.losses for run in runs])
        if not all(run.converged for run in runs):
            warnings.warn(
                f"not converged after max_iter = {self.max_iter} passes; raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=2,
            )
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
        columns = None if first else self._columns
        problems = self._problems(X, y, sample_weight, columns, centre=False)
        rng = self._generator()
        kept, losses = [], []
        for index, problem in enumerate(problems):
            progress = self._started(problem)
            if not first:
                _continue(progress, self._states[index])
            point = solver.average_pass(progress, rng)
            kept.append((point, progress.run.state))
            losses.append(full_loss(progress.run, point))
        self._keep(kept)
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
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        each = expit(scores)
        total = each.sum(axis=1, keepdims=True)
        uniform = np.full_like(each, 1.0 / each.shape[1])
        shares: Array = np.divide(each, total, out=uniform, where=total > 0.0)
        return shares

    def predict_log_proba(self, X: Any) -> Array:  # noqa: N803
        """(n, classes) logarithms of :meth:`predict_proba`."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([log_expit(-scores), log_expit(scores)])
        each = log_expit(scores)
        logarithms: Array = each - logsumexp(each, axis=1, keepdims=True)
        return logarithms

    def _check_arguments(self) -> None:
        validation.real("alpha", self.alpha, validation.NON_NEGATIVE)
        validation.integer("batch_size", self.batch_size, least=1)
        validation.real("momentum", self.momentum, validation.UNIT)
        if self.max_step is not None:
            validation.real("max_step", self.max_step, validation.POSITIVE)
        validation.integer("max_iter", self.max_iter, least=1)
        validation.real("tol", self.tol, validation.NON_NEGATIVE)

    def _problems(
        self,
        X: Any,  # noqa: N803
        y: Array,
        sample_weight: Any,
        columns: Columns | None,
        centre: bool,
    ) -> list[SparseLogistic]:
        """One problem, or one for each class against the rest, in units of ``columns``."""
        rows = sparse_rows(X)
        weights = row_weights(X, y, sample_weight, self.class_weight, self.classes_)
        if columns is None:
            columns = Columns.of(
                rows, weights, self.alpha, fit_intercept=self.fit_intercept, centre=centre
            )
        self._columns = columns
        inner, penalties = columns.transform(rows), columns.penalties(self.alpha)
        positives = self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        return [
            SparseLogistic(inner, np.where(y == positive, 1.0, -1.0), penalties, weights)
            for positive in positives
        ]

    def _generator(self) -> np.random.Generator:
        if isinstance(self.random_state, np.random.Generator):
            return self.random_state
        return np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))

    def _started(self, problem: SparseLogistic) -> solver.Progress:
        return solver.start(
            problem,
            momentum=self.momentum,
            max_step=self.max_step,
            batch_size=self.batch_size,
        )

    def _fitted(
        self,
        problem: SparseLogistic,
        start: tuple[Array, float] | None,
        rng: np.random.Generator,
    ) -> solver.Progress:
        progress = self._started(problem)
        if start is not None:
            solver.start_at(progress, self._columns.parameters(*start))
        solver.minimise(progress, max_iter=self.max_iter, tol=self.tol, rng=rng)
        return progress

    def _known(self, classes: Array) -> list[tuple[Array, float]] | None:
        """The w and b of the last fit, if that was of the same classes and features."""
        fitted = hasattr(self, "coef_") and np.array_equal(self.classes_, classes)
        if not fitted or self.coef_.shape[1] != self.n_features_in_:
            return None
        return [(w, float(b)) for w, b in zip(self.coef_, self.intercept_, strict=True)]

    def _keep(self, results: list[tuple[Array, Any]]) -> None:
        """Keep the coefficients, and the states from which ``partial_fit`` goes on."""
        dtype = results[0][0].dtype
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


def _continue(progress: solver.Progress, state: Any) -> None:
    """Go on from the state of another run."""
    for mine, theirs in zip(progress.run.state, state, strict=True):
        mine[:] = theirs


def _mean_curve(curves: list[list[float]]) -> Array:
    """Mean over problems, round by round; a problem that ended keeps its last loss."""
    rounds = max(len(curve) for curve in curves)
    padded = [curve + [curve[-1]] * (rounds - len(curve)) for curve in curves]
    mean: Array = np.mean(padded, axis=0)
    return mean
