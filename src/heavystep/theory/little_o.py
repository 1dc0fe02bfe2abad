"""Theorems 8 and 9: the O of Theorems 6 and 7 is an o, through a tail inequality."""

from heavystep.theory.discounted import Array


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
    bound: Array = (
        total * tail_gap
        + diameter * head * tail_gradient
        + L * diameter**2 * head**2 / (2.0 * total)
    )
    return bound


def nonconvex_tail_bound(tail_sum: Array, least: Array, *, head: Array) -> Array:
    r"""Upper bound on :math:`S_k\min_{1\le j\le k}\|\nabla F(\theta_j)\|^2` for n <= k (Theorem 9).

    .. math:: \sum_{m=n}^{k}\eta_m\gamma_{\max,m}\|\nabla F(\theta_m)\|^2
              + \min_{1\le j\le k}\|\nabla F(\theta_j)\|^2\,S_n

    Holds on every run. The sum is the tail of a convergent one and the minimum goes to 0, so
    that the left side goes to 0: o(1 / S_k) almost surely, under the conditions of Theorem 7.

    Args:
        tail_sum: the sum over m = n .. k.
        least: the minimum over 1 <= j <= k.
        head: S_n.

    >>> import numpy as np
    >>> nonconvex_tail_bound(np.float64(2.0), np.float64(0.5), head=3.0)
    np.float64(3.5)

    Reference: Zhang, Shi and Gu, Theorem 9 (label nonconvex_as_dec_little_o), Appendix C.
    """
    bound: Array = tail_sum + least * head
    return bound
