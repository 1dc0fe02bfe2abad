r"""Lemmas 1 to 7 and Assumption 5: steps, the iterate decoupled from past gradients, schedules.

.. math:: \min\{\kappa\,u / L,\ \gamma_{\max}\} \le \gamma_k / \eta_k \le \gamma_{\max},
          \qquad u = \tfrac{1}{2c}\ \text{(Polyak)},\quad u = 2\omega(1-c)\ \text{(Armijo)}

with :math:`\kappa = s_\beta/2` in Lemma 2 and :math:`\kappa = 1` in Lemma 5. The u of each rule is
in :mod:`heavystep.theory.rules`. Lemmas 3 and 4 are about
:math:`v_k = \sum_{m \le k} \beta^{k-m}\gamma_m g_m`.
"""

from typing import Any, NamedTuple

import numpy as np

from heavystep.arrays import Array, inner, square
from heavystep.rules import kappa
from heavystep.schedules import Schedules, check_diminishing
from heavystep.theory import conditions
from heavystep.theory.registry import HEAVY_BALL, RESULTS, SMOOTH_STEPS, Result, result
from heavystep.theory.rules import RULES
from heavystep.validation import FINITE, NON_NEGATIVE, POSITIVE, UNIT


def largest_slope(scaling: str, *, beta: Any, eta: Any, c: float, gap: Any) -> Any:
    r"""Upper bound on :math:`\gamma_k \|g_k\|^2` for any scaling.

    The Polyak step is at most the ratio; an Armijo step decreased the sampled loss by
    :math:`c\,(\gamma_k/\kappa)\|g_k\|^2`, which cannot be more than ``gap``, its height above the
    infimum or any lower bound.
    """
    return eta * kappa(scaling, beta) / c * gap


@result(
    "Lemma 1",
    "gamma_k ||g_k||^2 <= (1 - sqrt(beta))^2 / (2c) (f_k - f*(x_k)) at every step",
    "c > 0", c=("> 0.", POSITIVE),
)  # fmt: skip
def basic_inequality(*, beta: float, c: float, gap: Any) -> Any:
    r"""Upper bound on :math:`\gamma_k \|\nabla f(\theta_k;x_k)\|^2` (Lemma 1).

    .. math:: \frac{(1-\sqrt\beta)^2}{2c}\,\big(f(\theta_k; x_k) - f^\star(x_k)\big)

    Holds at every step of SHB-PS and SHB-ALS, without smoothness. An uncapped Polyak step attains
    it. ``gap`` is f(theta_k; x_k) - f*(x_k), a number or an array.

    >>> basic_inequality(beta=0.25, c=0.5, gap=2.0)
    0.5

    Reference: Zhang, Shi and Gu, Lemma 1 (label basic_step_size).
    """
    (gaps,) = conditions.finite_arrays("Lemma 1", nonnegative=True, gap=gap)
    slope = largest_slope("theory", beta=float(beta), eta=1.0, c=float(c), gap=gaps)
    return conditions.like(gap, slope)


class StepBounds(NamedTuple):
    """Smallest and largest step that a rule can take."""

    gamma_min: Any
    gamma_max: Any


def smallest_step(
    rule: str, *, L: float, c: float, omega: float | None, kappa: Any, cap: Any
) -> Any:
    """Smallest step before the multiplier, for any scaling but not under smooth reset."""
    return np.minimum(kappa * RULES[rule].unit_step(c, omega) / L, cap)


@result("Lemma 2", "gamma_min <= gamma_k <= gamma_max at every step", *SMOOTH_STEPS)
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


@result(
    "Lemma 3", "<theta_k - theta*, v_k> equals a sum of decoupled terms on every run", *HEAVY_BALL
)
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


@result(
    "Lemma 4", "F(theta_{k+1}) - F(theta_k) is at most a sum of decoupled terms",
    "F L-smooth", *HEAVY_BALL,
)  # fmt: skip
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
    steps, gradients, full_gradients = conditions.finite_arrays(
        "Lemma 4", steps=steps, gradients=gradients, full_gradients=full_gradients
    )
    moves = steps[..., None] * gradients
    velocity = discounted_sums(beta, moves, axis=-2)
    squares = L * discounted_sums(beta, square(velocity), axis=-1)
    descent = discounted_sums(beta, inner(full_gradients, moves), axis=-1)
    size = discounted_sums(beta, inner(abs(full_gradients), abs(moves)), axis=-1)
    return squares - descent, squares + size


@result(
    "Lemma 5", "eta_k gamma_min,k <= gamma_k <= eta_k gamma_max,k at every step", *SMOOTH_STEPS,
    k="step >= 0, a number or an array.",
)  # fmt: skip
def diminishing_step_bounds(
    rule: str, *, L: float, schedules: Schedules, c: float, omega: float | None = None, k: Any
) -> StepBounds:
    r"""Smallest and largest step of a diminishing variant at step k (Lemma 5).

    .. math:: \eta_k\min\Big\{\frac1{2cL},\gamma_{\max,k}\Big\}\ \text{(Polyak)},\qquad
              \eta_k\min\Big\{\gamma_{\max,k},\frac{2\omega(1-c)}L\Big\}\ \text{(Armijo)}

    >>> schedules = Schedules.power_laws(0.5, 0.4, 0.9, 1.1, 1.0, 0.3)
    >>> diminishing_step_bounds("polyak", L=2.0, schedules=schedules, c=1.0, k=0)
    StepBounds(gamma_min=0.125, gamma_max=0.5)

    Reference: Zhang, Shi and Gu, Lemma 5 (label dec_stepsize_bounds), Section 4.
    """
    check_schedules("Lemma 5", schedules)
    steps = conditions.steps("Lemma 5", k, least=0)
    etas, caps = schedules.eta(steps), schedules.gamma_max(steps)
    least = smallest_step(rule, L=L, c=c, omega=omega, kappa=1.0, cap=caps)
    return StepBounds(conditions.like(k, etas * least), conditions.like(k, etas * caps))


@result(
    "Lemma 6", "gamma_k ||g_k||^2 <= eta_k / c (f_k - f*(x_k)) at every step",
    "c > 0", c=("> 0.", POSITIVE),
)  # fmt: skip
def diminishing_basic_inequality(*, eta: Any, c: float, gap: Any) -> Any:
    r"""Upper bound on :math:`\gamma_k \|\nabla f(\theta_k;x_k)\|^2` of the diminishing variants.

    .. math:: \frac{\eta_k}{c}\,\big(f(\theta_k; x_k) - f^\star(x_k)\big)

    ``eta`` and ``gap`` are eta_k and f(theta_k; x_k) - f*(x_k), numbers or arrays.

    >>> diminishing_basic_inequality(eta=0.5, c=0.25, gap=3.0)
    6.0

    Reference: Zhang, Shi and Gu, Lemma 6 (label dec_basic), Appendix C.
    """
    etas, gaps = conditions.finite_arrays("Lemma 6", nonnegative=True, eta=eta, gap=gap)
    slope = largest_slope("plain", beta=0.0, eta=etas, c=float(c), gap=gaps)
    return conditions.like(slope, slope)


class AlmostSupermartingale(NamedTuple):
    """The two sequences in the finite form of Lemma 7."""

    growth: Array
    """:math:`P_{j+1} = \\prod_{i \\le j} (1 + \\alpha_i)`; inf beyond the range of float64."""
    budget: Array
    r""":math:`V_0 + \sum_{i \le j} Z_i / P_{i+1}`, the right side of the inequality."""


@result(
    "Lemma 7", "E[V_{k+1}|F_k] + U_k <= (1 + alpha_k) V_k + Z_k: "
    "V_k converges and the sum of U_k is finite",
    "V, U, Z nonnegative", "sums of alpha_k and Z_k finite",
)  # fmt: skip
def almost_supermartingale(V0: float, alpha: Array, Z: Array) -> AlmostSupermartingale:
    r"""Finite form of the lemma that carries Theorems 6 and 7 (Lemma 7).

    If :math:`E[V_{j+1}\mid\mathcal F_j] + U_j \le (1+\alpha_j)V_j + Z_j` for nonnegative
    :math:`V, U` and deterministic :math:`Z` (K,), dividing by :math:`P_{j+1}` and summing gives for
    every j

    .. math:: \frac{E V_{j+1}}{P_{j+1}} + \sum_{i=0}^{j}\frac{E U_i}{P_{i+1}}
              \le V_0 + \sum_{i=0}^{j}\frac{Z_i}{P_{i+1}}

    If both series converge, :math:`V_j` converges and :math:`\sum_j U_j < \infty` almost surely.

    >>> almost_supermartingale(1.0, np.array([1.0, 0.0]), np.array([2.0, 2.0]))
    AlmostSupermartingale(growth=array([2., 2.]), budget=array([2., 3.]))

    Reference: Zhang, Shi and Gu, Lemma 7 (label dec_robbins_siegmund), Appendix C.
    """
    start, alpha, Z = conditions.finite_arrays("Lemma 7", nonnegative=True, V0=V0, alpha=alpha, Z=Z)
    with np.errstate(over="ignore"):
        growth = np.exp(np.cumsum(np.log1p(alpha)))
    return AlmostSupermartingale(growth, start + np.cumsum(Z / growth))


def check_schedules(result: str, schedules: Schedules) -> None:
    """Refuse schedules outside Assumption 5; the error names the item that fails.

    Reference: Zhang, Shi and Gu, Assumption 5 (label as_decay), Section 4.
    """
    if not isinstance(schedules, Schedules):
        raise TypeError(f"{result} needs schedules of type Schedules, got {schedules!r}")
    eta, beta, gamma_max = schedules
    conditions.real(result, POSITIVE, eta0=eta.initial, gamma_max0=gamma_max.initial)
    conditions.real(result, UNIT, beta0=beta.initial)
    for name, law in schedules._asdict().items():
        conditions.real(result, FINITE, **{f"{name}_power": law.power})
        conditions.real(result, POSITIVE, **{f"{name}_horizon": law.horizon})
    conditions.real(result, NON_NEGATIVE, beta_power=beta.power)
    if len(horizons := {law.horizon for law in schedules}) > 1:
        raise ValueError(f"{result} needs one horizon for all schedules, got {sorted(horizons)}")
    try:
        check_diminishing(*schedules, name="gamma_max")
    except ValueError as error:
        raise ValueError(f"{result}: {error}") from None


RESULTS.append(
    Result(
        "Assumption 5",
        "(i) sum beta_k finite; (ii) eta_k gamma_max,k falls, gamma_max,k -> 0; "
        "(iii) sum eta_k gamma_max,k infinite, sum eta_k^2 gamma_max,k finite",
        ("power laws a (1 + k/h)^-p with one horizon h",),
        check_schedules,
    )
)
