"""Lemmas 3 and 4 and the recursions of the proofs, along recorded iterates."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from heavystep.arrays import Array, square
from heavystep.certificates.check import Check, Skipped
from heavystep.certificates.rounding import TINY, Rounding
from heavystep.problems import FiniteSum
from heavystep.records import Record, heavy_ball_defect
from heavystep.theory.convex import distance_recursion
from heavystep.theory.convex_diminishing import diminishing_distance
from heavystep.theory.decoupling import decoupling_identity
from heavystep.theory.decoupling import decoupling_inequality
from heavystep.theory.decoupling import discounted_sums

SMALLEST_SCALE = 1e-280
"""Products of smaller terms lose digits to underflow."""


SOME_REFUSED = "is about runs in which every batch was used, some were refused"
RECURSIONS = {"theory": "Recursion of Theorem 2", "plain": "Recursion of Theorem 6"}
"""By scaling. The paper has no recursion for the practical one."""


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
    if not path.all_accepted:
        yield from (Skipped(lemma, SOME_REFUSED) for lemma in ("Lemma 3", "Lemma 4"))
    elif beta is None:
        reason = "is about constant momentum, here it changes"
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
