r"""Relatives of the Polyak rule whose step multiplies the gradient.

With momentum some of them are methods for an average of iterates: in their publications
z_{k+1} = z_k - tau_k g_k and theta_{k+1} = (lambda theta_k + z_{k+1}) / (1 + lambda). That is heavy
ball with beta = lambda / (1 + lambda), gamma_k = (1 - beta) tau_k and
z_k = theta_k + lambda (theta_k - theta_{k-1}).

The formulas of AdaSPS (and of AdaSLS, a line search) are as Wu (2025), arXiv 2511.20207v2, quotes
Jiang and Stich in Section 2.1; no code of theirs is public.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from heavystep import validation
from heavystep.momentum import weight_of_next
from heavystep.rules.contract import Option, Rule, Search, Seen, constants
from heavystep.rules.polyak import LOWER_BOUND, C, capped_polyak
from heavystep.rules.primitives import (
    batch_is_finite,
    maximum,
    minimum,
    polyak_ratio,
    ratio,
    where,
)
from heavystep.rules.scaling import AMOUNT, LAST_STEP, MAX_STEP, damping, remember_step

DIVISOR = replace(C, text="divisor c, > 0.")
WITH_DRIFT = frozenset({"loss", "lower_bound", "grad_sqnorm", "drift"})


def start_alig(constants: Any, memory: Any, seen: Seen) -> Search:
    """A loss below its bound gives step 0 and not a step uphill, unlike the authors' code."""
    gap, moves = seen.loss - seen.lower_bound, seen.grad_sqnorm > 0.0
    found = capped_polyak(gap, seen.grad_sqnorm + constants.eps, constants.max_step)
    return Search(where(moves, found.step, 0.0), found.accepted, moves & found.capped)


ALIG = Rule(
    name="alig",
    formula=r"\gamma_k = \eta_k \min\{(f_k - \ell_k) / (\|g_k\|^2 + \varepsilon),\ \gamma_{\max}\}",
    reference="Berrada, Zisserman and Kumar (2020)",
    options=(
        MAX_STEP,
        LOWER_BOUND,
        Option("eps", 1e-5, validation.NON_NEGATIVE, "added to the squared norm, >= 0."),
    ),
    resolve=constants("max_step", "eps"),
    start=start_alig,
)


def damped_max_step(options: Mapping[str, Any]) -> Any:
    """The largest step, of a rule that multiplies ``max_step`` by 1 - beta."""
    return damping(options) * options["max_step"]


def start_momsps(constants: Any, memory: Any, seen: Seen) -> Search:
    """1 - beta times the Polyak step; it damps the cap as well."""
    gap, cap = seen.loss - seen.lower_bound, constants.max_step
    return capped_polyak(gap, seen.grad_sqnorm, cap, constants.c, constants.damping)


MOMSPS = Rule(
    name="momsps",
    formula=r"\gamma_k = \eta_k (1 - \beta) \min\{(f_k - \ell_k) / (c \|g_k\|^2),\ \gamma_{\max}\}",
    reference="Oikonomou and Loizou (2025)",
    options=(C, replace(MAX_STEP, default=10.0), LOWER_BOUND),
    resolve=constants("c", max_step=damped_max_step, damping=damping),
    start=start_momsps,
)


def start_ngn(constants: Any, memory: Any, seen: Seen) -> Search:
    """Gauss-Newton on the root of the loss, without a division by the loss, which may be 0."""
    twice = 2.0 * maximum(seen.loss - seen.lower_bound, 0.0)
    divisor = twice + constants.c * seen.grad_sqnorm
    step = ratio(constants.damping * constants.c * twice, divisor)
    accepted = batch_is_finite(seen.loss - seen.lower_bound, seen.grad_sqnorm)
    return Search(where(seen.grad_sqnorm > 0.0, step, 0.0), accepted, capped=False)


NGN = Rule(
    name="ngn",
    formula=r"\gamma_k = \eta_k (1 - \beta) c / (1 + c \|g_k\|^2 / (2 (f_k - \ell_k)))",
    reference="Orvieto and Xiao (2024)",
    options=(replace(C, text="the largest step c, > 0."), LOWER_BOUND),
    resolve=constants("c", damping=damping),
    start=start_ngn,
)


def start_alr_shb(constants: Any, memory: Any, seen: Seen) -> Search:
    """A Polyak step whose gap is changed by what the momentum does on its own.

    Not verified: the constant and the cap of the stochastic form are from memory of the
    publication.
    """
    ahead = seen.loss + constants.c * constants.momentum * seen.drift
    gap = ahead - seen.lower_bound
    return capped_polyak(gap, seen.grad_sqnorm, constants.max_step, constants.c)


ALR_SHB = Rule(
    name="alr-shb",
    formula=r"\gamma_k = \eta_k \min\{[(f_k - \ell_k) / (c \|g_k\|^2) + "
    r"\beta \langle g_k, \theta_k - \theta_{k-1}\rangle / \|g_k\|^2]_+,\ \gamma_{\max}\}",
    reference="Wang, Johansson and Zhang (2023)",
    options=(DIVISOR, replace(MAX_STEP, default=0.1), LOWER_BOUND),
    reads=WITH_DRIFT,
    resolve=constants("c", "max_step", "momentum"),
    start=start_alr_shb,
)


def loss_ahead(constants: Any, seen: Seen) -> Any:
    """The loss at z_k, as the gradient at theta_k foresees it."""
    return seen.loss + (1.0 - constants.damping) / constants.damping * seen.drift


def start_iam(constants: Any, memory: Any, seen: Seen) -> Search:
    """The Polyak step of z_k."""
    gap, cap = loss_ahead(constants, seen) - seen.lower_bound, constants.max_step
    return capped_polyak(gap, seen.grad_sqnorm, cap, kappa=constants.damping)


IAM = Rule(
    name="iam",
    formula=r"\gamma_k = \eta_k (1 - \beta) \min\{[f_k - \ell_k + \beta / (1 - \beta) "
    r"\langle g_k, \theta_k - \theta_{k-1}\rangle]_+ / \|g_k\|^2,\ \gamma_{\max}\}",
    reference="IAM, arXiv 2504.01898 (2025)",
    options=(MAX_STEP, LOWER_BOUND),
    reads=WITH_DRIFT,
    resolve=constants(max_step=damped_max_step, damping=damping),
    start=start_iam,
)


def first_sqnorm(memory: Any, seen: Seen) -> Any:
    """The first squared norm that was not 0."""
    return where(memory.first_sqnorm > 0.0, memory.first_sqnorm, seen.grad_sqnorm)


def start_sps_safe(constants: Any, memory: Any, seen: Seen) -> Search:
    """SPS_safe, and with momentum IMA_SPS_safe. Without a given M it is the first squared norm."""
    floor = where(constants.safeguard > 0.0, constants.safeguard, first_sqnorm(memory, seen))
    divisor = maximum(seen.grad_sqnorm, floor)
    gap = loss_ahead(constants, seen) - seen.lower_bound
    step = where(seen.grad_sqnorm > 0.0, polyak_ratio(gap, divisor, constants.damping), 0.0)
    accepted = batch_is_finite(seen.loss - seen.lower_bound, seen.grad_sqnorm)
    return Search(step, accepted, capped=False)


SPS_SAFE = Rule(
    name="sps_safe",
    formula=r"\gamma_k = \eta_k (1 - \beta) [f_k - \ell_k + \beta / (1 - \beta) "
    r"\langle g_k, \theta_k - \theta_{k-1}\rangle]_+ / \max\{\|g_k\|^2,\ M\}",
    reference="Oikonomou and Loizou, SPS_safe (2026), arXiv 2512.02342",
    options=(
        Option("safeguard", 1.0, validation.NON_NEGATIVE,
               "least divisor M, >= 0; 0 takes the first squared gradient norm.", symbol="M"),
        LOWER_BOUND,
    ),
    reads=WITH_DRIFT,
    resolve=constants("safeguard", damping=damping),
    memory={"first_sqnorm": AMOUNT},
    start=start_sps_safe,
    remember=lambda constants, memory, seen, search: (first_sqnorm(memory, seen),),
)  # fmt: skip


def start_sf_polyak(constants: Any, memory: Any, seen: Seen) -> Search:
    """The Polyak step of z under averaged heavy ball, where point k has weight k^p in the average.

    <g_k, z_k - theta_k> = beta <g_k, z_k - x_k>. Differs from the code of ScheduleFree+: its row in
    the registry says where.
    """
    ahead = seen.loss + constants.momentum * seen.drift
    gap = ahead - seen.lower_bound
    found = capped_polyak(gap, seen.grad_sqnorm, constants.max_step, constants.c)
    weight = weight_of_next(memory.count, constants.power)
    return Search(found.step, found.accepted, found.capped, weight=weight)


SF_POLYAK = Rule(
    name="sf-polyak",
    formula=r"a_k = \eta_k \min\{[f_k - \ell_k + \beta \langle g_k, z_k - x_k\rangle]_+ / "
    r"(c \|g_k\|^2),\ \gamma_{\max}\}, \quad w_k = (p + 1) / (k + p + 1)",
    reference="Schedule-Free with Polyak steps, arXiv 2511.07767v2 (2025)",
    options=(
        DIVISOR,
        replace(MAX_STEP, default=1e6, text="largest length of a move of z, > 0."),
        LOWER_BOUND,
        Option("power", 0.0, validation.NON_NEGATIVE,
               "p, >= 0: point k has weight k^p in the average.", symbol="p"),
    ),
    reads=WITH_DRIFT,
    resolve=constants("c", "max_step", "power", "momentum"),
    memory={"count": AMOUNT},
    start=start_sf_polyak,
    remember=lambda constants, memory, seen, search: (memory.count + 1.0,),
)  # fmt: skip


def start_decsps(constants: Any, memory: Any, seen: Seen) -> Search:
    """The step; ``scaled_step`` is c_{k-1} gamma_{k-1}, and c gamma_b at first.

    Not verified: MomDecSPS is derived from DecSPS; no code of it is public.
    """
    cap = minimum(memory.scaled_step, constants.c * constants.max_step)
    gap = seen.loss - seen.lower_bound
    scaled = capped_polyak(gap, seen.grad_sqnorm, cap, kappa=constants.damping)
    return Search(scaled.step / divisor_decsps(constants, memory), scaled.accepted, scaled.capped)


def divisor_decsps(constants: Any, memory: Any) -> Any:
    """c_k."""
    return constants.c * (memory.count + 1.0) ** 0.5


def remember_decsps(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, ...]:
    """One step more, and c_k gamma_k."""
    scaled = search.step * divisor_decsps(constants, memory)
    return memory.count + 1.0, remember_step(memory.scaled_step, scaled)


DECSPS = Rule(
    name="decsps",
    formula=r"\gamma_k = \eta_k \min\{(1 - \beta) (f_k - \ell_k) / \|g_k\|^2,\ "
    r"c_{k-1} \gamma_{k-1}\} / c_k, \quad c_k = c \sqrt{k + 1}",
    reference="Orvieto, Lacoste-Julien and Loizou (2022)",
    options=(
        replace(C, text="first divisor c_0, > 0."),
        replace(MAX_STEP, default=10.0, text="cap gamma_b of the first step, > 0.",
                symbol="gamma_b"),
        LOWER_BOUND,
    ),
    resolve=constants("c", "max_step", damping=damping),
    memory={"count": AMOUNT, "scaled_step": LAST_STEP},
    start=start_decsps,
    remember=remember_decsps,
)  # fmt: skip


def added(total: Any, first: Any, amount: Any) -> tuple[Any, Any]:
    """A sum with this step's amount, and the first amount that was not 0."""
    return total + amount, where(first > 0.0, first, amount)


def gaps(memory: Any, seen: Seen) -> tuple[Any, Any]:
    """The sum of the gaps, this step's included, and the first of them."""
    gap = maximum(seen.loss - seen.lower_bound, 0.0)
    return added(memory.gaps, memory.first_gap, gap)


def start_adasps(constants: Any, memory: Any, seen: Seen) -> Search:
    """A Polyak step divided by the root of all gaps, never longer than before.

    c_p = c / sqrt(f_0 - l_0) makes it free of units; the theorem with interpolation has c = 1.
    (Wu's Algorithm 3 prints squares under the root, which his Section 2.1 and proofs have not.)
    """
    total, first = gaps(memory, seen)
    share = constants.damping * ratio(first, total) ** 0.5
    gap = seen.loss - seen.lower_bound
    return capped_polyak(gap, seen.grad_sqnorm, memory.last_step, constants.c, share)


ADASPS = Rule(
    name="adasps",
    formula=r"\gamma_k = \eta_k \min\{(1 - \beta) (f_k - \ell_k) / (c \|g_k\|^2) "
    r"\sqrt{(f_0 - \ell_0) / \sum_{s \le k} (f_s - \ell_s)},\ \gamma_{k-1}\}",
    reference="Jiang and Stich (2023), as quoted by Wu (2025), Section 2.1",
    options=(DIVISOR, LOWER_BOUND),
    resolve=constants("c", damping=damping),
    memory={"gaps": AMOUNT, "first_gap": AMOUNT, "last_step": LAST_STEP},
    start=start_adasps,
    remember=lambda constants, memory, seen, search: (
        *gaps(memory, seen), remember_step(memory.last_step, search.step),
    ),
)  # fmt: skip
