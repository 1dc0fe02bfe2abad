r"""Lemmas 1 and 2: what every step satisfies, with the formulas behind Lemmas 5 and 6.

.. math:: \min\{\kappa\,u / L,\ \gamma_{\max}\} \le \gamma_k / \eta_k \le \gamma_{\max},
          \qquad u = \tfrac{1}{2c}\ \text{(Polyak)},\quad u = 2\omega(1-c)\ \text{(Armijo)}

with :math:`\kappa = s_\beta/2` in Lemma 2 and :math:`\kappa = 1` in Lemma 5. The u of each rule is
in :mod:`heavystep.theory.rules`.
"""

from typing import Any, NamedTuple

import numpy as np

from heavystep import validation
from heavystep.rules import kappa
from heavystep.theory import conditions
from heavystep.theory.arguments import documented
from heavystep.theory.rules import CoveredRule, checked, covered


class StepBounds(NamedTuple):
    """Smallest and largest step that a rule can take."""

    gamma_min: Any
    gamma_max: Any


def smallest_step(
    rule: str, *, L: float, c: float, omega: float | None, kappa: Any, cap: Any
) -> Any:
    """Smallest step before the multiplier, for any scaling; ``kappa`` and ``cap`` may be arrays.

    It is no bound under smooth reset, whose cap depends on the step before, nor where the
    gradient vanishes and no step is taken.

    >>> float(smallest_step("armijo", L=2.0, c=0.75, omega=0.5, kappa=1.0, cap=3.0))
    0.125
    """
    return np.minimum(kappa * covered(rule, c=c, omega=omega).unit_step() / L, cap)


@documented()
def step_bounds(
    rule: str, *, L: float, beta: float, c: float, gamma_max: float, omega: float | None = None
) -> StepBounds:
    r"""Smallest and largest step of SHB-PS or SHB-ALS (Lemma 2).

    .. math:: \min\Big\{\frac{(1-\sqrt\beta)^2}{4cL},\ \gamma_{\max}\Big\}\ \text{(Polyak)},\qquad
              \min\Big\{\gamma_{\max},\ (1-\sqrt\beta)^2\frac{\omega(1-c)}{L}\Big\}\ \text{(Armijo)}

    Holds at every step with a gradient that does not vanish, on every run. Assumes
    L-smooth samples. Strength: tight (a quadratic sample with curvature L attains the Polyak
    bound).

    >>> step_bounds("polyak", L=2.0, beta=0.25, c=0.5, gamma_max=1.0)
    StepBounds(gamma_min=0.0625, gamma_max=1.0)

    Reference: Zhang, Shi and Gu, Lemma 2 (label step_size_bounds), proof in Appendix A.
    """
    check("Lemma 2", rule, L=L, beta=beta, c=c, gamma_max=gamma_max, omega=omega)
    least = smallest_step(rule, L=L, c=c, omega=omega, kappa=kappa("theory", beta), cap=gamma_max)
    conditions.require("Lemma 2", least > 0.0, "gamma_min > 0 in float64", gamma_min=float(least))
    return StepBounds(float(least), float(gamma_max))


def check(
    result: str, rule: str, *, L: float, beta: float, c: float, gamma_max: float,
    omega: float | None,
) -> CoveredRule:  # fmt: skip
    """Check the arguments that results on constant parameters share, and return the rule.

    Errors name ``result``.
    """
    conditions.real(result, validation.POSITIVE, L=L, gamma_max=gamma_max)
    conditions.real(result, validation.UNIT, beta=beta)
    return checked(result, rule, c=c, omega=omega)


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
