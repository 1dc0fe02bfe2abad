"""The bound of each theorem at every recorded k, with the constants of the problem."""

import inspect
from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from heavystep import theory
from heavystep.arrays import Array, square
from heavystep.certificates.check import Check
from heavystep.certificates.lemmas import SAMPLES
from heavystep.certificates.run import Run
from heavystep.schedules import Schedules
from heavystep.theory.registry import CONVEX, RESULTS
from heavystep.theory.theorems import SummableSequence

ROUNDING = 1e-9
"""Relative rounding of a sum over the run: a sum of 10^6 terms errs by 2e-10 at most."""
FEWEST_RUNS = 5
"""The standard error of fewer runs does not measure chance."""
BY_ID = {result.id: result for result in RESULTS}


def _constant(run: Run) -> None:
    """Refuse runs outside Theorems 1-5."""
    record = run.record
    if record.scaling != "theory":
        raise ValueError(f"is about scaling 'theory', the run used {record.scaling!r}")
    if run.beta is None or (record.gamma_max != record.gamma_max[0]).any():
        raise ValueError("is about constant momentum and gamma_max, here they change")
    if (record.eta != 1.0).any():
        raise ValueError(f"is about eta_k = 1, the run used {record.eta.min():g}")
    run.given_caps()


def _diminishing(run: Run) -> Schedules:
    """The schedules; runs outside Theorems 6-9 are refused."""
    if run.schedules is None:
        raise ValueError("needs the schedules: certify(record, problem, schedules=...)")
    for name, law in run.schedules._asdict().items():
        if not np.allclose(getattr(run.record, name), law(run.k), rtol=1e-12, atol=0.0):
            raise ValueError(f"the run's {name} is not the schedule that was given")
    run.given_caps()
    return run.schedules


def _sigma2(run: Run) -> float:
    """sigma^2 counted from the lower bounds that the rule used: the infima, or one number below."""
    problem, record = run.problem, run.record
    low, exact, slack = record.f_star, problem.f_star, run.loss_error
    if not record.theory.uses_lower_bound:
        return problem.sigma2
    if record.samples is not None and (abs(low - exact[record.samples]) <= slack).all():
        return problem.sigma2
    level = float(low.flat[0])
    if (low != level).any():
        raise ValueError("is about f*(x) or one lower bound, the run used others")
    if level > float(exact.min()) + float(slack.max()):
        raise ValueError(f"needs lower bounds <= f*(x), the run used {level:g}")
    return problem.sigma2 + max(0.0, float(exact.mean()) - level)


ARGUMENTS: dict[str, Callable[[Run], Any]] = {
    **{name: attrgetter(f"record.{name}") for name in ("rule", "c", "omega")},
    **{name: attrgetter(f"problem.{name}") for name in ("L", "mu", "rho", "delta")},
    **{name: attrgetter(name) for name in ("beta", "schedules")},
    "gamma_max": lambda run: float(run.record.gamma_max[0]),
    "sigma2": _sigma2,
    "dist0_sq": lambda run: float(run.dist_sq()[:, 0].mean()),
    "gap0": lambda run: float(run.problem.gap(run.iterates[:, 0]).mean()),
}  # fmt: skip


def _promise(result: str, run: Run, **given: Any) -> Any:
    """The theorem's promise for the run; ValueError with the reason if it promises nothing."""
    theorem = BY_ID[result]
    names, convex = inspect.signature(theorem.function).parameters, CONVEX in theorem.assumptions
    if convex:
        run.convex()
    sigma2 = _sigma2(run)  # refuses lower bounds above f*(x), with which no theorem holds
    # A theorem that does not ask for the noise is about runs without any.
    if convex and "sigma2" not in names and sigma2 > 0.0:
        raise ValueError(f"needs sigma^2 = 0 (interpolation), got {sigma2:g}")
    if not convex and "delta" not in names and run.problem.delta > 0.0:
        raise ValueError(f"needs delta = 0 (strong growth), got {run.problem.delta:g}")
    _diminishing(run) if "schedules" in names else _constant(run)
    known = {name: ARGUMENTS[name](run) for name in names if name in ARGUMENTS}
    return theorem.function(**known | given)


class Quantity(NamedTuple):
    """The quantity that a theorem bounds in expectation."""

    text: str
    of: Callable[[Run, Any], Array]
    """(R, K) numbers from the runs and the promise."""
    power: int
    """Rounding moves it by L to this power times the squared error of a point."""
    least: bool = False
    """The least mean so far is what counts."""
    first: int = 1
    """The k of the first column."""


def _gap_of_weighted_mean(run: Run, promised: Any) -> Array:
    weights = promised.weights(run.record.steps)[:, None]
    sums = np.cumsum(weights * run.iterates[:, 1:], axis=1)
    return run.problem.gap(sums / np.cumsum(weights, axis=0))


QUANTITIES = {
    "Theorem 1": Quantity("E ||theta_k - theta*||^2", lambda run, _: run.dist_sq(), 0, first=0),
    "Theorem 2": Quantity(
        "E F(mean of theta_0..theta_{k-1}) - F*", lambda run, _: run.problem.gap(
            np.cumsum(run.before, axis=1) / (run.k + 1)[:, None]
        ), 1),
    "Theorem 3": Quantity("min over m < k of E ||grad F(theta_m)||^2",
                         lambda run, _: run.grad_sq(run.before), 2, least=True),
    "Theorem 5": Quantity("E sum over m < k of ||grad F(theta_m)||^2",
                         lambda run, _: np.cumsum(run.grad_sq(run.before), axis=1), 2),
    "Theorem 6": Quantity("E F(weighted mean) - F*", _gap_of_weighted_mean, 1),
    "Theorem 7": Quantity("min over 1 <= m <= k of E ||grad F||^2",
                         lambda run, _: run.grad_sq(run.iterates[:, 1:]), 2, least=True),
}  # fmt: skip


def sides(result: str, run: Run) -> tuple[Array, Array, Array]:
    """k, the quantity of each run (R, k), and the bound on its expectation."""
    quantity, promised = QUANTITIES[result], _promise(result, run)
    k = np.arange(quantity.first, run.record.steps + 1)
    if isinstance(promised, SummableSequence):
        bound = np.full(len(k), promised.expected_sum)
    else:
        needed = {name: ARGUMENTS[name](run) for name in BY_ID[result].bound_arguments}
        bound = promised.bound(k, **needed)
    return k, quantity.of(run, promised), bound


def in_expectation(result: str, run: Run) -> Check:
    """The mean over runs, less its standard error, where the bound is finite.

    Runs that obey the theorem may fail by chance where the bound is nearly attained, or depends on
    samples so rare that none was drawn.
    """
    quantity, (k, runs, bound) = QUANTITIES[result], sides(result, run)
    if len(runs) < FEWEST_RUNS:
        raise ValueError(f"is about the mean over runs, which takes {FEWEST_RUNS}, got {len(runs)}")
    measured = runs.mean(axis=0) - runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
    measured = np.minimum.accumulate(measured) if quantity.least else measured
    tolerance = ROUNDING * abs(bound) + run.problem.L**quantity.power * run.floor()
    finite = np.isfinite(bound)
    if not finite.any():
        raise ValueError("the constant in its proof, exp(sum of beta_k), leaves float64")
    numbers = measured[finite], bound[finite], tolerance[finite]
    return Check(result, quantity.text, k[finite], *numbers)


def theorem_4(result: str, run: Run) -> Check:
    """The sum of sampled gaps, on every run."""
    promised, record = _promise(result, run, dist0_sq=1.0), run.record
    if not np.isfinite(record.f_star).all():
        raise ValueError(SAMPLES)
    sums = np.cumsum(record.gamma * (record.loss - record.f_star), axis=1)
    bound = np.broadcast_to(promised.sampled_sum * run.dist_sq()[:, :1], sums.shape)
    quantity = "sum over m < k of gamma_m (f_m - f*), every run"
    return Check(result, quantity, run.k + 1, sums, bound, ROUNDING * bound + run.floor())


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


def tail_of_theorem_8(result: str, run: Run) -> Check:
    """W_k times the gap against the average of the tail."""
    run.convex()
    theory.check_schedules(result, _diminishing(run))
    problem, centre, L = run.problem, run.problem.theta_star, run.problem.L
    weights = (run.record.eta * run.least_steps())[1:, None]
    offsets = run.before[:, 1:] - centre
    tail, k, n = tail_sums(weights * offsets)
    total, sums = np.cumsum(weights, axis=0), np.cumsum(weights * offsets, axis=1)
    before, average = sums[:, n - 1] / total[n - 1], sums[:, k - 1] / total[k - 1]
    after = tail / tail_sums(weights)[0]
    W_n, W_k = total[n - 1, 0], total[k - 1, 0]
    slope, diameter = np.sqrt(run.grad_sq(centre + after)), np.sqrt(square(before - after))
    bound = theory.convex_tail_bound(
        problem.gap(centre + after), slope, head=W_n, total=W_k, diameter=diameter, L=L
    )
    gap = problem.gap(centre + average)
    # A point is rounded when it is written, and when the problem looks at it.
    error = 8.0 * run.record.eps * (np.linalg.norm(centre) + np.sqrt(square(average)))
    tolerance = ROUNDING * bound + 2.0 * W_k * (np.sqrt(2.0 * L * gap) * error + L * error**2)
    return Check(result, "W_k (F(weighted mean) - F*)", k, W_k * gap, bound, tolerance)


def tail_of_theorem_9(result: str, run: Run) -> Check:
    """S_k times the least gradient against the sum of the tail."""
    theory.check_schedules(result, _diminishing(run))
    weights = (run.record.eta * run.record.gamma_max)[1:]
    grad_sq = run.grad_sq(run.before[:, 1:])
    tail, k, n = tail_sums((weights * grad_sq)[..., None])
    tail = tail[..., 0] + (weights * grad_sq)[:, n - 1]
    total, least = np.cumsum(weights), np.minimum.accumulate(grad_sq, axis=1)[:, k - 1]
    bound = theory.nonconvex_tail_bound(tail, least, head=total[n - 1])
    return Check(result, "S_k min ||grad F||^2", k, total[k - 1] * least, bound, ROUNDING * bound)
