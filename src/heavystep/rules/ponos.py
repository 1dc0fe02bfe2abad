r"""PoNoS: a line search that begins at a Polyak step and lets the loss rise to its average.

.. math:: f(\theta_k - t g_k; x_k) \le \max\{C_k, f_k\} - c\,t\,\|g_k\|^2, \qquad
          C_k = \frac{\xi Q_{k-1} C_{k-1} + f_k}{Q_k}, \quad Q_k = \xi Q_{k-1} + 1, \ Q_{-1} = 0

for the largest t among the powers of delta times

.. math:: t_0 = \mathrm{clip}\Big(\delta^{l_k}\frac{f_k - \ell_k}{c_p \|g_k\|^2},\
          \gamma_{\min}, \gamma_{\max}\Big), \qquad l_{k+1} = \max\{l_k + e_k - 1, 0\}

where e_k counts the trials that failed. What is remembered is delta^(l_k) itself, since
delta^(e_k) is the accepted trial divided by the first one.

Differs from the code: the bound l_k is used, nothing is added to ||g_k||^2, and a search that fails
refuses the batch.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from heavystep import validation
from heavystep.rules.backtracking import (
    DECREASE_FACTOR,
    LOSS_EPS,
    MAX_TRIALS,
    READS,
    advance_below,
    begin,
    lowered,
    skip_below,
)
from heavystep.rules.contract import Option, Rule, Search, Seen, Slot, constants
from heavystep.rules.polyak import LOWER_BOUND, polyak_step
from heavystep.rules.primitives import maximum, minimum, where
from heavystep.rules.smooth_reset import MAX_STEP

MIN_STEP = Option(
    "min_step", 1e-6, validation.POSITIVE, "smallest first trial, > 0.", symbol="gamma_min"
)
LEAST_SHRINK = 1e-300
"""Further down, delta^(l_k) could not grow again."""


def min_step(options: Mapping[str, Any]) -> Any:
    """The least first trial, if it is not above the largest step."""
    least, most = options["min_step"], options["max_step"]
    if most < least:
        raise ValueError(f"min_step must be at most max_step = {most!r}, got {least!r}")
    return least


def average(constants: Any, memory: Any, seen: Seen) -> tuple[Any, Any]:
    """Q_k and C_k."""
    old = constants.keeping * memory.weight
    return old + 1.0, (old * memory.average + seen.loss) / (old + 1.0)


def largest_loss(constants: Any, memory: Any, seen: Seen, trial: Any, slope: Any) -> Any:
    """Armijo's, from the average of losses if that is larger."""
    level = maximum(average(constants, memory, seen)[1], seen.loss)
    return lowered(constants, seen, level, trial, slope)


def sufficient_loss(
    constants: Any, memory: Any, seen: Seen, trial: Any, momentum: Any = None
) -> Any:
    """The largest loss of a trial along the gradient."""
    return largest_loss(constants, memory, seen, trial, seen.grad_sqnorm)


def clipped_polyak(constants: Any, memory: Any, seen: Seen, square: Any) -> Any:
    """t_0 along a direction with this squared norm."""
    polyak = polyak_step(
        seen.loss, square, seen.lower_bound, constants.polyak_c, memory.shrink, constants.max_step
    )
    return maximum(polyak, constants.min_step)


def first_trial(constants: Any, memory: Any, seen: Seen) -> Any:
    """t_0."""
    return clipped_polyak(constants, memory, seen, seen.grad_sqnorm)


def start(constants: Any, memory: Any, seen: Seen) -> Search:
    """Begin at t_0."""
    return begin(constants, seen, seen.lower_bound, first_trial(constants, memory, seen))


def next_shrink(constants: Any, memory: Any, search: Search, first: Any) -> Any:
    """delta^(l_{k+1}), which stays if nothing was searched."""
    shrink = minimum(memory.shrink * search.trial / first / constants.decrease_factor, 1.0)
    return where(search.trial > 0.0, maximum(shrink, LEAST_SHRINK), memory.shrink)


def remember(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, ...]:
    """Q_k, C_k and delta^(l_{k+1})."""
    shrink = next_shrink(constants, memory, search, first_trial(constants, memory, seen))
    return *average(constants, memory, seen), shrink


CONSTANTS = ("c", "polyak_c", "max_step", "decrease_factor", "keeping", "max_trials")
MEMORY = {
    "weight": Slot(0.0, validation.NON_NEGATIVE),
    "average": 0.0,
    "shrink": Slot(1.0, validation.Interval(0.0, 1.0, closed_high=True)),
}

PONOS = Rule(
    name="ponos",
    formula=r"\gamma_k = \eta_k t_k, \qquad f(\theta_k - t_k g_k; x_k) \le "
    r"\max\{C_k, f_k\} - c\,t_k\,\|g_k\|^2, \quad "
    r"t_k = \delta^j\,\mathrm{clip}(\delta^{l_k} (f_k - \ell_k) / (c_p \|g_k\|^2))",
    reference="Galli, Rauhut and Schmidt (2023)",
    options=(
        Option("c", 0.5, validation.OPEN_UNIT, "sufficient decrease constant c, in (0, 1)."),
        Option("polyak_c", 0.1, validation.POSITIVE, "divisor of the first trial, > 0.",
               symbol="c_p"),
        replace(MAX_STEP, default=10.0),
        MIN_STEP,
        replace(DECREASE_FACTOR, default=0.5, symbol="delta",
                text="factor delta between trial steps, in (0, 1)."),
        Option("keeping", 1.0, validation.CLOSED_UNIT, "weight of past losses in C_k, in [0, 1].",
               symbol="xi"),
        LOWER_BOUND, MAX_TRIALS, LOSS_EPS,
    ),
    reads=READS,
    resolve=constants(*CONSTANTS, min_step=min_step), memory=MEMORY,
    start=start, skip=skip_below(sufficient_loss),
    advance=advance_below(sufficient_loss),
    remember=remember,
)  # fmt: skip
