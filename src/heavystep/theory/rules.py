r"""The rules that the theorems cover: a row a rule, with everything in which they differ.

The proofs use two properties of a rule and nothing else about it:

.. math:: \gamma_k\|g_k\|^2 \le \frac{\eta_k\kappa}{c}\big(f_k - f^\star(x_k)\big), \qquad
          \gamma_k \ge \eta_k\min\Big\{\frac{\kappa\,u}{L},\ \gamma_{\max,k}\Big\}

The first is Lemma 1 (Lemma 6), the second Lemma 2 (Lemma 5). A rule with both properties is
covered as soon as it has a row in :data:`RULES`.
"""

from collections.abc import Callable, Mapping
from math import sqrt
from typing import Any, NamedTuple

from heavystep import validation
from heavystep.theory import conditions
from heavystep.validation import Interval


class CoveredRule(NamedTuple):
    """A rule that the theorems cover."""

    title: str
    """Its name in messages and docstrings."""
    ranges: Mapping[str, Interval]
    """The allowed range of each constant."""
    unit_step: Callable[[float, Any], float]
    """u above, the smallest uncapped step where kappa = L = 1, for c and omega."""
    inequality: str
    r"""Theorem 3's condition on c, which is :math:`2u \le 4/\rho`."""
    admissible_c: Callable[[Any, float], Interval]
    """The range that it leaves to c, for omega and rho."""
    best_c: float
    """It has the smallest A in Theorem 2 where gamma_max is no restriction."""
    uses_lower_bound: bool
    """The step depends on the lower bound of the sampled loss."""
    decisive_loss: Callable[[float, Any, Any, Any], Any]
    """The difference of losses that decides about the smallest step, from c, the height above f*,
    ||g||^2 and the smallest trial step of a search.

    Where rounding of the losses is as large, the step says nothing about Lemma 2.
    """


RULES: dict[str, CoveredRule] = {
    "polyak": CoveredRule(
        "Polyak",
        {"c": validation.POSITIVE},
        # a smooth loss has f - f* >= ||g||^2 / (2L)
        unit_step=lambda c, omega: 1.0 / (2.0 * c),
        inequality="c >= rho / 4",
        admissible_c=lambda omega, rho: Interval(rho / 4.0, closed_low=True),
        best_c=1.0,  # (2 - 1/c) / c is largest
        uses_lower_bound=True,
        decisive_loss=lambda c, gap, grad_sqnorm, trial: gap,
    ),
    "armijo": CoveredRule(
        "Armijo",
        {"c": validation.OPEN_UNIT, "omega": validation.OPEN_UNIT},
        # every t <= 2 (1 - c) / L is accepted; the search may overshoot that by a factor omega
        unit_step=lambda c, omega: 2.0 * omega * (1.0 - c),
        inequality="c > 1 - 1 / (omega rho)",
        admissible_c=lambda omega, rho: Interval(max(0.0, 1.0 - 1.0 / (omega * rho)), 1.0),
        best_c=1.0 / sqrt(2.0),  # (2 - 1/c)(1 - c) is largest
        uses_lower_bound=False,  # it only skips trials that must fail
        decisive_loss=lambda c, gap, grad_sqnorm, trial: min(c, 1.0 - c) * trial * grad_sqnorm,
    ),
}
"""By the value of the argument ``rule``."""


def checked(result: str, name: str, **constants: Any) -> CoveredRule:
    """The rule of that name; its constants are refused unless in range, and errors name ``result``.

    A constant that is not given is not looked at.
    """
    validation.choice("rule", name, RULES)
    rule = RULES[name]
    for constant, interval in rule.ranges.items():
        value = constants.get(constant, interval)
        if value is None:
            needed = f"{constant} {interval} for the {rule.title} rule"
            raise ValueError(f"{result} needs {needed}, got {constant} = None")
        if value is not interval:
            conditions.real(result, interval, **{constant: value})
    return rule
