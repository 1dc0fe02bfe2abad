r"""MomSPS: Polyak steps damped by 1 - beta, with a cap or with a smooth reset.

.. math:: \gamma_k = (1 - \beta) \min\Big\{\frac{f_k - \ell_k}{c\,\|g_k\|^2},\
          \gamma_{\max}\Big\} \qquad\text{or}\qquad
          \gamma_k = \min\Big\{(1 - \beta)\frac{f_k - \ell_k}{c\,\|g_k\|^2},\
          q\,\gamma_{k-1}\Big\}, \quad q = \mathrm{growth}^{1/n_b}, \ \gamma_{-1} = \gamma_b
"""

from dataclasses import replace
from math import inf
from typing import Any

from heavystep import validation
from heavystep.rules.contract import Option, Rule, Search, Seen, constants
from heavystep.rules.polyak import LOWER_BOUND, search_below
from heavystep.rules.primitives import where
from heavystep.rules.scaling import damping
from heavystep.rules.smooth_reset import GROWTH, LAST_STEP, MAX_STEP, growth_of, remember_step

C = Option("c", 1.0, validation.POSITIVE, "divisor c of the Polyak ratio, > 0.")


def damped(cap: Any, constants: Any, seen: Seen) -> Search:
    """The damped Polyak step, at most the cap."""
    return search_below(
        seen.loss, seen.grad_sqnorm, seen.lower_bound, constants.c, constants.damping, cap
    )


def start(constants: Any, memory: Any, seen: Seen) -> Search:
    """Differs from the smooth one in that 1 - beta damps the cap as well."""
    return damped(constants.damping * constants.max_step, constants, seen)


def start_smooth(constants: Any, memory: Any, seen: Seen) -> Search:
    """The cap grows from the last step, and at first from ``first_step``."""
    last = where(memory.last_step < inf, memory.last_step, constants.first_step)
    return damped(constants.growth_factor * last, constants, seen)


def remember_smooth(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, ...]:
    """The step."""
    return (remember_step(memory.last_step, search.step),)


MOMSPS = Rule(
    name="momsps",
    formula=r"\gamma_k = \eta_k (1 - \beta) \min\{(f_k - \ell_k) / (c \|g_k\|^2),\ \gamma_{\max}\}",
    reference="Oikonomou and Loizou (2025)",
    options=(C, replace(MAX_STEP, default=10.0), LOWER_BOUND),
    resolve=constants("c", "max_step", damping=damping),
    start=start,
)
MOMSPS_SMOOTH = Rule(
    name="momsps smooth",
    formula=r"\gamma_k = \eta_k \min\{(1 - \beta) (f_k - \ell_k) / (c \|g_k\|^2),\ "
    r"q \gamma_{k-1}\}",
    reference="Oikonomou and Loizou (2025)",
    options=(
        C,
        Option("first_step", 1.0, validation.POSITIVE, "the step before the first, > 0.",
               symbol="gamma_b"),
        LOWER_BOUND,
        Option("steps_per_epoch", 256, validation.AT_LEAST_ONE,
               "n_b, the number of batches in an epoch, >= 1."),
        replace(GROWTH, default=2.0),
    ),
    resolve=constants("c", "first_step", damping=damping, growth_factor=growth_of),
    memory={"last_step": LAST_STEP},
    start=start_smooth,
    remember=remember_smooth,
)  # fmt: skip
