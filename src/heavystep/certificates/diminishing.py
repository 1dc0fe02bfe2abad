"""Theorems 6-9 at every recorded k: the bounds in the proofs, and the tail inequalities."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from heavystep import theory
from heavystep.arrays import Array, square
from heavystep.certificates.check import Check
from heavystep.certificates.measured import ROUNDING, Measured, in_expectation
from heavystep.theory.diminishing import check_schedules


def _convex(result: str, run: Measured) -> Check:
    run.convex()
    promise = theory.convex_diminishing(run.rule, **run.diminishing_method(), sigma2=run.sigma2())
    k = np.arange(1, run.path.record.steps + 1)
    bound = promise.bound(k, dist0_sq=run.dist0_sq(), gap0=run.gap0())
    weights = promise.weights(len(k))[:, None]
    average = np.cumsum(weights * run.path.iterates[:, 1:], axis=1) / np.cumsum(weights, axis=0)
    gap, floor = run.problem.gap(average), run.problem.L * run.floor()
    return _finite(in_expectation(result, "E F(weighted mean) - F*", k, gap, bound, floor))


def _nonconvex(result: str, run: Measured) -> Check:
    run.sigma2()  # refuses lower bounds above f*(x), with which no theorem holds
    problem = run.problem
    promise = theory.nonconvex_diminishing(
        run.rule, **run.diminishing_method(), rho=problem.rho, delta=problem.delta
    )
    k = np.arange(1, run.path.record.steps + 1)
    bound = promise.bound(k, gap0=run.gap0())
    grad_sq = square(problem.full_gradient(run.path.iterates[:, 1:]))
    quantity, floor = "min over 1 <= m <= k of E ||grad F||^2", problem.L**2 * run.floor()
    each = _finite(in_expectation(result, quantity, k, grad_sq, bound, floor))
    return replace(each, measured=np.minimum.accumulate(each.measured))


def _finite(check: Check) -> Check:
    """The check at those steps at which the constant of the proof is finite in float64."""
    finite = np.isfinite(check.bound)
    if not finite.any():
        raise ValueError("the constant in its proof, exp(sum of beta_k), leaves float64")
    k, measured, bound, tolerance = (
        array[finite] for array in (check.k, check.measured, check.bound, check.tolerance)
    )
    return replace(check, k=k, measured=measured, bound=bound, tolerance=tolerance)


def _convex_tail(result: str, run: Measured) -> Check:
    """W_k times the gap against the tail average from n = k / 2 on."""
    run.convex()
    check_schedules(result, run.diminishing_method()["schedules"])
    weights = run.smallest_steps()[1:]
    total = np.cumsum(weights)
    sums = np.cumsum(weights[:, None] * run.path.before[:, 1:], axis=1)
    k, n = _halves(len(weights))
    head, tail = total[n], total[k] - total[n]
    before, average = sums[:, n] / head[:, None], sums[:, k] / total[k, None]
    after = (sums[:, k] - sums[:, n]) / tail[:, None]
    bound = theory.convex_tail_bound(
        run.problem.gap(after),
        np.sqrt(square(run.problem.full_gradient(after))),
        head=head,
        total=total[k],
        diameter=np.sqrt(square(before - after)),
        L=run.problem.L,
    )
    measured = total[k] * run.problem.gap(average)
    # Averages from differences of sums: a few roundings of the largest iterate.
    error, L = 4.0 * run.path.rounding.point.max(axis=1, keepdims=True), run.problem.L
    blur = np.sqrt(2.0 * L * run.problem.gap(after)) * error + L * error**2
    tolerance = ROUNDING * bound + 2.0 * total[k] * blur
    return Check(result, "W_k (F(weighted mean) - F*)", k + 1, measured, bound, tolerance)


def _nonconvex_tail(result: str, run: Measured) -> Check:
    """S_k times the least gradient against the tail sum from n = k / 2 on."""
    check_schedules(result, run.diminishing_method()["schedules"])
    weights = (run.path.record.eta * run.path.record.gamma_max)[1:]
    grad_sq = run.grad_sq()[:, 1:]
    total, sums = np.cumsum(weights), np.cumsum(weights * grad_sq, axis=1)
    least = np.minimum.accumulate(grad_sq, axis=1)
    k, n = _halves(len(weights))
    tail = sums[:, k] - sums[:, n] + weights[n] * grad_sq[:, n]
    bound = theory.nonconvex_tail_bound(tail, least[:, k], head=total[n])
    measured = total[k] * least[:, k]
    tolerance = ROUNDING * bound + run.path.rounding.unit * sums[:, k]
    return Check(result, "S_k min ||grad F||^2", k + 1, measured, bound, tolerance)


def _halves(count: int) -> tuple[Array, Array]:
    """Positions k and n = k / 2 among theta_1 .. theta_count, as indices from 0."""
    if count < 2:
        raise ValueError("is about a tail, and the run has fewer than three steps")
    k = np.arange(2, count + 1)
    return k - 1, k // 2 - 1


DIMINISHING: dict[str, Callable[[str, Measured], Check]] = {
    "Theorem 6": _convex,
    "Theorem 7": _nonconvex,
    "Tail inequality of Theorem 8": _convex_tail,
    "Tail inequality of Theorem 9": _nonconvex_tail,
}
