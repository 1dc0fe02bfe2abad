"""The figures that can be reproduced, by name."""

from collections.abc import Callable
from dataclasses import dataclass

from heavystep.experiments.claims import Claim, figure1_claims
from heavystep.experiments.figure1 import figure1
from heavystep.experiments.runner import Results
from heavystep.experiments.specification import Figure


@dataclass(frozen=True)
class Reproducible:
    """How a figure is made, at full size and quickly, and what is claimed of it."""

    make: Callable[..., Figure]
    claims: Callable[[Figure, Results], list[Claim]]
    full: dict[str, int]
    quick: dict[str, int]


FIGURES = {
    "figure1": Reproducible(
        figure1,
        figure1_claims,
        full={"seeds": 20, "iterations": 1_000_000},
        quick={"seeds": 5, "iterations": 100_000},
    ),
}
