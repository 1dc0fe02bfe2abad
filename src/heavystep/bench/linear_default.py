"""A whole ``fit`` with default options beside scikit-learn's, and the gap at which each stops.

Both minimise mean loss + ||w||^2 / (2 C n) with an intercept. With more than two classes
scikit-learn's lbfgs fits all classes at once and ours one against the rest: gaps are those of each
one's own objective. Since both stop where they like, the one with the larger gap is run again with
smaller and smaller ``tol``, until its gap is no larger than the other's.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from heavystep.arrays import Array
from heavystep.bench.linear_data import MADE, plain_problem, scipy_matrix
from heavystep.bench.linear_solvers import SEED, fitted
from heavystep.bench.timing import interleaved, one_thread
from heavystep.data.catalogue import CATALOGUE
from heavystep.data.locate import present
from heavystep.linear import SHBLogisticRegression, load_libsvm

Make = Callable[[float, float | None, int | None], Any]
"""An estimator from C, and from tol and the most iterations unless they are the default's."""
SHRINK, SMALLEST, EXACT = 10.0, 1e-12, 1e-13
"""``tol`` is divided by SHRINK down to SMALLEST; EXACT is that of the least value."""
MANY = 20_000


def _ours(C: float, tol: float | None, most: int | None) -> Any:  # noqa: N803
    given: dict[str, Any] = {} if tol is None else {"tol": tol}
    return SHBLogisticRegression(C=C, random_state=SEED, **given)


def _theirs(C: float, tol: float | None, most: int | None) -> Any:  # noqa: N803
    given: dict[str, Any] = {} if tol is None else {"tol": tol}
    return LogisticRegression(C=C, **given, **({} if most is None else {"max_iter": most}))


MAKERS: dict[str, Make] = {"ours": _ours, "lbfgs": _theirs}


class Stop(NamedTuple):
    """Where a fit ended."""

    seconds: float
    gap: float
    """Objective over its least value, less 1."""


class Defaults(NamedTuple):
    """Fits with default options, and the later ones at the same gap."""

    default: dict[str, Stop]
    even: dict[str, Stop]
    """Of the solver that had the larger gap, with a smaller ``tol``; of the other one as above."""


def objective(model: Any, matrix: Any, y: Array, C: float) -> float:  # noqa: N803
    """What the model minimises, at its coefficients."""
    scores = np.asarray(matrix @ model.coef_.T + model.intercept_)
    penalty = float((model.coef_**2).sum()) / (2.0 * C * len(y))
    which = np.searchsorted(model.classes_, y)
    if scores.shape[1] > 1 and isinstance(model, LogisticRegression):
        chosen = scores[np.arange(len(y)), which]
        return float((logsumexp(scores, axis=1) - chosen).mean()) + penalty
    classes = range(scores.shape[1]) if scores.shape[1] > 1 else [1]
    signs = np.where(which[:, None] == np.array(classes), 1.0, -1.0)
    return float(np.logaddexp(0.0, -signs * scores).mean(axis=0).sum()) + penalty


def compare_defaults(matrix: Any, y: Array, C: float, repeats: int) -> Defaults:  # noqa: N803
    """Time default fits, and fits at the same gap, in turns on one core.

    Args:
        matrix: features.
        y: classes.
        C: inverse penalty, as scikit-learn counts it.
        repeats: number of turns.
    """
    with one_thread():
        contest = _Contest(matrix, y, C)
        gaps = {name: contest.gap(name) for name in MAKERS}
        late, early = sorted(gaps, key=gaps.__getitem__)[::-1]
        tol, even = MAKERS[late](C, None, None).tol, gaps[late]
        while even > gaps[early] and tol > SMALLEST:
            tol /= SHRINK
            even = contest.gap(late, tol)
        jobs = {name: partial(contest.job, name) for name in MAKERS}
        times = interleaved({**jobs, "even": partial(contest.job, late, tol)}, repeats)
    default = {name: Stop(times[name], gaps[name]) for name in MAKERS}
    same = default if gaps[late] <= gaps[early] else default | {late: Stop(times["even"], even)}
    return Defaults(default, same)


class _Contest:
    """Fits of one set, and how far they are from the least value of each solver's objective."""

    def __init__(self, matrix: Any, y: Array, C: float) -> None:  # noqa: N803
        self.data, self.C = (matrix, y), C
        least = {name: self._value(self.job(name, EXACT)()) for name in MAKERS}
        if len(np.unique(y)) == 2:  # one objective for both
            least = dict.fromkeys(least, min(least.values()))
        self.least = least

    def job(self, name: str, tol: float | None = None) -> Callable[[], Any]:
        """A fit, which returns the model."""
        model = MAKERS[name](self.C, tol, None if tol is None else MANY)
        return partial(fitted, model, *self.data)

    def gap(self, name: str, tol: float | None = None) -> float:
        """Where a fit ends."""
        return self._value(self.job(name, tol)()) / self.least[name] - 1.0

    def _value(self, model: Any) -> float:
        return objective(model, *self.data, self.C)


def _made(name: str) -> tuple[Any, Array]:
    problem = plain_problem(name)
    return scipy_matrix(problem.rows), problem.y


def _normals(n: int, dim: int) -> tuple[Any, Array]:
    """Independent normal features and noisy labels."""
    rng = np.random.default_rng(SEED)
    matrix = rng.normal(size=(n, dim))
    scores = matrix @ rng.normal(size=dim) + rng.logistic(size=n)
    return matrix, (scores > 0.0).astype(int)


def default_sets() -> dict[str, tuple[Callable[[], tuple[Any, Array]], float]]:
    """By name, what loads features and classes as they are, and C."""
    digits = partial(load_digits, return_X_y=True)
    here = {name: (partial(load_libsvm, name), 1.0) for name in present(CATALOGUE)}
    made = {name: (partial(_made, name), 1.0) for name in MADE}
    dense = {
        f"normals, {n:,} x {dim}": (partial(_normals, n, dim), 1.0)
        for n, dim in ((1_000, 10), (20_000, 100), (200_000, 40))
    }
    return {**here, **made, "digits": (digits, 1.0), "digits, C = 100": (digits, 100.0), **dense}
