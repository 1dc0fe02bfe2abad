"""The eight methods of Appendix E, which Figures 2 and 3 compare."""

from typing import NamedTuple

BETA = 0.9
MAX_STEP = 1.0
FIXED_STEPS = (1e-4, 1e-3, 1e-2, 1e-1)
FIXED = tuple(f"SHB {step:g}" for step in FIXED_STEPS)
FAMILIES = {"PS": ("SHB-PS", "SPS"), "ALS": ("SHB-ALS", "SLS")}
"""The method with momentum and its counterpart without."""


class Adaptive(NamedTuple):
    """Constants of a method that chooses its steps; n_b and the cap are the figure's."""

    rule: str
    momentum: float
    c: float
    scaling: str
    growth: float
    """Over an epoch, of the smooth reset."""
    omega: float | None = None


ADAPTIVE = {
    "SHB-PS": Adaptive("polyak", BETA, 1.0, "practical", 4.0),
    "SPS": Adaptive("polyak", 0.0, 0.1, "plain", 4.0),
    "SHB-ALS": Adaptive("armijo", BETA, 0.1, "practical", 2.0, 0.9),
    "SLS": Adaptive("armijo", 0.0, 0.1, "plain", 2.0, 0.9),
}
METHODS = (*ADAPTIVE, *FIXED)
"""In the order of legends and tables."""
