"""Relatives of the Polyak rule whose step multiplies the gradient.

With momentum some of them are methods for an average of iterates: in their publications
z_{k+1} = z_k - tau_k g_k and theta_{k+1} = (lambda theta_k + z_{k+1}) / (1 + lambda). That is heavy
ball with beta = lambda / (1 + lambda), gamma_k = (1 - beta) tau_k and
z_k = theta_k + lambda (theta_k - theta_{k-1}).
"""

from dataclasses import replace
from typing import Any

from heavystep import validation
from heavystep.momentum import weight_of_next
from heavystep.rules.contract import Option, Rule, Search, Seen, constants
from heavystep.rules.polyak import LOWER_BOUND, C, capped_polyak
from heavystep.rules.primitives import batch_is_finite, maximum, where
from heavystep.rules.scaling import AMOUNT, MAX_STEP, damping, remember_count

DIVISOR = replace(C, text="divisor c, > 0.")
WITH_DRIFT = frozenset({"loss", "lower_bound", "grad_sqnorm", "drift"})


def start_alig(constants: Any, memory: Any, seen: Seen) -> Search:
    """A loss below its bound gives step 0 and not a step uphill, unlike the authors' code."""
    square, moves = seen.grad_sqnorm + constants.eps, seen.grad_sqnorm > 0.0
    found = capped_polyak(seen.loss, square, seen.lower_bound, constants.max_step)
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


def start_momsps(constants: Any, memory: Any, seen: Seen) -> Search:
    """1 - beta times the Polyak step; it damps the cap as well."""
    square, low, share = seen.grad_sqnorm, seen.lower_bound, constants.damping
    return capped_polyak(seen.loss, square, low, share * constants.max_step, constants.c, share)


MOMSPS = Rule(
    name="momsps",
    formula=r"\gamma_k = \eta_k (1 - \beta) \min\{(f_k - \ell_k) / (c \|g_k\|^2),\ \gamma_{\max}\}",
    reference="Oikonomou and Loizou (2025)",
    options=(C, replace(MAX_STEP, default=10.0), LOWER_BOUND),
    resolve=constants("c", "max_step", damping=damping),
    start=start_momsps,
)


def start_ngn(constants: Any, memory: Any, seen: Seen) -> Search:
    """Gauss-Newton on the root of the loss, without a division by the loss, which may be 0."""
    twice = 2.0 * maximum(seen.loss - seen.lower_bound, 0.0)
    divisor = twice + constants.c * seen.grad_sqnorm
    step = constants.damping * constants.c * twice / where(divisor > 0.0, divisor, 1.0)
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
    low, cap = seen.lower_bound, constants.max_step
    return capped_polyak(ahead, seen.grad_sqnorm, low, cap, constants.c)


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
    ahead, cap = loss_ahead(constants, seen), constants.damping * constants.max_step
    low, share = seen.lower_bound, constants.damping
    return capped_polyak(ahead, seen.grad_sqnorm, low, cap, kappa=share)


IAM = Rule(
    name="iam",
    formula=r"\gamma_k = \eta_k (1 - \beta) \min\{[f_k - \ell_k + \beta / (1 - \beta) "
    r"\langle g_k, \theta_k - \theta_{k-1}\rangle]_+ / \|g_k\|^2,\ \gamma_{\max}\}",
    reference="IAM, arXiv 2504.01898 (2025)",
    options=(MAX_STEP, LOWER_BOUND),
    reads=WITH_DRIFT,
    resolve=constants("max_step", damping=damping),
    start=start_iam,
)


def first_sqnorm(memory: Any, seen: Seen) -> Any:
    """The first squared norm that was not 0."""
    return where(memory.first_sqnorm > 0.0, memory.first_sqnorm, seen.grad_sqnorm)


def start_sps_safe(constants: Any, memory: Any, seen: Seen) -> Search:
    """SPS_safe, and with momentum IMA_SPS_safe. Without a given M it is the first squared norm."""
    floor = where(constants.safeguard > 0.0, constants.safeguard, first_sqnorm(memory, seen))
    divisor = maximum(seen.grad_sqnorm, floor)
    gap = maximum(loss_ahead(constants, seen) - seen.lower_bound, 0.0)
    # `where` evaluates both branches: divide by 1 where no gradient has been seen yet.
    moved = where(seen.grad_sqnorm > 0.0, constants.damping * gap, 0.0)
    step = moved / where(divisor > 0.0, divisor, 1.0)
    accepted = batch_is_finite(seen.loss - seen.lower_bound, seen.grad_sqnorm)
    return Search(step, accepted, capped=divisor == floor)


def remember_sps_safe(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, ...]:
    """The first squared norm."""
    return (first_sqnorm(memory, seen),)


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
    remember=remember_sps_safe,
)  # fmt: skip


def start_sf_polyak(constants: Any, memory: Any, seen: Seen) -> Search:
    """The Polyak step of z under averaged heavy ball, where point k has weight k^p in the average.

    <g_k, z_k - theta_k> = beta <g_k, z_k - x_k>. Differs from the code of ScheduleFree+: its row in
    the registry says where.
    """
    ahead = seen.loss + constants.momentum * seen.drift
    low, cap = seen.lower_bound, constants.max_step
    found = capped_polyak(ahead, seen.grad_sqnorm, low, cap, constants.c)
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
    remember=remember_count,
)  # fmt: skip
