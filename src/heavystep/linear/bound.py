r"""How far an objective is above its minimum, at most.

**With a penalty.** F is strongly convex in the parameters that have one:
:math:`F - F_* \le \tfrac12 \sum_j g_j^2 / \lambda_j` if the intercept is optimal. If it is not, its
best value is at most :math:`\delta = -u^{-1}\log(1 - |g_b| / (u h))` away, where
:math:`h = \sum_i c_i` and u is the intercept's unit, and the gradient there differs by at most
:math:`\tfrac14 \delta u\,\overline{\|x'\|}` from the one here, in the norm of the penalties.

**Without.** Second derivatives of logistic losses change by at most the factor e^|change of the
margin|. With the Newton decrement :math:`\nu^2 = g^\top H^{-1} g` and
:math:`M = \max_i \|a_i\|_{H^{-1}}` this gives, if :math:`M \nu < 1`,

.. math:: F - F_* \le \nu r - \frac{r - \nu}{M}, \qquad r = -\frac{\log(1 - M \nu)}{M} .

The least value on the segment to the minimum is bounded from below by that of
:math:`-\nu r + (e^{-Mr} + Mr - 1) / M^2`; compare Bach (2010), *Self-concordant analysis for
logistic regression*, Proposition 2. Rounding of the sums is not counted.
"""

from math import inf, log1p, sqrt
from typing import Any

import numpy as np
import scipy.sparse

from heavystep.arrays import Array
from heavystep.linear.curvature import LIMIT, hessian
from heavystep.linear.objective import Objective, Point
from heavystep.sparse import SparseRows

CHUNK = 4096
"""Rows of which a copy is made at once."""
EPS = float(np.finfo(np.float64).eps)
FLAT = float(np.sqrt(np.finfo(np.float64).tiny))
"""Second derivatives below are those of a loss that falls to zero at infinity: squared lengths in
their inverse would overflow, and the smallest losses have lost their digits."""
NOTHING = 1e-6
"""Part of a vector that may lie where the Hessian vanishes, as rounding."""


def decrement_bound(decrement: float, reach: float) -> float:
    r"""The bound for :math:`\nu` = ``decrement`` and M = ``reach``.

    >>> decrement_bound(0.0, 3.0), decrement_bound(0.5, 2.0)
    (0.0, inf)
    """
    if reach * decrement >= 1.0:
        return inf
    if reach * decrement < 1e-4:  # a bound of the series, of which the formula would lose digits
        return 0.5 * decrement**2 * (1.0 + reach * decrement)
    r = -log1p(-reach * decrement) / reach
    return decrement * r - (r - decrement) / reach


def penalty_bound(objective: Objective, point: Point) -> float:
    """The bound that a penalty gives; infinite without one."""
    penalties, dim = objective.penalties, objective.table.dim
    gradient = point.gradient[:dim]
    if (gradient[penalties[:dim] == 0.0] != 0.0).any():
        return inf
    used = penalties[:dim] > 0.0
    length = sqrt(float((gradient[used] ** 2 / penalties[:dim][used]).sum()))
    unit = objective.columns.intercept
    if not unit:
        return 0.5 * length**2
    total = float(objective.curvatures(point).sum())
    slope = abs(float(point.gradient[-1])) / unit  # by b
    if slope >= total:
        return inf
    off = -log1p(-slope / total)  # how far b is from its best value, at most
    longer = length + 0.25 * off * sqrt(objective.mean_square)
    return decrement_bound(slope / sqrt(total), 1.0 / sqrt(total)) + 0.5 * longer**2


def newton_bound(objective: Objective, point: Point) -> float:
    """The bound that the Hessian of all rows gives; infinite if it gives none.

    It gives none where the loss is all but flat, far out on separable data. It costs about as much
    as a Newton step, and is for at most ``LIMIT`` parameters.
    """
    p = len(point.theta)
    if p > LIMIT:
        return inf
    curvatures, matrix = objective.curvatures(point), np.diag(objective.penalties)
    for chosen in _chunks(objective.table.n):
        rows = _rows(objective, chosen)
        matrix += hessian(rows, np.arange(rows.n), curvatures[chosen])
    diagonal = np.diag(matrix)
    if ((diagonal > 0.0) & (diagonal < FLAT)).any():
        return inf
    root = np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
    levels, basis = np.linalg.eigh(matrix / (root[:, None] * root))
    kept = levels > p * EPS * max(float(levels[-1]), 0.0)
    basis /= root[:, None]
    inside, outside = basis[:, kept] / np.sqrt(levels[kept]), basis[:, ~kept]
    if _sticks_out(outside, inside, point.gradient[None]):
        return inf
    reach = 0.0
    for chosen in _chunks(objective.table.n):
        rows = _rows(objective, chosen)
        matrix = scipy.sparse.csr_array((rows.values, rows.indices, rows.indptr), (rows.n, p))
        if _sticks_out(outside, inside, matrix):
            return inf
        reach = max(reach, float(np.linalg.norm(matrix @ inside, axis=1).max(initial=0.0)))
    return decrement_bound(float(np.linalg.norm(point.gradient @ inside)), reach)


def _chunks(n: int) -> list[Array]:
    return np.split(np.arange(n), range(CHUNK, n, CHUNK))


def _rows(objective: Objective, chosen: Array) -> SparseRows:
    return objective.columns.transform(objective.table.take(chosen))


def _sticks_out(outside: Array, inside: Array, vectors: Any) -> bool:
    """Whether some vector has a part where the Hessian vanishes."""
    if not outside.shape[1]:
        return False
    lengths = np.linalg.norm(vectors @ inside, axis=1)
    return bool((np.linalg.norm(vectors @ outside, axis=1) > NOTHING * lengths).any())
