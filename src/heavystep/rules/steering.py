r"""Directions of descent: how much momentum a line search can keep.

With the direction d_k = g_k + beta_k b_k of torch's buffer b_k = d_{k-1} the loss falls along -d_k
at the rate

.. math:: \langle g_k, d_k\rangle = \|g_k\|^2 + \beta_k \langle g_k, b_k\rangle

which is positive for a small enough momentum beta_k. A direction is related to the gradient, in
the sense of Lapucci and Pucci, if <g_k, d_k> >= c_1 ||g_k||^2 and ||d_k|| <= c_2 ||g_k||.
"""

from typing import Any

from heavystep.rules.contract import Seen
from heavystep.rules.primitives import where

HALVINGS = 60
"""After so many a momentum is nothing beside 1 in double precision."""


def slope(seen: Seen, momentum: Any) -> Any:
    """<g_k, d_k> for this momentum."""
    return seen.grad_sqnorm + momentum * seen.drift


def descending(seen: Seen, momentum: Any, factor: Any) -> Any:
    """The momentum times the least power of ``factor`` that makes d_k a direction of descent.

    >>> descending(Seen(grad_sqnorm=1.0, drift=-3.0), 0.8, 0.5)
    0.2
    >>> descending(Seen(grad_sqnorm=1.0, drift=-3.0), 0.8, 0.0)
    0.0
    """
    for _ in range(HALVINGS):
        momentum = where(slope(seen, momentum) > 0.0, momentum, factor * momentum)
    return where(slope(seen, momentum) > 0.0, momentum, 0.0 * momentum)


def is_related(seen: Seen, momentum: Any, least_slope: Any, most_length: Any) -> Any:
    """Whether <g, d> >= c_1 ||g||^2 and ||d|| <= c_2 ||g|| for this momentum."""
    square = seen.grad_sqnorm + momentum * (2.0 * seen.drift + momentum * seen.buffer_sqnorm)
    steep = slope(seen, momentum) >= least_slope * seen.grad_sqnorm
    return steep & (square <= most_length**2 * seen.grad_sqnorm)


def related(seen: Seen, momentum: Any, least_slope: Any, most_length: Any) -> Any:
    """The momentum, halved until d_k is related to the gradient; 0 if it never is.

    >>> related(Seen(grad_sqnorm=1.0, drift=0.0, buffer_sqnorm=9.0), 0.8, 0.1, 1.5)
    0.2
    """
    for _ in range(HALVINGS):
        good = is_related(seen, momentum, least_slope, most_length)
        momentum = where(good, momentum, 0.5 * momentum)
    return where(is_related(seen, momentum, least_slope, most_length), momentum, 0.0 * momentum)
