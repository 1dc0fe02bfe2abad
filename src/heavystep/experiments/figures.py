"""The figures that can be reproduced, by name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from heavystep.experiments.appendix_e import MAX_STEP
from heavystep.experiments.claim import Claim
from heavystep.experiments.figure1 import figure1
from heavystep.experiments.figure1_claims import figure1_claims
from heavystep.experiments.figure1_plot import figure1_pictures
from heavystep.experiments.figure2 import COMPANION_MAX_STEP, figure2
from heavystep.experiments.figure2_claims import figure2_claims
from heavystep.experiments.figure2_plot import figure2_pictures
from heavystep.experiments.figure2_table import figure2_table
from heavystep.experiments.runner import Results
from heavystep.experiments.specification import Figure
from heavystep.experiments.table import Table


@dataclass(frozen=True)
class Reproducible:
    """How a figure is made, at full size and quickly, what is shown and claimed of it."""

    make: Callable[..., Figure]
    pictures: Callable[[Figure, Results], dict[str, Any]]
    claims: Callable[[Figure, Results], list[Claim]]
    full: dict[str, int]
    quick: dict[str, int]
    table: Callable[[Figure, Results], Table] | None = None
    max_steps: tuple[float, ...] = ()
    """Largest steps for which it is made, the paper's first; none where there is no choice."""

    def figures(self, sizes: dict[str, int], max_step: float | None = None) -> list[Figure]:
        """The paper's figure and its companions, or the one for a given largest step.

        Raises:
            ValueError: the figure has no such choice, or what it needs is not here.
        """
        if max_step is not None and not self.max_steps:
            raise ValueError("max_step (gamma_max) can be chosen for figure2 only")
        if not self.max_steps:
            return [self.make(**sizes)]
        chosen = self.max_steps if max_step is None else (max_step,)
        return [self.make(**sizes, max_step=each) for each in chosen]


FIGURES = {
    "figure1": Reproducible(
        figure1,
        figure1_pictures,
        figure1_claims,
        full={"seeds": 20, "iterations": 1_000_000},
        quick={"seeds": 5, "iterations": 100_000},
    ),
    "figure2": Reproducible(
        figure2,
        figure2_pictures,
        figure2_claims,
        full={"seeds": 5, "iterations": 20_000},
        quick={"seeds": 3, "iterations": 2_000},
        table=figure2_table,
        max_steps=(MAX_STEP, COMPANION_MAX_STEP),
    ),
}
