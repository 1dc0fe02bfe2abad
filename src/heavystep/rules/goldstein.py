r"""Goldstein's line search: Armijo's decrease, and a step that is not too short for it.

.. math:: f_k - (1 - c)\,t\,\|g_k\|^2 \le f(\theta_k - t g_k; x_k) \le f_k - c\,t\,\|g_k\|^2

A step that fails on the right shrinks by omega, one that fails on the left grows by a factor, at
most to gamma_max. The search begins at q times the last step, with q of
:mod:`heavystep.rules.smooth_reset`, and at ``first_step`` if there is none or no reset.

Differs from the code: a step of gamma_max that decreases the loss enough is taken at once, and so
is one that does at the last trial; a search that ends without one refuses the batch.
"""

from dataclasses import replace
from math import inf
from typing import Any

from heavystep import validation
from heavystep.rules.armijo import remember, sufficient_loss
from heavystep.rules.backtracking import DECREASE_FACTOR, LOSS_EPS, MAX_TRIALS, begin, tolerance
from heavystep.rules.contract import Option, Rule, Search, Seen
from heavystep.rules.primitives import is_finite, minimum, where
from heavystep.rules.smooth_reset import GROWTH, MAX_STEP, STEPS_PER_EPOCH, resolve_growth


def start(constants: Any, memory: Any, seen: Seen) -> Search:
    """Begin where the reset says; q or the last step are infinite if there is none."""
    grown = constants.growth_factor * memory.last_step
    trial = minimum(where(grown < inf, grown, constants.first_step), constants.max_step)
    return begin(constants, seen, -inf, trial)


def advance(constants: Any, memory: Any, seen: Seen, search: Search, trial_loss: Any) -> Search:
    """Shrink, grow or stop."""
    trial, trials = search.trial, search.trials + 1
    enough = sufficient_loss(constants, memory, seen, trial)
    decreases = is_finite(trial_loss) & (trial_loss <= enough)
    least = seen.loss - (1.0 - constants.c) * trial * seen.grad_sqnorm - tolerance(seen)
    longest, last = trial >= constants.max_step, trials >= constants.max_trials
    accepted = decreases & ((trial_loss >= least) | longest | last)
    longer = minimum(trial * constants.increase_factor, constants.max_step)
    following = where(decreases, longer, trial * constants.decrease_factor)
    over = accepted | last | (following == 0.0) | (following == trial)
    return Search(
        step=where(accepted, trial, 0.0),
        accepted=accepted,
        capped=accepted & longest,
        trial=where(accepted, trial, where(over, 0.0, following)),
        trials=trials,
        active=where(over, False, True),
    )


GOLDSTEIN = Rule(
    name="goldstein",
    formula=r"\gamma_k = \eta_k t_k, \qquad f_k - (1 - c)\,t_k\,\|g_k\|^2 \le "
    r"f(\theta_k - t_k g_k; x_k) \le f_k - c\,t_k\,\|g_k\|^2",
    reference="Vaswani et al. (2019)",
    options=(
        Option("c", 0.1, validation.Interval(0.0, 0.5), "decrease constant c, in (0, 0.5)."),
        Option("first_step", 1.0, validation.POSITIVE, "first trial step, > 0."),
        replace(MAX_STEP, default=10.0),
        DECREASE_FACTOR,
        Option("increase_factor", 2.0, validation.Interval(1.0), "growth of short steps, > 1.",
               symbol="beta_f"),
        replace(STEPS_PER_EPOCH, default=500, text="n_b of the smooth reset, >= 1; None begins "
                "every search at ``first_step``."),
        replace(GROWTH, default=2.0),
        MAX_TRIALS,
        LOSS_EPS,
    ),
    reads=frozenset({"loss", "grad_sqnorm", "loss_eps"}),
    constants=("c", "first_step", "max_step", "decrease_factor", "increase_factor",
               "growth_factor", "max_trials"),
    resolve=resolve_growth, memory={"last_step": inf}, start=start, advance=advance,
    remember=remember, searches=True, foresees=True,
)  # fmt: skip
