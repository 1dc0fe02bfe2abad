r"""The modified Armijo line search, as a state that each trial loss advances once.

.. math:: t_k = \max\{\,t \in \{\tfrac{\mathrm{cap}_k}{\kappa}\,\omega^j,\ j = 0, 1, \dots\} :
          f(\theta_k - t g_k; x_k) \le f(\theta_k; x_k) - c\,t\,\|g_k\|^2\,\},
          \qquad \gamma_k / \eta_k = \kappa\,t_k

The trial moves along the gradient only, without momentum, and its step t is larger than the step
kappa * t that is then applied.

Reference: Zhang, Shi and Gu, eqs. (shb-ls) and (shb-ls-parameters); Section 4 with kappa = 1.
"""

from typing import Any

from heavystep.rules.backtracking import (
    DECREASE_FACTOR,
    KNOWN_BOUND,
    LOSS_EPS,
    MAX_TRIALS,
    READS,
    C,
    begin,
    judge,
    lowered,
    skip_below,
)
from heavystep.rules.contract import Rule, Search, Seen, constants
from heavystep.rules.scaling import SCALING, kappa_of
from heavystep.rules.smooth_reset import (
    GROWTH,
    LAST_STEP,
    MAX_STEP,
    STEPS_PER_EPOCH,
    growth_of,
    remember,
    step_cap,
)


def sufficient_loss(
    constants: Any, memory: Any, seen: Seen, trial: Any, momentum: Any = None
) -> Any:
    """The largest loss that makes a trial step acceptable."""
    return lowered(constants, seen, seen.loss, trial, seen.grad_sqnorm)


def start(constants: Any, memory: Any, seen: Seen) -> Search:
    """Begin at cap / kappa."""
    cap = step_cap(memory.last_step, constants.growth_factor, constants.max_step)
    return begin(constants, seen, cap / constants.kappa)


def advance(constants: Any, memory: Any, seen: Seen, search: Search, trial_loss: Any) -> Search:
    """Take in the loss at ``search.trial``, which is larger than the step that it stands for."""
    enough = sufficient_loss(constants, memory, seen, search.trial)
    step = constants.kappa * search.trial
    return judge(constants, search, trial_loss, enough, seen.lower_bound, step, search.capped)


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
    resolve=constants(
        "c", "max_step", "decrease_factor", "max_trials", kappa=kappa_of, growth_factor=growth_of
    ),
    memory={"last_step": LAST_STEP},
    start=start,
    skip=skip_below(sufficient_loss),
    advance=advance,
    remember=remember,
)  # fmt: skip
