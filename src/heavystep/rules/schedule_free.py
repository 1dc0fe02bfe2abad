r"""Polyak steps for averaged heavy ball: SF-Polyak and ScheduleFree+.

.. math:: a_k = \frac{[f_k - \ell_k + \langle g_k, z_k - \theta_k\rangle]_+}{c\,\|g_k\|^2},
          \qquad \langle g_k, z_k - \theta_k\rangle = \beta \langle g_k, z_k - x_k\rangle

The numerator is the Polyak gap of the point z that moves, as the gradient at theta foresees it. The
k-th point has weight k^p in the average.

Differs from the code of ScheduleFree+: its row in the registry says where.
"""

from typing import Any

from heavystep import validation
from heavystep.momentum import weight_of_next
from heavystep.rules.contract import Option, Rule, Search, Seen, Slot, constants
from heavystep.rules.polyak import LOWER_BOUND, polyak_step
from heavystep.rules.primitives import batch_is_finite


def start(constants: Any, memory: Any, seen: Seen) -> Search:
    """The length that z moves, and the weight of the next z."""
    ahead = seen.loss + constants.momentum * seen.drift
    step = polyak_step(
        ahead, seen.grad_sqnorm, seen.lower_bound, constants.c, 1.0, constants.max_step
    )
    accepted = batch_is_finite(ahead - seen.lower_bound, seen.grad_sqnorm)
    weight = weight_of_next(memory.count, constants.power)
    return Search(step, accepted, capped=step == constants.max_step, weight=weight)


def remember(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, ...]:
    """One point more."""
    return (memory.count + 1.0,)


SF_POLYAK = Rule(
    name="sf-polyak",
    formula=r"a_k = \eta_k \min\{[f_k - \ell_k + \beta \langle g_k, z_k - x_k\rangle]_+ / "
    r"(c \|g_k\|^2),\ \gamma_{\max}\}, \quad w_k = (p + 1) / (k + p + 1)",
    reference="Schedule-Free with Polyak steps, arXiv 2511.07767v2 (2025)",
    options=(
        Option("c", 1.0, validation.POSITIVE, "divisor c, > 0."),
        Option("max_step", 1e6, validation.POSITIVE, "largest length of a move of z, > 0."),
        LOWER_BOUND,
        Option("power", 0.0, validation.NON_NEGATIVE,
               "p, >= 0: point k has weight k^p in the average.", symbol="p"),
    ),
    reads=frozenset({"loss", "lower_bound", "grad_sqnorm", "drift"}),
    resolve=constants("c", "max_step", "power", "momentum"),
    memory={"count": Slot(0.0, validation.NON_NEGATIVE)},
    start=start,
    remember=remember,
)  # fmt: skip
