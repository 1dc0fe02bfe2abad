r"""The modified Armijo line search, as a state that each trial loss advances once.

.. math:: t_k = \max\{\,t \in \{\tfrac{\mathrm{cap}_k}{\kappa}\,\omega^j,\ j = 0, 1, \dots\} :
          f(\theta_k - t g_k; x_k) \le f(\theta_k; x_k) - c\,t\,\|g_k\|^2\,\},
          \qquad \gamma_k / \eta_k = \kappa\,t_k

The trial moves along the gradient only, without momentum, and its step t is larger than
the step kappa * t that is then applied.

Reference: Zhang, Shi and Gu, eqs. (shb-ls) and (shb-ls-parameters); Section 4 with kappa = 1.
"""

from typing import Any

from heavystep import validation
from heavystep.rules.contract import Option, Rule, Search, Seen, Whole
from heavystep.rules.primitives import batch_is_finite, is_finite, where
from heavystep.rules.scaling import SCALING
from heavystep.rules.smooth_reset import (
    FIRST_STEP,
    GROWTH,
    MAX_STEP,
    STEPS_PER_EPOCH,
    remember_step,
    resolve_cap,
    settle_steps_per_epoch,
    step_cap,
)

TOLERANCE_ULPS = 4.0


def sufficient_loss(constants: Any, seen: Seen, trial: Any) -> Any:
    """The largest loss that makes a trial step acceptable.

    Differs from the paper: losses are compared with a tolerance of a few units in the
    last place of the loss. Near a minimiser the decrease asked for is smaller than the
    rounding of the loss, and without it a search fails there on rounding alone.
    """
    tolerance = TOLERANCE_ULPS * seen.loss_eps * abs(seen.loss)
    return seen.loss - constants.c * trial * seen.grad_sqnorm + tolerance


def start(constants: Any, memory: Any, seen: Seen) -> Search:
    """Begin at cap / kappa.

    There is nothing to search, and the step is 0, if the gradient vanished or the loss
    lies at or below its lower bound. A non-finite loss or gradient is refused at once.
    """
    cap = step_cap(memory.last_step, constants.growth_factor, constants.max_step)
    finite = batch_is_finite(seen.loss, seen.grad_sqnorm)
    active = finite & (constants.c * seen.grad_sqnorm > 0.0) & (seen.loss > seen.lower_bound)
    return Search(
        step=0.0,
        accepted=finite,
        capped=active,
        trial=where(active, cap / constants.kappa, 0.0),
        trials=0,
        active=active,
    )


def skip(constants: Any, memory: Any, seen: Seen, search: Search) -> Search:
    """Pass over the trials that ask for a loss below the lower bound, which cannot be had.

    By Lemma 1 an accepted t satisfies c t ||g||^2 <= f_k - l_k. What :func:`advance` makes of these
    trials one by one, without evaluating their losses: thresholds only rise as trials shrink, so
    that after the first trial that may succeed none needs to be skipped.
    """
    trial, possible = search.trial, True
    while search.active and possible and sufficient_loss(constants, seen, trial) < seen.lower_bound:
        smaller = trial * constants.decrease_factor
        # The smallest positive number times omega may round to itself.
        possible = (smaller > 0.0) & (smaller < trial)
        trial = smaller if possible else 0.0
    return Search(
        step=search.step,
        accepted=search.accepted & possible,
        capped=search.capped & (trial == search.trial),
        trial=trial,
        trials=search.trials,
        active=search.active & possible,
    )


def advance(constants: Any, memory: Any, seen: Seen, search: Search, trial_loss: Any) -> Search:
    """Take in the loss at ``search.trial``.

    A trial loss that is not finite fails, and the search goes on to smaller steps. So does one that
    the lower bound rules out, which does not count as a trial: :func:`skip` saves evaluating it.
    """
    enough = sufficient_loss(constants, seen, search.trial)
    possible = enough >= seen.lower_bound
    accepted = is_finite(trial_loss) & (trial_loss <= enough) & possible
    trials = search.trials + where(possible, 1, 0)
    next_trial = search.trial * constants.decrease_factor
    # The smallest positive number times omega may round to itself.
    underflow = (next_trial == 0.0) | (next_trial == search.trial)
    exhausted = (trials >= constants.max_trials) | underflow
    return Search(
        step=where(accepted, constants.kappa * search.trial, 0.0),
        accepted=accepted,
        capped=search.capped & accepted,
        trial=where(accepted, search.trial, where(exhausted, 0.0, next_trial)),
        trials=trials,
        active=where(accepted | exhausted, False, True),
    )


def remember(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, ...]:
    """The smooth reset remembers the step."""
    return (remember_step(memory.last_step, search.step),)


ARMIJO = Rule(
    name="armijo",
    formula=r"\gamma_k = \eta_k \kappa t_k, \qquad t_k \text{ the largest } t \in "
    r"\{\mathrm{cap}_k \omega^j / \kappa\} \text{ with } "
    r"f(\theta_k - t g_k; x_k) \le f(\theta_k; x_k) - c\,t\,\|g_k\|^2",
    reference="Zhang, Shi and Gu, eqs. (shb-ls) and (shb-ls-parameters); Section 4 with kappa = 1",
    options=(
        Option("c", 0.1, validation.OPEN_UNIT, "sufficient decrease constant c, in (0, 1)."),
        MAX_STEP,
        Option(
            "decrease_factor",
            0.9,
            validation.OPEN_UNIT,
            "factor omega between trial steps, in (0, 1).",
        ),
        Option(
            "lower_bound",
            None,
            validation.FINITE,
            "a lower bound l of the sampled loss, or None. With one (0 for cross-entropy), trials "
            "that cannot succeed are not evaluated; the accepted step is the same to the bit. "
            "``step(..., lower_bound=)`` overrides it for one batch.",
            optional=True,
        ),
        SCALING,
        STEPS_PER_EPOCH,
        GROWTH,
        Option("max_trials", 100, Whole(1), "trial losses after which a search gives up, >= 1."),
        Option(
            "loss_eps",
            None,
            validation.UNIT,
            "relative rounding error of the loss, in [0, 1); trial losses are compared with a "
            "tolerance of four times that. None takes the coarsest format in sight: parameters, "
            "loss and an autocast around ``step``. An autocast inside the closure cannot be seen: "
            "give 2**-7 for bfloat16.",
            optional=True,
        ),
    ),
    reads=frozenset({"loss", "lower_bound", "grad_sqnorm", "loss_eps"}),
    constants=("c", "kappa", "growth_factor", "max_step", "decrease_factor", "max_trials"),
    settle=settle_steps_per_epoch,
    resolve=resolve_cap,
    memory={"last_step": FIRST_STEP},
    start=start,
    skip=skip,
    advance=advance,
    remember=remember,
    searches=True,
    foresees=True,
    theory="armijo",
)
