"""Theorem 8: the O of Theorem 6 is an o, through a tail inequality."""

from heavystep.arrays import Array
from heavystep.theory import conditions


def convex_tail_bound(
    tail_gap: Array, tail_gradient: Array, *, head: Array, total: Array, diameter: Array, L: float
) -> Array:
    r"""Upper bound on :math:`W_k (F(\bar\theta^{\rm w}_k)-F^\star)` for n < k (Theorem 8).

    .. math:: W_k\big(F(y_{n,k})-F^\star\big) + M W_n\|\nabla F(y_{n,k})\|
              + \frac{LM^2W_n^2}{2W_k},\qquad W_k = \sum_{m=1}^k\eta_m\gamma_{\min,m}

    with the weighted average :math:`y_{n,k}` of theta_{n+1} .. theta_k and
    :math:`M \ge \|\bar\theta^{\rm w}_n-y_{n,k}\|`. As k grows the right side goes to the tail
    of a convergent sum, so that the left side goes to 0: the gap is o(1 / W_k) almost surely,
    under the conditions of Theorem 6.

    Args:
        tail_gap: F(y_{n,k}) - F*.
        tail_gradient: ||grad F(y_{n,k})||.
        head: W_n.
        total: W_k.
        diameter: M.
        L: smoothness of F.

    >>> import numpy as np
    >>> half, one = np.array(0.5), np.array(1.0)
    >>> convex_tail_bound(half, one, head=one, total=4.0 * one, diameter=2.0 * one, L=1.0)
    np.float64(4.5)

    Reference: Zhang, Shi and Gu, Theorem 8 (label convex_as_dec_little_o), Appendix C.
    """
    gap, slope, head, total, diameter = conditions.finite_arrays(
        "Theorem 8",
        nonnegative=True,
        tail_gap=tail_gap,
        tail_gradient=tail_gradient,
        head=head,
        total=total,
        diameter=diameter,
    )
    conditions.require("Theorem 8", bool((total > 0.0).all()), "W_k > 0", W_k=float(total.min()))
    bound: Array = total * gap + diameter * head * slope + L * diameter**2 * head**2 / (2.0 * total)
    return bound
