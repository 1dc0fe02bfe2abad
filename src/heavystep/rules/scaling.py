r"""The scaling kappa and the cap of a step, which both rules of the paper share.

Every rule of the paper is the Polyak or the Armijo rule times one number:

=============  ==============  ==================================================
``scaling``    kappa           where
=============  ==============  ==================================================
``theory``     s_beta / 2      Section 2, eqs. (shb-ps) and (shb-ls); Theorems 1-5
``practical``  1 / 2           Appendix E, where r_beta = 1 / s_beta cancels s_beta
``plain``      1               Section 4; SPS and SLS when the momentum is 0
=============  ==============  ==================================================

With a smooth reset the step may grow only slowly:

.. math:: \mathrm{cap}_k = \min\{q\,\gamma_{k-1}/\eta_{k-1},\ \gamma_{\max,k}\},
          \qquad q = \mathrm{growth}^{1/n_b}

In Appendix E the growth over an epoch of :math:`n_b` steps is 4 for Polyak and 2 for Armijo.
``last_step`` = gamma_{k-1} / eta_{k-1} is the last positive step before its outer multiplier. It
starts at infinity, and without a reset q is infinite, so that neither needs a case of its own.

SLS (Vaswani et al. 2019) has three resets: a search begins at the last step (growth = 1), at q
times that, or at gamma_max (n_b = None). Differs from its code: no step exceeds gamma_max.
"""

from collections.abc import Mapping
from math import inf
from typing import Any

from heavystep import validation
from heavystep.rules.contract import Option, Search, Seen, Slot
from heavystep.rules.primitives import minimum, where

SCALINGS = ("theory", "practical", "plain")
SCALING = Option(
    "scaling",
    "practical",
    SCALINGS,
    '"theory" (kappa = s_beta / 2), "practical" (1/2) or "plain" (1).',
)
MAX_STEP = Option(
    "max_step", 1.0, validation.POSITIVE, "largest step gamma_max before the multiplier, > 0."
)
STEPS_PER_EPOCH = Option(
    "steps_per_epoch",
    None,
    validation.AT_LEAST_ONE,
    "n_b of the smooth reset, >= 1: the number of batches in an epoch. None, the default, turns "
    "the reset off. The paper's experiments use it.",
    optional=True,
)
GROWTH = Option(
    "growth", 4.0, validation.AT_LEAST_ONE, "how much the step may grow over n_b steps, >= 1."
)
OPTIONS = (SCALING, STEPS_PER_EPOCH, GROWTH)
LAST_STEP = Slot(inf, validation.STEP)
AMOUNT = Slot(0.0, validation.NON_NEGATIVE)
"""A count or a sum, which begins at 0."""


def momentum_factor(momentum: Any) -> Any:
    r"""Damping :math:`s_\beta = (1 - \sqrt{\beta})^2` of the step by the momentum.

    >>> momentum_factor(0.25)
    0.25

    Reference: Zhang, Shi and Gu, eqs. (shb-ps) and (shb-ls-parameters).
    """
    return (1.0 - momentum**0.5) ** 2


def kappa(scaling: str, momentum: Any) -> Any:
    """The factor of the table above; only ``"theory"`` depends on the momentum.

    >>> kappa("theory", 0.25), kappa("practical", 0.25), kappa("plain", 0.25)
    (0.125, 0.5, 1.0)
    """
    validation.choice("scaling", scaling, SCALINGS)
    if scaling == "theory":
        return momentum_factor(momentum) / 2.0
    return 0.5 if scaling == "practical" else 1.0


# Constants that rules make of their options.


def kappa_of(options: Mapping[str, Any]) -> Any:
    """Kappa of some options."""
    return kappa(options["scaling"], options["momentum"])


def growth_of(options: Mapping[str, Any]) -> float:
    """The factor q by which a step may exceed the previous one; infinite without a reset.

    >>> growth_of({"growth": 4.0, "steps_per_epoch": 2})
    2.0
    """
    steps = options["steps_per_epoch"]
    return inf if steps is None else options["growth"] ** (1.0 / steps)


def damping(options: Mapping[str, Any]) -> Any:
    """1 - beta: it turns the step of an averaged iterate into one of heavy ball."""
    return 1.0 - options["momentum"]


def cap_of(constants: Any, memory: Any) -> Any:
    """cap_k, the largest step allowed now, before the outer multiplier."""
    return minimum(constants.growth_factor * memory.last_step, constants.max_step)


# What rules remember.


def remember_step(last_step: Any, step: Any) -> Any:
    """``last_step`` for the next iteration: the step just taken, if it was one.

    A zero step leaves the memory as it was, because no factor would make zero grow again.

    >>> remember_step(0.5, 0.25), remember_step(0.5, 0.0)
    (0.25, 0.5)
    """
    return where(step > 0.0, step, last_step)


def remember(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, ...]:
    """The memory of rules that remember nothing but the last step."""
    return (remember_step(memory.last_step, search.step),)
