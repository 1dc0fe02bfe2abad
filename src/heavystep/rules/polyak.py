r"""The Polyak step size.

.. math:: \gamma_k / \eta_k = \min\Big\{
          \kappa\,\frac{f(\theta_k; x_k) - \ell_k}{c\,\|g_k\|^2},\ \mathrm{cap}_k\Big\}

with kappa and cap_k of :mod:`heavystep.rules.scaling`.
"""

from typing import Any

from heavystep import validation
from heavystep.rules import scaling
from heavystep.rules.contract import Option, Rule, Search, Seen, constants
from heavystep.rules.primitives import batch_is_finite, minimum, polyak_ratio

LOWER_BOUND = Option(
    "lower_bound",
    0.0,
    validation.FINITE,
    "lower bound l of the sampled loss; cross-entropy and squared losses have 0. "
    "``step(..., lower_bound=)`` overrides it for one batch.",
)
C = Option("c", 1.0, validation.POSITIVE, "divisor c of the Polyak ratio, > 0.")


def polyak_step(loss: Any, grad_sqnorm: Any, lower_bound: Any, c: Any, kappa: Any, cap: Any) -> Any:
    """The step above for one sampled loss, before the outer multiplier.

    A vanished gradient gives step 0, so that only momentum moves the iterate, and so does a loss at
    or below its lower bound. A NaN among the arguments gives NaN; see :func:`batch_is_finite`.
    Theorems 1 and 2 ask for c >= 1/2 and c > 1/2.

    >>> polyak_step(loss=3.0, grad_sqnorm=8.0, lower_bound=1.0, c=0.5, kappa=0.5, cap=10.0)
    0.25
    >>> polyak_step(loss=3.0, grad_sqnorm=0.0, lower_bound=1.0, c=0.5, kappa=0.5, cap=10.0)
    0.0

    Reference: Zhang, Shi and Gu, eq. (shb-ps); Section 4 with kappa = 1.
    """
    return minimum(polyak_ratio(loss - lower_bound, c * grad_sqnorm, kappa), cap)


def capped_polyak(gap: Any, sqnorm: Any, cap: Any, c: Any = 1.0, kappa: Any = 1.0) -> Search:
    """The capped Polyak step, refused if the gap or the norm is not finite.

    The gap, and not the loss: a bound given for one step may be NaN on the device.
    """
    step = polyak_step(gap, sqnorm, 0.0, c, kappa, cap)
    return Search(step, batch_is_finite(gap, sqnorm), capped=step == cap)


def start(constants: Any, memory: Any, seen: Seen) -> Search:
    """The step, which needs no trials."""
    gap, cap = seen.loss - seen.lower_bound, scaling.cap_of(constants, memory)
    return capped_polyak(gap, seen.grad_sqnorm, cap, constants.c, constants.kappa)


POLYAK = Rule(
    name="polyak",
    formula=r"\gamma_k = \eta_k \min\{\kappa (f_k - \ell_k) / (c \|g_k\|^2),\ \mathrm{cap}_k\}",
    reference="Zhang, Shi and Gu, eq. (shb-ps); Section 4 with kappa = 1",
    options=(C, scaling.MAX_STEP, LOWER_BOUND, *scaling.OPTIONS),
    resolve=constants("c", "max_step", kappa=scaling.kappa_of, growth_factor=scaling.growth_of),
    memory={"last_step": scaling.LAST_STEP},
    start=start,
    remember=scaling.remember,
)
