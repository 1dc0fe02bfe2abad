r"""ALR-SMAG: the Polyak step of torch's momentum buffer d_k.

.. math:: \gamma_k = \min\Big\{\frac{f_k - \ell_k}{c\,\|d_k\|^2},\ \gamma_{\max}\Big\}
"""

from dataclasses import replace
from typing import Any

from heavystep import validation
from heavystep.rules.contract import Option, Rule, Search, Seen, constants
from heavystep.rules.polyak import LOWER_BOUND, search_below
from heavystep.rules.smooth_reset import MAX_STEP


def start(constants: Any, memory: Any, seen: Seen) -> Search:
    """The step that multiplies d_k."""
    square, cap = seen.direction_sqnorm, constants.max_step
    return search_below(seen.loss, square, seen.lower_bound, constants.c, 1.0, cap)


ALR_SMAG = Rule(
    name="alr-smag",
    formula=r"\gamma_k = \eta_k \min\{(f_k - \ell_k) / (c \|d_k\|^2),\ \gamma_{\max}\}",
    reference="Wang, Johansson and Zhang (2023)",
    options=(
        Option("c", 1.0, validation.POSITIVE, "divisor c, > 0."),
        replace(MAX_STEP, default=0.1),
        LOWER_BOUND,
    ),
    reads=frozenset({"loss", "lower_bound", "grad_sqnorm", "direction_sqnorm"}),
    resolve=constants("c", "max_step"),
    start=start,
)
