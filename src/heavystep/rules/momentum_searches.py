r"""Line searches along torch's momentum buffer: MSL, one with conditions, conjugate gradients.

.. math:: d_k = g_k + \beta_k b_k, \quad b_k = d_{k-1}, \qquad
          f(\theta_k - t d_k; x_k) \le f(\theta_k; x_k) - c\,t\,\langle g_k, d_k\rangle

The loss falls along -d_k at the rate <g_k, d_k> = ||g_k||^2 + beta_k <g_k, b_k>, which is positive
for a small enough momentum beta_k.
"""

from dataclasses import replace
from typing import Any

from heavystep import validation
from heavystep.rules.armijo import OPTIONS, READS, SEARCHED, C, armijo_bound, backtracking
from heavystep.rules.contract import DIRECTION, Option, Rule, Search, Seen, constants
from heavystep.rules.line_searches import (
    PONOS,
    PONOS_CONSTANTS,
    average,
    clipped_polyak,
    min_step,
    next_shrink,
    nonmonotone,
)
from heavystep.rules.primitives import maximum, minimum, where
from heavystep.rules.scaling import (
    AMOUNT,
    GROWTH,
    LAST_STEP,
    MAX_STEP,
    STEPS_PER_EPOCH,
    cap_of,
    growth_of,
    remember,
)

HALVINGS = 60
"""After so many a momentum is nothing beside 1 in double precision."""
MOST_SHRINKING = 5
FACTORS = {"correct": 0.5, "restart": 0.0}


def slope(seen: Seen, momentum: Any) -> Any:
    """<g_k, d_k> for this momentum."""
    return seen.grad_sqnorm + momentum * seen.drift


def length_squared(seen: Seen, momentum: Any) -> Any:
    """||d_k||^2 for this momentum."""
    return seen.grad_sqnorm + momentum * (2.0 * seen.drift + momentum * seen.buffer_sqnorm)


def descending(seen: Seen, momentum: Any, factor: Any) -> Any:
    """The momentum times the least power of ``factor`` that makes d_k a direction of descent.

    >>> descending(Seen(grad_sqnorm=1.0, drift=-3.0), 0.8, 0.5)
    0.2
    >>> descending(Seen(grad_sqnorm=1.0, drift=-3.0), 0.8, 0.0)
    0.0
    """
    for _ in range(HALVINGS):
        momentum = where(slope(seen, momentum) > 0.0, momentum, factor * momentum)
    return where(slope(seen, momentum) > 0.0, momentum, 0.0 * momentum)


def is_related(seen: Seen, momentum: Any, least_slope: Any, most_length: Any) -> Any:
    """Whether <g, d> >= c_1 ||g||^2 and ||d|| <= c_2 ||g|| for this momentum."""
    steep = slope(seen, momentum) >= least_slope * seen.grad_sqnorm
    return steep & (length_squared(seen, momentum) <= most_length**2 * seen.grad_sqnorm)


def related(seen: Seen, momentum: Any, least_slope: Any, most_length: Any) -> Any:
    """The momentum, halved until d_k is related to the gradient; 0 if it never is.

    >>> related(Seen(grad_sqnorm=1.0, drift=0.0, buffer_sqnorm=9.0), 0.8, 0.1, 1.5)
    0.2
    """
    for _ in range(HALVINGS):
        good = is_related(seen, momentum, least_slope, most_length)
        momentum = where(good, momentum, 0.5 * momentum)
    return where(is_related(seen, momentum, least_slope, most_length), momentum, 0.0 * momentum)


def armijo_along_direction(constants: Any, memory: Any, seen: Seen, trial: Any, beta: Any) -> Any:
    """Armijo's largest loss, along d_k."""
    return armijo_bound(constants, seen, seen.loss, trial, slope(seen, beta))


def first_msl(constants: Any, memory: Any, seen: Seen, beta: Any) -> tuple[Any, Any]:
    """Begin at the cap. A correction halves beta_k until d_k descends, a restart sets beta_k = 0.

    Not verified: only the abstract was at hand. Public code of a third party has
    d_k = beta_k d_{k-1} + (1 - beta_k) g_k and the same halving.
    """
    return cap_of(constants, memory), True


def momentum_msl(constants: Any, memory: Any, seen: Seen) -> Any:
    """beta_k, corrected or dropped."""
    return descending(seen, constants.momentum, constants.factor)


def first_directional(constants: Any, memory: Any, seen: Seen, beta: Any) -> tuple[Any, Any]:
    """Begin at the cap, with beta_k halved until both conditions on d_k hold.

    They bound the accepted step from below (:func:`heavystep.theory.directional_step`), and
    beta_k = 0 meets them always. Not verified: only the abstract was at hand.
    """
    return cap_of(constants, memory), True


def momentum_directional(constants: Any, memory: Any, seen: Seen) -> Any:
    """beta_k, halved."""
    return related(seen, constants.momentum, constants.least_slope, constants.most_length)


RESET = (
    replace(STEPS_PER_EPOCH, default=500, text="n_b of the smooth reset, >= 1; None begins "
            "every search at ``max_step``."),
    replace(GROWTH, default=2.0),
)  # fmt: skip
TAKEN = (*SEARCHED, "momentum")
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
    memory={"last_step": LAST_STEP},
    remember=remember,
    along=DIRECTION,
    **backtracking(first_msl, armijo_along_direction, momentum=momentum_msl),
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
    memory={"last_step": LAST_STEP},
    remember=remember,
    along=DIRECTION,
    **backtracking(first_directional, armijo_along_direction, momentum=momentum_directional),
)  # fmt: skip


def nonmonotone_along_direction(
    constants: Any, memory: Any, seen: Seen, trial: Any, beta: Any
) -> Any:
    """Armijo's along d_k, from the average of losses if that is larger."""
    return nonmonotone(constants, memory, seen, trial, slope(seen, beta))


def fletcher_reeves(constants: Any, memory: Any, seen: Seen) -> Any:
    """beta_k, halved until d_k is a direction of descent; 0 at the first step."""
    known = memory.last_sqnorm > 0.0
    ratio = seen.grad_sqnorm / where(known, memory.last_sqnorm, 1.0)
    wanted = where(known, minimum(ratio, constants.most_momentum), 0.0)
    return descending(seen, wanted, 0.5)


def first_mbcg(constants: Any, memory: Any, seen: Seen, beta: Any) -> tuple[Any, Any]:
    """Conjugate gradients: begin at the Polyak step of d_k, between bounds, as PoNoS does.

    Differs from the authors' code: there both norms in beta_k are those of the half of the batch
    that two steps share, which takes two backward passes; here they are those of whole batches,
    which must overlap all the same (:class:`heavystep.batches.PersistentBatches`, in which the
    first batch of an epoch shares nothing with the last one). The shrinking of first trials is an
    option there, and is always on here, with l_k at most 5 as there.
    """
    first = clipped_polyak(constants, memory, seen, length_squared(seen, beta))
    return first, first >= constants.max_step


def remember_mbcg(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, ...]:
    """What PoNoS does, and ||g_k||^2 unless it vanished."""
    first = clipped_polyak(constants, memory, seen, length_squared(seen, search.momentum))
    shrink = next_shrink(constants, memory, search, first)
    shrink = maximum(shrink, constants.decrease_factor**MOST_SHRINKING)
    vanished = seen.grad_sqnorm == 0.0
    sqnorm = where(vanished, memory.last_sqnorm, seen.grad_sqnorm)
    return *average(constants, memory, seen), shrink, sqnorm


MBCG_DEFAULTS = {"c": 0.5, "polyak_c": 1.0, "max_step": 1e6}
MBCG = Rule(
    name="mbcg",
    formula=r"d_k = g_k + \beta_k d_{k-1}, \ \beta_k = \min\{\|g_k\|^2 / \|g_{k-1}\|^2,\ 1.5\}, "
    r"\quad f(\theta_k - t_k d_k; x_k) \le \max\{C_k, f_k\} - c\,t_k \langle g_k, d_k\rangle",
    reference="Lapucci and Pucci (2024), arXiv 2411.07102",
    options=(
        *(replace(o, default=MBCG_DEFAULTS.get(o.name, o.default)) for o in PONOS.options),
        Option("most_momentum", 1.5, validation.POSITIVE, "largest beta_k, > 0."),
    ),
    reads=READS | {"drift", "buffer_sqnorm"},
    resolve=constants(*PONOS_CONSTANTS, "most_momentum", min_step=min_step),
    memory={**PONOS.slots, "last_sqnorm": AMOUNT},
    remember=remember_mbcg,
    along=DIRECTION,
    **backtracking(first_mbcg, nonmonotone_along_direction, momentum=fletcher_reeves),
)
