r"""The Polyak step that needs no learning rate: small at first, capped by what is typical.

.. math:: r_k = \kappa\,\frac{f_k - \ell_k}{c\,\|g_k\|^2}, \qquad
          \gamma_k = \eta_k \min\{\varphi_k \min\{r_k,\ \mathrm{cap}_k\},\ \gamma_{\max}\}, \qquad
          \mathrm{cap}_{k+1} = \min\{2^{1/10}\,\mathrm{cap}_k,\ m_k\}

with level, share and averages of :mod:`heavystep.rules.steady`, cap_0 = r_0 / 1000, and m_k the
geometric mean of the ratios r over about the last fifty steps, in which one batch counts for at
most a factor of a hundred: a gradient a hundred times as large costs one small step. Nothing here
has a unit: scaling the loss or the parameters scales the steps with them.
"""

from math import inf
from typing import Any

from heavystep.rules.contract import Rule, Search, Seen
from heavystep.rules.polyak import POLYAK, polyak_step
from heavystep.rules.primitives import batch_is_finite, is_finite, maximum, minimum, where
from heavystep.rules.steady import (
    BEGIN,
    DOUBLING,
    LARGEST_STEP,
    LETTERS,
    MEMORY,
    OUTLOOK,
    SCALING,
    TOTAL_STEPS,
    UNKNOWN_BOUND,
    follow,
    level_of,
    resolve,
    settle,
    share_of,
)

WEIGHT = 0.02
"""Of the last ratio in the mean m_k."""
OUTLIER = 100.0
OWN = {option.name: option for option in (LARGEST_STEP, UNKNOWN_BOUND, SCALING)}


def ratio_of(constants: Any, memory: Any, seen: Seen) -> Any:
    """The Polyak step r_k alone."""
    level = level_of(memory, seen)
    return polyak_step(seen.loss, seen.grad_sqnorm, level, constants.c, constants.kappa, inf)


def cap_of(memory: Any, ratio: Any) -> Any:
    """cap_k; before the first step there is none yet."""
    return where(memory.typical > 0.0, memory.cap, BEGIN * ratio)


def start(constants: Any, memory: Any, seen: Seen) -> Search:
    """The step, which needs no trials."""
    ratio = ratio_of(constants, memory, seen)
    level, cap = level_of(memory, seen), cap_of(memory, ratio)
    wanted = share_of(constants, memory, level) * minimum(ratio, cap)
    step = minimum(wanted, constants.max_step)
    accepted = batch_is_finite(seen.loss - level, seen.grad_sqnorm)
    return Search(step, accepted, capped=(ratio > cap) | (wanted > constants.max_step))


def remember(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, ...]:
    """The losses, the cap of the next step and the typical ratio m_k."""
    ratio = ratio_of(constants, memory, seen)
    counts, first = (ratio > 0.0) & is_finite(ratio), memory.typical == 0.0
    before = where(first, where(counts, ratio, 1.0), memory.typical)
    usual = maximum(minimum(ratio, OUTLIER * before), before / OUTLIER)
    weight = maximum(WEIGHT, 1.0 / (memory.steps + 1.0))
    after = before * (usual / before) ** weight
    typical = where(counts, after, memory.typical)
    cap = minimum(DOUBLING * cap_of(memory, ratio), after)
    return *follow(memory, seen), where(counts, cap, memory.cap), typical


STEADY_POLYAK = Rule(
    name="steady polyak",
    formula=r"\gamma_k = \eta_k \varphi_k \min\{\kappa (f_k - \ell_k) / (c \|g_k\|^2),\ "
    r"\mathrm{cap}_k\}, \quad \mathrm{cap}_{k+1} = \min\{2^{1/10}\,\mathrm{cap}_k,\ m_k\}",
    reference="of this package; Polyak's step of Zhang, Shi and Gu, the decrease of AdaSPS "
    "(Jiang and Stich, 2023)",
    options=(*(OWN.get(o.name, o) for o in POLYAK.options), OUTLOOK, TOTAL_STEPS),
    constants=("c", "kappa", "max_step", "outlook", "total_steps"),
    settle=settle,
    resolve=resolve,
    memory={**MEMORY, "cap": 0.0, "typical": 0.0},
    start=start,
    remember=remember,
    clips_last=True,
    letters=f"{LETTERS}; m is the geometric mean of the last ratios (heavystep.rules.steady, "
    "docs/notation.md).",
    version=2,
)
