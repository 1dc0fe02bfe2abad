r"""NGN: the harmonic mean of a cap and a Polyak ratio, from Gauss-Newton on the root of the loss.

.. math:: \gamma_k = (1 - \beta)\,\frac{c}{1 + c\,\|g_k\|^2 / (2 (f_k - \ell_k))}

With momentum this is NGN-M.
"""

from typing import Any

from heavystep import validation
from heavystep.rules.contract import Option, Rule, Search, Seen, constants
from heavystep.rules.polyak import LOWER_BOUND
from heavystep.rules.primitives import batch_is_finite, maximum, where
from heavystep.rules.scaling import damping


def start(constants: Any, memory: Any, seen: Seen) -> Search:
    """The step, written without a division by the loss, which may be 0."""
    twice = 2.0 * maximum(seen.loss - seen.lower_bound, 0.0)
    divisor = twice + constants.c * seen.grad_sqnorm
    step = constants.damping * constants.c * twice / where(divisor > 0.0, divisor, 1.0)
    accepted = batch_is_finite(seen.loss - seen.lower_bound, seen.grad_sqnorm)
    return Search(where(seen.grad_sqnorm > 0.0, step, 0.0), accepted, capped=False)


NGN = Rule(
    name="ngn",
    formula=r"\gamma_k = \eta_k (1 - \beta) c / (1 + c \|g_k\|^2 / (2 (f_k - \ell_k)))",
    reference="Orvieto and Xiao (2024)",
    options=(Option("c", 1.0, validation.POSITIVE, "the largest step c, > 0."), LOWER_BOUND),
    resolve=constants("c", damping=damping),
    start=start,
)
