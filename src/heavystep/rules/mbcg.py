r"""MBCG-DP: conjugate gradients on batches that overlap, with PoNoS's search along them.

.. math:: d_k = g_k + \beta_k d_{k-1}, \qquad
          \beta_k = \min\Big\{\frac{\|g_k\|^2}{\|g_{k-1}\|^2},\ 1.5\Big\}

where beta_k (Fletcher and Reeves) is halved until d_k is a direction of descent. The search is that
of :mod:`heavystep.rules.ponos` with <g_k, d_k> for the slope and ||d_k||^2 in the first trial.

Differs from the authors' code: there both norms in beta_k are those of the half of the batch that
two steps share, which takes two backward passes; here they are those of whole batches, which must
overlap all the same (:class:`heavystep.batches.PersistentBatches`, in which the first batch of an
epoch shares nothing with the last one). The shrinking of first trials is an option there, and is
always on here, with l_k at most 5 as there. A search that fails refuses the batch.
"""

from dataclasses import replace
from typing import Any

from heavystep import validation
from heavystep.rules.backtracking import READS, advance_below, begin, skip_below
from heavystep.rules.contract import DIRECTION, Option, Rule, Search, Seen, Slot, constants
from heavystep.rules.ponos import (
    CONSTANTS,
    MEMORY,
    PONOS,
    average,
    clipped_polyak,
    largest_loss,
    min_step,
    next_shrink,
)
from heavystep.rules.primitives import maximum, minimum, where
from heavystep.rules.steering import descending, slope


def momentum(constants: Any, memory: Any, seen: Seen) -> Any:
    """beta_k; 0 at the first step."""
    known = memory.last_sqnorm > 0.0
    ratio = seen.grad_sqnorm / where(known, memory.last_sqnorm, 1.0)
    wanted = where(known, minimum(ratio, constants.most_momentum), 0.0)
    return descending(seen, wanted, 0.5)


def sufficient_loss(constants: Any, memory: Any, seen: Seen, trial: Any, beta: Any) -> Any:
    """Armijo's along d_k, from the average of losses if that is larger."""
    return largest_loss(constants, memory, seen, trial, slope(seen, beta))


def first_trial(constants: Any, memory: Any, seen: Seen, beta: Any) -> Any:
    """The Polyak step of d_k, between bounds."""
    square = seen.grad_sqnorm + beta * (2.0 * seen.drift + beta * seen.buffer_sqnorm)
    return clipped_polyak(constants, memory, seen, square)


def start(constants: Any, memory: Any, seen: Seen) -> Search:
    """Begin at the first trial."""
    beta = momentum(constants, memory, seen)
    trial = first_trial(constants, memory, seen, beta)
    return begin(constants, seen, seen.lower_bound, trial, beta)


def remember(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, ...]:
    """What PoNoS does, and ||g_k||^2 unless it vanished."""
    first = first_trial(constants, memory, seen, search.momentum)
    shrink = next_shrink(constants, memory, search, first)
    shrink = maximum(shrink, constants.decrease_factor**MOST_SHRINKING)
    vanished = seen.grad_sqnorm == 0.0
    sqnorm = where(vanished, memory.last_sqnorm, seen.grad_sqnorm)
    return *average(constants, memory, seen), shrink, sqnorm


MOST_SHRINKING = 5
DEFAULTS = {"c": 0.5, "polyak_c": 1.0, "max_step": 1e6}

MBCG = Rule(
    name="mbcg",
    formula=r"d_k = g_k + \beta_k d_{k-1}, \ \beta_k = \min\{\|g_k\|^2 / \|g_{k-1}\|^2,\ 1.5\}, "
    r"\quad f(\theta_k - t_k d_k; x_k) \le \max\{C_k, f_k\} - c\,t_k \langle g_k, d_k\rangle",
    reference="Lapucci and Pucci (2024), arXiv 2411.07102",
    options=(
        *(replace(o, default=DEFAULTS.get(o.name, o.default)) for o in PONOS.options),
        Option("most_momentum", 1.5, validation.POSITIVE, "largest beta_k, > 0."),
    ),
    reads=READS | {"drift", "buffer_sqnorm"},
    resolve=constants(*CONSTANTS, "most_momentum", min_step=min_step),
    memory={**MEMORY, "last_sqnorm": Slot(0.0, validation.NON_NEGATIVE)},
    start=start, skip=skip_below(sufficient_loss),
    advance=advance_below(sufficient_loss),
    remember=remember, along=DIRECTION,
)  # fmt: skip
