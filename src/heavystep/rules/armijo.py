r"""The modified Armijo line search, as a state that each trial loss advances once.

.. math:: t_k = \max\{\,t \in \{\tfrac{\mathrm{cap}_k}{\kappa}\,\omega^j,\ j = 0, 1, \dots\} :
          f(\theta_k - t g_k; x_k) \le f(\theta_k; x_k) - c\,t\,\|g_k\|^2\,\},
          \qquad \gamma_k / \eta_k = \kappa\,t_k

The trial moves along the gradient only, and t is larger than the step kappa * t that is applied.
:func:`backtracking` makes this search and its relatives.

Reference: Zhang, Shi and Gu, eqs. (shb-ls) and (shb-ls-parameters); Section 4 with kappa = 1.
"""

from collections.abc import Callable
from typing import Any

from heavystep import validation
from heavystep.rules.contract import Option, Rule, Search, Seen, Whole, constants
from heavystep.rules.primitives import batch_is_finite, is_finite, some, where
from heavystep.rules.scaling import (
    GROWTH,
    LAST_STEP,
    MAX_STEP,
    SCALING,
    STEPS_PER_EPOCH,
    cap_of,
    growth_of,
    kappa_of,
    remember,
)

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
SEARCHED = ("c", "max_step", "decrease_factor", "max_trials")
"""Options, inputs and constants of every search that knows a lower bound."""
TOLERANCE_ULPS = 4.0


def armijo_bound(constants: Any, seen: Seen, level: Any, trial: Any, slope: Any) -> Any:
    """The largest loss that is a sufficient decrease from ``level``: Armijo's condition."""
    return level - constants.c * trial * slope + tolerance(seen)


def tolerance(seen: Seen) -> Any:
    """A few units in the last place of the loss, by which a trial may miss its threshold.

    Differs from the paper: near a minimiser the decrease asked for is smaller than the rounding of
    the loss, and without a tolerance a search fails there on rounding alone.
    """
    return TOLERANCE_ULPS * seen.loss_eps * abs(seen.loss)


def this_loss(constants: Any, memory: Any, seen: Seen) -> Any:
    """The usual level: f_k."""
    return seen.loss


def slope_along_gradient(seen: Seen, momentum: Any) -> Any:
    """||g_k||^2, where trials go along the gradient."""
    return seen.grad_sqnorm


def the_trial(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, Any]:
    """The trial step itself, which is capped if it is the first one and that was."""
    return search.trial, search.capped


def momentum_of_options(constants: Any, memory: Any, seen: Seen) -> None:
    """The momentum is that of the options."""


def backtracking(
    first: Callable[..., tuple[Any, Any]],
    *,
    step: Callable[..., tuple[Any, Any]] = the_trial,
    level: Callable[..., Any] = this_loss,
    momentum: Callable[..., Any] = momentum_of_options,
    slope: Callable[..., Any] = slope_along_gradient,
) -> dict[str, Any]:
    """``start``, ``skip`` and ``advance`` of a rule whose trials are t, t omega, t omega^2, ...

    A search that fails refuses the batch: nothing changes.

    Args:
        first: (constants, memory, seen) to the first trial, and whether it is the largest step that
            the rule's caps allow.
        step: (constants, memory, seen, search) to the step that an accepted trial stands for, and
            whether it is the largest.
        level: (constants, memory, seen) to the loss from which a trial must decrease.
        momentum: (constants, memory, seen) to the momentum of this step, for a rule that sets it.
        slope: (seen, momentum) to the slope of the loss along the trials.
    """

    def start(constants: Any, memory: Any, seen: Seen) -> Search:
        # Nothing to search, and step 0: a vanished gradient, or a loss at its lower bound.
        finite = batch_is_finite(seen.loss, seen.grad_sqnorm)
        active = finite & (constants.c * seen.grad_sqnorm > 0.0) & (seen.loss > seen.lower_bound)
        trial, capped = first(constants, memory, seen)
        beta = momentum(constants, memory, seen)
        return Search(
            0.0, finite, active & capped, where(active, trial, 0.0), 0, active, momentum=beta
        )

    def enough(constants: Any, memory: Any, seen: Seen, search: Search, trial: Any) -> Any:
        from_loss, steepness = level(constants, memory, seen), slope(seen, search.momentum)
        return armijo_bound(constants, seen, from_loss, trial, steepness)

    def skip(constants: Any, memory: Any, seen: Seen, search: Search) -> Search:
        """Pass over the trials that ask for a loss below the lower bound, which cannot be had.

        By Lemma 1 an accepted t satisfies c t ||g||^2 <= f_k - l_k. Thresholds only rise as trials
        shrink, so that after the first trial that may succeed none needs to be skipped.
        """
        trial, low = search.trial, seen.lower_bound
        first_fails = search.active & (enough(constants, memory, seen, search, trial) < low)
        hopeless, kept = first_fails, trial
        # Of several searches at once, each keeps what it had when it was over. Trials shrink for
        # all of them, so that none waits for the comparison.
        while some(hopeless):
            smaller = trial * constants.decrease_factor
            # The smallest positive number times omega may round to itself, and 0 always does.
            possible = smaller < trial
            kept = where(hopeless, where(possible, smaller, 0.0), kept)
            below = enough(constants, memory, seen, search, smaller) < low
            hopeless, trial = hopeless & possible & below, smaller
        # Not by comparing trials: one that begins at 0 ends there without being found.
        found = where(first_fails, kept != 0.0, search.active)
        return Search(
            step=search.step,
            accepted=where(search.active, search.accepted & found, search.accepted),
            capped=where(first_fails, False, search.capped),
            trial=kept,
            trials=search.trials,
            active=search.active & found,
            momentum=search.momentum,
        )

    def advance(constants: Any, memory: Any, seen: Seen, search: Search, trial_loss: Any) -> Search:
        most = enough(constants, memory, seen, search, search.trial)
        taken, capped = step(constants, memory, seen, search)
        return judge(constants, search, trial_loss, most, seen.lower_bound, taken, capped)

    start.__doc__, start.__module__ = first.__doc__, first.__module__
    return {"start": start, "skip": skip, "advance": advance}


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


def first_at_cap(constants: Any, memory: Any, seen: Seen) -> tuple[Any, Any]:
    """Begin at cap_k / kappa."""
    return cap_of(constants, memory) / constants.kappa, True


def scaled(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, Any]:
    """The trial is larger than the step that it stands for."""
    return constants.kappa * search.trial, search.capped


ARMIJO = Rule(
    name="armijo",
    formula=r"\gamma_k = \eta_k \kappa t_k, \qquad t_k \text{ the largest } t \in "
    r"\{\mathrm{cap}_k \omega^j / \kappa\} \text{ with } "
    r"f(\theta_k - t g_k; x_k) \le f(\theta_k; x_k) - c\,t\,\|g_k\|^2",
    reference="Zhang, Shi and Gu, eqs. (shb-ls) and (shb-ls-parameters); Section 4 with kappa = 1",
    options=(
        C, MAX_STEP, DECREASE_FACTOR, KNOWN_BOUND, SCALING, STEPS_PER_EPOCH, GROWTH, MAX_TRIALS,
        LOSS_EPS,
    ),
    reads=READS,
    resolve=constants(*SEARCHED, kappa=kappa_of, growth_factor=growth_of),
    memory={"last_step": LAST_STEP},
    remember=remember,
    **backtracking(first_at_cap, step=scaled),
)  # fmt: skip
