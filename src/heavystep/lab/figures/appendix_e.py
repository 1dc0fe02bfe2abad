"""The eight methods of Appendix E, which Figures 2 and 3 compare, and how they look."""

from typing import Any, NamedTuple

import numpy as np

BETA = 0.9
MAX_STEP = 1.0
SCALING = "practical"  # the scaling of the methods with momentum; the others have no choice of it
FAMILIES = {"PS": ("SHB-PS", "SPS"), "ALS": ("SHB-ALS", "SLS")}
"""The method with momentum, and its counterpart without."""
ADAPTIVE = tuple(label for family in FAMILIES.values() for label in family)
"""The methods that choose their steps."""
FIXED_STEPS = (1e-4, 1e-3, 1e-2, 1e-1)
FIXED = tuple(f"SHB {step:g}" for step in FIXED_STEPS)


class PaperMethod(NamedTuple):
    """A method of the registry, with the constants that both figures give it."""

    name: str
    options: dict[str, float]


SEARCH = {"c": 0.1, "decrease_factor": 0.9, "growth": 2.0}
METHODS = {
    "SHB-PS": PaperMethod("SHBPolyak", {"momentum": BETA, "c": 1.0, "growth": 4.0}),
    "SPS": PaperMethod("SPS", {"c": 0.1, "growth": 4.0}),
    "SHB-ALS": PaperMethod("SHBArmijo", {"momentum": BETA, **SEARCH}),
    "SLS": PaperMethod("SLS", SEARCH),
    **{f"SHB {step:g}": PaperMethod("SHB", {"lr": step, "momentum": BETA}) for step in FIXED_STEPS},
}
"""In the order of legends and tables. n_b and the largest step of the adaptive methods are set by
each figure."""

WITH_MOMENTUM = {"color": "#D55E00", "linestyle": "-", "linewidth": 1.5, "zorder": 4}
WITHOUT = {"color": "#56B4E9", "linestyle": (0, (3, 1.5)), "linewidth": 1.7, "zorder": 3}
# The sweep is the background: greys, darker for larger steps.
SWEEP: tuple[dict[str, Any], ...] = (
    {"color": "#b0b0b0", "linestyle": (0, (1, 1))},
    {"color": "#8c8c8c", "linestyle": (0, (3, 1, 1, 1))},
    {"color": "#5c5c5c", "linestyle": (0, (6, 1.5))},
    {"color": "#1c1c1c", "linestyle": "-"},
)
LOOKS: dict[str, dict[str, Any]] = {
    **{pair[0]: WITH_MOMENTUM for pair in FAMILIES.values()},
    **{pair[1]: WITHOUT for pair in FAMILIES.values()},
    **{FIXED[i]: {"linewidth": 0.9, "zorder": 2, **look} for i, look in enumerate(SWEEP)},
}


def legend(first: str, second: str) -> dict[str, str]:
    """What a legend calls each method, where the families are in two places of a picture."""
    names = dict.fromkeys(("SHB-PS", "SHB-ALS"), f"SHB-PS ({first}), SHB-ALS ({second})")
    names |= dict.fromkeys(("SPS", "SLS"), f"SPS ({first}), SLS ({second})")
    sweep = [rf"SHB, $\gamma = 10^{{{round(np.log10(step))}}}$" for step in FIXED_STEPS]
    return names | dict(zip(FIXED, sweep, strict=True))
