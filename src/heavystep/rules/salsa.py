r"""SaLSA: an Armijo search on averages, which leaves searches out while the step hardly changes.

.. math:: h_k \ge c\,t\,s_k, \qquad
          h_k = \beta_3 h_{k-1} + (1 - \beta_3) (f_k - f(\theta_k - t g_k; x_k)), \quad
          s_k = \beta_3 s_{k-1} + (1 - \beta_3) \|g_k\|^2

from 1.1 times the last step on, times 0.8 as long as it fails. With averages of the accepted steps,
F_k of weight 0.9 and S_k of weight 0.99, and R_k >= 1 the ratio of the larger to the smaller, the
next search comes after 1 / (R_k - 1) steps, and after ``longest_pause`` at the latest. Steps in
between repeat the last one, and averages stay as they are.

From the code: all of this, for its option of steps along the gradient. Left out: Adam's direction,
which is its default. Differs from the code: steps in between do not grow (its versions disagree),
s_k averages squared norms, F and S begin at 0, equal losses are compared with a tolerance, and a
search that fails refuses the batch. (It searches in its first ten steps whatever R_k is, which is
no difference: R_k is far above 2 then.)
"""

from dataclasses import replace
from math import inf
from typing import Any

from heavystep import validation
from heavystep.momentum import exponential
from heavystep.rules.backtracking import DECREASE_FACTOR, LOSS_EPS, MAX_TRIALS, judge, tolerance
from heavystep.rules.contract import Option, Rule, Search, Seen, Slot, Whole, constants
from heavystep.rules.primitives import batch_is_finite, maximum, minimum, where
from heavystep.rules.smooth_reset import LAST_STEP

FAST, SLOW = 0.9, 0.99


def start(constants: Any, memory: Any, seen: Seen) -> Search:
    """Search, or repeat the last step; the averages are 0 before the first search."""
    finite = batch_is_finite(seen.loss, seen.grad_sqnorm)
    moves = finite & (constants.c * seen.grad_sqnorm > 0.0)
    smaller, larger = minimum(memory.fast, memory.slow), maximum(memory.fast, memory.slow)
    waited = memory.waited + 1.0
    due = (waited >= constants.longest_pause) | (waited * (larger - smaller) >= smaller)
    last = where(memory.last_step < inf, memory.last_step, constants.first_step)
    return Search(
        step=where(moves, last, 0.0),
        accepted=finite,
        capped=False,
        trial=where(moves & due, constants.increase_factor * last, 0.0),
        active=moves & due,
    )


def advance(constants: Any, memory: Any, seen: Seen, search: Search, trial_loss: Any) -> Search:
    """The condition, solved for the trial loss."""
    sqnorm = exponential(memory.sqnorm, seen.grad_sqnorm, constants.smoothing)
    missing = constants.c * search.trial * sqnorm - constants.smoothing * memory.decrease
    enough = seen.loss - missing / (1.0 - constants.smoothing) + tolerance(seen)
    return judge(constants, search, trial_loss, enough, -inf, search.trial, False)


def remember(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, ...]:
    """All averages and the step, after a search; without one, that time has passed."""
    searched = search.trial > 0.0
    decrease = exponential(memory.decrease, seen.loss - search.trial_loss, constants.smoothing)
    return (
        where(searched, search.step, memory.last_step),
        where(searched, decrease, memory.decrease),
        where(searched, exponential(memory.sqnorm, seen.grad_sqnorm, constants.smoothing),
              memory.sqnorm),
        where(searched, exponential(memory.fast, search.step, FAST), memory.fast),
        where(searched, exponential(memory.slow, search.step, SLOW), memory.slow),
        where(searched, 0.0, memory.waited + 1.0),
    )  # fmt: skip


SALSA = Rule(
    name="salsa",
    formula=r"\gamma_k = \eta_k t_k, \qquad \beta_3 h_{k-1} + (1 - \beta_3) "
    r"(f_k - f(\theta_k - t_k g_k; x_k)) \ge c\,t_k\,s_k",
    reference="Kenneweg et al. (2024), with the gradient for its direction",
    options=(
        Option("c", 0.5, validation.OPEN_UNIT, "sufficient decrease constant c, in (0, 1)."),
        Option("first_step", 1.0, validation.POSITIVE, "the step before the first, > 0."),
        Option("increase_factor", 1.1, validation.AT_LEAST_ONE, "growth before a search, >= 1."),
        replace(DECREASE_FACTOR, default=0.8),
        Option("smoothing", 0.9, validation.UNIT, "weight of the past in averages, in [0, 1).",
               symbol="beta_3"),
        Option("longest_pause", 10, Whole(1), "most steps from one search to the next; 1 searches "
               "at every step."),
        MAX_TRIALS,
        LOSS_EPS,
    ),
    reads=frozenset({"loss", "grad_sqnorm", "loss_eps"}),
    resolve=constants("c", "first_step", "increase_factor", "decrease_factor", "smoothing",
                      "longest_pause", "max_trials"),
    memory={"last_step": LAST_STEP, "decrease": 0.0,
            **dict.fromkeys(("sqnorm", "fast", "slow", "waited"),
                            Slot(0.0, validation.NON_NEGATIVE))},
    start=start, advance=advance, remember=remember,
)  # fmt: skip
