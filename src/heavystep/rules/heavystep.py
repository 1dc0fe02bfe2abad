r"""The default rule: Polyak steps that the noise of the batches shortens.

.. math:: a_k = \min\Big\{\sqrt{\phi_k}\,\tau\,\frac{f_k - \ell_k}{\|g_k\|^2},\ \phi_k\,C_k,\
          \rho\,\frac{\|\theta_k\|}{\|D_k^{-1} g_k\|}\Big\}
"""

from typing import Any

from heavystep import validation
from heavystep.momentum import weight_of_next
from heavystep.rules.contract import Option, Rule, Search, Seen, Slot, Whole, constants
from heavystep.rules.polyak import LOWER_BOUND
from heavystep.rules.primitives import batch_is_finite, maximum, minimum, where

LENGTH = 1.9
TRUST = 0.1
OUTLOOK = 3.0
POWER = 8.0


def share(memory: Any) -> Any:
    """phi_k."""
    gap = maximum(memory.fast, 1e-30)
    progress = maximum(
        (gap / (gap + memory.gaps)) ** 0.5, OUTLOOK * (memory.slow - memory.fast) / gap
    )
    return where(memory.count > 0.0, minimum(progress, 1.0), 1.0)


def polyak_ratio(seen: Seen) -> Any:
    """Tau times the Polyak step."""
    vanished = seen.grad_sqnorm == 0.0
    gap = maximum(seen.loss - seen.lower_bound, 0.0)
    return where(vanished, 0.0, LENGTH * gap / where(vanished, 1.0, seen.grad_sqnorm))


def first_move(memory: Any, seen: Seen, step: Any, length: Any, size: Any) -> Any:
    """The length of the first move, the measure of parameters that begin at 0."""
    moved = step * length
    first = where(size > 0.0, minimum(moved, TRUST * size), moved)
    return where(memory.count > 0.0, memory.first_move, first)


def decided(constants: Any, memory: Any, seen: Seen) -> tuple[Any, Any, Any]:
    """The step, the ratio and the first move."""
    ratio, phi = polyak_ratio(seen), share(memory)
    cap = where(memory.count > 0.0, memory.cap, ratio)
    step = minimum(phi**0.5 * ratio, phi * cap)
    length, size = seen.pull_sqnorm**0.5, seen.position_sqnorm**0.5
    first = first_move(memory, seen, step, length, size)
    trusted = maximum(TRUST * size, first) / maximum(length, 1e-30)
    return minimum(minimum(step, trusted), constants.max_step), ratio, first


def start(constants: Any, memory: Any, seen: Seen) -> Search:
    """The length that z moves."""
    step, _, _ = decided(constants, memory, seen)
    accepted = batch_is_finite(seen.loss - seen.lower_bound, seen.grad_sqnorm)
    weight = weight_of_next(memory.count, POWER)
    return Search(step, accepted, capped=step == constants.max_step, weight=weight)


def remember(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, ...]:
    """All averages."""
    count = memory.count
    _, ratio, first = decided(constants, memory, seen)
    held = where(count > 0.0, memory.typical, ratio)
    usual = minimum(maximum(ratio, held / 100.0), held * 100.0)
    rate = maximum(1.0 / (count + 1.0), 0.02)
    typical = held * (where(held > 0.0, usual / where(held > 0.0, held, 1.0), 1.0)) ** rate
    cap = minimum(where(count > 0.0, memory.cap, ratio) * 2.0**0.25, typical)
    gap = seen.loss - seen.lower_bound
    met = where(count < 10.0, gap, minimum(gap, memory.fast + 4.0 * memory.deviation))
    pace = minimum(8.0 / (count + 1.0), 1.0)
    fast = memory.fast + pace * (met - memory.fast)
    slow = memory.slow + minimum(2.0 / (count + 1.0), 1.0) * (met - memory.slow)
    slow = minimum(slow, 2.0 * fast)
    slow = where(count < 100.0, slow, minimum(slow, memory.slow))
    deviation = memory.deviation + pace * (abs(met - fast) - memory.deviation)
    gaps = memory.gaps + maximum(met, 0.0)
    return count + 1.0, cap, typical, fast, slow, deviation, gaps, first


POSITIVE_SLOT = Slot(0.0, validation.NON_NEGATIVE)

HEAVYSTEP = Rule(
    name="heavystep",
    formula=r"a_k = \eta_k \min\{\sqrt{\phi_k}\,\tau (f_k - \ell_k) / \|g_k\|^2,\ \phi_k C_k,\ "
    r"\rho \|\theta_k\| / \|D_k^{-1} g_k\|\}",
    reference="this package",
    options=(
        LOWER_BOUND,
        Option("total_steps", None, Whole(1), "the length of the run, if it is known.",
               optional=True),
        Option("max_step", None, validation.POSITIVE, "largest length of a move, > 0, or None.",
               optional=True),
    ),
    reads=frozenset({"loss", "lower_bound", "grad_sqnorm", "pull_sqnorm", "position_sqnorm"}),
    resolve=constants(
        max_step=lambda options: float("inf")
        if options["max_step"] is None
        else options["max_step"]
    ),
    memory={
        "count": POSITIVE_SLOT, "cap": POSITIVE_SLOT, "typical": POSITIVE_SLOT, "fast": 0.0,
        "slow": 0.0, "deviation": POSITIVE_SLOT, "gaps": POSITIVE_SLOT, "first_move": POSITIVE_SLOT,
    },
    start=start,
    remember=remember,
)  # fmt: skip
