r"""MSL: an Armijo line search along the direction of torch's momentum buffer.

.. math:: t_k = \max\{\,t \in \{\mathrm{cap}_k\,\omega^j\} : f(\theta_k - t d_k; x_k) \le
          f(\theta_k; x_k) - c\,t\,\langle g_k, d_k\rangle\,\}, \qquad d_k = \beta_k d_{k-1} + g_k

with cap_k of :mod:`heavystep.rules.smooth_reset`. Where d_k is no direction of descent, a
correction halves beta_k until it is one, and a restart sets beta_k = 0.

Not verified: written from memory of the publication, whose constants may differ.
"""

from dataclasses import replace
from typing import Any

from heavystep import validation
from heavystep.rules.armijo import remember
from heavystep.rules.backtracking import OPTIONS, READS, begin, judge, lowered, skip_below
from heavystep.rules.contract import DIRECTION, Option, Rule, Search, Seen, constants
from heavystep.rules.smooth_reset import (
    GROWTH,
    LAST_STEP,
    MAX_STEP,
    STEPS_PER_EPOCH,
    growth_of,
    step_cap,
)
from heavystep.rules.steering import descending, slope

FACTORS = {"correct": 0.5, "restart": 0.0}


def momentum(constants: Any, seen: Seen) -> Any:
    """beta_k."""
    return descending(seen, constants.momentum, constants.factor)


def sufficient_loss(constants: Any, memory: Any, seen: Seen, trial: Any, beta: Any) -> Any:
    """Armijo's, along d_k."""
    return lowered(constants, seen, seen.loss, trial, slope(seen, beta))


def start(constants: Any, memory: Any, seen: Seen) -> Search:
    """Begin at the cap."""
    cap = step_cap(memory.last_step, constants.growth_factor, constants.max_step)
    return begin(constants, seen, seen.lower_bound, cap, momentum(constants, seen))


def advance(constants: Any, memory: Any, seen: Seen, search: Search, trial_loss: Any) -> Search:
    """Take in the loss at the trial."""
    enough = sufficient_loss(constants, memory, seen, search.trial, search.momentum)
    low, trial = seen.lower_bound, search.trial
    return judge(constants, search, trial_loss, enough, low, trial, search.capped)


MSL = Rule(
    name="msl",
    formula=r"\gamma_k = \eta_k t_k, \qquad t_k \text{ the largest } t \in "
    r"\{\mathrm{cap}_k \omega^j\} \text{ with } f(\theta_k - t d_k; x_k) \le "
    r"f(\theta_k; x_k) - c\,t\,\langle g_k, d_k\rangle",
    reference="Fan, Vaswani, Thrampoulidis and Schmidt (2023)",
    options=(
        Option("c", 0.1, validation.OPEN_UNIT, "sufficient decrease constant c, in (0, 1)."),
        MAX_STEP,
        Option("uphill", "correct", tuple(FACTORS), "what is done with a momentum that leads "
               'uphill: "correct" halves it, "restart" drops it.'),
        replace(STEPS_PER_EPOCH, default=500, text="n_b of the smooth reset, >= 1; None begins "
                "every search at ``max_step``."),
        replace(GROWTH, default=2.0),
        *OPTIONS,
    ),
    reads=READS | {"drift"},
    resolve=constants("c", "max_step", "momentum", "decrease_factor", "max_trials",
                      growth_factor=growth_of, factor=lambda options: FACTORS[options["uphill"]]),
    memory={"last_step": LAST_STEP}, start=start, skip=skip_below(sufficient_loss),
    advance=advance, remember=remember, along=DIRECTION,
)  # fmt: skip
