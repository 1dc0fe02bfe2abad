r"""The Polyak step that needs no learning rate: small at first, capped by what is typical.

.. math:: r_k = \kappa_k\,\frac{f_k - \ell_k}{c\,\|g_k\|^2}, \qquad
          \gamma_k = \eta_k \min\{\varphi_k \min\{r_k,\ \mathrm{cap}_k\},\ \gamma_{\max}\}, \qquad
          \mathrm{cap}_{k+1} = \min\{(1 + q_k)\,\mathrm{cap}_k,\ m_k\}

with level, share and averages of :mod:`heavystep.rules.steady`, cap_0 = r_0 / 1000, and m_k the
geometric mean of the ratios r over about the last fifty steps, in which one batch counts for at
most a factor of a hundred: a gradient a hundred times as large costs one small step. Nothing here
has a unit: scaling the loss or the parameters scales the steps with them.

**How fast the cap grows.** It doubles in ten steps, q_k = 2^(1/10) - 1, until the losses are seen
to fall: a - b is more than 2/15 of the gap b - l and more than two deviations of a batch, after ten
steps. From then on

.. math:: q_k = \min\Big\{2^{1/10} - 1,\ \max\Big\{(2^{1/10} - 1)\,\varphi_k^2,\
          \frac{3/2}{k + 1}\Big\}\Big\}

as fast as before while the whole step is taken, and no faster than k^(3/2) where little of it is. A
ratio also grows if the gradient vanishes and the loss stays, at a bad point that steps were too
long for, and should not be followed there. A new level begins anew.

**How much momentum adds.** Where batches differ, momentum averages their noise away, and kappa is
Appendix E's 1/2. Where they are alike it adds up 1 / (1 - beta) equal steps, and the factor of an
averaged iterate is 1 - beta (MomSPS). Between the two, with n_k the deviation of the losses of
batches relative to the gap b - l (1 for ten steps),

.. math:: \frac{1}{\kappa_k} = 2 + \max\Big\{\frac{1}{1 - \beta} - 2,\ 0\Big\}
          \frac{\nu}{\nu + n_k}

with nu = ``alike``: 0 turns it off.

**How long momentum remembers.** The step is made for averaged heavy ball
(:mod:`heavystep.momentum.averaged`), with weights w_k = 9 / (j_k + 9) that are those of the average
:class:`heavystep.Average`: j_k counts the steps, so that the last iterate is nearly as calm as that
average, however long the run is.

**How far the points go.** A point of that average goes gamma / (1 - beta) along a gradient. While
the loss falls faster than lambda expects, and the longer the more, points go further and the
iterate stays nearer to their average: gamma_k is what it was, and the momentum of a step is

.. math:: 1 - \beta_k = \frac{1 - \beta}{R_k}, \qquad R_k = \max\Big\{1,\ \min\Big\{
          \lambda\,\frac{a_k - b_k}{b_k - \ell_k},\ 1 + (R - 1) \frac{j_k}{j_k + 1000},\
          30\,(1 - \beta)\Big\}\Big\}

with R = ``reach``: 1 turns it off. A calm run along short ways ends in the next minimum that fits
the data; long ways, whose noise is averaged away, end in one that new data fit better. Where the
noise of the batches holds the loss up, R_k is 1. The last bound is 3 for the momentum 0.9 that it
was measured with: whoever sets more has long ways already.

**When the loss explodes.** What this loss and the last one are both above all that is usual belongs
to the gap in the root of phi_k, but not for q_k. Averages take in one loss after another, slowly;
without it the steps that were left at a loss of 1e-5 would stay as small at a loss of 1. And j_k is
halved at each such step, so that an average of what was before does not hold the iterate back.
"""

from collections.abc import Mapping
from math import inf
from typing import Any

from heavystep import validation
from heavystep.momentum import POWER, share_of_next
from heavystep.rules.contract import Option, Rule, Search, Seen
from heavystep.rules.polyak import POLYAK, polyak_step
from heavystep.rules.primitives import batch_is_finite, is_finite, maximum, minimum, where
from heavystep.rules.scaling import resolve_damping
from heavystep.rules.steady import (
    BEGIN,
    DOUBLING,
    LARGEST_STEP,
    LETTERS,
    MEMORY,
    OUTLOOK,
    SCALING,
    TINY,
    TOTAL_STEPS,
    UNKNOWN_BOUND,
    differing,
    excess_of,
    follow,
    is_falling,
    known_level,
    level_of,
    progress_of,
    resolve,
    settle,
    share_of,
)

WEIGHT = 0.02
"""Of the last ratio in the mean m_k."""
OUTLIER = 100.0
RISE = 1.5
"""p: at least so fast, as a power of the number of steps, may a cap grow."""
ALIKE = Option(
    "alike",
    0.0,
    validation.NON_NEGATIVE,
    "nu, >= 0: how much the losses of batches differ, relative to what is above their level, where "
    "momentum half counts as a sum of equal steps. 0: never.",
    symbol="nu",
)
REACH = Option(
    "reach",
    3.0,
    validation.AT_LEAST_ONE,
    "R, >= 1: how many times as far, in the end, the points that momentum averages go while the "
    "loss falls fast, if that is not more than 30 steps. 1: never further.",
    symbol="R",
)
LONG = 1000.0
"""Steps after which they go half of that further."""
FURTHEST = 30.0
"""The way of a point, in steps gamma, to which they may be lengthened."""
OWN = {option.name: option for option in (LARGEST_STEP, UNKNOWN_BOUND, SCALING)}


def kappa_of(constants: Any, memory: Any, level: Any) -> Any:
    """kappa_k: 1/2, or less where batches are alike and momentum is large."""
    nu, noisy = constants.alike, 1.0 / constants.kappa
    calm = nu / maximum(nu + differing(memory, level), TINY)
    return 1.0 / (noisy + calm * maximum(1.0 / constants.damping - noisy, 0.0))


def ratio_of(constants: Any, memory: Any, seen: Seen, level: Any) -> Any:
    """The Polyak step r_k alone."""
    kappa = kappa_of(constants, memory, level)
    return polyak_step(seen.loss, seen.grad_sqnorm, level, constants.c, kappa, inf)


def cap_of(memory: Any, ratio: Any) -> Any:
    """cap_k; before the first step there is none yet."""
    return where(memory.typical > 0.0, memory.cap, BEGIN * ratio)


def resolve_ratio(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Constants from options, 1 - beta among them."""
    return resolve_damping(resolve(options))


def weigh(constants: Any, memory: Any) -> Any:
    """The weight w_k of the next point in the average that momentum is."""
    return share_of_next(memory.averaged, POWER)


def momentum_of(constants: Any, memory: Any, level: Any) -> Any:
    """beta_k, with which points go R_k times as far; none stays none."""
    most = 1.0 + (constants.reach - 1.0) * memory.averaged / (memory.averaged + LONG)
    most = minimum(most, FURTHEST * constants.damping)
    further = maximum(minimum(progress_of(constants, memory, level), most), 1.0)
    return where(constants.damping < 1.0, 1.0 - constants.damping / further, 0.0)


def start(constants: Any, memory: Any, seen: Seen) -> Search:
    """The step, which needs no trials."""
    level = level_of(memory, seen)
    ratio = ratio_of(constants, memory, seen, level)
    cap, excess = cap_of(memory, ratio), excess_of(memory, seen, memory.last_loss)
    wanted = share_of(constants, memory, level, excess) * minimum(ratio, cap)
    step = minimum(wanted, constants.max_step)
    accepted = batch_is_finite(seen.loss - level, seen.grad_sqnorm)
    capped = (ratio > cap) | (wanted > constants.max_step)
    return Search(step, accepted, capped, momentum=momentum_of(constants, memory, level))


def growth_of(constants: Any, memory: Any, level: Any, fallen: Any) -> Any:
    """q_k, by how much the cap may grow."""
    share, quickly = share_of(constants, memory, level), DOUBLING - 1.0
    slowly = maximum(quickly * share * share, RISE / (memory.steps + 1.0))
    return where(fallen > 0.0, minimum(slowly, quickly), quickly)


def remember(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, ...]:
    """The losses, the next cap, the typical ratio m_k, whether losses fell, the last one, and j."""
    level = level_of(memory, seen)
    ratio = ratio_of(constants, memory, seen, level)
    fallen = where(is_falling(memory, level), 1.0, memory.fallen)
    fallen = where(level < known_level(memory, seen), 0.0, fallen)
    counts, first = (ratio > 0.0) & is_finite(ratio), memory.typical == 0.0
    before = where(first, where(counts, ratio, 1.0), memory.typical)
    usual = maximum(minimum(ratio, OUTLIER * before), before / OUTLIER)
    weight = maximum(WEIGHT, 1.0 / (memory.steps + 1.0))
    after = before * (usual / before) ** weight
    typical = where(counts, after, memory.typical)
    growth = 1.0 + growth_of(constants, memory, level, fallen)
    cap = minimum(growth * cap_of(memory, ratio), after)
    exploded = excess_of(memory, seen, memory.last_loss) > 0.0
    averaged = where(exploded, 0.5 * memory.averaged, memory.averaged + 1.0)
    known = where(counts, cap, memory.cap), typical, fallen, seen.loss, averaged
    return *follow(memory, seen), *known


STEADY_POLYAK = Rule(
    name="steady polyak",
    formula=r"\gamma_k = \eta_k \varphi_k \min\{\kappa_k (f_k - \ell_k) / (c \|g_k\|^2),\ "
    r"\mathrm{cap}_k\}, \quad \mathrm{cap}_{k+1} = \min\{(1 + q_k)\,\mathrm{cap}_k,\ m_k\}",
    reference="of this package; Polyak's step of Zhang, Shi and Gu, the decrease of AdaSPS "
    "(Jiang and Stich, 2023)",
    options=(*(OWN.get(o.name, o) for o in POLYAK.options), OUTLOOK, ALIKE, REACH, TOTAL_STEPS),
    constants=("c", "kappa", "damping", "alike", "reach", "max_step", "outlook", "total_steps"),
    settle=settle,
    resolve=resolve_ratio,
    memory={**MEMORY, "cap": 0.0, "typical": 0.0, "fallen": 0.0, "last_loss": 0.0, "averaged": 0.0},
    start=start,
    remember=remember,
    weigh=weigh,
    steers=True,
    clips_last=True,
    letters=f"{LETTERS}, or less where batches are alike; m is the geometric mean of the last "
    "ratios; q is 2^(1/10) - 1 until losses fall, then phi^2 times that or 3/(2k + 2), if that is "
    "less; beta_k is beta, or nearer to 1 while losses fall fast (heavystep.rules.steady_polyak, "
    "docs/notation.md).",
    version=6,
)
