r"""The last phase, on all rows: L-BFGS from an estimate of the Hessian.

The direction is that of Liu and Nocedal (1989), whose first matrix is the inverse of
:class:`heavystep.linear.curvature.Curvature` in place of a multiple of the identity. Step 1 is
tried first. If the slope there says that it is far from the least value on the line, that is
sought by Newton's method in one variable: margins are linear in the step, so that it costs O(n).
"""

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from heavystep.arrays import Array
from heavystep.linear import kernels
from heavystep.linear.bound import newton_bound, penalty_bound
from heavystep.linear.curvature import Curvature, Sample
from heavystep.linear.objective import Objective, Point

MEMORY = 10
"""Steps of which the changes of the gradient are remembered."""
RENEW = 8
"""After so many steps the Hessian is estimated anew, from four times as many rows."""
FLAT, FLATTER = 0.9, 0.1
"""Step 1 will do if the slope there is at most FLAT times the first one; a search goes on down to
FLATTER."""
ARMIJO = 1e-4
"""Part of the fall that the slope promises that step 1 must give."""
FEW = 3
"""With so few steps in memory and a rough estimate of the Hessian, the sample says how long a step
should be."""
TRIALS = 60
PATIENT, WITHOUT_PENALTY = 16, 4
"""In every so many steps whose expected fall is small enough, the dear bound is sought, too. With a
penalty the cheap bound needs a few steps more, which cost less."""
EPS = float(np.finfo(np.float64).eps)
SLACK = 4.0 * EPS
"""Rounding of a value, as a part of it."""
IDLE = 3
"""So many steps in a row that do not lower the value show that rounding hides what is left."""
Pairs = deque[tuple[Array, Array, float]]
"""Steps, changes of the gradient, and their products; the oldest first."""


@dataclass
class Descent:
    """A minimisation on all rows and how far it has come."""

    objective: Objective
    sample: Sample
    point: Point
    values: list[float] = field(default_factory=list)
    """The objective at each point."""
    gap: float = np.inf
    """The last bound of the objective less its minimum."""
    converged: bool = False


def descend(descent: Descent, *, tol: float, most_passes: int) -> None:
    """Go on until the gap is proven to be at most ``tol`` times the objective.

    Args:
        descent: from where; it is changed.
        tol: >= 0.
        most_passes: no new pass over the rows after so many.
    """
    objective, enough = descent.objective, max(tol, EPS)
    pairs: Pairs = deque(maxlen=MEMORY)
    curvature, more, age, idle, checks = None, 1, 0, 0, 0
    patience = PATIENT if objective.penalties.any() else WITHOUT_PENALTY
    descent.values.append(descent.point.value)
    while objective.passes < most_passes and idle < IDLE:
        point = descent.point
        if curvature is None or age == RENEW:
            curvature = Curvature(objective, point, descent.sample, more)
            more, age = 4 * more, 0
            pairs.clear()
        step = -_inverse(curvature, pairs, point.gradient)
        fall = -0.5 * float(point.gradient @ step)
        if fall <= enough * point.value:
            checks += 1
            _prove(descent, enough, dear=checks % patience == 0)
            if descent.converged:
                return
        if curvature.rough and len(pairs) < FEW:
            step *= _sampled_length(curvature, point, step)
        if (new := _line_search(objective, point, step)) is None:
            break
        _remember(pairs, new.theta - point.theta, new.gradient - point.gradient)
        idle = 0 if new.value < point.value else idle + 1
        age += 1
        descent.point = new
        descent.values.append(new.value)
    _prove(descent, enough, dear=objective.passes < most_passes)


def _prove(descent: Descent, enough: float, dear: bool) -> None:
    """See whether the gap is small enough; the dear bound is the sharper one."""
    point = descent.point
    # Losses are never negative.
    descent.gap = min(point.value, penalty_bound(descent.objective, point))
    if dear and descent.gap > enough * point.value:
        descent.gap = min(descent.gap, newton_bound(descent.objective, point))
    descent.converged = descent.gap <= enough * point.value


def _inverse(curvature: Curvature, pairs: Pairs, gradient: Array) -> Array:
    """The inverse Hessian times the gradient: the two loops of L-BFGS."""
    vector, parts = gradient.copy(), []
    for moved, change, product in reversed(pairs):
        parts.append(float(moved @ vector) / product)
        vector -= parts[-1] * change
    vector = curvature.solve(vector)
    for (moved, change, product), part in zip(pairs, reversed(parts), strict=True):
        vector += (part - float(change @ vector) / product) * moved
    return vector


def _remember(pairs: Pairs, moved: Array, change: Array) -> None:
    """Keep a step and the change of the gradient, unless rounding has spoilt them."""
    product = float(moved @ change)
    if product > EPS * float(np.sqrt((moved @ moved) * (change @ change))):
        pairs.append((moved, change, product))


def _sampled_length(curvature: Curvature, point: Point, step: Array) -> float:
    """The multiple of the step at which the loss of the sample is about least."""
    second = curvature.along(step)
    return -float(point.gradient @ step) / second if second > 0.0 else 1.0


def _line_search(objective: Objective, point: Point, step: Array) -> Point | None:
    """A point along the step that is no higher, but for rounding; None if there is none."""
    slope = float(point.gradient @ step)
    if not slope < 0.0:
        return None
    new, highest = objective.at(point.theta + step), point.value + SLACK * abs(point.value)
    there = float(new.gradient @ step)
    if abs(there) <= FLAT * -slope and new.value <= highest + ARMIJO * slope:
        return new
    t = _flat_step(objective, point, step, new.margins - point.margins, (slope, there))
    new = objective.at(point.theta + t * step)
    return new if new.value <= highest else None


def _flat_step(
    objective: Objective, point: Point, step: Array, along: Array, slopes: tuple[float, float]
) -> float:
    """Where the slope along the step is nearly 0, between bounds that Newton's steps must keep."""
    first, slope = slopes
    linear = float(objective.penalties @ (point.theta * step))
    square = float(objective.penalties @ step**2)
    low, high, t = 0.0, np.inf, 1.0
    for _ in range(TRIALS):
        if abs(slope) <= FLATTER * -first:
            break
        low, high = (t, high) if slope < 0.0 else (low, t)
        _, curvature = kernels.line_slope(point.margins, along, objective.weights, t)
        curvature += square
        trial = t - slope / curvature if curvature > 0.0 else np.inf
        if not low < trial < high:
            trial = 0.5 * (low + high)
        t = min(trial, 10.0 * t) if high == np.inf else trial
        slope, _ = kernels.line_slope(point.margins, along, objective.weights, t)
        slope += linear + t * square
    return t
