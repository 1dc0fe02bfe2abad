"""The step that the user chooses, the baseline of the paper."""

from typing import Any

from heavystep import validation
from heavystep.rules.contract import REQUIRED, Option, Rule, Search, Seen
from heavystep.rules.primitives import batch_is_finite

GAMMA = Option(
    "lr",
    REQUIRED,
    validation.NON_NEGATIVE,
    "the step gamma itself, >= 0; this is the number that the other optimizers choose. It may be "
    "left out where every group has its own.",
    symbol="gamma",
)


def start_fixed(constants: Any, memory: Any, seen: Seen) -> Search:
    """The step is ``lr`` itself, so that it is 1 before this multiplier."""
    return Search(1.0, accepted=batch_is_finite(seen.loss, seen.grad_sqnorm), capped=False)


FIXED = Rule(
    name="fixed",
    formula=r"\gamma_k = \eta_k",
    reference="Polyak (1964)",
    options=(GAMMA,),
    start=start_fixed,
    reads=frozenset({"grad_sqnorm"}),
)
