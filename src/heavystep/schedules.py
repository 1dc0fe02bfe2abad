"""The diminishing schedules of Section 4 and the assumption that they must meet."""

from fractions import Fraction
from typing import Any, NamedTuple


class PowerLaw(NamedTuple):
    r"""The schedule :math:`a\,(1 + k/h)^{-p}` of Section 5.

    >>> PowerLaw(initial=0.5, power=1.0, horizon=10.0)(10)
    0.25
    """

    initial: float
    """a, the value at k = 0."""
    power: float
    """p; 0 is a constant schedule."""
    horizon: float = 1e4
    """h, the number of steps after which the decay sets in."""

    def __call__(self, k: Any) -> Any:
        """The value at step ``k``, an int or an array of them."""
        return self.initial * (1.0 + k / self.horizon) ** -self.power


class Schedules(NamedTuple):
    r"""The three schedules of a diminishing variant; they share one horizon.

    >>> Schedules.power_laws(0.5, 0.4, 0.9, 1.1, 0.02, 0.3).eta(0)
    0.5
    """

    eta: PowerLaw
    """Outer multiplier eta_k."""
    beta: PowerLaw
    """Momentum beta_k."""
    gamma_max: PowerLaw
    """Largest step gamma_max,k."""

    @classmethod
    def power_laws(
        cls,
        eta0: float,
        eta_power: float,
        beta0: float,
        beta_power: float,
        gamma_max0: float,
        gamma_max_power: float,
        horizon: float = 1e4,
    ) -> "Schedules":
        """Three power laws :math:`a (1 + k/h)^{-p}` from their values at 0 and exponents."""
        return cls(
            PowerLaw(eta0, eta_power, horizon),
            PowerLaw(beta0, beta_power, horizon),
            PowerLaw(gamma_max0, gamma_max_power, horizon),
        )


class Condition(NamedTuple):
    """One inequality of the assumption on schedules."""

    item: str
    """Item of the assumption: (i), (ii) or (iii)."""
    holds: bool
    text: str
    """What must hold, the inequality between exponents that this means, and the number given."""


def exact(power: float) -> Fraction:
    """The decimal number that ``power`` prints as, so that 0.1 + 0.2 is 0.3.

    An exponent written as 0.7 is meant to be 7/10. The float is only near it, and a sum of such
    floats may be on the wrong side of a condition that the exponents meet with equality.

    >>> exact(0.1) + exact(0.2) == exact(0.3)
    True
    """
    return power if isinstance(power, Fraction) else Fraction(repr(float(power)))


def diminishing_conditions(
    eta: PowerLaw, beta: PowerLaw, max_step: PowerLaw
) -> tuple[Condition, ...]:
    r"""The paper's assumption on diminishing schedules, item by item, decided exactly.

    (i) :math:`\beta_k` is non-increasing in [0, 1) with :math:`\sum \beta_k < \infty`;
    (ii) :math:`\eta_k \gamma_{\max,k}` is non-increasing and :math:`\gamma_{\max,k} \to 0`;
    (iii) :math:`\sum \eta_k \gamma_{\max,k} = \infty` and
    :math:`\sum \eta_k^2 \gamma_{\max,k} < \infty`.

    For power laws each item is an inequality between the exponents, because
    :math:`\sum (1 + k/h)^{-p}` is finite exactly when p > 1. Exponents count as the decimal
    numbers that they print as (:func:`exact`).

    Reference: Zhang, Shi and Gu, Assumption 5 (label as_decay), Section 4.
    """
    step_power = exact(eta.power) + exact(max_step.power)
    square_power = step_power + exact(eta.power)

    def condition(item: str, holds: bool, text: str, got: Fraction) -> Condition:
        return Condition(item, holds, f"{text}, got {float(got):g}")

    return (
        condition(
            "(i)",
            beta.initial == 0.0 or beta.power > 1.0,
            "sum of beta_k must be finite, which needs beta_power > 1",
            exact(beta.power),
        ),
        condition(
            "(ii)",
            max_step.power > 0.0,
            "gamma_max,k must go to 0, which needs max_step_power > 0",
            exact(max_step.power),
        ),
        condition(
            "(ii)",
            step_power >= 0,
            "eta_k gamma_max,k must not increase, which needs eta_power + max_step_power >= 0",
            step_power,
        ),
        condition(
            "(iii)",
            step_power <= 1,
            "sum of eta_k gamma_max,k must be infinite, which needs "
            "eta_power + max_step_power <= 1",
            step_power,
        ),
        condition(
            "(iii)",
            square_power > 1,
            "sum of eta_k^2 gamma_max,k must be finite, which needs "
            "2 eta_power + max_step_power > 1",
            square_power,
        ),
    )


def check_diminishing(eta: PowerLaw, beta: PowerLaw, max_step: PowerLaw) -> None:
    """Refuse power laws outside the assumption (:func:`diminishing_conditions`).

    Raises:
        ValueError: names the item and the inequality that fails, with its numbers.

    >>> check_diminishing(PowerLaw(0.5, 0.4), PowerLaw(0.9, 1.1), PowerLaw(0.02, 0.3))
    >>> check_diminishing(PowerLaw(0.5, 0.4), PowerLaw(0.9, 0.9), PowerLaw(0.02, 0.3))
    Traceback (most recent call last):
    ValueError: schedule breaks item (i) of ... which needs beta_power > 1, got 0.9
    """
    for condition in diminishing_conditions(eta, beta, max_step):
        if not condition.holds:
            raise ValueError(
                f"schedule breaks item {condition.item} of the paper's Assumption on diminishing "
                f"schedules (Theorems 6-9): {condition.text}"
            )
