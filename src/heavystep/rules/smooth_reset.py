r"""Smooth reset: from one step to the next the step size may grow only slowly.

.. math:: \mathrm{cap}_k = \min\{q\,\gamma_{k-1}/\eta_{k-1},\ \gamma_{\max,k}\},
          \qquad q = \mathrm{growth}^{1/n_b}

In Appendix E the growth over an epoch of :math:`n_b` steps is 4 for Polyak and 2 for
Armijo. The memory of the rule is one number, ``last_step`` = gamma_{k-1} / eta_{k-1},
the last positive step before its outer multiplier. It starts at infinity and the
absence of a reset is q = infinity, so that neither needs a case of its own.
"""

from math import inf
from typing import Any

from heavystep.rules.primitives import minimum, where

FIRST_STEP = inf
"""``last_step`` before the first step: the cap is then ``max_step``."""


def growth_factor(growth: float, steps_per_epoch: float | None) -> float:
    """The factor q by which a step may exceed the previous one; infinite without a reset.

    >>> growth_factor(4.0, 2)
    2.0
    >>> growth_factor(4.0, None)
    inf
    """
    return inf if steps_per_epoch is None else growth ** (1.0 / steps_per_epoch)


def step_cap(last_step: Any, factor: Any, max_step: Any) -> Any:
    """The largest step allowed now, before the outer multiplier (cap_k above).

    >>> step_cap(last_step=0.25, factor=2.0, max_step=1.0)
    0.5
    >>> step_cap(last_step=FIRST_STEP, factor=2.0, max_step=1.0)
    1.0
    """
    return minimum(factor * last_step, max_step)


def remember_step(last_step: Any, step: Any, accepted: Any) -> Any:
    """``last_step`` for the next iteration: the step just taken, if it was one.

    A refused batch and a zero step (vanished gradient, loss at its lower bound) leave
    the memory as it was. Zero would be absorbing: no factor makes it grow again.

    >>> remember_step(0.5, 0.25, True), remember_step(0.5, 0.0, True)
    (0.25, 0.5)
    >>> remember_step(0.5, 0.25, False)
    0.5
    """
    return where(accepted & (step > 0.0), step, last_step)
