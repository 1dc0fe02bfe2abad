"""The paper's own methods and its baselines."""

from dataclasses import replace
from typing import Any

from heavystep import validation
from heavystep.methods.method import Method
from heavystep.methods.registry import method_of, register
from heavystep.momentum import AVERAGED
from heavystep.rules import (
    ARMIJO,
    FIXED,
    POLYAK,
    REQUIRED,
    SCALINGS,
    STEADY_ARMIJO,
    STEADY_POLYAK,
    Option,
)

PAPER, IN_PAPER = "Zhang, Shi and Gu", "paper"
WITHOUT_MOMENTUM = {"momentum": 0.0, "scaling": "plain"}
RESET_BY_HAND = replace(
    next(option for option in POLYAK.options if option.name == "steps_per_epoch"),
    text="n_b of the smooth reset, >= 1; None turns it off, and so does the default. The "
    "paper's experiments use it: pass the number of batches in an epoch.",
)

SHB_POLYAK = register(
    Method(
        "SHBPolyak",
        "SHB-PS",
        "Stochastic heavy ball with the Polyak step size (SHB-PS).",
        STEADY_POLYAK,
        AVERAGED,
        by_scaling=dict.fromkeys(SCALINGS, POLYAK),
        reference=f"{PAPER}, Section 2 (theory), Section 4 (plain), Appendix E (practical); steady "
        "is of this package",
        evidence=IN_PAPER,
        guarantee="Theorems 1 to 9 in theory and plain scaling; none if steady",
    )
)
SHB_ARMIJO = register(
    Method(
        "SHBArmijo",
        "SHB-ALS",
        "Stochastic heavy ball with the modified Armijo line search (SHB-ALS).",
        STEADY_ARMIJO,
        by_scaling=dict.fromkeys(SCALINGS, ARMIJO),
        defaults={"growth": 2.0},
        reference=f"{PAPER}, Section 2 (theory), Section 4 (plain), Appendix E (practical); steady "
        "is of this package",
        evidence=IN_PAPER,
        guarantee="Theorems 1 to 9 in theory and plain scaling; none if steady",
    )
)


def paper_settings(name: str, *, steps_per_epoch: float | None = 500) -> dict[str, Any]:
    """The options of the paper's experiments (Appendix E) for SHBPolyak and SHBArmijo.

    Args:
        name: of the method.
        steps_per_epoch: n_b of the smooth reset: the number of batches in an epoch.

    >>> paper_settings("SHBArmijo", steps_per_epoch=195)["c"]
    0.1
    """
    validation.choice("name", name, ("SHBPolyak", "SHBArmijo"))
    asked = {"scaling": "practical", "steps_per_epoch": steps_per_epoch}
    complete = method_of(name).complete(asked)
    return {option: complete[option] for option in (*asked, "c", "max_step", "growth")}


SPS = register(
    Method(
        "SPS",
        "SPS",
        "Stochastic Polyak step size, SHBPolyak without momentum.",
        POLYAK,
        defaults={"c": 0.1},
        fixed=WITHOUT_MOMENTUM,
        described=(RESET_BY_HAND,),
        reference=f"Loizou et al. (2021); constants of the baseline in Appendix E of {PAPER}",
        evidence=IN_PAPER,
        guarantee="convex: O(1/k) to a neighbourhood; exact with interpolation",
    )
)
SLS = register(
    Method(
        "SLS",
        "SLS",
        "Stochastic line search, SHBArmijo without momentum.",
        ARMIJO,
        defaults={"growth": 2.0},
        fixed=WITHOUT_MOMENTUM,
        described=(RESET_BY_HAND,),
        reference=f"Vaswani et al. (2019); constants of the baseline in Appendix E of {PAPER}",
        evidence=IN_PAPER,
        guarantee="with interpolation: O(1/k) if convex, linear if strongly convex",
    )
)
SHB = register(
    Method(
        "SHB",
        "SHB",
        "Stochastic heavy ball with a step that you choose, the baseline of the paper.",
        FIXED,
        described=(
            Option(
                "lr",
                REQUIRED,
                validation.NON_NEGATIVE,
                "the step gamma itself, >= 0; this is the number that the other optimizers choose. "
                "It may be left out where every group has its own.",
                symbol="gamma",
            ),
        ),
        reference=f"Polyak (1964); baseline of {PAPER}",
        evidence=IN_PAPER,
        guarantee="convex: O(1/k) to a neighbourhood, for steps below a bound with L",
    )
)
