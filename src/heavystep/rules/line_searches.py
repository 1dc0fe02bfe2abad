"""Line searches with a trial, a condition or a direction of their own: AdaSLS, PoNoS, SaLSA, MSL.

A search that fails refuses the batch, also where the authors' code takes a small step.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import Any

from heavystep import validation
from heavystep.momentum import exponential
from heavystep.rules import armijo, scaling
from heavystep.rules.armijo import LOSS_EPS, MAX_TRIALS, READS, SEARCHED, backtracking, judge
from heavystep.rules.contract import (
    DIRECTION,
    Integers,
    Option,
    Rule,
    Search,
    Seen,
    Slot,
    constants,
)
from heavystep.rules.polyak import LOWER_BOUND, polyak_step
from heavystep.rules.polyak_gradient import added
from heavystep.rules.primitives import batch_is_finite, maximum, minimum, where
from heavystep.rules.scaling import AMOUNT, LAST_STEP, MAX_STEP, remember_step


def gains(memory: Any, seen: Seen, trial: Any) -> tuple[Any, Any]:
    """The sum of a_s ||g_s||^2, this step's included, and the first of them."""
    return added(memory.gains, memory.first_gain, trial * seen.grad_sqnorm)


def first_adasls(constants: Any, memory: Any, seen: Seen) -> tuple[Any, Any]:
    """Every search begins at max_step, which is our choice.

    c_l = d / sqrt(a_0 ||g_0||^2) is the scale-free divisor; the theorem with interpolation has
    d = 1 / rho for Armijo's constant rho.
    """
    return constants.max_step, True


def step_adasls(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, Any]:
    """The step for a_k, the trial that is accepted."""
    total, first = gains(memory, seen, search.trial)
    shrink = (first / where(total > 0.0, total, 1.0)) ** 0.5
    step = minimum(search.trial / constants.divisor * shrink, memory.last_step)
    return step, step == memory.last_step


ADASLS = Rule(
    name="adasls",
    formula=r"\gamma_k = \eta_k \min\Big\{\frac{a_k}{d} \sqrt{a_0 \|g_0\|^2 / "
    r"\sum_{s \le k} a_s \|g_s\|^2},\ \gamma_{k-1}\Big\}, \quad a_k \text{ the Armijo step}",
    reference="Jiang and Stich (2023), as quoted by Wu (2025), Section 2.1; not the AdaSLS of "
    "Vaswani et al. (2020)",
    options=(
        replace(armijo.C, default=0.5, symbol="rho",
                text="sufficient decrease constant rho, in (0, 1)."),
        Option("divisor", 2.0, validation.POSITIVE, "divisor d of the step, > 0; the theorem's "
               "is 1 / ``c``.", symbol="d"),
        MAX_STEP,
        *armijo.OPTIONS,
    ),
    reads=READS,
    resolve=constants(*SEARCHED, "divisor"),
    memory={"gains": AMOUNT, "first_gain": AMOUNT, "last_step": LAST_STEP},
    remember=lambda constants, memory, seen, search: (  # without a search the trial is 0
        *gains(memory, seen, search.trial), remember_step(memory.last_step, search.step),
    ),
    **backtracking(first_adasls, step=step_adasls),
)  # fmt: skip


LEAST_SHRINK = 1e-300
"""Further down, delta^(l_k) could not grow again."""


def min_step(options: Mapping[str, Any]) -> Any:
    """The least first trial, which must not be above the largest step."""
    least, most = options["min_step"], options["max_step"]
    if most < least:
        raise ValueError(f"min_step must be at most max_step = {most!r}, got {least!r}")
    return least


def average(constants: Any, memory: Any, seen: Seen) -> tuple[Any, Any]:
    """Q_k = xi Q_{k-1} + 1 from Q_{-1} = 0 on, and C_k = (xi Q_{k-1} C_{k-1} + f_k) / Q_k."""
    old = constants.keeping * memory.weight
    return old + 1.0, (old * memory.average + seen.loss) / (old + 1.0)


def first_ponos(constants: Any, memory: Any, seen: Seen) -> tuple[Any, Any]:
    """Begin at a Polyak step. Differs from the code: it uses the bound, and adds no 1e-8."""
    low, c, cap = seen.lower_bound, constants.polyak_c, constants.max_step
    wanted = polyak_step(seen.loss, seen.grad_sqnorm, low, c, memory.shrink, cap)
    first = maximum(wanted, constants.min_step)
    return first, first >= cap


def remember_ponos(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, ...]:
    """Q_k, C_k and delta^(l_{k+1}), which stays if nothing was searched.

    l_{k+1} = max(l_k + e_k - 1, 0), where e_k counts the trials that failed: delta^(e_k) is the
    accepted trial divided by the first one.
    """
    first, _ = first_ponos(constants, memory, seen)
    shrink = minimum(memory.shrink * search.trial / first / constants.decrease_factor, 1.0)
    shrink = where(search.trial > 0.0, maximum(shrink, LEAST_SHRINK), memory.shrink)
    return *average(constants, memory, seen), shrink


PONOS = Rule(
    name="ponos",
    formula=r"\gamma_k = \eta_k t_k, \qquad f(\theta_k - t_k g_k; x_k) \le "
    r"\max\{C_k, f_k\} - c\,t_k\,\|g_k\|^2, \quad "
    r"t_k = \delta^j\,\mathrm{clip}(\delta^{l_k} (f_k - \ell_k) / (c_p \|g_k\|^2))",
    reference="Galli, Rauhut and Schmidt (2023)",
    options=(
        replace(armijo.C, default=0.5),
        Option("polyak_c", 0.1, validation.POSITIVE, "divisor of the first trial, > 0.",
               symbol="c_p"),
        replace(MAX_STEP, default=10.0),
        Option("min_step", 1e-6, validation.POSITIVE, "smallest first trial, > 0.",
               symbol="gamma_min"),
        replace(armijo.DECREASE_FACTOR, default=0.5, symbol="delta",
                text="factor delta between trial steps, in (0, 1)."),
        Option("keeping", 1.0, validation.CLOSED_UNIT, "weight of past losses in C_k, in [0, 1].",
               symbol="xi"),
        LOWER_BOUND, MAX_TRIALS, LOSS_EPS,
    ),
    reads=READS,
    resolve=constants(*SEARCHED, "polyak_c", "keeping", min_step=min_step),
    memory={"weight": AMOUNT, "average": 0.0,
            "shrink": Slot(1.0, validation.Interval(0.0, 1.0, closed_high=True))},
    remember=remember_ponos,
    **backtracking(first_ponos, level=lambda constants, memory, seen: maximum(
        average(constants, memory, seen)[1], seen.loss)),
)  # fmt: skip

FAST, SLOW = 0.9, 0.99
"""Weights of the past in two averages of the accepted steps, F_k and S_k."""


def start_salsa(constants: Any, memory: Any, seen: Seen) -> Search:
    """Search from 1.1 times the last step on, or repeat the last step while it hardly changes.

    With R_k >= 1 the ratio of the larger of F_k and S_k to the smaller, the next search comes after
    1 / (R_k - 1) steps, and after ``longest_pause`` at the latest. Averages stay in between.

    Differs from the code: Adam's direction, its default, is left out; steps in between do not grow
    (its versions disagree); s_k averages squared norms; F and S begin at 0; losses are compared
    with a tolerance.
    """
    finite = batch_is_finite(seen.loss, seen.grad_sqnorm)
    moves = finite & (constants.c * seen.grad_sqnorm > 0.0)
    smaller, larger = minimum(memory.fast, memory.slow), maximum(memory.fast, memory.slow)
    waited = memory.waited + 1.0
    due = (waited >= constants.longest_pause) | (waited * (larger - smaller) >= smaller)
    last = memory.last_step if memory.last_step < inf else constants.first_step
    step, searched = last if moves else 0.0, moves & due
    trial = constants.increase_factor * last if searched else 0.0
    return Search(step, finite, capped=False, trial=trial, active=searched)


def advance_salsa(
    constants: Any, memory: Any, seen: Seen, search: Search, trial_loss: Any
) -> Search:
    """The condition h_k >= c t s_k, solved for the trial loss."""
    sqnorm = exponential(memory.sqnorm, seen.grad_sqnorm, constants.smoothing)
    missing = constants.c * search.trial * sqnorm - constants.smoothing * memory.decrease
    enough = seen.loss - missing / (1.0 - constants.smoothing) + armijo.tolerance(seen)
    return judge(constants, search, trial_loss, enough, search.trial, False)


def remember_salsa(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, ...]:
    """All averages and the step, after a search; without one, that time has passed."""
    last, decrease, sqnorm, fast, slow, waited = memory
    if search.trial > 0.0:
        smoothing = constants.smoothing
        last, waited = search.step, -1.0
        decrease = exponential(decrease, seen.loss - search.trial_loss, smoothing)
        sqnorm = exponential(sqnorm, seen.grad_sqnorm, smoothing)
        fast, slow = exponential(fast, last, FAST), exponential(slow, last, SLOW)
    return last, decrease, sqnorm, fast, slow, waited + 1.0


SALSA = Rule(
    name="salsa",
    formula=r"\gamma_k = \eta_k t_k, \qquad \beta_3 h_{k-1} + (1 - \beta_3) "
    r"(f_k - f(\theta_k - t_k g_k; x_k)) \ge c\,t_k\,s_k",
    reference="Kenneweg et al. (2024), with the gradient for its direction",
    options=(
        replace(armijo.C, default=0.5),
        Option("first_step", 1.0, validation.POSITIVE, "the step before the first, > 0."),
        Option("increase_factor", 1.1, validation.AT_LEAST_ONE, "growth before a search, >= 1."),
        replace(armijo.DECREASE_FACTOR, default=0.8),
        Option("smoothing", 0.9, validation.UNIT, "weight of the past in averages, in [0, 1).",
               symbol="beta_3"),
        Option("longest_pause", 10, Integers(1),
               "most steps from one search to the next; 1 searches at every step."),
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

HALVINGS = 60
"""After so many a momentum is nothing beside 1 in double precision."""
FACTORS = {"correct": 0.5, "restart": 0.0}


def slope(seen: Seen, momentum: Any) -> Any:
    """<g_k, d_k> for this momentum: the loss falls along -d_k at this rate."""
    return seen.grad_sqnorm + momentum * seen.drift


def descending(seen: Seen, momentum: Any, factor: Any) -> Any:
    """The momentum times the least power of ``factor`` that makes d_k a direction of descent.

    A vanished gradient leaves it as it is, as with every other rule.

    >>> descending(Seen(grad_sqnorm=1.0, drift=-3.0), 0.8, 0.5)
    0.2
    >>> descending(Seen(grad_sqnorm=1.0, drift=-3.0), 0.8, 0.0)
    0.0
    """
    for _ in range(HALVINGS):
        if slope(seen, momentum) > 0.0 or seen.grad_sqnorm == 0.0:
            return momentum
        momentum = factor * momentum
    return 0.0


def first_msl(constants: Any, memory: Any, seen: Seen) -> tuple[Any, Any]:
    """Begin at the cap. A correction halves beta_k until d_k descends, a restart sets beta_k = 0.

    Not verified: only the abstract was at hand. Public code of a third party has
    d_k = beta_k d_{k-1} + (1 - beta_k) g_k and the same halving.
    """
    return scaling.cap_of(constants, memory), True


MSL = Rule(
    name="msl",
    formula=r"\gamma_k = \eta_k t_k, \qquad t_k \text{ the largest } t \in "
    r"\{\mathrm{cap}_k \omega^j\} \text{ with } f(\theta_k - t d_k; x_k) \le "
    r"f(\theta_k; x_k) - c\,t\,\langle g_k, d_k\rangle",
    reference="Fan, Vaswani, Thrampoulidis and Schmidt (2023)",
    options=(
        armijo.C,
        MAX_STEP,
        Option("uphill", "correct", tuple(FACTORS), "what is done with a momentum that leads "
               'uphill: "correct" halves it, "restart" drops it.'),
        replace(scaling.STEPS_PER_EPOCH, default=500, text="n_b of the smooth reset, >= 1; None "
                "begins every search at ``max_step``."),
        replace(scaling.GROWTH, default=2.0),
        *armijo.OPTIONS,
    ),
    reads=READS | {"drift"},
    resolve=constants(*SEARCHED, "momentum", growth_factor=scaling.growth_of,
                      factor=lambda options: FACTORS[options["uphill"]]),
    memory={"last_step": LAST_STEP},
    remember=scaling.remember,
    along=DIRECTION,
    **backtracking(first_msl, slope=slope, momentum=lambda constants, memory, seen: descending(
        seen, constants.momentum, constants.factor)),
)  # fmt: skip
