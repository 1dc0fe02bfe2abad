r"""Armijo line searches along torch's momentum buffer: MSL, and one with conditions.

.. math:: t_k = \max\{\,t \in \{\mathrm{cap}_k\,\omega^j\} : f(\theta_k - t d_k; x_k) \le
          f(\theta_k; x_k) - c\,t\,\langle g_k, d_k\rangle\,\}, \qquad d_k = \beta_k d_{k-1} + g_k

with cap_k of :mod:`heavystep.rules.smooth_reset`. Where d_k is no direction of descent, a
correction halves beta_k until it is one, and a restart sets beta_k = 0 (MSL).

Lapucci and Pucci ask more of a direction: :math:`\langle g_k, d_k\rangle \ge c_1\|g_k\|^2` and
:math:`\|d_k\| \le c_2\|g_k\|`. Both bound the accepted step from below
(:func:`heavystep.theory.directional_step`); beta_k is halved until they hold, and beta_k = 0 meets
them always (``DirectionalSLS``).

Not verified: of both publications only the abstracts were at hand. Public code of a third party
has MSL with d_k = beta_k d_{k-1} + (1 - beta_k) g_k and the same halving.
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
from heavystep.rules.steering import descending, related, slope

FACTORS = {"correct": 0.5, "restart": 0.0}


def momentum(constants: Any, seen: Seen) -> Any:
    """beta_k."""
    return descending(seen, constants.momentum, constants.factor)


def related_momentum(constants: Any, seen: Seen) -> Any:
    """beta_k for a direction that meets both conditions."""
    return related(seen, constants.momentum, constants.least_slope, constants.most_length)


def sufficient_loss(constants: Any, memory: Any, seen: Seen, trial: Any, beta: Any) -> Any:
    """Armijo's, along d_k."""
    return lowered(constants, seen, seen.loss, trial, slope(seen, beta))


def start(constants: Any, memory: Any, seen: Seen) -> Search:
    """Begin at the cap."""
    cap = step_cap(memory.last_step, constants.growth_factor, constants.max_step)
    return begin(constants, seen, seen.lower_bound, cap, momentum(constants, seen))


def start_related(constants: Any, memory: Any, seen: Seen) -> Search:
    """Begin at the cap, along a direction that meets both conditions."""
    cap = step_cap(memory.last_step, constants.growth_factor, constants.max_step)
    return begin(constants, seen, seen.lower_bound, cap, related_momentum(constants, seen))


def advance(constants: Any, memory: Any, seen: Seen, search: Search, trial_loss: Any) -> Search:
    """Take in the loss at the trial."""
    enough = sufficient_loss(constants, memory, seen, search.trial, search.momentum)
    low, trial = seen.lower_bound, search.trial
    return judge(constants, search, trial_loss, enough, low, trial, search.capped)


C = Option("c", 0.1, validation.OPEN_UNIT, "sufficient decrease constant c, in (0, 1).")
RESET = (
    replace(STEPS_PER_EPOCH, default=500, text="n_b of the smooth reset, >= 1; None begins "
            "every search at ``max_step``."),
    replace(GROWTH, default=2.0),
)  # fmt: skip
TAKEN = ("c", "max_step", "momentum", "decrease_factor", "max_trials")
MSL = Rule(
    name="msl",
    formula=r"\gamma_k = \eta_k t_k, \qquad t_k \text{ the largest } t \in "
    r"\{\mathrm{cap}_k \omega^j\} \text{ with } f(\theta_k - t d_k; x_k) \le "
    r"f(\theta_k; x_k) - c\,t\,\langle g_k, d_k\rangle",
    reference="Fan, Vaswani, Thrampoulidis and Schmidt (2023)",
    options=(
        C,
        MAX_STEP,
        Option("uphill", "correct", tuple(FACTORS), "what is done with a momentum that leads "
               'uphill: "correct" halves it, "restart" drops it.'),
        *RESET,
        *OPTIONS,
    ),
    reads=READS | {"drift"},
    resolve=constants(*TAKEN, growth_factor=growth_of,
                      factor=lambda options: FACTORS[options["uphill"]]),
    memory={"last_step": LAST_STEP}, start=start, skip=skip_below(sufficient_loss),
    advance=advance, remember=remember, along=DIRECTION,
)  # fmt: skip
DIRECTIONAL = Rule(
    name="directional",
    formula=r"\gamma_k = \eta_k t_k, \quad f(\theta_k - t_k d_k; x_k) \le f(\theta_k; x_k) - "
    r"c\,t_k \langle g_k, d_k\rangle, \quad \langle g_k, d_k\rangle \ge c_1 \|g_k\|^2, \quad "
    r"\|d_k\| \le c_2 \|g_k\|",
    reference="Lapucci and Pucci (2025), arXiv 2408.03199",
    options=(
        C,
        MAX_STEP,
        Option("least_slope", 0.1, validation.OPEN_UNIT, "c_1, in (0, 1): the part of ||g||^2 that "
               "the loss must fall at along a direction.", symbol="c_1"),
        # Gradients that all agree make d_k as long as ||g_k|| / (1 - 0.9).
        Option("most_length", 10.0, validation.Interval(1.0), "c_2, > 1: how long a direction may "
               "be, in units of ||g||.", symbol="c_2"),
        *RESET,
        *OPTIONS,
    ),
    reads=READS | {"drift", "buffer_sqnorm"},
    resolve=constants(*TAKEN, "least_slope", "most_length", growth_factor=growth_of),
    memory={"last_step": LAST_STEP}, start=start_related, skip=skip_below(sufficient_loss),
    advance=advance, remember=remember, along=DIRECTION,
)  # fmt: skip
