"""Checks at every step and along every run: Lemmas 1 to 6, and the recursions of the proofs.

Tolerances are what rounding may do. A computed loss or gradient is the exact one at another point,
a few eps away, up to rounding of the result itself. Its error follows from smoothness: moving the
point by e changes a loss by at most ||g|| e + L e^2 / 2 and a gradient by at most L e. Near a
minimiser that is far more than eps times the loss.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from heavystep.arrays import Array, square
from heavystep.certificates.check import TINY, Check, Skipped, StepBias
from heavystep.problems import FiniteSum
from heavystep.records import Record, heavy_ball_defect
from heavystep.rules import kappa
from heavystep.theory.diminishing import diminishing_distance
from heavystep.theory.lemmas import (
    decoupling_identity,
    decoupling_inequality,
    discounted_sums,
    largest_slope,
    smallest_step,
)
from heavystep.theory.theorems import distance_recursion

ROUNDINGS = 64.0
"""How many roundings a recorded number may carry, in units of eps of its size."""
CHANCE = 1e-9
"""How often samples that were drawn uniformly fail their test."""
FEWEST_DRAWS = 10
"""How often the test of samples expects each of its cells."""


@dataclass(frozen=True)
class Rounding:
    """Errors of a recorded run."""

    unit: float
    """Relative error of a single number."""
    point: Array
    """(R, K + 1) error of the points at which losses and gradients were taken."""
    loss: Array
    """(R, K) error of the recorded losses and of their infima."""

    @classmethod
    def of(cls, record: Record, problem: FiniteSum | None, L: float | None) -> "Rounding":
        """The errors of a run; without iterates only those of the losses are known."""
        unit = ROUNDINGS * record.eps
        point = np.zeros((record.runs, record.steps + 1))
        if record.iterates is not None:
            # Where the optimum is not known, the start shows how large the problem's data are.
            centre = record.iterates[:, :1] if problem is None else problem.theta_star
            size = np.linalg.norm(record.iterates, axis=-1) + np.linalg.norm(centre, axis=-1)
            point = unit * size
        low = np.where(np.isfinite(record.f_star), record.f_star, 0.0)
        moved = np.sqrt(record.grad_sqnorm) * point[:, :-1] + (L or 0.0) / 2 * point[:, :-1] ** 2
        smallest = ROUNDINGS * record.tiny
        return cls(unit, point, unit * (abs(record.loss) + abs(low)) + moved + smallest)


NAMES = {
    "theory": ("Lemma 2", "Lemma 1"),
    "practical": ("Lemma 2 at kappa = 1/2", "Lemma 1 at kappa = 1/2"),
    "plain": ("Lemma 5", "Lemma 6"),
}
"""The step bounds and the basic inequality, by scaling.

The paper states nothing about the practical scaling; the formulas hold with its kappa."""


def step_checks(
    record: Record, L: float | None, rounding: Rounding, note: str
) -> Iterator[Check | Skipped]:
    """The step bounds and the basic inequality.

    The smallest step needs ``L``, the basic inequality needs lower bounds of the losses. ``note``
    is what the table says about ``L``.
    """
    bounds, basic = NAMES[record.scaling]
    k = np.arange(record.steps)
    # A squared norm below the normal numbers has lost digits.
    moved = record.accepted & (record.grad_sqnorm > record.tiny / record.eps)
    gamma = np.where(moved, record.gamma, np.nan)
    largest = np.broadcast_to(record.eta * record.gamma_max, gamma.shape)
    yield Check(bounds, "gamma_k <= eta_k gamma_max,k", k, gamma, largest, rounding.unit * largest)
    if L is None:
        yield Skipped(f"{bounds}, smallest step", "needs the problem or its L")
    elif record.smooth_reset:
        yield Skipped(f"{bounds}, smallest step", "is about a given cap, the run used smooth reset")
    else:
        least = np.broadcast_to(record.eta * least_steps(record, L), gamma.shape)
        relative = rounding.unit + _blur(record, least, rounding)
        # Where rounding decides, the recorded numbers say nothing about the lemma.
        resolved = np.where(relative < 0.5, gamma, np.nan)
        quantity = f"gamma_k >= eta_k gamma_min,k{note}"
        yield Check(bounds, quantity, k, resolved, least, relative * least, lower=True)
    if not np.isfinite(record.f_star).all():
        yield Skipped(basic, "needs lower bounds of the losses, the run had none")
        return
    factor = largest_slope(record.scaling, beta=record.beta, eta=record.eta, c=record.c, gap=1.0)
    bound = factor * (record.loss - record.f_star)
    tolerance = factor * rounding.loss + rounding.unit * abs(bound)
    quantity = "gamma_k ||g_k||^2 <= eta_k kappa / c (f_k - f*)"
    yield Check(basic, quantity, k, gamma * record.grad_sqnorm, bound, tolerance)


def least_steps(record: Record, L: float) -> Array:
    """(K,) gamma_min,k of Lemmas 2 and 5."""
    constants: dict[str, Any] = {"c": record.c, "omega": record.omega, "kappa": _kappas(record)}
    least: Array = smallest_step(record.rule, L=L, cap=record.gamma_max, **constants)
    return least


def _kappas(record: Record) -> Array:
    return np.array([kappa(record.scaling, float(beta)) for beta in record.beta])


def _blur(record: Record, least: Array, rounding: Rounding) -> Array:
    """How far rounding of the losses may move the smallest step, relative to it."""
    scale = record.eta * _kappas(record)
    gap, trial = record.loss - record.f_star, least / scale
    decisive = record.theory.decisive_loss(gap, record.grad_sqnorm, trial)
    blur: Array = np.full_like(decisive, np.inf)
    np.divide(rounding.loss, decisive, out=blur, where=decisive > 0.0)
    return blur


SMALLEST_SCALE = 1e-280
"""Products of smaller terms lose digits to underflow."""


SOME_REFUSED = "is about runs in which every batch was used, some were refused"
RECURSIONS = {"theory": "Recursion of Theorem 2", "plain": "Recursion of Theorem 6"}
"""By scaling. The paper has no recursion for the practical one."""


def sample_check(record: Record, n: int) -> Check | Skipped:
    r"""Whether samples were drawn uniformly: a chi-square test of how often each term was.

    Theorems are about terms drawn independently and uniformly; a run on the worst ones only obeys
    every lemma. Neighbouring terms are put into one cell until each expects ten draws. The limit
    is Wilson and Hilferty's :math:`d (1 - 2/(9d) + z \sqrt{2/(9d)})^3` for d degrees of freedom,
    which fair samples exceed once in 10^9 records. Draws that are *more* even than chance, as in
    epochs without replacement, pass.
    """
    if record.samples is None:
        return Skipped("Samples", "needs to know which terms were sampled: certify(..., samples=)")
    draws = record.samples.size
    cells = min(n, draws // FEWEST_DRAWS)
    if cells < 2:
        return Skipped("Samples", f"needs {2 * FEWEST_DRAWS} draws from several terms")
    cell = np.arange(n) * cells // n
    expected = draws * np.bincount(cell) / n
    counts = np.bincount(cell[record.samples.ravel()], minlength=cells)
    found, spread = float(((counts - expected) ** 2 / expected).sum()), 2.0 / (9.0 * (cells - 1))
    z = NormalDist().inv_cdf(1.0 - CHANCE)
    limit = (cells - 1) * (1.0 - spread + z * spread**0.5) ** 3
    quantity, at = "chi-square of how often each term was drawn", np.array([record.steps])
    return Check("Samples", quantity, at, np.array([found]), np.array([limit]), np.zeros(1))


def step_bias(record: Record) -> StepBias | None:
    """The covariance of step and gradient over the second half of all runs.

    None without gradients, or where no step was taken.
    """
    if record.gradients is None:
        return None
    late = np.broadcast_to(np.arange(record.steps) >= record.steps // 2, record.gamma.shape)
    used = record.accepted & late
    gamma, gradients = record.gamma[used], record.gradients[used]
    scale = gamma.mean() * np.sqrt(square(gradients).mean()) if len(gamma) else 0.0
    if not scale > 0.0:
        return None
    covariance = (gamma - gamma.mean()) @ (gradients - gradients.mean(axis=0)) / len(gamma)
    chance = gamma.std() / gamma.mean() / np.sqrt(len(gamma))
    return StepBias(float(np.linalg.norm(covariance) / scale), float(chance))


class Path(NamedTuple):
    """A record of which iterates and gradients are known."""

    record: Record
    iterates: Array
    gradients: Array
    rounding: Rounding

    @property
    def before(self) -> Array:
        """theta_0 .. theta_{K-1}."""
        return self.iterates[:, :-1]

    @property
    def constant_beta(self) -> float | None:
        """The momentum, or None if it changes."""
        beta = self.record.beta
        return float(beta[0]) if (beta == beta[0]).all() else None

    @property
    def all_accepted(self) -> bool:
        """Whether no batch was refused. A refused batch stops the momentum for one step."""
        return bool(self.record.accepted.all())


def path_checks(path: Path, problem: FiniteSum | None) -> Iterator[Check | Skipped]:
    """The checks along every run: heavy ball, Lemmas 3 and 4, and the recursion of a proof."""
    yield _heavy_ball(path)
    beta = path.constant_beta
    if beta is None or not path.all_accepted:
        changes = "is about constant momentum, here it changes"
        reason = changes if path.all_accepted else SOME_REFUSED
        yield from (Skipped(lemma, reason) for lemma in ("Lemma 3", "Lemma 4"))
    else:
        yield _identity(path, beta, problem)
        if problem is None:
            yield Skipped("Lemma 4", "needs the problem and its constants")
        else:
            yield _inequality(path, beta, problem)
    if problem is not None and path.record.scaling in RECURSIONS:
        yield _recursion(path, problem)


def _heavy_ball(path: Path) -> Check:
    record = path.record
    error, size = heavy_ball_defect(
        path.iterates, record.gamma, path.gradients, record.beta, record.accepted
    )
    # Only the coordinate with the largest error for its size is reported.
    allowed = path.rounding.unit * size + TINY
    worst = (abs(error) / allowed).argmax(axis=-1)[..., None]
    measured = np.take_along_axis(abs(error), worst, axis=-1)[..., 0]
    bound = np.take_along_axis(allowed, worst, axis=-1)[..., 0]
    quantity = "|theta_{k+1} - theta_k + gamma_k g_k - beta_k (theta_k - theta_{k-1})|"
    k = np.arange(record.steps)
    return Check("Heavy ball", quantity, k, measured, bound, np.zeros_like(bound))


def _identity(path: Path, beta: float, problem: FiniteSum | None) -> Check:
    # The identity holds for every point; theta* is the one that the proofs use.
    point = path.before[0, 0] if problem is None else problem.theta_star
    sides = decoupling_identity(
        path.before, path.record.gamma, path.gradients, beta=beta, point=point
    )
    digits = sides.scale > SMALLEST_SCALE
    difference = abs(sides.left - sides.right)
    measured = np.divide(
        difference, sides.scale, out=np.full_like(difference, np.nan), where=digits
    )
    bound = np.full_like(measured, path.rounding.unit)
    k = np.arange(path.record.steps)
    return Check("Lemma 3", "|left - right| / size", k, measured, bound, np.zeros_like(bound))


def _inequality(path: Path, beta: float, problem: FiniteSum) -> Check:
    record, L = path.record, problem.L
    objective, full = problem.objective(path.iterates), problem.full_gradient(path.iterates)
    bound, size = decoupling_inequality(record.gamma, path.gradients, full[:, :-1], L=L, beta=beta)
    change = objective[:, 1:] - objective[:, :-1]
    error, norms = path.rounding.point, np.linalg.norm(full, axis=-1)
    losses = path.rounding.unit * abs(objective) + norms * error + L * error**2 + TINY
    slopes = norms[:, :-1] + np.sqrt(record.grad_sqnorm) + L * error[:, :-1]
    products = discounted_sums(beta, record.gamma * slopes * L * error[:, :-1], axis=-1)
    tolerance = losses[:, 1:] + losses[:, :-1] + path.rounding.unit * size + 2.0 * products
    k = np.arange(record.steps)
    return Check("Lemma 4", "F(theta_{k+1}) - F(theta_k)", k, change, bound, tolerance)


def _recursion(path: Path, problem: FiniteSum) -> Check | Skipped:
    """||theta_{k+1} - theta*||^2 against the recursion of Theorem 2 or of Theorem 6."""
    record, beta = path.record, path.constant_beta
    result = RECURSIONS[record.scaling]
    if not problem.convex:
        return Skipped(result, "is about convex samples, the problem's are not")
    if record.samples is None or not np.isfinite(record.f_star).all():
        return Skipped(result, "needs to know which terms were sampled: certify(..., samples=)")
    if not path.all_accepted:
        return Skipped(result, SOME_REFUSED)
    dist = square(path.iterates - problem.theta_star)
    theta_star = np.broadcast_to(problem.theta_star, path.before.shape)
    gap = record.loss - record.f_star
    optimal_gap = problem.losses(theta_star, record.samples) - record.f_star
    if record.scaling == "plain":
        moved = np.zeros_like(gap)
        moved[:, 1:] = square(path.before[:, 1:] - path.before[:, :-1])
        bound = diminishing_distance(
            dist[:, :-1], moved, gap, optimal_gap,
            gamma=record.gamma, eta=record.eta, beta=record.beta, c=record.c,
        )  # fmt: skip
    elif beta is None or (record.eta != 1.0).any():
        return Skipped(result, "is about constant momentum and eta_k = 1")
    else:
        bound = distance_recursion(
            dist[:, :-1], record.gamma, gap, optimal_gap, beta=beta, c=record.c
        )
    error = path.rounding.point
    points = np.sqrt(dist) * error + error**2
    losses = discounted_sums(float(record.beta.max()), record.gamma * path.rounding.loss, axis=-1)
    tolerance = 2.0 * (points[:, 1:] + points[:, :-1]) + 4.0 * losses
    tolerance += path.rounding.unit * (dist[:, 1:] + dist[:, :-1])
    k, quantity = np.arange(record.steps), "||theta_{k+1} - theta*||^2"
    return Check(result, quantity, k, dist[:, 1:], bound, tolerance)
