"""What backtracking line searches share: a state that each trial loss advances once.

A rule gives ``sufficient``, the largest loss that makes a trial step acceptable, with the momentum
that the search began with. A search that fails refuses the batch: nothing changes.
"""

from collections.abc import Callable
from typing import Any

from heavystep import validation
from heavystep.rules.contract import Option, Search, Seen, Whole
from heavystep.rules.primitives import batch_is_finite, is_finite, some, where

C = Option("c", 0.1, validation.OPEN_UNIT, "sufficient decrease constant c, in (0, 1).")
DECREASE_FACTOR = Option(
    "decrease_factor", 0.9, validation.OPEN_UNIT, "factor omega between trial steps, in (0, 1)."
)
KNOWN_BOUND = Option(
    "lower_bound",
    None,
    validation.FINITE,
    "a lower bound l of the sampled loss, or None. With one (0 for cross-entropy), trials "
    "that cannot succeed are not evaluated; the accepted step is the same to the bit. "
    "``step(..., lower_bound=)`` overrides it for one batch.",
    optional=True,
)
MAX_TRIALS = Option(
    "max_trials", 100, Whole(1), "trial losses after which a search gives up, >= 1."
)
LOSS_EPS = Option(
    "loss_eps",
    None,
    validation.UNIT,
    "relative rounding error of the loss, in [0, 1); trial losses are compared with a "
    "tolerance of four times that. None takes the coarsest format in sight: parameters, "
    "loss and an autocast around ``step``. An autocast inside the closure cannot be seen: "
    "give 2**-7 for bfloat16.",
    optional=True,
)
OPTIONS = (DECREASE_FACTOR, KNOWN_BOUND, MAX_TRIALS, LOSS_EPS)
READS = frozenset({"loss", "lower_bound", "grad_sqnorm", "loss_eps"})
TOLERANCE_ULPS = 4.0


def tolerance(seen: Seen) -> Any:
    """By how much a trial loss may miss its threshold.

    Differs from the paper: losses are compared with a tolerance of a few units in the last place of
    the loss. Near a minimiser the decrease asked for is smaller than the rounding of the loss, and
    without a tolerance a search fails there on rounding alone.
    """
    return TOLERANCE_ULPS * seen.loss_eps * abs(seen.loss)


def lowered(constants: Any, seen: Seen, level: Any, trial: Any, slope: Any) -> Any:
    """The largest loss that is a sufficient decrease from ``level``: Armijo's condition.

    ``slope`` is that of the loss along the trials, ||g||^2 where they go along the gradient.
    """
    return level - constants.c * trial * slope + tolerance(seen)


def begin(
    constants: Any, seen: Seen, trial: Any, momentum: Any = None, capped: Any = True
) -> Search:
    """A search from ``trial`` on, with the momentum of a rule that sets it.

    There is nothing to search, and the step is 0, if the gradient vanished or the loss lies at or
    below its lower bound. A non-finite loss or gradient is refused at once. ``capped`` says whether
    the first trial is the largest step that the rule's caps allow.
    """
    finite = batch_is_finite(seen.loss, seen.grad_sqnorm)
    active = finite & (constants.c * seen.grad_sqnorm > 0.0) & (seen.loss > seen.lower_bound)
    first = where(active, trial, 0.0)
    return Search(0.0, finite, active & capped, first, 0, active, momentum=momentum)


def skip_below(sufficient: Callable[..., Any]) -> Callable[..., Search]:
    """The ``skip`` of a backtracking search with these largest losses."""

    def skip(constants: Any, memory: Any, seen: Seen, search: Search) -> Search:
        """Pass over the trials that ask for a loss below the lower bound, which cannot be had.

        By Lemma 1 an accepted t satisfies c t ||g||^2 <= f_k - l_k. What :func:`judge` makes of
        these trials one by one, without evaluating their losses: thresholds only rise as trials
        shrink, so that after the first trial that may succeed none needs to be skipped.
        """
        trial, low, beta = search.trial, seen.lower_bound, search.momentum
        first = search.active & (sufficient(constants, memory, seen, trial, beta) < low)
        hopeless, kept = first, trial
        # Of several searches at once, each keeps what it had when it was over. Trials shrink for
        # all of them, so that none waits for the comparison.
        while some(hopeless):
            smaller = trial * constants.decrease_factor
            # The smallest positive number times omega may round to itself, and 0 always does.
            possible = smaller < trial
            kept = where(hopeless, where(possible, smaller, 0.0), kept)
            below = sufficient(constants, memory, seen, smaller, beta) < low
            hopeless, trial = hopeless & possible & below, smaller
        # Not by comparing trials: one that begins at 0 ends there without being found.
        found = where(first, kept != 0.0, search.active)
        return Search(
            step=search.step,
            accepted=where(search.active, search.accepted & found, search.accepted),
            capped=where(first, False, search.capped),
            trial=kept,
            trials=search.trials,
            active=search.active & found,
            momentum=search.momentum,
        )

    return skip


def advance_below(sufficient: Callable[..., Any]) -> Callable[..., Search]:
    """The ``advance`` of a search with these largest losses, whose step is the trial itself."""

    def advance(constants: Any, memory: Any, seen: Seen, search: Search, trial_loss: Any) -> Search:
        low, trial = seen.lower_bound, search.trial
        enough = sufficient(constants, memory, seen, trial, search.momentum)
        return judge(constants, search, trial_loss, enough, low, trial, search.capped)

    return advance


def judge(
    constants: Any, search: Search, trial_loss: Any, enough: Any, lower_bound: Any, step: Any,
    capped: Any,
) -> Search:  # fmt: skip
    """Accept ``step`` if the trial loss is at most ``enough``, or go on to a smaller trial.

    A trial loss that is not finite fails, and the search goes on to smaller steps. So does one that
    the lower bound rules out, which does not count as a trial: ``skip`` saves evaluating it.
    """
    possible = enough >= lower_bound
    accepted = is_finite(trial_loss) & (trial_loss <= enough) & possible
    trials = search.trials + where(possible, 1, 0)
    next_trial = search.trial * constants.decrease_factor
    # The smallest positive number times omega may round to itself.
    underflow = (next_trial == 0.0) | (next_trial == search.trial)
    exhausted = (trials >= constants.max_trials) | underflow
    return Search(
        step=where(accepted, step, 0.0),
        accepted=accepted,
        capped=accepted & capped,
        trial=where(accepted, search.trial, where(exhausted, 0.0, next_trial)),
        trials=trials,
        active=where(accepted | exhausted, False, True),
        trial_loss=where(possible, trial_loss, search.trial_loss),
        momentum=search.momentum,
    )
