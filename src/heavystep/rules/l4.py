r"""L4: the step that would reach a fraction of the way to an estimated least loss.

.. math:: \gamma_k = \alpha\,\frac{f_k - \varphi L_k}{\langle \hat d_k, \hat d_k\rangle +
          \varepsilon}, \qquad \hat d_k = \frac{d_k}{1 - \beta^{k+1}}, \qquad
          L_k = \min\{f_k,\ (1 + 1/\tau) L_{k-1}\}, \quad L_0 = \rho f_0

d_k is the average of gradients; the division corrects its bias.
"""

from typing import Any

from heavystep import validation
from heavystep.rules.contract import Option, Rule, Search, Seen, Slot, constants
from heavystep.rules.primitives import batch_is_finite, maximum, minimum, where


def least_loss(constants: Any, memory: Any, seen: Seen) -> Any:
    """L_k; the first loss is the one before which no momentum has faded."""
    first = memory.power == 1.0
    grown = memory.least * (1.0 + 1.0 / constants.forget)
    return minimum(seen.loss, where(first, constants.first_share * seen.loss, grown))


def start(constants: Any, memory: Any, seen: Seen) -> Search:
    """The step that multiplies d_k, which has the bias in it."""
    bias = 1.0 - memory.power * constants.momentum
    gap = maximum(seen.loss - constants.least_share * least_loss(constants, memory, seen), 0.0)
    square = seen.direction_sqnorm / (bias * bias) + constants.eps
    step = where(seen.direction_sqnorm > 0.0, constants.fraction * gap / square / bias, 0.0)
    return Search(step, batch_is_finite(seen.loss, seen.direction_sqnorm), capped=False)


def remember(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, ...]:
    """The estimate of the least loss, and beta^(k+1)."""
    return least_loss(constants, memory, seen), memory.power * constants.momentum


L4 = Rule(
    name="l4",
    formula=r"\gamma_k = \eta_k \alpha (f_k - \varphi L_k) / (\|\hat d_k\|^2 + \varepsilon)",
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
    memory={"least": 0.0, "power": Slot(1.0, validation.CLOSED_UNIT)},
    start=start,
    remember=remember,
)  # fmt: skip
