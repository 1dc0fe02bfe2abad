r"""Steps that need no learning rate: how they begin, and which share of them is taken.

Two things are learned from the losses seen so far, in their own units. The level :math:`\ell_k`
that the loss will not fall below is the lower bound, or 0 if none is known; losses below it (below
one above 0: in the mean) prove it wrong, and it is then as far below them as half of what they have
lost since the first step (or a tenth of their size, if that is more). And the share of a step that
is taken is

.. math:: \varphi_k = \min\Big\{1,\ \max\Big\{\sqrt{\frac{b_k - \ell_k}{b_k - \ell_k +
          \sum_{s < k} (f_s - \ell_s)}},\ \lambda\,\frac{a_k - b_k}{b_k - \ell_k}\Big\}\Big\}
          \cdot \min\Big\{1,\ \frac{1 - k/K}{\mathrm{COOLING}}\Big\}

where a and b are averages of the losses over about the last half and the last eighth of the steps,
:math:`a_k = a_{k-1} + \frac{2}{k} (f - a_{k-1})` and b with 8 in place of 2. While the loss falls
towards its bound the share is 1. Where the noise of the batches holds it up, a - b is what it has
lost lately: the loss to be lost is taken to be lambda times that, and not all of f - l. The root is
the decrease of AdaSPS, in units of the present gap, below which no share falls. K is the length of
the run, if it is known.

A loss far above the average counts as one a little above it, so that one batch changes little; a is
never further above b than the level is below, so that the fall of the first steps is soon
forgotten; and once caps had the time to double up to what is usual, about a hundred steps, a never
rises, so that the way back down from a peak does not count as loss that was lost. (The price: where
a point fits all data, the way back takes about twice as long.)
"""

from collections.abc import Mapping
from math import inf, log
from typing import Any

from heavystep import validation
from heavystep.rules.contract import Option, Seen, Whole
from heavystep.rules.primitives import maximum, minimum, where
from heavystep.rules.scaling import SCALINGS, kappa
from heavystep.rules.smooth_reset import resolve_growth, settle_steps_per_epoch

STEADY = "steady"
BEGIN = 1e-3
"""The first step, as a share of what the rule alone would take."""
DOUBLING = 2.0**0.1
"""How much a cap may grow from step to step: it doubles in ten."""
SLOW, FAST = 2.0, 8.0
COOLING = 0.4
"""The last part of a run of known length, in which steps fall to 0."""
SETTLING = 10.0
"""Steps before the deviation of losses from their average is known."""
DEVIATIONS = 4.0
WARM_UP = log(1.0 / BEGIN) / log(DOUBLING)
"""Steps in which a cap that doubles undoes :data:`BEGIN`: about a hundred."""
LETTERS = (
    "l is the level that the loss is not expected to fall below: lower_bound, or an estimate; phi, "
    "in [0, 1], is the share of a step that is taken, 1 while the loss falls; kappa = 1/2"
)
"""Of the formulas that steady rules share; the docstring above has theirs in full."""
CROSSED = 1e-3
"""A loss below its level counts if it is by more than this share of all that can be lost."""
TINY = 1e-30
VISIBLE, CLEARLY = 2.0 / 15.0, 2.0
"""Losses are seen to fall once so large a part of the gap was lost lately, and so many deviations
of a batch."""

MEMORY = {
    "steps": 0.0,
    "first_loss": 0.0,
    "level": inf,
    "gaps": 0.0,
    "slow": 0.0,
    "fast": 0.0,
    "deviation": 0.0,
}
"""What is remembered of the losses."""

SCALING = Option(
    "scaling",
    STEADY,
    (STEADY, *SCALINGS),
    'steady: the rule of this package, which needs no tuning; "theory" (kappa = s_beta / 2), '
    '"practical" (1/2) or "plain" (1): the rule of the paper.',
)
UNKNOWN_BOUND = Option(
    "lower_bound",
    0.0,
    validation.FINITE,
    "lower bound l of the sampled loss; cross-entropy and squared losses have 0. None: it is not "
    "known, and estimated from the losses (steady only). ``step(..., lower_bound=)`` overrides it "
    "for one batch.",
    optional=True,
)
LARGEST_STEP = Option(
    "max_step",
    "auto",
    validation.POSITIVE,
    "largest step gamma_max before the multiplier, > 0. Default: none if steady, 1 otherwise. None "
    "or infinity: none (steady only).",
    optional=True,
)
OUTLOOK = Option(
    "outlook",
    3.0,
    validation.NON_NEGATIVE,
    "lambda, >= 0: how much loss is expected to be lost yet, over what was lost lately.",
    symbol="lambda",
)
TOTAL_STEPS = Option(
    "total_steps",
    None,
    Whole(1),
    "length K of the run in steps, if it is known: over its last 40 percent they fall to 0.",
    optional=True,
)


def settle(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Defaults that depend on the scaling."""
    options = settle_steps_per_epoch(options)
    steady, largest = options["scaling"] == STEADY, options["max_step"]
    endless = isinstance(largest, float) and largest == inf
    if endless and not steady:
        raise ValueError(
            "max_step (gamma_max) must be finite, got inf: the paper's theorems and its first "
            'trials are about it. Give a large one, or scaling="steady", which needs none'
        )
    if largest != "auto" and not endless:
        return options
    return {**options, "max_step": None if steady else 1.0}


def resolve(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Constants from options: infinity where there is no largest step and no length of the run."""
    endless = {name: inf for name in ("max_step", "total_steps") if options[name] is None}
    return {**resolve_growth(options), **endless, "kappa": kappa("practical", options["momentum"])}


def known_level(memory: Any, seen: Seen) -> Any:
    """The lower bound of this batch, 0 if there is none, or the level that was found instead."""
    return minimum(where(seen.lower_bound == -inf, 0.0, seen.lower_bound), memory.level)


def level_of(memory: Any, seen: Seen) -> Any:
    """The level l_k that the loss is not expected to fall below.

    A bound above 0 may be one of the mean, such as the noise of the targets: one batch below it
    proves nothing and takes no step, but the average of the losses does. A bound that is missed by
    rounding alone stays as it is.
    """
    known, first = known_level(memory, seen), memory.steps == 0.0
    begun = where(first, seen.loss, memory.first_loss)
    loss = where(first | (known <= 0.0), seen.loss, memory.fast)
    missed = loss < known - CROSSED * abs(begun - known)
    missed = missed | ((seen.lower_bound == -inf) & (loss <= known))
    lost = maximum(0.5 * (begun - loss), 0.1 * abs(loss))
    return where(missed, loss - where(lost > 0.0, lost, 1.0), known)


def gap_of(memory: Any, level: Any) -> Any:
    """How far the losses are above their level, b - l."""
    return maximum(memory.fast - level, TINY)


def progress_of(constants: Any, memory: Any, level: Any) -> Any:
    """The part of the gap that is expected to be lost yet, lambda (a - b) / (b - l)."""
    return constants.outlook * (memory.slow - memory.fast) / gap_of(memory, level)


def is_falling(memory: Any, level: Any) -> Any:
    """Whether the losses have been seen to fall: by much, and by more than noise would do."""
    lost = memory.slow - memory.fast
    clear, much = lost > CLEARLY * memory.deviation, lost > VISIBLE * gap_of(memory, level)
    return clear & much & (memory.steps >= SETTLING)


def differing(memory: Any, level: Any) -> Any:
    """How much batches differ: the deviation of their losses, relative to the gap.

    As long as it is not known they count as different.
    """
    return where(memory.steps < SETTLING, 1.0, memory.deviation / gap_of(memory, level))


def usual_most(memory: Any) -> Any:
    """The largest loss that is usual: one that is some deviations above the average b."""
    return memory.fast + DEVIATIONS * memory.deviation


def excess_of(memory: Any, seen: Seen, last_loss: Any) -> Any:
    """How far this loss and the last one are above all that is usual; 0 while nothing is known.

    One batch with a wrong target is no explosion: two in a row are.
    """
    excess = maximum(minimum(seen.loss, last_loss) - usual_most(memory), 0.0)
    return where(memory.steps < SETTLING, 0.0, excess)


def share_of(constants: Any, memory: Any, level: Any, excess: Any = 0.0) -> Any:
    """The share phi_k of the step that is taken, from the losses before this one.

    Args:
        constants: of the rule.
        memory: of the losses before.
        level: what they are measured from.
        excess: of the present loss, which widens the gap that the decrease is measured by.
    """
    gap, progress = gap_of(memory, level) + excess, progress_of(constants, memory, level)
    decrease = (gap / (gap + memory.gaps)) ** 0.5
    share = where(memory.steps == 0.0, 1.0, minimum(maximum(decrease, progress), 1.0))
    left = maximum(1.0 - memory.steps / constants.total_steps, 0.0)
    return share * minimum(left / COOLING, 1.0)


def follow(memory: Any, seen: Seen) -> tuple[Any, ...]:
    """What is remembered after this loss, in the order of :data:`MEMORY`."""
    steps, first = memory.steps + 1.0, memory.steps == 0.0
    level = level_of(memory, seen)
    loss = where(memory.steps < SETTLING, seen.loss, minimum(seen.loss, usual_most(memory)))
    weight = minimum(FAST / steps, 1.0)
    fast = memory.fast + weight * (loss - memory.fast)
    slow = memory.slow + minimum(SLOW / steps, 1.0) * (loss - memory.slow)
    slow = minimum(slow, fast + maximum(fast - level, 0.0))
    slow = where(memory.steps < WARM_UP, slow, minimum(slow, memory.slow))
    deviation = memory.deviation + weight * (abs(loss - fast) - memory.deviation)
    first_loss = where(first, seen.loss, memory.first_loss)
    lowered = where(level < known_level(memory, seen), level, memory.level)
    gaps = memory.gaps + maximum(loss - level, 0.0)
    return steps, first_loss, lowered, gaps, slow, fast, deviation
