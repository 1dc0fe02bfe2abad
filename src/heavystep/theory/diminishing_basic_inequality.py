"""Lemma 6: the inequality of Lemma 1 for the diminishing variants."""

from typing import Any

from heavystep import validation
from heavystep.theory import conditions
from heavystep.theory.basic_inequality import largest_slope


def diminishing_basic_inequality(*, eta: Any, c: float, gap: Any) -> Any:
    r"""Upper bound on :math:`\gamma_k \|\nabla f(\theta_k;x_k)\|^2` of the diminishing variants.

    .. math:: \frac{\eta_k}{c}\,\big(f(\theta_k; x_k) - f^\star(x_k)\big)

    Args:
        eta: multiplier eta_k, a number or an array.
        c: > 0.
        gap: f(theta_k; x_k) - f*(x_k) >= 0, a number or an array.

    >>> diminishing_basic_inequality(eta=0.5, c=0.25, gap=3.0)
    6.0

    Reference: Zhang, Shi and Gu, Lemma 6 (label dec_basic), Appendix C.
    """
    conditions.real("Lemma 6", validation.POSITIVE, c=c)
    etas, gaps = conditions.finite_arrays("Lemma 6", nonnegative=True, eta=eta, gap=gap)
    slope = largest_slope("plain", beta=0.0, eta=etas, c=float(c), gap=gaps)
    return conditions.like(slope, slope)
