r"""Steps that decrease, for losses that do not vanish together: DecSPS, AdaSPS, AdaSLS.

The formulas of AdaSPS and AdaSLS are as Wu (2025), arXiv 2511.20207v2, quotes Jiang and Stich in
Section 2.1; no code of theirs is public. With momentum, 1 - beta turns the step of an averaged
iterate into one of heavy ball.
"""

from dataclasses import replace
from typing import Any

from heavystep import validation
from heavystep.rules.armijo import OPTIONS, READS, SEARCHED, backtracking
from heavystep.rules.contract import Option, Rule, Search, Seen, constants
from heavystep.rules.polyak import LOWER_BOUND, C, capped_polyak
from heavystep.rules.primitives import maximum, minimum, where
from heavystep.rules.scaling import AMOUNT, LAST_STEP, MAX_STEP, damping, remember_step


def start_decsps(constants: Any, memory: Any, seen: Seen) -> Search:
    """The step; ``scaled_step`` is c_{k-1} gamma_{k-1}, and c gamma_b at first.

    Not verified: MomDecSPS is derived from DecSPS; no code of it is public.
    """
    cap = minimum(memory.scaled_step, constants.c * constants.max_step)
    square, low = seen.grad_sqnorm, seen.lower_bound
    scaled = capped_polyak(seen.loss, square, low, cap, kappa=constants.damping)
    divisor = constants.c * (memory.count + 1.0) ** 0.5
    return Search(scaled.step / divisor, scaled.accepted, scaled.capped)


def remember_decsps(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, ...]:
    """One step more, and c_k gamma_k."""
    scaled = search.step * (constants.c * (memory.count + 1.0) ** 0.5)
    return memory.count + 1.0, remember_step(memory.scaled_step, scaled)


DECSPS = Rule(
    name="decsps",
    formula=r"\gamma_k = \eta_k \min\{(1 - \beta) (f_k - \ell_k) / \|g_k\|^2,\ "
    r"c_{k-1} \gamma_{k-1}\} / c_k, \quad c_k = c \sqrt{k + 1}",
    reference="Orvieto, Lacoste-Julien and Loizou (2022)",
    options=(
        Option("c", 1.0, validation.POSITIVE, "first divisor c_0, > 0."),
        Option("max_step", 10.0, validation.POSITIVE, "cap gamma_b of the first step, > 0.",
               symbol="gamma_b"),
        LOWER_BOUND,
    ),
    resolve=constants("c", "max_step", damping=damping),
    memory={"count": AMOUNT, "scaled_step": LAST_STEP},
    start=start_decsps,
    remember=remember_decsps,
)  # fmt: skip


def gaps(memory: Any, seen: Seen) -> tuple[Any, Any]:
    """The sum of the gaps, this step's included, and the first of them."""
    gap = maximum(seen.loss - seen.lower_bound, 0.0)
    return memory.gaps + gap, where(memory.first_gap > 0.0, memory.first_gap, gap)


def start_adasps(constants: Any, memory: Any, seen: Seen) -> Search:
    """A Polyak step divided by the root of all gaps, never longer than before.

    c_p = c / sqrt(f_0 - l_0) makes it free of units; the theorem with interpolation has c = 1.
    (Wu's Algorithm 3 prints squares under the root, which his Section 2.1 and proofs have not.)
    """
    total, first = gaps(memory, seen)
    share = constants.damping * (first / where(total > 0.0, total, 1.0)) ** 0.5
    square, low = seen.grad_sqnorm, seen.lower_bound
    return capped_polyak(seen.loss, square, low, memory.last_step, constants.c, share)


def remember_adasps(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, ...]:
    """The sum of the gaps, the first one, and the step."""
    return *gaps(memory, seen), remember_step(memory.last_step, search.step)


ADASPS = Rule(
    name="adasps",
    formula=r"\gamma_k = \eta_k \min\{(1 - \beta) (f_k - \ell_k) / (c \|g_k\|^2) "
    r"\sqrt{(f_0 - \ell_0) / \sum_{s \le k} (f_s - \ell_s)},\ \gamma_{k-1}\}",
    reference="Jiang and Stich (2023), as quoted by Wu (2025), Section 2.1",
    options=(replace(C, text="divisor c, > 0."), LOWER_BOUND),
    resolve=constants("c", damping=damping),
    memory={"gaps": AMOUNT, "first_gap": AMOUNT, "last_step": LAST_STEP},
    start=start_adasps,
    remember=remember_adasps,
)


def gains(memory: Any, seen: Seen, trial: Any) -> tuple[Any, Any]:
    """The sum of a_s ||g_s||^2, this step's included, and the first of them."""
    gain = trial * seen.grad_sqnorm
    return memory.gains + gain, where(memory.first_gain > 0.0, memory.first_gain, gain)


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


def remember_adasls(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, ...]:
    """The sum, its first term, and the step. Without a search the trial is 0."""
    return *gains(memory, seen, search.trial), remember_step(memory.last_step, search.step)


ADASLS = Rule(
    name="adasls",
    formula=r"\gamma_k = \eta_k \min\Big\{\frac{a_k}{d} \sqrt{a_0 \|g_0\|^2 / "
    r"\sum_{s \le k} a_s \|g_s\|^2},\ \gamma_{k-1}\Big\}, \quad a_k \text{ the Armijo step}",
    reference="Jiang and Stich (2023), as quoted by Wu (2025), Section 2.1; not the AdaSLS of "
    "Vaswani et al. (2020)",
    options=(
        Option("c", 0.5, validation.OPEN_UNIT, "sufficient decrease constant rho, in (0, 1).",
               symbol="rho"),
        Option("divisor", 2.0, validation.POSITIVE, "divisor d of the step, > 0; the theorem's "
               "is 1 / ``c``.", symbol="d"),
        MAX_STEP,
        *OPTIONS,
    ),
    reads=READS,
    resolve=constants(*SEARCHED, "divisor"),
    memory={"gains": AMOUNT, "first_gain": AMOUNT, "last_step": LAST_STEP},
    remember=remember_adasls,
    **backtracking(first_adasls, step=step_adasls),
)  # fmt: skip
