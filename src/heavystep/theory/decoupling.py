"""Lemmas 3 and 4: the current iterate decoupled from the accumulated gradients."""

from typing import Any, NamedTuple

import numpy as np

from heavystep import validation
from heavystep.arrays import Array, inner, square
from heavystep.theory import conditions


def discounted_sums(beta: float, terms: Array, axis: int) -> Array:
    r"""Sums :math:`u_k = \sum_{m=0}^k \beta^{k-m} t_m`, by :math:`u_k = \beta u_{k-1} + t_k`.

    >>> discounted_sums(0.5, np.array([1.0, 1.0, 4.0]), axis=0)
    array([1.  , 1.5 , 4.75])
    """
    terms = np.moveaxis(np.asarray(terms, dtype=np.float64), axis, 0)
    sums = np.empty_like(terms)
    carried: Any = 0.0
    for k, term in enumerate(terms):
        carried = beta * carried + term
        sums[k] = carried
    return np.moveaxis(sums, 0, axis)


class Identity(NamedTuple):
    """Two sides that must agree, and the size of what was added up to get them."""

    left: Array
    right: Array
    scale: Array
    """Size of the numbers that were rounded: the sides agree up to a few eps of it."""


def decoupling_identity(
    iterates: Array, steps: Array, gradients: Array, *, beta: float, point: Array
) -> Identity:
    r"""Both sides of the decoupling identity at every k (Lemma 3).

    .. math:: \Big\langle \theta_k - \theta^\star, v_k\Big\rangle
              = \sum_{m=0}^k \beta^{k-m}\gamma_m\langle\theta_m - \theta^\star, g_m\rangle
              - \sum_{n=0}^{k-1}\beta^{k-n}\|v_n\|^2,
              \qquad v_k = \sum_{m=0}^k \beta^{k-m}\gamma_m g_m

    It holds for every heavy-ball run from :math:`\theta_{-1} = \theta_0`, whatever the steps
    and the gradients, and for every point in place of :math:`\theta^\star`. It fails for
    another form of momentum, such as torch's buffer with a step that varies.

    Args:
        iterates: (..., K, d), theta_0 .. theta_{K-1}.
        steps: (..., K), gamma_k.
        gradients: (..., K, d), g_k at theta_k.
        beta: constant momentum, in [0, 1).
        point: (d,), the point theta*.

    Returns:
        Arrays (..., K).

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
              + L\sum_{n=0}^k \beta^{k-n}\|v_n\|^2,
              \qquad v_n = \sum_{m=0}^n \beta^{n-m}\gamma_m g_m

    Holds on every heavy-ball run from :math:`\theta_{-1} = \theta_0` if F is L-smooth, whatever
    the steps. Strength: upper; the proof gives L/2 instead of L for the last square.

    Args:
        steps: (..., K), gamma_k.
        gradients: (..., K, d), g_k at theta_k.
        full_gradients: (..., K, d), gradients of F at theta_k.
        L: smoothness of F, > 0.
        beta: constant momentum, in [0, 1).

    Returns:
        The bound and the size of its terms (for rounding), arrays (..., K).

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
