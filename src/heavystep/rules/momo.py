r"""MoMo: the Polyak step of an average of linear models of the loss.

.. math:: \gamma_k = \min\Big\{\frac{[\bar f_k + \langle d_k, \theta_k\rangle -
          \bar m_k]_+}{\|d_k\|^2},\ \frac{\gamma_{\max}}{\rho_k}\Big\}, \qquad
          \rho_k = 1 - \beta^{k+1}

with exponential averages from 0 on, weight beta on the past: \bar f of f - l, \bar m of
<g, theta>, and d of the gradients. Differs from the authors' code: averages begin at 0 and rho_k
corrects their bias, which there is an option; weight decay is not part of the model.
"""

from typing import Any

from heavystep import validation
from heavystep.momentum import exponential
from heavystep.rules.contract import Rule, Search, Seen, Slot, constants
from heavystep.rules.polyak import LOWER_BOUND, search_below
from heavystep.rules.smooth_reset import MAX_STEP


def averages(constants: Any, memory: Any, seen: Seen) -> tuple[Any, Any]:
    """Of gaps and of offsets, as the momentum form makes them of gradients."""
    gap = exponential(memory.gaps, seen.loss - seen.lower_bound, constants.momentum)
    return gap, exponential(memory.offsets, seen.grad_position, constants.momentum)


def start(constants: Any, memory: Any, seen: Seen) -> Search:
    """The step that multiplies d_k."""
    gap, offset = averages(constants, memory, seen)
    model = gap + seen.direction_position - offset
    cap = constants.max_step / (1.0 - constants.momentum * memory.power)
    return search_below(model, seen.direction_sqnorm, 0.0, 1.0, 1.0, cap)


def remember(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, ...]:
    """Both averages, and beta^(k+1)."""
    return *averages(constants, memory, seen), constants.momentum * memory.power


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
    memory={"gaps": 0.0, "offsets": 0.0, "power": Slot(1.0, validation.CLOSED_UNIT)},
    start=start,
    remember=remember,
)
