r"""The diminishing schedules of Section 4 and the assumption they must meet."""

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


def check_diminishing(eta: PowerLaw, beta: PowerLaw, max_step: PowerLaw) -> None:
    r"""Refuse power laws outside the paper's assumption on diminishing schedules.

    (i) :math:`\beta_k` is non-increasing in [0, 1) with :math:`\sum \beta_k < \infty`;
    (ii) :math:`\eta_k \gamma_{\max,k}` is non-increasing and :math:`\gamma_{\max,k} \to 0`;
    (iii) :math:`\sum \eta_k \gamma_{\max,k} = \infty` and
    :math:`\sum \eta_k^2 \gamma_{\max,k} < \infty`.

    For power laws each item is an inequality between the exponents, because
    :math:`\sum (1 + k/h)^{-p}` is finite exactly when p > 1.

    Raises:
        ValueError: names the item and the inequality that fails, with its numbers.

    >>> check_diminishing(PowerLaw(0.5, 0.4), PowerLaw(0.9, 1.1), PowerLaw(0.02, 0.3))
    >>> check_diminishing(PowerLaw(0.5, 0.4), PowerLaw(0.9, 0.9), PowerLaw(0.02, 0.3))
    Traceback (most recent call last):
    ValueError: schedule breaks item (i) of ... which needs beta_power > 1, got 0.9

    Reference: Zhang, Shi and Gu, Assumption 5 (label as_decay), Section 4.
    """
    step_power = eta.power + max_step.power
    square_power = 2.0 * eta.power + max_step.power
    conditions = (
        (
            "(i)",
            beta.initial == 0.0 or beta.power > 1.0,
            f"sum of beta_k must be finite, which needs beta_power > 1, got {beta.power:g}",
        ),
        (
            "(ii)",
            max_step.power > 0.0,
            f"gamma_max,k must go to 0, which needs max_step_power > 0, got {max_step.power:g}",
        ),
        (
            "(ii)",
            step_power >= 0.0,
            "eta_k gamma_max,k must not increase, which needs "
            f"eta_power + max_step_power >= 0, got {step_power:g}",
        ),
        (
            "(iii)",
            step_power <= 1.0,
            "sum of eta_k gamma_max,k must be infinite, which needs "
            f"eta_power + max_step_power <= 1, got {step_power:g}",
        ),
        (
            "(iii)",
            square_power > 1.0,
            "sum of eta_k^2 gamma_max,k must be finite, which needs "
            f"2 eta_power + max_step_power > 1, got {square_power:g}",
        ),
    )
    for item, holds, inequality in conditions:
        if not holds:
            raise ValueError(
                f"schedule breaks item {item} of the paper's Assumption on diminishing schedules "
                f"(Theorems 6-9): {inequality}"
            )
