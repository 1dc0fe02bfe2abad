"""Theorem 9: the O of Theorem 7 is an o, through a tail inequality."""

from heavystep.arrays import Array
from heavystep.theory import conditions


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
    tail, smallest, head = conditions.finite_arrays(
        "Theorem 9", nonnegative=True, tail_sum=tail_sum, least=least, head=head
    )
    bound: Array = tail + smallest * head
    return bound
