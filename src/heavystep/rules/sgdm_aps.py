r"""SGDM-APS: a Polyak step of torch's momentum buffer d_k, with gaps that fade as it does.

.. math:: \gamma_k = \min\Big\{\frac{(1 - \sqrt\beta) D_k}{c\,\|d_k\|^2},\ q\,\gamma_{k-1}\Big\},
          \qquad D_k = \beta^{3/2} D_{k-1} + f_k - \ell_k, \quad q = \mathrm{growth}^{1/n_b}
"""

from dataclasses import replace
from math import inf
from typing import Any

from heavystep import validation
from heavystep.rules.contract import Option, Rule, Search, Seen, Slot, constants
from heavystep.rules.polyak import LOWER_BOUND, polyak_step
from heavystep.rules.primitives import batch_is_finite, maximum, where
from heavystep.rules.smooth_reset import GROWTH, LAST_STEP, growth_of, remember_step


def gaps(constants: Any, memory: Any, seen: Seen) -> Any:
    """D_k."""
    return constants.fading * memory.gaps + maximum(seen.loss - seen.lower_bound, 0.0)


def start(constants: Any, memory: Any, seen: Seen) -> Search:
    """The step that multiplies d_k."""
    last = where(memory.last_step < inf, memory.last_step, constants.first_step)
    cap = constants.growth_factor * last
    together = gaps(constants, memory, seen)
    step = polyak_step(together, seen.direction_sqnorm, 0.0, constants.c, constants.damping, cap)
    accepted = batch_is_finite(seen.loss - seen.lower_bound, seen.direction_sqnorm)
    return Search(step, accepted, capped=step == cap)


def remember(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, ...]:
    """D_k and the step."""
    return gaps(constants, memory, seen), remember_step(memory.last_step, search.step)


SGDM_APS = Rule(
    name="sgdm-aps",
    formula=r"\gamma_k = \eta_k \min\{(1 - \sqrt\beta) D_k / (c \|d_k\|^2),\ q \gamma_{k-1}\}, "
    r"\quad D_k = \beta^{3/2} D_{k-1} + f_k - \ell_k",
    reference="Zhang, Jin and Gu (2025)",
    options=(
        Option("c", 0.2, validation.POSITIVE, "divisor c, > 0."),
        Option("first_step", 100.0, validation.POSITIVE, "the step before the first, > 0."),
        LOWER_BOUND,
        Option("steps_per_epoch", 390, validation.AT_LEAST_ONE,
               "n_b, the number of batches in an epoch, >= 1."),
        replace(GROWTH, default=2.0),
    ),
    reads=frozenset({"loss", "lower_bound", "grad_sqnorm", "direction_sqnorm"}),
    resolve=constants(
        "c", "first_step", growth_factor=growth_of,
        damping=lambda options: 1.0 - options["momentum"] ** 0.5,
        fading=lambda options: options["momentum"] ** 1.5,
    ),
    memory={"gaps": Slot(0.0, validation.NON_NEGATIVE), "last_step": LAST_STEP},
    start=start,
    remember=remember,
)  # fmt: skip
