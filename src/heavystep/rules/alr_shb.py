r"""ALR-SHB: the step of heavy ball that is closest to a minimiser, bounded with the loss.

.. math:: \gamma_k = \min\Big\{\Big[\frac{f_k - \ell_k}{c\,\|g_k\|^2} +
          \frac{\beta \langle g_k, \theta_k - \theta_{k-1}\rangle}{\|g_k\|^2}\Big]_+,\
          \gamma_{\max}\Big\}

Not verified: the constant and the cap of the stochastic form are from memory of the publication.
"""

from dataclasses import replace
from typing import Any

from heavystep import validation
from heavystep.rules.contract import Option, Rule, Search, Seen, constants
from heavystep.rules.polyak import LOWER_BOUND, search_below
from heavystep.rules.smooth_reset import MAX_STEP


def start(constants: Any, memory: Any, seen: Seen) -> Search:
    """The step: a Polyak step whose gap is changed by what the momentum does on its own."""
    ahead = seen.loss + constants.c * constants.momentum * seen.drift
    square, cap = seen.grad_sqnorm, constants.max_step
    return search_below(ahead, square, seen.lower_bound, constants.c, 1.0, cap)


ALR_SHB = Rule(
    name="alr-shb",
    formula=r"\gamma_k = \eta_k \min\{[(f_k - \ell_k) / (c \|g_k\|^2) + "
    r"\beta \langle g_k, \theta_k - \theta_{k-1}\rangle / \|g_k\|^2]_+,\ \gamma_{\max}\}",
    reference="Wang, Johansson and Zhang (2023)",
    options=(
        Option("c", 1.0, validation.POSITIVE, "divisor c, > 0."),
        replace(MAX_STEP, default=0.1),
        LOWER_BOUND,
    ),
    reads=frozenset({"loss", "lower_bound", "grad_sqnorm", "drift"}),
    resolve=constants("c", "max_step", "momentum"),
    start=start,
)
