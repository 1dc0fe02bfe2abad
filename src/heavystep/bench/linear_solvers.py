"""The solvers that are compared, of scikit-learn and ours. All minimise the same function."""

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, SGDClassifier

from heavystep.bench.linear_data import scipy_matrix
from heavystep.bench.timing import seconds_of
from heavystep.bench.twin import real_sim_twin
from heavystep.linear import SHBLogisticRegression

SEED = 0
NEVER = 1e-12
"""A tolerance that stops no solver before its budget is used up."""


class Solver(NamedTuple):
    """How to make an estimator.

    Args:
        make: from the number of rows and a budget of epochs (iterations, for methods that take
            all rows at once); the estimator has ``fit(X, y)`` and then ``coef_``.
    """

    make: Callable[[int, int], Any]


def _logistic(solver: str, n: int, budget: int) -> Any:
    # C = 1 is the penalty 1 / n: its objective is ours times n C.
    return LogisticRegression(
        solver=solver, C=1.0, fit_intercept=False, tol=NEVER, max_iter=budget, random_state=SEED
    )


def _sgd(average: bool, n: int, budget: int) -> Any:
    return SGDClassifier(
        loss="log_loss",
        alpha=1.0 / n,
        fit_intercept=False,
        tol=None,
        max_iter=budget,
        random_state=SEED,
        average=average,
    )


def _ours(n: int, budget: int) -> Any:
    return SHBLogisticRegression(
        alpha=1.0 / n, fit_intercept=False, tol=0.0, max_iter=budget, random_state=SEED
    )


OURS = "SHBLogisticRegression"
SOLVERS: dict[str, Solver] = {
    OURS: Solver(_ours),
    "SGDClassifier": Solver(partial(_sgd, False)),
    "SGDClassifier, averaged": Solver(partial(_sgd, True)),
    "LogisticRegression, sag": Solver(partial(_logistic, "sag")),
    "LogisticRegression, saga": Solver(partial(_logistic, "saga")),
    "LogisticRegression, lbfgs": Solver(partial(_logistic, "lbfgs")),
    "LogisticRegression, liblinear": Solver(partial(_logistic, "liblinear")),
}
REFERENCE = partial(_logistic, "lbfgs", budget=10_000)
"""The solver that finds the best known loss."""


def fitted(estimator: Any, matrix: Any, y: Any) -> Any:
    """Call ``fit`` without the warning that the budget is used up, which is intended."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(matrix, y)


def warm_up(solvers: Mapping[str, Solver]) -> dict[str, float]:
    """The seconds that the first fit of each solver takes, on a tiny problem.

    Our kernels are compiled or loaded there, so that this is not timed later.
    """
    # Large enough for several batches, and the budget for what comes after them.
    small, budget = real_sim_twin(n=600, dim=20, entries=3), 100
    matrix = scipy_matrix(small.rows)
    return {
        name: seconds_of(partial(fitted, solver.make(small.n, budget), matrix, small.y))
        for name, solver in solvers.items()
    }
