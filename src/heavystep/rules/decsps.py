r"""DecSPS: Polyak steps that decrease, for losses that do not vanish together.

.. math:: \gamma_k = \frac{1}{c_k} \min\Big\{(1 - \beta)\frac{f_k - \ell_k}{\|g_k\|^2},\
          c_{k-1} \gamma_{k-1}\Big\}, \qquad c_k = c \sqrt{k + 1}, \quad
          c_{-1} \gamma_{-1} = c\,\gamma_b

With momentum this is MomDecSPS: 1 - beta turns the step of an averaged iterate into one of heavy
ball. Not verified: MomDecSPS is derived so from DecSPS; no code of it is public.
"""

from typing import Any

from heavystep import validation
from heavystep.rules.contract import Option, Rule, Search, Seen, Slot, constants
from heavystep.rules.polyak import LOWER_BOUND, polyak_step
from heavystep.rules.primitives import batch_is_finite, minimum
from heavystep.rules.scaling import damping
from heavystep.rules.smooth_reset import LAST_STEP, remember_step


def start(constants: Any, memory: Any, seen: Seen) -> Search:
    """The step; ``scaled_step`` is c_{k-1} gamma_{k-1}."""
    cap = minimum(memory.scaled_step, constants.c * constants.max_step)
    scaled = polyak_step(seen.loss, seen.grad_sqnorm, seen.lower_bound, 1.0, constants.damping, cap)
    accepted = batch_is_finite(seen.loss - seen.lower_bound, seen.grad_sqnorm)
    divisor = constants.c * (memory.count + 1.0) ** 0.5
    return Search(scaled / divisor, accepted, capped=scaled == cap)


def remember(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, ...]:
    """One step more, and c_k gamma_k."""
    scaled = search.step * (constants.c * (memory.count + 1.0) ** 0.5)
    return memory.count + 1.0, remember_step(memory.scaled_step, scaled)


DECSPS = Rule(
    name="decsps",
    formula=r"\gamma_k = \eta_k \min\{(1 - \beta) (f_k - \ell_k) / \|g_k\|^2,\ "
    r"c_{k-1} \gamma_{k-1}\} / c_k, \quad c_k = c \sqrt{k + 1}",
    reference="Orvieto, Lacoste-Julien and Loizou (2022)",
    options=(
        Option("c", 1.0, validation.POSITIVE, "first divisor c_0, > 0."),
        Option(
            "max_step", 10.0, validation.POSITIVE, "cap gamma_b of the first step, > 0.",
            symbol="gamma_b",
        ),
        LOWER_BOUND,
    ),
    resolve=constants("c", "max_step", damping=damping),
    memory={"count": Slot(0.0, validation.NON_NEGATIVE), "scaled_step": LAST_STEP},
    start=start,
    remember=remember,
)  # fmt: skip
