r"""ALI-G: the Polyak step of an interpolating network, with a cap; made for Nesterov's momentum.

.. math:: \gamma_k = \min\{(f_k - \ell_k) / (\|g_k\|^2 + \varepsilon),\ \gamma_{\max}\}
"""

from typing import Any

from heavystep import validation
from heavystep.rules.contract import Option, Rule, Search, Seen, constants
from heavystep.rules.polyak import LOWER_BOUND, polyak_step
from heavystep.rules.primitives import batch_is_finite, where
from heavystep.rules.smooth_reset import MAX_STEP


def start(constants: Any, memory: Any, seen: Seen) -> Search:
    """The step; a loss below its bound gives 0 and not a step uphill, unlike the authors' code."""
    step = polyak_step(
        seen.loss,
        seen.grad_sqnorm + constants.eps,
        seen.lower_bound,
        1.0,
        1.0,
        constants.max_step,
    )
    step = where(seen.grad_sqnorm > 0.0, step, 0.0)
    accepted = batch_is_finite(seen.loss - seen.lower_bound, seen.grad_sqnorm)
    return Search(step, accepted, capped=step == constants.max_step)


ALIG = Rule(
    name="alig",
    formula=r"\gamma_k = \eta_k \min\{(f_k - \ell_k) / (\|g_k\|^2 + \varepsilon),\ \gamma_{\max}\}",
    reference="Berrada, Zisserman and Kumar (2020)",
    options=(
        MAX_STEP,
        LOWER_BOUND,
        Option("eps", 1e-5, validation.NON_NEGATIVE, "added to the squared norm, >= 0."),
    ),
    resolve=constants("max_step", "eps"),
    start=start,
)
