r"""Polyak and Armijo steps with a cap and a multiplier that fade by power laws.

.. math:: \gamma_k = \eta_k \min\Big\{\frac{f_k - \ell_k}{c\,\|g_k\|^2},\ \gamma_{\max,k}\Big\}
          \qquad\text{or}\qquad \gamma_k = \eta_k\,\mathrm{Armijo}(\gamma_{\max,k}),

.. math:: \eta_k = (1 + k/h)^{-a}, \qquad \gamma_{\max,k} = \gamma_{\max} (1 + k/h)^{-b}

Armijo(t) is the step that backtracking from t accepts. The rule counts the steps itself, those that
were refused left out. Not verified: the publication's exponents; the defaults are those that Zhang,
Shi and Gu use for their methods with momentum.
"""

from dataclasses import replace
from typing import Any

from heavystep import validation
from heavystep.rules.armijo import sufficient_loss
from heavystep.rules.backtracking import OPTIONS, READS, begin, judge, skip_below
from heavystep.rules.contract import Option, Rule, Search, Seen, Slot, constants
from heavystep.rules.polyak import LOWER_BOUND, polyak_step
from heavystep.rules.primitives import batch_is_finite
from heavystep.rules.smooth_reset import MAX_STEP

C = Option("c", 1.0, validation.POSITIVE, "divisor c of the Polyak ratio, > 0.")
LAWS = (
    replace(MAX_STEP, text="largest step gamma_max before the multiplier at first, > 0."),
    Option("eta_power", 0.4, validation.NON_NEGATIVE, "exponent a of the multiplier, >= 0.",
           symbol="a"),
    Option("max_step_power", 0.3, validation.NON_NEGATIVE, "exponent b of the cap, >= 0.",
           symbol="b"),
    Option("horizon", 1e4, validation.POSITIVE, "h, steps after which they fade, > 0.",
           symbol="h"),
)  # fmt: skip
COUNT = {"count": Slot(0.0, validation.NON_NEGATIVE)}
FADING = ("max_step", "eta_power", "max_step_power", "horizon")


def faded(constants: Any, memory: Any, power: Any) -> Any:
    """The power law at this step."""
    return (1.0 + memory.count / constants.horizon) ** -power


def cap(constants: Any, memory: Any) -> Any:
    """gamma_max,k."""
    return constants.max_step * faded(constants, memory, constants.max_step_power)


def start_polyak(constants: Any, memory: Any, seen: Seen) -> Search:
    """The step, which needs no trials."""
    most = cap(constants, memory)
    step = polyak_step(seen.loss, seen.grad_sqnorm, seen.lower_bound, constants.c, 1.0, most)
    accepted = batch_is_finite(seen.loss - seen.lower_bound, seen.grad_sqnorm)
    eta = faded(constants, memory, constants.eta_power)
    return Search(eta * step, accepted, capped=step == most)


def start(constants: Any, memory: Any, seen: Seen) -> Search:
    """Begin at gamma_max,k."""
    return begin(constants, seen, seen.lower_bound, cap(constants, memory))


def advance(constants: Any, memory: Any, seen: Seen, search: Search, trial_loss: Any) -> Search:
    """Armijo's condition at the trial, of which the multiplier is not a part."""
    enough = sufficient_loss(constants, memory, seen, search.trial)
    step = faded(constants, memory, constants.eta_power) * search.trial
    return judge(constants, search, trial_loss, enough, seen.lower_bound, step, search.capped)


def remember(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, ...]:
    """One step more."""
    return (memory.count + 1.0,)


SPS_DEC = Rule(
    name="decreasing polyak",
    formula=r"\gamma_k = \eta_k (1 + k/h)^{-a} \min\{(f_k - \ell_k) / (c \|g_k\|^2),\ "
    r"\gamma_{\max} (1 + k/h)^{-b}\}",
    reference="Sebbouh, Gower and Defazio (2021)",
    options=(C, *LAWS, LOWER_BOUND),
    resolve=constants("c", *FADING),
    memory=COUNT,
    start=start_polyak,
    remember=remember,
)
SLS_DEC = Rule(
    name="decreasing armijo",
    formula=r"\gamma_k = \eta_k (1 + k/h)^{-a} t_k, \qquad t_k \text{ the largest } t \in "
    r"\{\gamma_{\max} (1 + k/h)^{-b} \omega^j\} \text{ with } "
    r"f(\theta_k - t g_k; x_k) \le f_k - c\,t\,\|g_k\|^2",
    reference="Sebbouh, Gower and Defazio (2021)",
    options=(
        replace(C, default=0.5, allowed=validation.OPEN_UNIT, text="sufficient decrease constant."),
        *LAWS,
        *OPTIONS,
    ),
    reads=READS,
    resolve=constants("c", *FADING, "decrease_factor", "max_trials"),
    memory=COUNT, start=start, skip=skip_below(sufficient_loss), advance=advance,
    remember=remember,
)  # fmt: skip
