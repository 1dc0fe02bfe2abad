r"""AdaSPS: Polyak steps divided by the root of all gaps so far, in the units of the first gap.

.. math:: \gamma_k = \min\Big\{(1 - \beta)\frac{f_k - \ell_k}{c\,\|g_k\|^2}
          \sqrt{\frac{f_0 - \ell_0}{\sum_{s \le k} (f_s - \ell_s)}},\ \gamma_{k-1}\Big\}

With momentum this is MomAdaSPS, where 1 - beta turns the step of an averaged iterate into one of
heavy ball; it is derived from AdaSPS. AdaSPS divides by c_p sqrt(sum), and c_p = c / sqrt(f_0 -
l_0) makes it free of units; its theorem where one point fits all has c = 1. As Wu (2025), arXiv
2511.20207v2, quotes Jiang and Stich: Section 2.1, Lemma 3 and Theorem 4; no code of theirs is
public. (Wu's Algorithm 3 prints squares under the root, which his Section 2.1 and proofs have not.)
"""

from typing import Any

from heavystep import validation
from heavystep.rules.contract import Option, Rule, Search, Seen, Slot, constants
from heavystep.rules.polyak import LOWER_BOUND, polyak_step
from heavystep.rules.primitives import batch_is_finite, maximum, where
from heavystep.rules.scaling import damping
from heavystep.rules.smooth_reset import LAST_STEP, remember_step


def start(constants: Any, memory: Any, seen: Seen) -> Search:
    """The step."""
    gap = maximum(seen.loss - seen.lower_bound, 0.0)
    total = memory.gaps + gap
    first = where(memory.first_gap > 0.0, memory.first_gap, gap)
    shrink = (first / where(total > 0.0, total, 1.0)) ** 0.5
    step = polyak_step(
        seen.loss,
        seen.grad_sqnorm,
        seen.lower_bound,
        constants.c,
        constants.damping * shrink,
        memory.last_step,
    )
    accepted = batch_is_finite(seen.loss - seen.lower_bound, seen.grad_sqnorm)
    return Search(step, accepted, capped=step == memory.last_step)


def remember(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, ...]:
    """The sum of the gaps, the first one, and the step."""
    gap = maximum(seen.loss - seen.lower_bound, 0.0)
    first = where(memory.first_gap > 0.0, memory.first_gap, gap)
    return memory.gaps + gap, first, remember_step(memory.last_step, search.step)


ADASPS = Rule(
    name="adasps",
    formula=r"\gamma_k = \eta_k \min\{(1 - \beta) (f_k - \ell_k) / (c \|g_k\|^2) "
    r"\sqrt{(f_0 - \ell_0) / \sum_{s \le k} (f_s - \ell_s)},\ \gamma_{k-1}\}",
    reference="Jiang and Stich (2023), as quoted by Wu (2025), Section 2.1",
    options=(Option("c", 1.0, validation.POSITIVE, "divisor c, > 0."), LOWER_BOUND),
    resolve=constants("c", damping=damping),
    memory={
        "gaps": Slot(0.0, validation.NON_NEGATIVE),
        "first_gap": Slot(0.0, validation.NON_NEGATIVE),
        "last_step": LAST_STEP,
    },
    start=start,
    remember=remember,
)
