"""Lemma 4: the change of the objective bounded by decoupled terms (an inequality)."""

from heavystep import validation
from heavystep.arrays import Array, inner, square
from heavystep.theory import conditions
from heavystep.theory.discounted import discounted_sums


def decoupling_inequality(
    steps: Array,
    gradients: Array,
    full_gradients: Array,
    *,
    L: float,
    beta: float,
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
