r"""SPS_safe: a Polyak step whose divisor cannot vanish, alone and under averaged iterates.

.. math:: \gamma_k = (1 - \beta) \frac{[f_k - \ell_k + \frac{\beta}{1 - \beta}
          \langle g_k, \theta_k - \theta_{k-1}\rangle]_+}{\max\{\|g_k\|^2,\ M\}}

With beta = 0 this is SPS_safe. With momentum it is IMA_SPS_safe, which is published as
z_{k+1} = z_k - eta_k g_k, theta_{k+1} = (lambda theta_k + z_{k+1}) / (1 + lambda): heavy ball with
beta = lambda / (1 + lambda) and gamma_k = (1 - beta) eta_k, as in :mod:`heavystep.rules.iam`.
"""

from typing import Any

from heavystep import validation
from heavystep.rules.contract import Option, Rule, Search, Seen, Slot, constants
from heavystep.rules.polyak import LOWER_BOUND
from heavystep.rules.primitives import batch_is_finite, maximum, where
from heavystep.rules.scaling import damping


def first_sqnorm(memory: Any, seen: Seen) -> Any:
    """The first squared norm that was not 0."""
    return where(memory.first_sqnorm > 0.0, memory.first_sqnorm, seen.grad_sqnorm)


def start(constants: Any, memory: Any, seen: Seen) -> Search:
    """The step; without a given M, that is the first squared norm."""
    first = first_sqnorm(memory, seen)
    floor = where(constants.safeguard > 0.0, constants.safeguard, first)
    divisor = maximum(seen.grad_sqnorm, floor)
    ahead = seen.loss + (1.0 - constants.damping) / constants.damping * seen.drift
    gap = maximum(ahead - seen.lower_bound, 0.0)
    # `where` evaluates both branches: divide by 1 where no gradient has been seen yet.
    moved = where(seen.grad_sqnorm > 0.0, constants.damping * gap, 0.0)
    step = moved / where(divisor > 0.0, divisor, 1.0)
    accepted = batch_is_finite(seen.loss - seen.lower_bound, seen.grad_sqnorm)
    return Search(step, accepted, capped=divisor == floor)


def remember(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, ...]:
    """The first squared norm that was not 0."""
    return (first_sqnorm(memory, seen),)


SPS_SAFE = Rule(
    name="sps_safe",
    formula=r"\gamma_k = \eta_k (1 - \beta) [f_k - \ell_k + \beta / (1 - \beta) "
    r"\langle g_k, \theta_k - \theta_{k-1}\rangle]_+ / \max\{\|g_k\|^2,\ M\}",
    reference="Oikonomou and Loizou, SPS_safe (2026), arXiv 2512.02342",
    options=(
        Option(
            "safeguard", 1.0, validation.NON_NEGATIVE,
            "least divisor M, >= 0; 0 takes the first squared gradient norm.", symbol="M",
        ),
        LOWER_BOUND,
    ),
    reads=frozenset({"loss", "lower_bound", "grad_sqnorm", "drift"}),
    resolve=constants("safeguard", damping=damping),
    memory={"first_sqnorm": Slot(0.0, validation.NON_NEGATIVE)},
    start=start,
    remember=remember,
)  # fmt: skip
