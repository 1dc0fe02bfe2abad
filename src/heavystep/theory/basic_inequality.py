"""Lemma 1: the inequality that every rule obeys, and the one formula behind Lemmas 1 and 6."""

from typing import Any

from heavystep import validation
from heavystep.rules import kappa
from heavystep.theory import conditions


def largest_slope(scaling: str, *, beta: Any, eta: Any, c: float, gap: Any) -> Any:
    r"""Upper bound on :math:`\gamma_k \|g_k\|^2` for any scaling.

    .. math:: \gamma_k \|g_k\|^2 \le \frac{\eta_k \kappa}{c}
              \big(f(\theta_k; x_k) - f^\star(x_k)\big)

    The Polyak step is at most the ratio; an Armijo step decreased the sampled loss by
    :math:`c\,(\gamma_k/\kappa)\|g_k\|^2`, which cannot be more than its height above the
    infimum. ``gap`` is that height; with a lower bound in place of the infimum both hold too.
    """
    return eta * kappa(scaling, beta) / c * gap


def basic_inequality(*, beta: float, c: float, gap: Any) -> Any:
    r"""Upper bound on :math:`\gamma_k \|\nabla f(\theta_k;x_k)\|^2` (Lemma 1).

    .. math:: \frac{(1-\sqrt\beta)^2}{2c}\,\big(f(\theta_k; x_k) - f^\star(x_k)\big)

    Holds at every step of SHB-PS and SHB-ALS, on every run. No smoothness is needed.
    Strength: tight (equality for an uncapped Polyak step).

    Args:
        beta: momentum, in [0, 1).
        c: > 0.
        gap: f(theta_k; x_k) - f*(x_k) >= 0, a number or an array.

    >>> basic_inequality(beta=0.25, c=0.5, gap=2.0)
    0.5

    Reference: Zhang, Shi and Gu, Lemma 1 (label basic_step_size).
    """
    conditions.real("Lemma 1", validation.UNIT, beta=beta)
    conditions.real("Lemma 1", validation.POSITIVE, c=c)
    (gaps,) = conditions.finite_arrays("Lemma 1", nonnegative=True, gap=gap)
    slope = largest_slope("theory", beta=float(beta), eta=1.0, c=float(c), gap=gaps)
    return conditions.like(gap, slope)
