r"""SPS_safe: a Polyak step whose divisor cannot vanish.

.. math:: \gamma_k = (f_k - \ell_k) / \max\{\|g_k\|^2,\ M\}
"""

from typing import Any

from heavystep import validation
from heavystep.rules.contract import Option, Rule, Search, Seen
from heavystep.rules.polyak import LOWER_BOUND
from heavystep.rules.primitives import batch_is_finite, maximum, where


def start(constants: Any, memory: Any, seen: Seen) -> Search:
    """The step; without a given M, that is the first squared norm."""
    first = where(memory.first_sqnorm > 0.0, memory.first_sqnorm, seen.grad_sqnorm)
    floor = where(constants.safeguard > 0.0, constants.safeguard, first)
    divisor = maximum(seen.grad_sqnorm, floor)
    gap = maximum(seen.loss - seen.lower_bound, 0.0)
    # `where` evaluates both branches: divide by 1 where no gradient has been seen yet.
    step = where(seen.grad_sqnorm > 0.0, gap, 0.0) / where(divisor > 0.0, divisor, 1.0)
    accepted = batch_is_finite(seen.loss - seen.lower_bound, seen.grad_sqnorm)
    return Search(step, accepted, capped=divisor == floor)


def remember(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, ...]:
    """The first squared norm that was not 0."""
    return (where(memory.first_sqnorm > 0.0, memory.first_sqnorm, seen.grad_sqnorm),)


SPS_SAFE = Rule(
    name="sps_safe",
    formula=r"\gamma_k = \eta_k (f_k - \ell_k) / \max\{\|g_k\|^2,\ M\}",
    reference="Oikonomou and Loizou, SPS_safe (2026)",
    options=(
        Option(
            "safeguard", 1.0, validation.NON_NEGATIVE,
            "least divisor M, >= 0; 0 takes the first squared gradient norm.", symbol="M",
        ),
        LOWER_BOUND,
    ),
    constants=("safeguard",),
    memory={"first_sqnorm": 0.0},
    start=start,
    remember=remember,
)  # fmt: skip
