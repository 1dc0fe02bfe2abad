r"""The rules that the theorems cover: one class a rule, with everything in which they differ.

The proofs use two properties of a rule and nothing else about it:

.. math:: \gamma_k\|g_k\|^2 \le \frac{\eta_k\kappa}{c}\big(f_k - f^\star(x_k)\big), \qquad
          \gamma_k \ge \eta_k\min\Big\{\frac{\kappa\,u}{L},\ \gamma_{\max,k}\Big\}

The first is Lemma 1 (Lemma 6), the second Lemma 2 (Lemma 5). A rule with both properties is
covered as soon as it has a class here and a place in :data:`RULES`: theorems, advice, records and
certificates ask that class.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any, ClassVar, NamedTuple

from heavystep import validation
from heavystep.theory import conditions
from heavystep.validation import Interval


class ConditionOnC(NamedTuple):
    """Theorem 3's condition on c for one rho, a c to advise, and numbers for an error."""

    admissible: Interval
    typical: float
    numbers: Mapping[str, float]


class CoveredRule(ABC):
    """A rule that the theorems cover, with its constants as fields."""

    name: ClassVar[str]  # the value of the argument `rule`
    title: ClassVar[str]  # in messages and docstrings
    ranges: ClassVar[Mapping[str, Interval]]  # of each constant; the first is c
    inequality: ClassVar[str]  # the condition of Theorem 3 on c
    best_c: ClassVar[float]  # smallest A in Theorem 2 where gamma_max is no restriction
    uses_lower_bound: ClassVar[bool]  # the step depends on the lower bound of the sampled loss

    @abstractmethod
    def unit_step(self) -> float:
        """The u above: the smallest uncapped step where kappa = L = 1."""

    @abstractmethod
    def condition_on_c(self, rho: float) -> ConditionOnC:
        r"""Theorem 3's condition on c, which is :math:`2u \le 4/\rho`."""

    @abstractmethod
    def decisive_loss(self, gap: Any, grad_sqnorm: Any, trial: Any) -> Any:
        """The difference of losses that decides about the smallest step.

        Where rounding of the losses is as large, the step says nothing about Lemma 2. ``gap`` is
        the height above f*, ``trial`` the smallest trial step of a line search.
        """


@dataclass(frozen=True)
class Polyak(CoveredRule):
    """The Polyak step size: a smooth loss has f - f* >= ||g||^2 / (2L), which gives its u."""

    c: float
    name = "polyak"
    title = "Polyak"
    ranges: ClassVar = {"c": validation.POSITIVE}
    inequality = "c >= rho / 4"
    best_c = 1.0  # (2 - 1/c) / c is largest
    uses_lower_bound = True

    def unit_step(self) -> float:
        return 1.0 / (2.0 * self.c)

    def condition_on_c(self, rho: float) -> ConditionOnC:
        least = rho / 4.0
        admissible = Interval(least, closed_low=True)
        return ConditionOnC(admissible, least, {"c": self.c, "rho": rho})

    def decisive_loss(self, gap: Any, grad_sqnorm: Any, trial: Any) -> Any:
        return gap


@dataclass(frozen=True)
class Armijo(CoveredRule):
    """The modified Armijo line search.

    Every trial t <= 2 (1 - c) / L is accepted; the search may overshoot that by a factor omega.
    """

    c: float
    omega: float
    name = "armijo"
    title = "Armijo"
    ranges: ClassVar = {"c": validation.OPEN_UNIT, "omega": validation.OPEN_UNIT}
    inequality = "c > 1 - 1 / (omega rho)"
    best_c = 1.0 / sqrt(2.0)  # (2 - 1/c)(1 - c) is largest
    uses_lower_bound = False  # it only skips trials that must fail

    def unit_step(self) -> float:
        return 2.0 * self.omega * (1.0 - self.c)

    def condition_on_c(self, rho: float) -> ConditionOnC:
        below = 1.0 - 1.0 / (self.omega * rho)
        admissible = Interval(max(0.0, below), 1.0)
        numbers = {"c": self.c, "omega": self.omega, "rho": rho, "1 - 1 / (omega rho)": below}
        # There is no smallest admissible c; the middle of the range counts as typical.
        return ConditionOnC(admissible, (admissible.low + 1.0) / 2.0, numbers)

    def decisive_loss(self, gap: Any, grad_sqnorm: Any, trial: Any) -> Any:
        return min(self.c, 1.0 - self.c) * trial * grad_sqnorm


RULES: dict[str, type[CoveredRule]] = {rule.name: rule for rule in (Polyak, Armijo)}


def covered(name: str, **constants: Any) -> CoveredRule:
    """The rule of that name with those of the constants that it has; ValueError for others."""
    validation.choice("rule", name, RULES)
    rule = RULES[name]
    return rule(**{constant: constants[constant] for constant in rule.ranges})


def checked(result: str, name: str, **constants: Any) -> CoveredRule:
    """The rule of that name with its constants, refused unless in range; errors name ``result``."""
    rule = covered(name, **constants)
    for constant, interval in rule.ranges.items():
        value = constants[constant]
        if value is None:
            needed = f"{constant} {interval} for the {rule.title} rule"
            raise ValueError(f"{result} needs {needed}, got {constant} = None")
        conditions.real(result, interval, **{constant: value})
    return rule
