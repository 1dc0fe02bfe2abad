r"""The scalar :math:`\kappa` that tells the paper's three families of rules apart.

Every rule of the paper is the Polyak or the Armijo rule times one number:

=============  ==============  ==================================================
``scaling``    kappa           where
=============  ==============  ==================================================
``theory``     s_beta / 2      Section 2, eqs. (shb-ps) and (shb-ls); Theorems 1-5
``practical``  1 / 2           Appendix E, where r_beta = 1 / s_beta cancels s_beta
``plain``      1               Section 4; SPS and SLS when the momentum is 0
=============  ==============  ==================================================
"""

from collections.abc import Mapping
from typing import Any

from heavystep import validation
from heavystep.rules.contract import Option

SCALINGS = ("theory", "practical", "plain")
SCALING = Option(
    "scaling",
    "practical",
    SCALINGS,
    '"theory" (kappa = s_beta / 2), "practical" (1/2) or "plain" (1).',
)


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


def kappa_of(options: Mapping[str, Any]) -> Any:
    """Kappa of some options."""
    return kappa(options["scaling"], options["momentum"])


def damping(options: Mapping[str, Any]) -> Any:
    """1 - beta: it turns the step of an averaged iterate into one of heavy ball."""
    return 1.0 - options["momentum"]
