"""Which c and gamma_max each theorem admits."""

from typing import NamedTuple

from heavystep import validation
from heavystep.theory import conditions
from heavystep.theory.arguments import documented
from heavystep.theory.nonconvex import nonconvex_step_limit
from heavystep.theory.steps import check
from heavystep.validation import Interval


class Advice(NamedTuple):
    """What one theorem asks of c and gamma_max."""

    theorem: str
    c: Interval
    gamma_max: Interval
    """The admissible range. Where it depends on c, it is the one for ``at_c``."""
    best_c: float | None
    """The c with the smallest constant where gamma_max is no restriction.

    None: there is no closed form."""
    at_c: float | None = None
    """The c for which gamma_max was advised; None: the range does not depend on c."""

    def admits(self, *, c: float, gamma_max: float) -> bool:
        """Whether the theorem covers these values."""
        if self.at_c is not None and c != self.at_c:
            raise ValueError(f"{self.theorem}: advised for c = {self.at_c:g}, asked for c = {c!r}")
        return float(c) in self.c and float(gamma_max) in self.gamma_max


@documented(
    rho="weak growth factor, > 0; without it Theorems 3 and 5 are left out.",
    c="the value in use, for the limit of gamma_max in Theorem 3; by default its smallest "
    "admissible value (Polyak) or the middle of its range (Armijo).",
)
def advice(
    rule: str,
    *,
    L: float,
    beta: float,
    omega: float | None = None,
    rho: float | None = None,
    c: float | None = None,
) -> tuple[Advice, ...]:
    r"""Admissible ranges of c and gamma_max for each theorem.

    Theorems 4 and 5 ask for what Theorems 2 and 3 ask for. Theorems 6-9 limit the schedules
    (Assumption 5), not gamma_max itself, and every c meets the condition of Theorem 6 from some
    K on (:func:`convex_diminishing` finds it). The best c of Theorem 1 makes gamma_min largest,
    that of Theorem 2 makes A smallest: (2 - 1/c) / c is largest at c = 1 (Polyak),
    (2 - 1/c)(1 - c) at c = 1 / sqrt(2) (Armijo).

    Raises:
        ValueError: a number is out of range, or Theorem 3 does not admit the ``c`` that was given.

    >>> for line in advice("polyak", L=2.0, beta=0.25, rho=2.0):
    ...     print(line.theorem, "| c", line.c, "| gamma_max", line.gamma_max)
    Theorem 1 | c >= 0.5 and finite | gamma_max > 0 and finite
    Theorems 2 and 4 | c > 0.5 and finite | gamma_max > 0 and finite
    Theorems 3 and 5 | c >= 0.5 and finite | gamma_max in (0, 0.0625)
    Theorems 6-9 | c > 0 and finite | gamma_max > 0 and finite
    """
    probe = 0.5 if c is None else c
    known = check("advice", rule, L=L, beta=beta, c=probe, gamma_max=1.0, omega=omega)
    high, any_cap = known.ranges["c"].high, validation.POSITIVE
    lines = [
        Advice("Theorem 1", Interval(0.5, high, closed_low=True), any_cap, best_c=0.5),
        Advice("Theorems 2 and 4", Interval(0.5, high), any_cap, best_c=known.best_c),
    ]
    if rho is not None:
        conditions.real("advice", validation.POSITIVE, rho=rho)
        condition = known.condition_on_c(rho)
        at_c = condition.typical if c is None else c
        limit = nonconvex_step_limit(rule, L=L, rho=rho, beta=beta, c=at_c, omega=omega)
        caps = Interval(0.0, limit)
        lines.append(Advice("Theorems 3 and 5", condition.admissible, caps, None, at_c))
    lines.append(Advice("Theorems 6-9", Interval(0.0, high), any_cap, best_c=None))
    return tuple(lines)
