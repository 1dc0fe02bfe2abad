r"""The Armijo line search that needs no first trial: small at first, free to grow.

.. math:: \gamma_k = \eta_k \varphi_k \kappa t_k, \qquad
          t_k = \max\{\,t \in \{\tfrac{\mathrm{cap}_k}{\kappa}\,\omega^j\} :
          f(\theta_k - t g_k; x_k) \le f_k - c\,t\,\|g_k\|^2\,\}, \qquad
          \mathrm{cap}_{k+1} = \max\{2^{1/10} \kappa t_k,\ m_k\}

with level and share of :mod:`heavystep.rules.steady`, cap_0 a thousandth of the Polyak step
kappa (f_0 - l_0) / ||g_0||^2, and m_k the geometric mean of about the last ten kappa t: one batch
that allows a tiny step only costs one. The search is that of :mod:`heavystep.rules.armijo`.
"""

from math import inf
from typing import Any

from heavystep import validation
from heavystep.rules.armijo import ARMIJO, sufficient_loss
from heavystep.rules.backtracking import READS, begin, judge, skip_below
from heavystep.rules.contract import Option, Rule, Search, Seen
from heavystep.rules.primitives import maximum, minimum, where
from heavystep.rules.steady import (
    BEGIN,
    DOUBLING,
    LARGEST_STEP,
    LETTERS,
    MEMORY,
    OUTLOOK,
    SCALING,
    STEADY,
    TOTAL_STEPS,
    follow,
    level_of,
    resolve,
    settle,
    share_of,
)

WEIGHT = 0.1
"""Of the last step in the mean m_k."""
C = Option(
    "c",
    "auto",
    validation.OPEN_UNIT,
    "sufficient decrease constant c, in (0, 1). Default: 0.3 if steady, 0.1 otherwise.",
)
OWN = {option.name: option for option in (C, LARGEST_STEP, SCALING)}


def settle_c(options: Any) -> Any:
    """Defaults that depend on the scaling."""
    options = settle(options)
    if options["c"] != "auto":
        return options
    return {**options, "c": 0.3 if options["scaling"] == STEADY else 0.1}


def trusted_bound(memory: Any, seen: Seen) -> Any:
    """The lower bound, unless a loss below it has proved it wrong."""
    wrong = level_of(memory, seen) < seen.lower_bound
    return where(wrong, -inf, seen.lower_bound)


def start(constants: Any, memory: Any, seen: Seen) -> Search:
    """Begin at cap / kappa."""
    gap = seen.loss - level_of(memory, seen)
    polyak = constants.kappa * where(gap > 0.0, gap, 1.0)
    first = BEGIN * polyak / where(seen.grad_sqnorm > 0.0, seen.grad_sqnorm, 1.0)
    cap = minimum(where(memory.cap > 0.0, memory.cap, first), constants.max_step)
    return begin(constants, seen, trusted_bound(memory, seen), cap / constants.kappa)


def advance(constants: Any, memory: Any, seen: Seen, search: Search, trial_loss: Any) -> Search:
    """Take in the loss at ``search.trial``; a share of the step that it stands for is taken."""
    enough = sufficient_loss(constants, memory, seen, search.trial, search.momentum)
    share = share_of(constants, memory, level_of(memory, seen))
    step, bound = share * constants.kappa * search.trial, trusted_bound(memory, seen)
    return judge(constants, search, trial_loss, enough, bound, step, search.capped)


def remember(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, ...]:
    """The losses, where the next search begins, and the typical step m_k."""
    found, counts = constants.kappa * search.trial, search.trial > 0.0
    last = where(counts, found, 1.0)
    before = where(memory.typical > 0.0, memory.typical, last)
    typical = before * (last / before) ** WEIGHT
    cap = maximum(DOUBLING * found, typical)
    known = where(counts, cap, memory.cap), where(counts, typical, memory.typical)
    return *follow(memory, seen), *known


STEADY_ARMIJO = Rule(
    name="steady armijo",
    formula=r"\gamma_k = \eta_k \varphi_k \kappa t_k, \qquad t_k \text{ the largest } t \in "
    r"\{\mathrm{cap}_k \omega^j / \kappa\} \text{ with } "
    r"f(\theta_k - t g_k; x_k) \le f(\theta_k; x_k) - c\,t\,\|g_k\|^2",
    reference="of this package; the search of Zhang, Shi and Gu, the decrease of AdaSPS (Jiang "
    "and Stich, 2023)",
    options=(*(OWN.get(o.name, o) for o in ARMIJO.options), OUTLOOK, TOTAL_STEPS),
    reads=READS,
    constants=(
        "c", "kappa", "max_step", "decrease_factor", "max_trials", "outlook", "total_steps",
    ),
    settle=settle_c,
    resolve=resolve,
    memory={**MEMORY, "cap": 0.0, "typical": 0.0},
    start=start,
    skip=skip_below(sufficient_loss, trusted_bound),
    advance=advance,
    remember=remember,
    searches=True,
    letters=f"{LETTERS}; the next cap is the larger of 2^(1/10) kappa t and the geometric mean of "
    "the last kappa t (heavystep.rules.steady, docs/notation.md).",
    version=2,
)  # fmt: skip
