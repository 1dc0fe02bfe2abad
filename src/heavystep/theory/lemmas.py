r"""Lemmas 1 to 4 and 6: what every step satisfies, and the iterate decoupled from past gradients.

.. math:: \min\{\kappa\,u / L,\ \gamma_{\max}\} \le \gamma_k / \eta_k \le \gamma_{\max},
          \qquad u = \tfrac{1}{2c}\ \text{(Polyak)},\quad u = 2\omega(1-c)\ \text{(Armijo)}

with :math:`\kappa = s_\beta/2` in Lemma 2 and :math:`\kappa = 1` in Lemma 5. The u of each rule is
in :mod:`heavystep.theory.rules`. Lemmas 3 and 4 are about
:math:`v_k = \sum_{m \le k} \beta^{k-m}\gamma_m g_m`.
"""

from typing import Any, NamedTuple

import numpy as np

from heavystep import validation
from heavystep.arrays import Array, inner, square
from heavystep.rules import kappa
from heavystep.theory import conditions
from heavystep.theory.arguments import documented
from heavystep.theory.rules import covered


class StepBounds(NamedTuple):
    """Smallest and largest step that a rule can take."""

    gamma_min: Any
    gamma_max: Any


def smallest_step(
    rule: str, *, L: float, c: float, omega: float | None, kappa: Any, cap: Any
) -> Any:
    """Smallest step before the multiplier, for any scaling but not under smooth reset."""
    return np.minimum(kappa * covered(rule, c=c, omega=omega).unit_step() / L, cap)


@documented("Lemma 2")
def step_bounds(
    rule: str, *, L: float, beta: float, c: float, gamma_max: float, omega: float | None = None
) -> StepBounds:
    r"""Smallest and largest step of SHB-PS or SHB-ALS (Lemma 2).

    .. math:: \min\Big\{\frac{(1-\sqrt\beta)^2}{4cL},\ \gamma_{\max}\Big\}\ \text{(Polyak)},\qquad
              \min\Big\{\gamma_{\max},\ (1-\sqrt\beta)^2\frac{\omega(1-c)}{L}\Big\}\ \text{(Armijo)}

    Holds at every step whose gradient does not vanish, for L-smooth samples. A quadratic with
    curvature L attains the Polyak bound.

    >>> step_bounds("polyak", L=2.0, beta=0.25, c=0.5, gamma_max=1.0)
    StepBounds(gamma_min=0.0625, gamma_max=1.0)

    Reference: Zhang, Shi and Gu, Lemma 2 (label step_size_bounds), proof in Appendix A.
    """
    least = smallest_step(rule, L=L, c=c, omega=omega, kappa=kappa("theory", beta), cap=gamma_max)
    conditions.require("Lemma 2", least > 0.0, "gamma_min > 0 in float64", gamma_min=float(least))
    return StepBounds(float(least), float(gamma_max))


def largest_slope(scaling: str, *, beta: Any, eta: Any, c: float, gap: Any) -> Any:
    r"""Upper bound on :math:`\gamma_k \|g_k\|^2` for any scaling.

    The Polyak step is at most the ratio; an Armijo step decreased the sampled loss by
    :math:`c\,(\gamma_k/\kappa)\|g_k\|^2`, which cannot be more than ``gap``, its height above the
    infimum or any lower bound.
    """
    return eta * kappa(scaling, beta) / c * gap


def basic_inequality(*, beta: float, c: float, gap: Any) -> Any:
    r"""Upper bound on :math:`\gamma_k \|\nabla f(\theta_k;x_k)\|^2` (Lemma 1).

    .. math:: \frac{(1-\sqrt\beta)^2}{2c}\,\big(f(\theta_k; x_k) - f^\star(x_k)\big)

    Holds at every step of SHB-PS and SHB-ALS, without smoothness. An uncapped Polyak step attains
    it. ``gap`` is f(theta_k; x_k) - f*(x_k), a number or an array.

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

    ``eta`` and ``gap`` are eta_k and f(theta_k; x_k) - f*(x_k), numbers or arrays.

    >>> diminishing_basic_inequality(eta=0.5, c=0.25, gap=3.0)
    6.0

    Reference: Zhang, Shi and Gu, Lemma 6 (label dec_basic), Appendix C.
    """
    conditions.real("Lemma 6", validation.POSITIVE, c=c)
    etas, gaps = conditions.finite_arrays("Lemma 6", nonnegative=True, eta=eta, gap=gap)
    slope = largest_slope("plain", beta=0.0, eta=etas, c=float(c), gap=gaps)
    return conditions.like(slope, slope)


def discounted_sums(beta: float, terms: Array, axis: int) -> Array:
    r"""Sums :math:`u_k = \sum_{m=0}^k \beta^{k-m} t_m`, by :math:`u_k = \beta u_{k-1} + t_k`."""
    terms = np.moveaxis(np.asarray(terms, dtype=np.float64), axis, 0)
    sums = np.empty_like(terms)
    carried: Any = 0.0
    for k, term in enumerate(terms):
        carried = beta * carried + term
        sums[k] = carried
    return np.moveaxis(sums, 0, axis)


class Identity(NamedTuple):
    """Two sides that must agree up to a few eps of the size of what was added up."""

    left: Array
    right: Array
    scale: Array


def decoupling_identity(
    iterates: Array, steps: Array, gradients: Array, *, beta: float, point: Array
) -> Identity:
    r"""Both sides (..., K) of the decoupling identity at every k (Lemma 3).

    .. math:: \Big\langle \theta_k - \theta^\star, v_k\Big\rangle
              = \sum_{m=0}^k \beta^{k-m}\gamma_m\langle\theta_m - \theta^\star, g_m\rangle
              - \sum_{n=0}^{k-1}\beta^{k-n}\|v_n\|^2

    Holds for every heavy-ball run from :math:`\theta_{-1} = \theta_0`, whatever the steps and the
    gradients, and for every point in place of :math:`\theta^\star`; not for another form of
    momentum. Iterates and gradients are (..., K, d), steps (..., K), the point (d,).

    >>> one = np.ones((2, 1))
    >>> decoupling_identity(one * [[3.0], [2.0]], np.array([1.0, 0.5]), one, beta=0.5,
    ...                     point=np.zeros(1))[:2]
    (array([3., 2.]), array([3., 2.]))

    Reference: Zhang, Shi and Gu, Lemma 3 (label decouple_convex), proof in Appendix A.
    """
    conditions.real("Lemma 3", validation.UNIT, beta=beta)
    iterates, steps, gradients, point = conditions.finite_arrays(
        "Lemma 3", iterates=iterates, steps=steps, gradients=gradients, point=point
    )
    offset = iterates - point
    moves = steps[..., None] * gradients
    velocity = discounted_sums(beta, moves, axis=-2)
    products = inner(offset, moves)
    squares = np.zeros_like(products)
    squares[..., 1:] = beta * discounted_sums(beta, square(velocity), axis=-1)[..., :-1]
    # The iterates themselves were rounded when the displacement was added to them.
    rounded = abs(iterates) + abs(point)
    travelled = discounted_sums(beta, abs(moves), axis=-2)
    return Identity(
        left=inner(offset, velocity),
        right=discounted_sums(beta, products, axis=-1) - squares,
        scale=discounted_sums(beta, inner(rounded, travelled), axis=-1) + squares,
    )


def decoupling_inequality(
    steps: Array, gradients: Array, full_gradients: Array, *, L: float, beta: float
) -> tuple[Array, Array]:
    r"""Upper bound on :math:`F(\theta_{k+1}) - F(\theta_k)` at every k (Lemma 4).

    .. math:: -\sum_{m=0}^k \beta^{k-m}\gamma_m\langle\nabla F(\theta_m), g_m\rangle
              + L\sum_{n=0}^k \beta^{k-n}\|v_n\|^2

    Holds on every heavy-ball run from :math:`\theta_{-1} = \theta_0` if F is L-smooth. The proof
    gives L/2 instead of L for the last square. Steps are (..., K), gradients of the samples and of
    F (..., K, d). Gives (..., K): the bound, and the size of its terms.

    Reference: Zhang, Shi and Gu, Lemma 4 (label decouple_nonconvex), proof in Appendix A.
    """
    conditions.real("Lemma 4", validation.POSITIVE, L=L)
    conditions.real("Lemma 4", validation.UNIT, beta=beta)
    steps, gradients, full_gradients = conditions.finite_arrays(
        "Lemma 4", steps=steps, gradients=gradients, full_gradients=full_gradients
    )
    moves = steps[..., None] * gradients
    velocity = discounted_sums(beta, moves, axis=-2)
    squares = L * discounted_sums(beta, square(velocity), axis=-1)
    descent = discounted_sums(beta, inner(full_gradients, moves), axis=-1)
    size = discounted_sums(beta, inner(abs(full_gradients), abs(moves)), axis=-1)
    return squares - descent, squares + size
