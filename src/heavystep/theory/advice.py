"""The c, gamma_max and beta that each theorem admits, and what momentum does to its rate."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from heavystep import validation
from heavystep.theory.registry import result
from heavystep.theory.rules import RULES
from heavystep.theory.theorems import convex, nonconvex, nonconvex_step_limit, strongly_convex
from heavystep.validation import Interval


class Advice(NamedTuple):
    """The conditions of one theorem on c and gamma_max."""

    theorem: str
    c: Interval
    gamma_max: Interval
    """The admissible range. Where it depends on c, it is the one for ``at_c``."""
    best_c: float | None
    """The c with the smallest constant where gamma_max is no restriction, if there is a formula."""
    at_c: float | None = None
    """The c for which gamma_max was advised; None: the range does not depend on c."""

    def admits(self, *, c: float, gamma_max: float) -> bool:
        """True if the theorem covers these values."""
        if self.at_c is not None and c != self.at_c:
            raise ValueError(f"{self.theorem}: advised for c = {self.at_c:g}, asked for c = {c!r}")
        return float(c) in self.c and float(gamma_max) in self.gamma_max


@result(
    "advice",
    rho="weak growth factor, > 0; without it Theorems 3 and 5 are left out.",
    c="the value in use, for the limit of gamma_max in Theorem 3; by default its smallest "
    "admissible value (Polyak) or the middle of its range (Armijo).",
)
def advice(
    rule: str, *, L: float, beta: float, omega: float | None = None, rho: float | None = None,
    c: float | None = None,
) -> tuple[Advice, ...]:  # fmt: skip
    r"""Admissible ranges of c and gamma_max for each theorem.

    Theorems 4 and 5 ask for what Theorems 2 and 3 ask for. Theorems 6-9 limit the schedules
    (Assumption 5), not gamma_max itself, and every c meets the condition of Theorem 6 from some
    K on (:func:`convex_diminishing` finds it). The best c of Theorem 1 makes gamma_min largest,
    that of Theorem 2 makes A smallest: (2 - 1/c) / c is largest at c = 1 (Polyak),
    (2 - 1/c)(1 - c) at c = 1 / sqrt(2) (Armijo).

    >>> for line in advice("polyak", L=2.0, beta=0.25, rho=2.0):
    ...     print(line.theorem, "| c", line.c, "| gamma_max", line.gamma_max)
    Theorem 1 | c >= 0.5 and finite | gamma_max > 0 and finite
    Theorems 2 and 4 | c > 0.5 and finite | gamma_max > 0 and finite
    Theorems 3 and 5 | c >= 0.5 and finite | gamma_max in (0, 0.0625)
    Theorems 6-9 | c > 0 and finite | gamma_max > 0 and finite
    """
    known = RULES[rule]
    high, any_cap = known.ranges["c"].high, validation.POSITIVE
    lines = [
        Advice("Theorem 1", Interval(0.5, high, closed_low=True), any_cap, best_c=0.5),
        Advice("Theorems 2 and 4", Interval(0.5, high), any_cap, best_c=known.best_c),
    ]
    if rho is not None:
        admissible = known.admissible_c(omega, rho)
        least = admissible.low if admissible.closed_low else (admissible.low + high) / 2.0
        at_c = least if c is None else c
        limit = nonconvex_step_limit(rule, L=L, rho=rho, beta=beta, c=at_c, omega=omega)
        lines.append(Advice("Theorems 3 and 5", admissible, Interval(0.0, limit), None, at_c))
    lines.append(Advice("Theorems 6-9", Interval(0.0, high), any_cap, best_c=None))
    return tuple(lines)


class WithMomentum(NamedTuple):
    """The rates of Theorems 1 to 3 at one momentum, and the limits on the step."""

    beta: float
    contraction: float
    """1 - r of Theorem 1 with a gamma_max that does not restrict: about 1 / (steps to shrink)."""
    A: float
    """A of Theorem 2, for ||theta_0 - theta*||^2 = 1: the gap is at most A / k."""
    best: float
    """1 / ((1 + beta) s1) of Theorem 3 at half its limit, for gap0 = 1: at most this / k."""
    gamma_max_limit: float
    """The limit of gamma_max in Theorem 3. Theorems 1 and 2 admit any."""
    momsps_gamma_max: float
    r"""The limit of the cap of MomSPS up to which its theorem admits this momentum.

    Derived here for :math:`\gamma_k = (1-\beta)\eta_k`, from :math:`\eta_k\|g_k\|^2 \le
    (f_k-\ell_k)/c`, and not compared with the text of Oikonomou and Loizou (arXiv 2406.04142).
    """


def side_by_side(
    rule: str = "polyak", *, L: float, mu: float, rho: float = 1.0, c: float = 1.0,
    omega: float | None = None,
    betas: Iterable[float] = (0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99),
) -> list[WithMomentum]:  # fmt: skip
    r"""Theorems 1 to 3 against beta, with MomSPS's limit beside them.

    Theorems 1 to 3 admit every beta below 1. Their constants are worse for a larger one: momentum
    does not improve the order, it changes constants only. A step of the rule is
    :math:`(1-\sqrt\beta)^2/2` of a Polyak step and momentum lengthens it by 1 / (1 - beta) at most.

    >>> for row in side_by_side(L=1.0, mu=0.1, betas=(0.0, 0.5, 0.9)):
    ...     print(*(f"{value:.3g}" for value in row))
    0 0.025 4 5.33 0.5 inf
    0.5 0.00322 31.1 41.4 0.0429 0.75
    0.9 0.000125 799 1.07e+03 0.00132 0.528

    Reference: Zhang, Shi and Gu, Theorems 1-3.
    """
    rows = []
    for beta in map(float, betas):
        method: dict[str, Any] = {"L": L, "beta": beta, "c": c, "omega": omega}
        # Large enough to restrict nothing: the smallest uncapped step is below 1 / L.
        wide = {**method, "gamma_max": 1e3 / (L * min(c, 1.0))}
        limit = nonconvex_step_limit(rule, rho=rho, **method)
        half = nonconvex(rule, rho=rho, delta=0.0, gap0=1.0, gamma_max=limit / 2.0, **method)
        alpha = 1.0 / (2.0 * c * L)
        cap = alpha * (2.0 - (1.0 - beta) / c) / (2.0 * beta) if beta else np.inf
        contraction = strongly_convex(rule, mu=mu, **wide).contraction
        A = convex(rule, dist0_sq=1.0, **wide).A
        rows.append(
            WithMomentum(beta, contraction, A, 1.0 / half.scale, limit, max(float(cap), alpha))
        )
    return rows
