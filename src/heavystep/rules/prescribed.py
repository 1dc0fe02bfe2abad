"""Steps that no loss decides: the user's own, and those of an iterate moving average."""

from typing import Any

from heavystep import validation
from heavystep.rules.contract import Option, Rule, Search, Seen, constants
from heavystep.rules.primitives import batch_is_finite, where
from heavystep.rules.scaling import AMOUNT


def start_fixed(constants: Any, memory: Any, seen: Seen) -> Search:
    """The step is ``lr`` itself, so that it is 1 before this multiplier."""
    return Search(1.0, accepted=batch_is_finite(seen.loss, seen.grad_sqnorm), capped=False)


FIXED = Rule(
    name="fixed",
    formula=r"\gamma_k = \eta_k",
    reference="Polyak (1964)",
    options=(),
    start=start_fixed,
    reads=frozenset({"grad_sqnorm"}),
)


def law(constants: Any, count: Any) -> Any:
    """eta_k in units of ``lr``."""
    return (1.0 + count) ** -constants.eta_power


def start_ima(constants: Any, memory: Any, seen: Seen) -> Search:
    r"""gamma_k and beta_k; the multiplier ``lr`` is eta.

    .. math:: z_{k+1} = z_k - \eta_k g_k, \qquad
              \theta_{k+1} = \frac{\lambda_{k+1} \theta_k + z_{k+1}}{1 + \lambda_{k+1}}

    is heavy ball with the step and the momentum of the formula below, because
    :math:`z_k = \theta_k + \lambda_k (\theta_k - \theta_{k-1})`. With p = 0 they are
    2 eta / (k + 3) and k / (k + 3). The rate of the last iterate, with its proof, is
    :func:`heavystep.theory.last_iterate`.

    Not verified: the text of the publication was not at hand, and its lambda_k may carry another
    constant; ours is the one for which the proof closes.
    """
    eta, following = law(constants, memory.count), law(constants, memory.count + 1.0)
    divisor = 1.0 + (memory.total + eta) / (2.0 * following)
    carried = memory.total / (2.0 * eta)
    step = where(seen.grad_sqnorm > 0.0, eta / divisor, 0.0)
    accepted = batch_is_finite(seen.loss, seen.grad_sqnorm)
    return Search(step, accepted, capped=False, momentum=carried / divisor)


def remember_ima(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, ...]:
    """The sum of eta_j, and one step more."""
    return memory.total + law(constants, memory.count), memory.count + 1.0


SHB_IMA = Rule(
    name="shb-ima",
    formula=r"\gamma_k = \frac{\eta_k}{1 + \lambda_{k+1}}, \quad \beta_k = \frac{\lambda_k}"
    r"{1 + \lambda_{k+1}}, \quad \lambda_k = \frac{\sum_{j<k} \eta_j}{2 \eta_k}, \quad "
    r"\eta_k = \eta (1 + k)^{-p}",
    reference="Sebbouh, Gower and Defazio (2021), arXiv 2006.07867",
    options=(
        Option("eta_power", 0.0, validation.NON_NEGATIVE, "exponent p of the law of eta_k, >= 0; "
               "1/2 where the gradients are noisy.", symbol="p"),
    ),
    reads=frozenset({"grad_sqnorm"}),
    resolve=constants("eta_power"),
    memory=dict.fromkeys(("total", "count"), AMOUNT),
    start=start_ima,
    remember=remember_ima,
)  # fmt: skip
