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
from heavystep.rules import scaling
from heavystep.rules.contract import Integers, Option, Rule, Search, Seen, constants
from heavystep.rules.primitives import batch_is_finite, is_finite

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
    "max_trials", 100, Integers(1), "trial losses after which a search gives up, >= 1."
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
TOLERANCE_ULPS = 4.0  # two losses are compared, and the mean of each is rounded once or twice


def tolerance(seen: Seen) -> Any:
    """A few units in the last place of the loss, by which a trial may miss its threshold.

    Differs from the paper: near a minimiser the decrease asked for is smaller than the rounding of
    the loss, and without a tolerance a search fails there on rounding alone.
    """
    return TOLERANCE_ULPS * seen.loss_eps * abs(seen.loss)


def backtracking(
    first: Callable[..., tuple[Any, Any]],
    *,
    step: Callable[..., tuple[Any, Any]] = lambda constants, memory, seen, search: (
        search.trial,
        search.capped,
    ),
    level: Callable[..., Any] = lambda constants, memory, seen: seen.loss,
    momentum: Callable[..., Any] = lambda constants, memory, seen: None,
    slope: Callable[..., Any] = lambda seen, momentum: seen.grad_sqnorm,
) -> dict[str, Any]:
    """``start`` and ``advance`` of a rule whose trials are t, t omega, t omega^2, ...

    Trials that ask for a loss below the lower bound are passed over: it cannot be had. (By Lemma 1
    an accepted t satisfies c t ||g||^2 <= f_k - l_k.) Thresholds only rise as trials shrink, so
    later trials need no check.

    Args:
        first: (constants, memory, seen) to the first trial, and whether it is the largest step that
            the rule's caps allow.
        step: (constants, memory, seen, search) to the step that an accepted trial stands for, and
            whether it is the largest; by default it is the trial itself.
        level: (constants, memory, seen) to the loss from which a trial must decrease: f_k.
        momentum: (constants, memory, seen) to the momentum of this step, for a rule that sets it.
        slope: (seen, momentum) to the slope of the loss along the trials: ||g_k||^2.
    """

    def enough(constants: Any, memory: Any, seen: Seen, trial: Any, momentum: Any) -> Any:
        """The largest loss that is a sufficient decrease: Armijo's condition."""
        fall = constants.c * trial * slope(seen, momentum)
        return level(constants, memory, seen) - fall + tolerance(seen)

    def start(constants: Any, memory: Any, seen: Seen) -> Search:
        # Nothing to search, and step 0: a vanished gradient, or a loss at its lower bound.
        accepted = batch_is_finite(seen.loss, seen.grad_sqnorm)
        active = accepted & (constants.c * seen.grad_sqnorm > 0.0) & (seen.loss > seen.lower_bound)
        trial, capped = first(constants, memory, seen)
        trial, capped = (trial if active else 0.0), active & capped
        beta = momentum(constants, memory, seen)
        while active and enough(constants, memory, seen, trial, beta) < seen.lower_bound:
            smaller, capped = trial * constants.decrease_factor, False
            # The smallest positive number times omega may round to itself.
            trial = smaller if smaller < trial else 0.0
            accepted = active = trial > 0.0
        return Search(0.0, accepted, capped, trial, 0, active, momentum=beta)

    def advance(constants: Any, memory: Any, seen: Seen, search: Search, trial_loss: Any) -> Search:
        most = enough(constants, memory, seen, search.trial, search.momentum)
        taken, capped = step(constants, memory, seen, search)
        return judge(constants, search, trial_loss, most, taken, capped)

    start.__doc__, start.__module__ = first.__doc__, first.__module__
    return {"start": start, "advance": advance}


def judge(
    constants: Any, search: Search, trial_loss: Any, enough: Any, step: Any, capped: Any
) -> Search:
    """Accept ``step`` if the trial loss is at most ``enough``, or go on to a smaller trial.

    A trial loss that is not finite fails. A search that fails refuses the batch: nothing changes.
    """
    momentum, trials = search.momentum, search.trials + 1
    if is_finite(trial_loss) and trial_loss <= enough:
        return Search(step, True, capped, search.trial, trials, False, trial_loss, momentum)
    smaller = search.trial * constants.decrease_factor
    # The smallest positive number times omega may round to itself.
    over = (trials >= constants.max_trials) | (smaller == 0.0) | (smaller == search.trial)
    trial = 0.0 if over else smaller
    return Search(0.0, False, False, trial, trials, not over, trial_loss, momentum)


def first_at_cap(constants: Any, memory: Any, seen: Seen) -> tuple[Any, Any]:
    """Begin at cap_k / kappa."""
    return scaling.cap_of(constants, memory) / constants.kappa, True


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
        C, scaling.MAX_STEP, DECREASE_FACTOR, KNOWN_BOUND, *scaling.OPTIONS, MAX_TRIALS, LOSS_EPS,
    ),
    reads=READS,
    resolve=constants(*SEARCHED, kappa=scaling.kappa_of, growth_factor=scaling.growth_of),
    memory={"last_step": scaling.LAST_STEP},
    remember=scaling.remember,
    **backtracking(first_at_cap, step=scaled),
)  # fmt: skip
