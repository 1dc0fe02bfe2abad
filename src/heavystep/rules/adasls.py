r"""AdaSLS: Armijo steps divided by the root of what all of them gained, never longer than before.

.. math:: \gamma_k = \min\Big\{\frac{a_k}{d} \sqrt{\frac{a_0 \|g_0\|^2}
          {\sum_{s \le k} a_s \|g_s\|^2}},\ \gamma_{k-1}\Big\}

with the Armijo step a_k, which every search seeks from gamma_max downwards. This is the scale-free
choice c_l = d / sqrt(a_0 ||g_0||^2) of their divisor, with d = 1 / rho for Armijo's constant rho:
with it the theorem for convex losses that one point fits holds. gamma_max is our choice. The step,
the search and that c_l are as Wu (2025), arXiv 2511.20207v2, quotes Jiang and Stich: Section 2.1,
Algorithms 1 and 2, Theorem 3 with theta = 1; no code of theirs is public. Another method of this
name (Vaswani et al. 2020) is AdaGrad with a line search.
"""

from typing import Any

from heavystep import validation
from heavystep.rules.armijo import sufficient_loss
from heavystep.rules.backtracking import OPTIONS, READS, begin, judge, skip_below
from heavystep.rules.contract import Option, Rule, Search, Seen, Slot, constants
from heavystep.rules.primitives import minimum, where
from heavystep.rules.smooth_reset import LAST_STEP, MAX_STEP, remember_step


def start(constants: Any, memory: Any, seen: Seen) -> Search:
    """Begin at max_step."""
    return begin(constants, seen, seen.lower_bound, constants.max_step)


def gains(memory: Any, seen: Seen, trial: Any) -> tuple[Any, Any]:
    """The sum of a_s ||g_s||^2, this step's included, and the first of them."""
    gain = trial * seen.grad_sqnorm
    return memory.gains + gain, where(memory.first_gain > 0.0, memory.first_gain, gain)


def advance(constants: Any, memory: Any, seen: Seen, search: Search, trial_loss: Any) -> Search:
    """The trial is a_k if the Armijo condition holds there."""
    total, first = gains(memory, seen, search.trial)
    shrink = (first / where(total > 0.0, total, 1.0)) ** 0.5
    step = minimum(search.trial / constants.divisor * shrink, memory.last_step)
    enough = sufficient_loss(constants, memory, seen, search.trial)
    capped = step == memory.last_step
    return judge(constants, search, trial_loss, enough, seen.lower_bound, step, capped)


def remember(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, ...]:
    """The sum, its first term, and the step. Without a search the trial is 0."""
    return *gains(memory, seen, search.trial), remember_step(memory.last_step, search.step)


ADASLS = Rule(
    name="adasls",
    formula=r"\gamma_k = \eta_k \min\Big\{\frac{a_k}{d} \sqrt{a_0 \|g_0\|^2 / "
    r"\sum_{s \le k} a_s \|g_s\|^2},\ \gamma_{k-1}\Big\}, \quad a_k \text{ the Armijo step}",
    reference="Jiang and Stich (2023), as quoted by Wu (2025), Section 2.1; not the AdaSLS of "
    "Vaswani et al. (2020)",
    options=(
        Option("c", 0.5, validation.OPEN_UNIT, "sufficient decrease constant rho, in (0, 1).",
               symbol="rho"),
        Option("divisor", 2.0, validation.POSITIVE, "divisor d of the step, > 0; the theorem's "
               "is 1 / ``c``.", symbol="d"),
        MAX_STEP,
        *OPTIONS,
    ),
    reads=READS,
    resolve=constants("c", "divisor", "max_step", "decrease_factor", "max_trials"),
    memory={"gains": Slot(0.0, validation.NON_NEGATIVE),
            "first_gain": Slot(0.0, validation.NON_NEGATIVE), "last_step": LAST_STEP},
    start=start, skip=skip_below(sufficient_loss), advance=advance, remember=remember,
)  # fmt: skip
