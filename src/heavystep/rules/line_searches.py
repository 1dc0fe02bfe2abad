"""Line searches along the gradient with a first trial or a condition of their own.

A search that fails refuses the batch, also where the authors' code takes a small step.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import Any

from heavystep import validation
from heavystep.momentum import exponential
from heavystep.rules.armijo import (
    DECREASE_FACTOR,
    LOSS_EPS,
    MAX_TRIALS,
    OPTIONS,
    READS,
    SEARCHED,
    C,
    armijo_bound,
    backtracking,
    judge,
    tolerance,
)
from heavystep.rules.contract import Option, Rule, Search, Seen, Slot, Whole, constants
from heavystep.rules.polyak import LOWER_BOUND, polyak_step
from heavystep.rules.primitives import batch_is_finite, maximum, minimum, where
from heavystep.rules.scaling import AMOUNT, LAST_STEP, MAX_STEP

MIN_STEP = Option(
    "min_step", 1e-6, validation.POSITIVE, "smallest first trial, > 0.", symbol="gamma_min"
)
LEAST_SHRINK = 1e-300
"""Further down, delta^(l_k) could not grow again."""


def min_step(options: Mapping[str, Any]) -> Any:
    """The least first trial, if it is not above the largest step."""
    least, most = options["min_step"], options["max_step"]
    if most < least:
        raise ValueError(f"min_step must be at most max_step = {most!r}, got {least!r}")
    return least


def average(constants: Any, memory: Any, seen: Seen) -> tuple[Any, Any]:
    """Q_k = xi Q_{k-1} + 1 from Q_{-1} = 0 on, and C_k = (xi Q_{k-1} C_{k-1} + f_k) / Q_k."""
    old = constants.keeping * memory.weight
    return old + 1.0, (old * memory.average + seen.loss) / (old + 1.0)


def nonmonotone(constants: Any, memory: Any, seen: Seen, trial: Any, slope: Any) -> Any:
    """Armijo's largest loss, from the average of losses if that is larger."""
    level = maximum(average(constants, memory, seen)[1], seen.loss)
    return armijo_bound(constants, seen, level, trial, slope)


def nonmonotone_along_gradient(
    constants: Any, memory: Any, seen: Seen, trial: Any, momentum: Any
) -> Any:
    """The same along the gradient."""
    return nonmonotone(constants, memory, seen, trial, seen.grad_sqnorm)


def clipped_polyak(constants: Any, memory: Any, seen: Seen, square: Any) -> Any:
    """The first trial t_0 along a direction with this squared norm."""
    low, c, cap = seen.lower_bound, constants.polyak_c, constants.max_step
    return maximum(polyak_step(seen.loss, square, low, c, memory.shrink, cap), constants.min_step)


def next_shrink(constants: Any, memory: Any, search: Search, first: Any) -> Any:
    """delta^(l_{k+1}), which stays if nothing was searched.

    l_{k+1} = max(l_k + e_k - 1, 0), where e_k counts the trials that failed: delta^(e_k) is the
    accepted trial divided by the first one.
    """
    shrink = minimum(memory.shrink * search.trial / first / constants.decrease_factor, 1.0)
    return where(search.trial > 0.0, maximum(shrink, LEAST_SHRINK), memory.shrink)


def first_ponos(constants: Any, memory: Any, seen: Seen, momentum: Any) -> tuple[Any, Any]:
    """Begin at a Polyak step. Differs from the code: it uses the bound, and adds no 1e-8."""
    first = clipped_polyak(constants, memory, seen, seen.grad_sqnorm)
    return first, first >= constants.max_step


def remember_ponos(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, ...]:
    """Q_k, C_k and delta^(l_{k+1})."""
    first = clipped_polyak(constants, memory, seen, seen.grad_sqnorm)
    return *average(constants, memory, seen), next_shrink(constants, memory, search, first)


PONOS_CONSTANTS = (*SEARCHED, "polyak_c", "keeping")
PONOS = Rule(
    name="ponos",
    formula=r"\gamma_k = \eta_k t_k, \qquad f(\theta_k - t_k g_k; x_k) \le "
    r"\max\{C_k, f_k\} - c\,t_k\,\|g_k\|^2, \quad "
    r"t_k = \delta^j\,\mathrm{clip}(\delta^{l_k} (f_k - \ell_k) / (c_p \|g_k\|^2))",
    reference="Galli, Rauhut and Schmidt (2023)",
    options=(
        replace(C, default=0.5),
        Option("polyak_c", 0.1, validation.POSITIVE, "divisor of the first trial, > 0.",
               symbol="c_p"),
        replace(MAX_STEP, default=10.0),
        MIN_STEP,
        replace(DECREASE_FACTOR, default=0.5, symbol="delta",
                text="factor delta between trial steps, in (0, 1)."),
        Option("keeping", 1.0, validation.CLOSED_UNIT, "weight of past losses in C_k, in [0, 1].",
               symbol="xi"),
        LOWER_BOUND, MAX_TRIALS, LOSS_EPS,
    ),
    reads=READS,
    resolve=constants(*PONOS_CONSTANTS, min_step=min_step),
    memory={"weight": AMOUNT, "average": 0.0,
            "shrink": Slot(1.0, validation.Interval(0.0, 1.0, closed_high=True))},
    remember=remember_ponos,
    **backtracking(first_ponos, nonmonotone_along_gradient),
)  # fmt: skip


def spectral(constants: Any, memory: Any, seen: Seen) -> Any:
    """The first trial t_0; the last one at a new batch, and where <s_k, y_k> <= 0."""
    curvature = seen.drift + (seen.buffer_sqnorm * memory.last_sqnorm) ** 0.5
    known = (memory.count > 0.0) & (curvature > 0.0)
    found = where(known, seen.buffer_sqnorm / where(known, curvature, 1.0), memory.coefficient)
    return maximum(minimum(found, constants.max_step), constants.min_step)


def first_slises(constants: Any, memory: Any, seen: Seen, momentum: Any) -> tuple[Any, Any]:
    """Begin at Barzilai and Borwein's step, whose two gradients are of the same batch.

    Without momentum s_k = theta_k - theta_{k-1} points against g_{k-1}, so that <s_k, g_{k-1}> =
    -||s_k|| ||g_{k-1}|| and no gradient need be kept. With another ``lr`` in each group, or weight
    decay beside the step, this is only a bound, and t_0 comes out smaller: a first trial, which the
    search judges all the same. A batch that is refused is refused each time that it is kept, so
    that the count of its steps stays right. A run that goes on from a checkpoint has to go on with
    that batch too (:meth:`heavystep.batches.PersistentBatches.set_epoch`).

    Not verified: only the abstract (arXiv 2306.07379v3) was at hand; its own safeguards of the
    search are not here.
    """
    first = spectral(constants, memory, seen)
    return first, first >= constants.max_step


def remember_slises(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, ...]:
    """t_0, ||g_k||^2, and how often the batch was used."""
    count = where(memory.count + 1.0 >= constants.kept, 0.0, memory.count + 1.0)
    return spectral(constants, memory, seen), seen.grad_sqnorm, count


SLISES = Rule(
    name="slises",
    formula=r"\gamma_k = \eta_k t_k, \qquad t_k \text{ the largest } t \in \{t_0 \omega^j\} "
    r"\text{ with } f(\theta_k - t g_k; x_k) \le f(\theta_k; x_k) - c\,t\,\|g_k\|^2, \quad "
    r"t_0 = \mathrm{clip}(\|s_k\|^2 / \langle s_k, y_k\rangle)",
    reference="Bellavia, Krejic, Krklec Jerinkic and Raydan (2024)",
    options=(
        C,
        replace(MAX_STEP, default=100.0),
        MIN_STEP,
        Option("kept", 5, Whole(1), "for how many steps a batch is kept, >= 1.", symbol="m"),
        *OPTIONS,
    ),
    reads=READS | {"drift", "buffer_sqnorm"},
    resolve=constants(*SEARCHED, "kept", min_step=min_step),
    memory={"coefficient": Slot(1.0, validation.POSITIVE), "last_sqnorm": AMOUNT, "count": AMOUNT},
    remember=remember_slises,
    **backtracking(first_slises),
)  # fmt: skip

FAST, SLOW = 0.9, 0.99
"""Weights of the past in two averages of the accepted steps, F_k and S_k."""


def start_salsa(constants: Any, memory: Any, seen: Seen) -> Search:
    """Search from 1.1 times the last step on, or repeat the last step while it hardly changes.

    With R_k >= 1 the ratio of the larger of F_k and S_k to the smaller, the next search comes after
    1 / (R_k - 1) steps, and after ``longest_pause`` at the latest. Averages stay as they are in
    between, and are 0 before the first search.

    From the code, for its option of steps along the gradient. Differs from the code: Adam's
    direction, its default, is left out; steps in between do not grow (its versions disagree); s_k
    averages squared norms, F and S begin at 0, and equal losses are compared with a tolerance. (It
    searches in its first ten steps whatever R_k is, which is no difference: R_k is far above 2.)
    """
    finite = batch_is_finite(seen.loss, seen.grad_sqnorm)
    moves = finite & (constants.c * seen.grad_sqnorm > 0.0)
    smaller, larger = minimum(memory.fast, memory.slow), maximum(memory.fast, memory.slow)
    waited = memory.waited + 1.0
    due = (waited >= constants.longest_pause) | (waited * (larger - smaller) >= smaller)
    last = where(memory.last_step < inf, memory.last_step, constants.first_step)
    return Search(
        step=where(moves, last, 0.0),
        accepted=finite,
        capped=False,
        trial=where(moves & due, constants.increase_factor * last, 0.0),
        active=moves & due,
    )


def advance_salsa(
    constants: Any, memory: Any, seen: Seen, search: Search, trial_loss: Any
) -> Search:
    """The condition h_k >= c t s_k, solved for the trial loss."""
    sqnorm = exponential(memory.sqnorm, seen.grad_sqnorm, constants.smoothing)
    missing = constants.c * search.trial * sqnorm - constants.smoothing * memory.decrease
    enough = seen.loss - missing / (1.0 - constants.smoothing) + tolerance(seen)
    return judge(constants, search, trial_loss, enough, -inf, search.trial, False)


def remember_salsa(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, ...]:
    """All averages and the step, after a search; without one, that time has passed."""
    searched = search.trial > 0.0
    decrease = exponential(memory.decrease, seen.loss - search.trial_loss, constants.smoothing)
    sqnorm = exponential(memory.sqnorm, seen.grad_sqnorm, constants.smoothing)
    return (
        where(searched, search.step, memory.last_step),
        where(searched, decrease, memory.decrease),
        where(searched, sqnorm, memory.sqnorm),
        where(searched, exponential(memory.fast, search.step, FAST), memory.fast),
        where(searched, exponential(memory.slow, search.step, SLOW), memory.slow),
        where(searched, 0.0, memory.waited + 1.0),
    )


SALSA = Rule(
    name="salsa",
    formula=r"\gamma_k = \eta_k t_k, \qquad \beta_3 h_{k-1} + (1 - \beta_3) "
    r"(f_k - f(\theta_k - t_k g_k; x_k)) \ge c\,t_k\,s_k",
    reference="Kenneweg et al. (2024), with the gradient for its direction",
    options=(
        replace(C, default=0.5),
        Option("first_step", 1.0, validation.POSITIVE, "the step before the first, > 0."),
        Option("increase_factor", 1.1, validation.AT_LEAST_ONE, "growth before a search, >= 1."),
        replace(DECREASE_FACTOR, default=0.8),
        Option("smoothing", 0.9, validation.UNIT, "weight of the past in averages, in [0, 1).",
               symbol="beta_3"),
        Option("longest_pause", 10, Whole(1), "most steps from one search to the next; 1 searches "
               "at every step."),
        MAX_TRIALS,
        LOSS_EPS,
    ),
    reads=frozenset({"loss", "grad_sqnorm", "loss_eps"}),
    resolve=constants("c", "first_step", "increase_factor", "decrease_factor", "smoothing",
                      "longest_pause", "max_trials"),
    memory={"last_step": LAST_STEP, "decrease": 0.0,
            **dict.fromkeys(("sqnorm", "fast", "slow", "waited"), AMOUNT)},
    start=start_salsa,
    advance=advance_salsa,
    remember=remember_salsa,
)  # fmt: skip
