"""Relatives of the Polyak rule whose step multiplies d_k, torch's buffer or an average."""

from dataclasses import replace
from math import inf
from typing import Any

from heavystep import validation
from heavystep.momentum import exponential
from heavystep.rules.contract import Option, Rule, Search, Seen, Slot, constants
from heavystep.rules.polyak import LOWER_BOUND, C, capped_polyak, polyak_step
from heavystep.rules.primitives import batch_is_finite, maximum, minimum, where
from heavystep.rules.scaling import AMOUNT, GROWTH, LAST_STEP, MAX_STEP, growth_of, remember_step

POWER_OF_BETA = Slot(1.0, validation.CLOSED_UNIT)
"""beta^k, for the bias of averages that begin at 0."""


def least_loss(constants: Any, memory: Any, seen: Seen) -> Any:
    """L_k; the first loss is the one before which no momentum has faded."""
    first = memory.power == 1.0
    grown = memory.least * (1.0 + 1.0 / constants.forget)
    return minimum(seen.loss, where(first, constants.first_share * seen.loss, grown))


def start_l4(constants: Any, memory: Any, seen: Seen) -> Search:
    """A fraction of the way to an estimated least loss L_k; d_k itself has the bias in it."""
    bias = 1.0 - memory.power * constants.momentum
    gap = maximum(seen.loss - constants.least_share * least_loss(constants, memory, seen), 0.0)
    square = seen.direction_sqnorm / (bias * bias) + constants.eps
    step = where(seen.direction_sqnorm > 0.0, constants.fraction * gap / square / bias, 0.0)
    return Search(step, batch_is_finite(seen.loss, seen.direction_sqnorm), capped=False)


L4 = Rule(
    name="l4",
    formula=r"\gamma_k = \eta_k \alpha (f_k - \varphi L_k) / (\|\hat d_k\|^2 + \varepsilon), \quad "
    r"\hat d_k = d_k / (1 - \beta^{k+1}), \quad L_k = \min\{f_k, (1 + 1/\tau) L_{k-1}\}, \quad "
    r"L_0 = \rho f_0",
    reference="Rolinek and Martius (2018)",
    options=(
        Option("fraction", 0.15, validation.POSITIVE, "alpha, the part of the way, > 0.",
               symbol="alpha"),
        Option("least_share", 0.9, validation.UNIT, "phi, the share of L_k to aim at, in [0, 1).",
               symbol="phi"),
        Option("first_share", 0.75, validation.UNIT, "rho, L_0 as a share of the first loss.",
               symbol="rho"),
        Option("forget", 1000.0, validation.POSITIVE, "tau, the steps after which L_k has grown.",
               symbol="tau"),
        Option("eps", 1e-12, validation.POSITIVE, "added to the squared norm, > 0."),
    ),
    reads=frozenset({"loss", "grad_sqnorm", "direction_sqnorm"}),
    resolve=constants("fraction", "least_share", "first_share", "forget", "eps", "momentum"),
    memory={"least": 0.0, "power": POWER_OF_BETA},
    start=start_l4,
    remember=lambda constants, memory, seen, search: (
        least_loss(constants, memory, seen), memory.power * constants.momentum,
    ),
)  # fmt: skip


def start_alr_smag(constants: Any, memory: Any, seen: Seen) -> Search:
    """The Polyak step of torch's momentum buffer."""
    gap = seen.loss - seen.lower_bound
    return capped_polyak(gap, seen.direction_sqnorm, constants.max_step, constants.c)


ALR_SMAG = Rule(
    name="alr-smag",
    formula=r"\gamma_k = \eta_k \min\{(f_k - \ell_k) / (c \|d_k\|^2),\ \gamma_{\max}\}",
    reference="Wang, Johansson and Zhang (2023)",
    options=(replace(C, text="divisor c, > 0."), replace(MAX_STEP, default=0.1), LOWER_BOUND),
    reads=frozenset({"loss", "lower_bound", "grad_sqnorm", "direction_sqnorm"}),
    resolve=constants("c", "max_step"),
    start=start_alr_smag,
)


def fading_gaps(constants: Any, memory: Any, seen: Seen) -> Any:
    """D_k."""
    return constants.fading * memory.gaps + maximum(seen.loss - seen.lower_bound, 0.0)


def start_sgdm_aps(constants: Any, memory: Any, seen: Seen) -> Search:
    """A Polyak step of torch's buffer, with gaps that fade as it does, and a smooth reset."""
    last = where(memory.last_step < inf, memory.last_step, constants.first_step)
    cap, gaps = constants.growth_factor * last, fading_gaps(constants, memory, seen)
    step = polyak_step(gaps, seen.direction_sqnorm, 0.0, constants.c, constants.damping, cap)
    accepted = batch_is_finite(seen.loss - seen.lower_bound, seen.direction_sqnorm)
    return Search(step, accepted, capped=step == cap)


SGDM_APS = Rule(
    name="sgdm-aps",
    formula=r"\gamma_k = \eta_k \min\{(1 - \sqrt\beta) D_k / (c \|d_k\|^2),\ q \gamma_{k-1}\}, "
    r"\quad D_k = \beta^{3/2} D_{k-1} + f_k - \ell_k",
    reference="Zhang, Jin and Gu (2025)",
    options=(
        replace(C, default=0.2, text="divisor c, > 0."),
        Option("first_step", 100.0, validation.POSITIVE, "the step before the first, > 0."),
        LOWER_BOUND,
        Option("steps_per_epoch", 390, validation.AT_LEAST_ONE,
               "n_b, the number of batches in an epoch, >= 1."),
        replace(GROWTH, default=2.0),
    ),
    reads=frozenset({"loss", "lower_bound", "grad_sqnorm", "direction_sqnorm"}),
    resolve=constants(
        "c", "first_step", growth_factor=growth_of,
        damping=lambda options: 1.0 - options["momentum"] ** 0.5,
        fading=lambda options: options["momentum"] ** 1.5,
    ),
    memory={"gaps": AMOUNT, "last_step": LAST_STEP},
    start=start_sgdm_aps,
    remember=lambda constants, memory, seen, search: (
        fading_gaps(constants, memory, seen), remember_step(memory.last_step, search.step),
    ),
)  # fmt: skip


def averages(constants: Any, memory: Any, seen: Seen) -> tuple[Any, Any]:
    """Averages of gaps and of <g, theta>, with the weights of the momentum form."""
    gap = exponential(memory.gaps, seen.loss - seen.lower_bound, constants.momentum)
    return gap, exponential(memory.offsets, seen.grad_position, constants.momentum)


def start_momo(constants: Any, memory: Any, seen: Seen) -> Search:
    """The Polyak step of an average of linear models of the loss.

    Differs from the authors' code: averages begin at 0 and 1 - beta^(k+1) corrects their bias,
    which is an option there; weight decay is not part of the model.
    """
    gap, offset = averages(constants, memory, seen)
    model = gap + seen.direction_position - offset
    cap = constants.max_step / (1.0 - constants.momentum * memory.power)
    return capped_polyak(model, seen.direction_sqnorm, cap)


MOMO = Rule(
    name="momo",
    formula=r"\gamma_k = \eta_k \min\{[\bar f_k + \langle d_k, \theta_k\rangle - \bar m_k]_+ / "
    r"\|d_k\|^2,\ \gamma_{\max} / (1 - \beta^{k+1})\}",
    reference="Schaipp et al. (2024)",
    options=(MAX_STEP, LOWER_BOUND),
    reads=frozenset(
        {"loss", "lower_bound", "direction_sqnorm", "grad_position", "direction_position"}
    ),
    resolve=constants("max_step", "momentum"),
    memory={"gaps": 0.0, "offsets": 0.0, "power": POWER_OF_BETA},
    start=start_momo,
    remember=lambda constants, memory, seen, search: (
        *averages(constants, memory, seen), constants.momentum * memory.power,
    ),
)  # fmt: skip
