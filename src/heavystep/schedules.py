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
    r"""The three schedules of a diminishing variant, with one horizon.

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
        cls, eta0: float, eta_power: float, beta0: float, beta_power: float, gamma_max0: float,
        gamma_max_power: float, horizon: float = 1e4,
    ) -> "Schedules":  # fmt: skip
        """Three power laws from their values at 0 and exponents."""
        given = (eta0, eta_power), (beta0, beta_power), (gamma_max0, gamma_max_power)
        return cls(*(PowerLaw(initial, power, horizon) for initial, power in given))


class Condition(NamedTuple):
    """One inequality of the assumption on schedules."""

    item: str
    """Item of the assumption: (i), (ii) or (iii)."""
    holds: bool
    text: str
    """The condition, the inequality between exponents that it means, and the number given."""


def diminishing_conditions(
    eta: PowerLaw, beta: PowerLaw, max_step: PowerLaw, *, name: str = "max_step"
) -> tuple[Condition, ...]:
    r"""The paper's assumption on diminishing schedules, item by item, decided exactly.

    (i) :math:`\beta_k` is non-increasing in [0, 1) with :math:`\sum \beta_k < \infty`;
    (ii) :math:`\eta_k \gamma_{\max,k}` is non-increasing and :math:`\gamma_{\max,k} \to 0`;
    (iii) :math:`\sum \eta_k \gamma_{\max,k} = \infty` and
    :math:`\sum \eta_k^2 \gamma_{\max,k} < \infty`.

    Exponents count as the decimal numbers that they print as: a sum of floats may be on the wrong
    side of a condition that 0.7 and 0.3 meet with equality. ``name`` is what the caller calls
    ``max_step``.

    Reference: Zhang, Shi and Gu, Assumption 5 (label as_decay), Section 4.
    """
    of_eta, of_beta, of_cap = (Fraction(repr(float(law.power))) for law in (eta, beta, max_step))
    step, square = of_eta + of_cap, 2 * of_eta + of_cap
    steps, squares = "sum of eta_k gamma_max,k must", "sum of eta_k^2 gamma_max,k must"
    rows = (
        ("(i)", of_beta, beta.initial == 0.0 or of_beta > 1,
         "sum of beta_k must be finite", "beta_power > 1"),
        ("(ii)", of_cap, of_cap > 0, "gamma_max,k must go to 0", f"{name}_power > 0"),
        ("(ii)", step, step >= 0,
         "eta_k gamma_max,k must not increase", f"eta_power + {name}_power >= 0"),
        ("(iii)", step, step <= 1, f"{steps} be infinite", f"eta_power + {name}_power <= 1"),
        ("(iii)", square, square > 1, f"{squares} be finite", f"2 eta_power + {name}_power > 1"),
    )  # fmt: skip
    return tuple(
        Condition(item, holds, f"{must}, which needs {inequality}, got {float(got):g}")
        for item, got, holds, must, inequality in rows
    )


def check_diminishing(
    eta: PowerLaw, beta: PowerLaw, max_step: PowerLaw, *, name: str = "max_step"
) -> None:
    """Refuse schedules outside the assumption (:func:`diminishing_conditions`).

    Raises:
        ValueError: names the item and the inequality that fails, with its numbers.

    >>> check_diminishing(PowerLaw(0.5, 0.4), PowerLaw(0.9, 1.1), PowerLaw(0.02, 0.3))
    >>> check_diminishing(PowerLaw(0.5, 0.4), PowerLaw(0.9, 0.9), PowerLaw(0.02, 0.3))
    Traceback (most recent call last):
    ValueError: schedule breaks item (i) of ... which needs beta_power > 1, got 0.9
    """
    for condition in diminishing_conditions(eta, beta, max_step, name=name):
        if not condition.holds:
            raise ValueError(
                f"schedule breaks item {condition.item} of the paper's Assumption on diminishing "
                f"schedules (Theorems 6-9): {condition.text}"
            )
