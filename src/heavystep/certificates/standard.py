"""Theorems 1-5: the bound at every recorded k."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from heavystep import theory
from heavystep.certificates.check import Check
from heavystep.certificates.measured import ROUNDING, Measured, in_expectation


def _strongly_convex(result: str, run: Measured) -> Check:
    run.convex()
    problem, runs = run.problem, run.dist_sq()
    promise = theory.strongly_convex(
        run.rule, **run.method(), mu=problem.mu, sigma2=run.sigma2(), dist0_sq=run.dist0_sq()
    )
    k = np.arange(runs.shape[1])
    quantity = "E ||theta_k - theta*||^2"
    return in_expectation(result, quantity, k, runs, promise.bound(k), run.floor())


def _convex(result: str, run: Measured) -> Check:
    run.convex()
    promise = theory.convex(run.rule, **run.method(), sigma2=run.sigma2(), dist0_sq=run.dist0_sq())
    k = np.arange(1, run.path.record.steps + 1)
    average = np.cumsum(run.path.before, axis=1) / k[:, None]
    floor = run.problem.L * run.floor()
    quantity = "E F(mean of theta_0..theta_{k-1}) - F*"
    return in_expectation(result, quantity, k, run.problem.gap(average), promise.bound(k), floor)


def _nonconvex(result: str, run: Measured) -> Check:
    run.sigma2()  # refuses lower bounds above f*(x), with which no theorem holds
    problem = run.problem
    promise = theory.nonconvex(
        run.rule, **run.method(), rho=problem.rho, delta=problem.delta, gap0=run.gap0()
    )
    k = np.arange(1, run.path.record.steps + 1)
    each = in_expectation(
        result, "min over m < k of E ||grad F(theta_m)||^2", k, run.grad_sq(), promise.bound(k),
        problem.L**2 * run.floor(),
    )  # fmt: skip
    return replace(each, measured=np.minimum.accumulate(each.measured))


def _convex_sums(result: str, run: Measured) -> Check:
    run.convex()
    if run.sigma2() > 0.0:
        raise ValueError(f"needs sigma^2 = 0 (interpolation), got {run.sigma2():g}")
    promise = theory.convex_almost_sure(run.rule, **run.method(), dist0_sq=1.0)
    record = run.path.record
    if not np.isfinite(record.f_star).all():
        raise ValueError("needs to know which terms were sampled: certify(..., samples=)")
    sums = np.cumsum(record.gamma * (record.loss - record.f_star), axis=1)
    k = np.arange(1, record.steps + 1)
    bound = np.broadcast_to(promise.sampled_sum * run.dist_sq()[:, :1], sums.shape)
    quantity = "sum over m < k of gamma_m (f_m - f*), every run"
    return Check(result, quantity, k, sums, bound, ROUNDING * bound + run.floor())


def _nonconvex_sums(result: str, run: Measured) -> Check:
    run.sigma2()  # refuses lower bounds above f*(x), with which no theorem holds
    problem = run.problem
    if problem.delta > 0.0:
        raise ValueError(f"needs delta = 0 (strong growth), got {problem.delta:g}")
    promise = theory.nonconvex_almost_sure(
        run.rule, **run.method(), rho=problem.rho, gap0=run.gap0()
    )
    sums = np.cumsum(run.grad_sq(), axis=1)
    k = np.arange(1, run.path.record.steps + 1)
    bound = np.full(len(k), promise.expected_sum)
    quantity = "E sum over m < k of ||grad F(theta_m)||^2"
    return in_expectation(result, quantity, k, sums, bound, problem.L**2 * run.floor())


STANDARD: dict[str, Callable[[str, Measured], Check]] = {
    "Theorem 1": _strongly_convex,
    "Theorem 2": _convex,
    "Theorem 3": _nonconvex,
    "Theorem 4": _convex_sums,
    "Theorem 5": _nonconvex_sums,
}
