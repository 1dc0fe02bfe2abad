"""Lemmas 3 and 4 and the recursions of the proofs, along recorded iterates."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from heavystep.certificates.check import Check
from heavystep.certificates.rounding import TINY, Rounding
from heavystep.problems import FiniteSum
from heavystep.records import Array, Record
from heavystep.theory.convex import distance_recursion
from heavystep.theory.convex_diminishing import diminishing_distance
from heavystep.theory.decoupling_convex import decoupling_identity
from heavystep.theory.decoupling_nonconvex import decoupling_inequality
from heavystep.theory.discounted import discounted_sums, square

IDENTITY = 1e-9
"""Relative difference that both sides of an identity may show in float64."""
SMALLEST_SCALE = 1e-280
"""Products of smaller terms lose digits to underflow."""


class Path(NamedTuple):
    """The iterates and gradients of a record, known to be there."""

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
        """The momentum, if it never changed."""
        beta = self.record.beta
        return float(beta[0]) if (beta == beta[0]).all() else None

    @property
    def all_accepted(self) -> bool:
        """Whether no batch was refused: a refused one stops the momentum for a step."""
        return bool(self.record.accepted.all())


def path_checks(path: Path, problem: FiniteSum | None) -> Iterator[Check]:
    """Everything that must hold along every run, of what applies to this one."""
    beta = path.constant_beta
    if beta is not None and path.all_accepted:
        yield _identity(path, beta, problem)
        if problem is not None:
            yield _inequality(path, beta, problem)
    if problem is None or not problem.convex or path.record.samples is None:
        return
    if path.record.scaling == "theory" and beta is not None and path.all_accepted:
        yield _distance(path, problem, beta)
    elif path.record.scaling == "plain" and path.all_accepted:
        yield _distance(path, problem, None)


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
    bound = np.full_like(measured, max(IDENTITY, path.rounding.unit))
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


def _distance(path: Path, problem: FiniteSum, beta: float | None) -> Check:
    """||theta_{k+1} - theta*||^2 against the recursion of Theorem 2 or of Theorem 6."""
    record, samples = path.record, path.record.samples
    assert samples is not None
    offset = path.iterates - problem.theta_star
    dist = square(offset)
    theta_star = np.broadcast_to(problem.theta_star, path.before.shape)
    gap = record.loss - record.f_star
    optimal_gap = problem.losses(theta_star, samples) - record.f_star
    if beta is not None:
        bound = distance_recursion(
            dist[:, :-1], record.gamma, gap, optimal_gap, beta=beta, c=record.c
        )
    else:
        moved = np.zeros_like(gap)
        moved[:, 1:] = square(path.before[:, 1:] - path.before[:, :-1])
        bound = diminishing_distance(
            dist[:, :-1], moved, gap, optimal_gap,
            gamma=record.gamma, eta=record.eta, beta=record.beta, c=record.c,
        )  # fmt: skip
    error = path.rounding.point
    points = np.sqrt(dist) * error + error**2
    losses = discounted_sums(float(record.beta.max()), record.gamma * path.rounding.loss, axis=-1)
    tolerance = 2.0 * (points[:, 1:] + points[:, :-1]) + 4.0 * losses
    tolerance += path.rounding.unit * (dist[:, 1:] + dist[:, :-1])
    result = "Recursion of Theorem 6" if beta is None else "Recursion of Theorem 2"
    k = np.arange(record.steps)
    quantity = "||theta_{k+1} - theta*||^2"
    return Check(result, quantity, k, dist[:, 1:], bound, tolerance)
