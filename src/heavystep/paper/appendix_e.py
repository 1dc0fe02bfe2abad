"""The eight methods of Appendix E, which Figures 2 and 3 compare."""

from typing import NamedTuple

BETA = 0.9
MAX_STEP = 1.0
SCALING = "practical"
"""The scaling of the methods with momentum; the others have no choice of it."""
FAMILIES = {"PS": ("SHB-PS", "SPS"), "ALS": ("SHB-ALS", "SLS")}
"""The method with momentum, and its counterpart without."""
ADAPTIVE = tuple(label for family in FAMILIES.values() for label in family)
"""The methods that choose their steps."""
FIXED_STEPS = (1e-4, 1e-3, 1e-2, 1e-1)
FIXED = tuple(f"SHB {step:g}" for step in FIXED_STEPS)


class PaperMethod(NamedTuple):
    """A method of the registry, with the constants that both figures give it."""

    name: str
    """In :mod:`heavystep.methods`."""
    options: dict[str, float]


METHODS = {
    "SHB-PS": PaperMethod("SHBPolyak", {"momentum": BETA, "c": 1.0, "growth": 4.0}),
    "SPS": PaperMethod("SPS", {"c": 0.1, "growth": 4.0}),
    "SHB-ALS": PaperMethod(
        "SHBArmijo", {"momentum": BETA, "c": 0.1, "decrease_factor": 0.9, "growth": 2.0}
    ),
    "SLS": PaperMethod("SLS", {"c": 0.1, "decrease_factor": 0.9, "growth": 2.0}),
    **{
        label: PaperMethod("SHB", {"lr": step, "momentum": BETA})
        for label, step in zip(FIXED, FIXED_STEPS, strict=True)
    },
}
"""In the order of legends and tables. n_b and the largest step of the adaptive methods are set by
each figure."""
