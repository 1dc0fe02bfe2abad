"""The bound of each theorem at every recorded k, with the constants of the problem."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from heavystep import theory
from heavystep.arrays import Array, square
from heavystep.certificates.check import Check
from heavystep.certificates.lemmas import SOME_REFUSED, Path, least_steps
from heavystep.problems import FiniteSum
from heavystep.schedules import Schedules

ROUNDING = 1e-9
"""Relative rounding of a measured quantity that is a sum over the run."""
FEWEST_RUNS = 5
"""The standard error of fewer runs does not measure chance."""


def promise(problem: FiniteSum, rule: str, options: Mapping[str, Any]) -> Any:
    """Theorem 2 for a convex problem, Theorem 3 for another one; ``bound(k)`` is its bound.

    Args:
        problem: has the constants, and the point where runs start.
        rule: its name in :mod:`heavystep.theory`.
        options: those of the method: momentum, c, max_step, and decrease_factor of a line search.

    Raises:
        ValueError: a constant is outside what the theorem admits.
    """
    constants = {
        "L": problem.L, "beta": options["momentum"], "c": options["c"],
        "gamma_max": options["max_step"], "omega": options.get("decrease_factor"),
    }  # fmt: skip
    if problem.convex:
        dist0_sq = float(square(problem.theta0 - problem.theta_star))
        return theory.convex(rule, **constants, sigma2=problem.sigma2, dist0_sq=dist0_sq)
    gap0 = float(np.asarray(problem.gap(problem.theta0)))
    return theory.nonconvex(rule, **constants, rho=problem.rho, delta=problem.delta, gap0=gap0)


class Measured(NamedTuple):
    """Runs with their problem: the constants and the quantities in the theorems.

    A method raises ValueError where the theorem that asks for its value does not apply. The
    message is the rest of a sentence that begins with the theorem's name.
    """

    path: Path
    problem: FiniteSum
    schedules: Schedules | None

    @property
    def rule(self) -> str:
        """The name of the rule, as theorems take it."""
        return self.path.record.rule

    @property
    def k(self) -> Array:
        """1 .. K."""
        return np.arange(1, self.path.record.steps + 1)

    def method(self) -> dict[str, Any]:
        """The arguments that Theorems 1-5 share."""
        record, beta = self.path.record, self.path.constant_beta
        if record.scaling != "theory":
            raise ValueError(f"is about scaling 'theory', the run used {record.scaling!r}")
        if beta is None or (record.gamma_max != record.gamma_max[0]).any():
            raise ValueError("is about constant momentum and gamma_max, here they change")
        if (record.eta != 1.0).any():
            raise ValueError(f"is about eta_k = 1, the run used {record.eta.min():g}")
        cap = float(record.gamma_max[0])
        return {**self._shared(), "beta": beta, "gamma_max": cap}

    def diminishing_method(self) -> dict[str, Any]:
        """The arguments that Theorems 6 and 7 share."""
        record = self.path.record
        if self.schedules is None:
            raise ValueError("needs the schedules: certify(record, problem, schedules=...)")
        k = np.arange(record.steps)
        for name, law in self.schedules._asdict().items():
            if not np.allclose(getattr(record, name), law(k), rtol=1e-12, atol=0.0):
                raise ValueError(f"the run's {name} is not the schedule that was given")
        return {**self._shared(), "schedules": self.schedules}

    def _shared(self) -> dict[str, Any]:
        record = self.path.record
        if record.smooth_reset:
            raise ValueError("is about a cap that is given, the run used smooth reset")
        if not self.path.all_accepted:
            raise ValueError(SOME_REFUSED)
        return {"L": self.problem.L, "c": record.c, "omega": record.omega}

    def convex(self) -> None:
        """Refuse a problem whose samples are not convex."""
        if not self.problem.convex:
            raise ValueError("is about convex samples, the problem's are not")

    def sigma2(self) -> float:
        """sigma^2 counted from the lower bounds that the rule used.

        A rule whose steps depend on them must have used the infima f*(x), or one number below
        all of them. For other rules it is the sigma^2 of the problem.
        """
        problem, record = self.problem, self.path.record
        low, exact = record.f_star, problem.f_star
        if not record.theory.uses_lower_bound:
            return problem.sigma2
        slack = self.path.rounding.loss
        if record.samples is not None and (abs(low - exact[record.samples]) <= slack).all():
            return problem.sigma2
        level = float(low.flat[0])
        if (low != level).any():
            raise ValueError("is about f*(x) or one lower bound, the run used others")
        if level > float(exact.min()) + float(slack.max()):
            raise ValueError(f"needs lower bounds <= f*(x), the run used {level:g}")
        return problem.sigma2 + max(0.0, float(exact.mean()) - level)

    def dist_sq(self) -> Array:
        """(R, K + 1) squared distances to theta*."""
        return square(self.path.iterates - self.problem.theta_star)

    def grad_sq(self, points: Array) -> Array:
        """(R, K) squared norms of the full gradient."""
        return square(self.problem.full_gradient(points))

    def gap0(self) -> float:
        """F(theta_0) - F*."""
        return float(self.problem.gap(self.path.iterates[:, 0]).mean())

    def dist0_sq(self) -> float:
        """||theta_0 - theta*||^2."""
        return float(self.dist_sq()[:, 0].mean())

    def floor(self) -> float:
        """The squared distance by which rounding alone may move a point."""
        return float((self.path.rounding.point**2).max())


def in_expectation(
    result: str, quantity: str, k: Array, runs: Array, bound: Array, floor: float
) -> Check:
    """A check of the mean over runs (R, K), less its standard error.

    This is a statistical check. Runs that obey the theorem may fail it by chance where the bound
    is nearly attained, or where it depends on samples so rare that none was drawn.
    """
    if len(runs) < FEWEST_RUNS:
        raise ValueError(f"is about the mean over runs, which takes {FEWEST_RUNS}, got {len(runs)}")
    mean, error = runs.mean(axis=0), runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
    return Check(result, quantity, k, mean - error, bound, ROUNDING * abs(bound) + floor)


def _of_gap(result: str, quantity: str, run: Measured, average: Array, bound: Array) -> Check:
    """The gap of an average."""
    gap, floor = run.problem.gap(average), run.problem.L * run.floor()
    return in_expectation(result, quantity, run.k, gap, bound, floor)


def _of_least(result: str, quantity: str, run: Measured, points: Array, bound: Array) -> Check:
    """The least mean squared gradient so far."""
    run.sigma2()  # refuses lower bounds above f*(x), with which no theorem holds
    floor, grad_sq = run.problem.L**2 * run.floor(), run.grad_sq(points)
    each = in_expectation(result, quantity, run.k, grad_sq, bound, floor)
    return replace(each, measured=np.minimum.accumulate(each.measured))


def _theorem_1(result: str, run: Measured) -> Check:
    run.convex()
    promised = theory.strongly_convex(
        run.rule, **run.method(), mu=run.problem.mu, sigma2=run.sigma2(), dist0_sq=run.dist0_sq()
    )
    k, quantity = np.append(0, run.k), "E ||theta_k - theta*||^2"
    return in_expectation(result, quantity, k, run.dist_sq(), promised.bound(k), run.floor())


def _theorem_2(result: str, run: Measured) -> Check:
    run.convex()
    promised = theory.convex(run.rule, **run.method(), sigma2=run.sigma2(), dist0_sq=run.dist0_sq())
    average = np.cumsum(run.path.before, axis=1) / run.k[:, None]
    quantity = "E F(mean of theta_0..theta_{k-1}) - F*"
    return _of_gap(result, quantity, run, average, promised.bound(run.k))


def _theorem_3(result: str, run: Measured) -> Check:
    run.sigma2()  # its refusal comes before those of the theorem
    growth: dict[str, Any] = {"rho": run.problem.rho, "delta": run.problem.delta}
    promised = theory.nonconvex(run.rule, **run.method(), **growth, gap0=run.gap0())
    quantity = "min over m < k of E ||grad F(theta_m)||^2"
    return _of_least(result, quantity, run, run.path.before, promised.bound(run.k))


def _theorem_4(result: str, run: Measured) -> Check:
    run.convex()
    if run.sigma2() > 0.0:
        raise ValueError(f"needs sigma^2 = 0 (interpolation), got {run.sigma2():g}")
    promised = theory.convex_almost_sure(run.rule, **run.method(), dist0_sq=1.0)
    record = run.path.record
    if not np.isfinite(record.f_star).all():
        raise ValueError("needs to know which terms were sampled: certify(..., samples=)")
    sums = np.cumsum(record.gamma * (record.loss - record.f_star), axis=1)
    bound = np.broadcast_to(promised.sampled_sum * run.dist_sq()[:, :1], sums.shape)
    quantity = "sum over m < k of gamma_m (f_m - f*), every run"
    return Check(result, quantity, run.k, sums, bound, ROUNDING * bound + run.floor())


def _theorem_5(result: str, run: Measured) -> Check:
    run.sigma2()  # refuses lower bounds above f*(x), with which no theorem holds
    problem, gap0 = run.problem, run.gap0()
    if problem.delta > 0.0:
        raise ValueError(f"needs delta = 0 (strong growth), got {problem.delta:g}")
    promised = theory.nonconvex_almost_sure(run.rule, **run.method(), rho=problem.rho, gap0=gap0)
    sums = np.cumsum(run.grad_sq(run.path.before), axis=1)
    bound = np.full(len(run.k), promised.expected_sum)
    quantity = "E sum over m < k of ||grad F(theta_m)||^2"
    return in_expectation(result, quantity, run.k, sums, bound, problem.L**2 * run.floor())


def _theorem_6(result: str, run: Measured) -> Check:
    run.convex()
    promised = theory.convex_diminishing(run.rule, **run.diminishing_method(), sigma2=run.sigma2())
    bound = promised.bound(run.k, dist0_sq=run.dist0_sq(), gap0=run.gap0())
    weights = promised.weights(len(run.k))[:, None]
    average = np.cumsum(weights * run.path.iterates[:, 1:], axis=1) / np.cumsum(weights, axis=0)
    return _finite(_of_gap(result, "E F(weighted mean) - F*", run, average, bound))


def _theorem_7(result: str, run: Measured) -> Check:
    run.sigma2()  # its refusal comes before those of the theorem
    growth: dict[str, Any] = {"rho": run.problem.rho, "delta": run.problem.delta}
    promised = theory.nonconvex_diminishing(run.rule, **run.diminishing_method(), **growth)
    bound, quantity = (
        promised.bound(run.k, gap0=run.gap0()),
        "min over 1 <= m <= k of E ||grad F||^2",
    )
    return _finite(_of_least(result, quantity, run, run.path.iterates[:, 1:], bound))


def _finite(check: Check) -> Check:
    """The check at those steps at which the constant of the proof is finite in float64."""
    finite = np.isfinite(check.bound)
    if not finite.any():
        raise ValueError("the constant in its proof, exp(sum of beta_k), leaves float64")
    names = ("k", "measured", "bound", "tolerance")
    return replace(check, **{name: getattr(check, name)[finite] for name in names})


def tail_sums(terms: Array) -> tuple[Array, Array, Array]:
    """Sums over m = n .. k - 1 of terms (..., K, d), for k = 2 .. K, with k and n (counts).

    n is the power of two in (k/4, k/2]. No sum is a difference of two others: in a long run the
    tail is far below the rounding of the whole.

    >>> tail_sums(np.array([[1.0], [2.0], [3.0], [4.0], [5.0]]))[0].ravel().tolist()
    [2.0, 5.0, 7.0, 12.0]
    """
    count = terms.shape[-2]
    if count < 2:
        raise ValueError("is about a tail, and the run has fewer than three steps")
    k = np.arange(2, count + 1)
    n = 2 ** (np.floor(np.log2(k)).astype(int) - 1)
    sums = np.empty((*terms.shape[:-2], count - 1, terms.shape[-1]))
    for first in np.unique(n):
        last = min(4 * first - 1, count)
        partial = np.cumsum(terms[..., first:last, :], axis=-2)
        sums[..., 2 * first - 2 : last - 1, :] = partial[..., first - 1 :, :]
    return sums, k, n


def _tail_of_theorem_8(result: str, run: Measured) -> Check:
    """W_k times the gap against the average of the tail."""
    run.convex()
    theory.check_schedules(result, run.diminishing_method()["schedules"])
    weights = (run.path.record.eta * least_steps(run.path.record, run.problem.L))[1:, None]
    offsets, centre = run.path.before[:, 1:] - run.problem.theta_star, run.problem.theta_star
    tail, k, n = tail_sums(weights * offsets)
    total, sums = np.cumsum(weights, axis=0), np.cumsum(weights * offsets, axis=1)
    before, average = sums[:, n - 1] / total[n - 1], sums[:, k - 1] / total[k - 1]
    after = tail / tail_sums(weights)[0]
    bound = theory.convex_tail_bound(
        run.problem.gap(centre + after),
        np.sqrt(run.grad_sq(centre + after)),
        head=total[n - 1, 0],
        total=total[k - 1, 0],
        diameter=np.sqrt(square(before - after)),
        L=run.problem.L,
    )
    measured = total[k - 1, 0] * run.problem.gap(centre + average)
    # A point is rounded when it is written, and when the problem looks at it.
    eps, L = run.path.record.eps, run.problem.L
    error = 8.0 * eps * (np.linalg.norm(centre) + np.sqrt(square(average)))
    blur = np.sqrt(2.0 * L * run.problem.gap(centre + average)) * error + L * error**2
    tolerance = ROUNDING * bound + 2.0 * total[k - 1, 0] * blur
    return Check(result, "W_k (F(weighted mean) - F*)", k, measured, bound, tolerance)


def _tail_of_theorem_9(result: str, run: Measured) -> Check:
    """S_k times the least gradient against the sum of the tail."""
    theory.check_schedules(result, run.diminishing_method()["schedules"])
    weights = (run.path.record.eta * run.path.record.gamma_max)[1:]
    grad_sq = run.grad_sq(run.path.before[:, 1:])
    tail, k, n = tail_sums((weights * grad_sq)[..., None])
    tail = tail[..., 0] + (weights * grad_sq)[:, n - 1]
    total, least = np.cumsum(weights), np.minimum.accumulate(grad_sq, axis=1)[:, k - 1]
    bound = theory.nonconvex_tail_bound(tail, least, head=total[n - 1])
    measured = total[k - 1] * least
    return Check(result, "S_k min ||grad F||^2", k, measured, bound, ROUNDING * bound)


Bound = Callable[[str, Measured], Check]
STANDARD: dict[str, Bound] = {
    f"Theorem {i}": bound
    for i, bound in enumerate((_theorem_1, _theorem_2, _theorem_3, _theorem_4, _theorem_5), 1)
}
DIMINISHING: dict[str, Bound] = {
    "Theorem 6": _theorem_6,
    "Theorem 7": _theorem_7,
    "Tail inequality of Theorem 8": _tail_of_theorem_8,
    "Tail inequality of Theorem 9": _tail_of_theorem_9,
}
