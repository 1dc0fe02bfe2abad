"""The figures that can be reproduced, by name."""

from heavystep.paper.appendix_e import MAX_STEP
from heavystep.paper.figure1.claims import figure1_claims
from heavystep.paper.figure1.definition import figure1
from heavystep.paper.figure1.plot import figure1_pictures
from heavystep.paper.figure2.claims import figure2_claims
from heavystep.paper.figure2.definition import COMPANION_MAX_STEP, figure2
from heavystep.paper.figure2.plot import figure2_pictures
from heavystep.paper.figure2.table import figure2_table
from heavystep.paper.figure3.claims import figure3_claims
from heavystep.paper.figure3.definition import QUICK, figure3
from heavystep.paper.figure3.plot import figure3_pictures
from heavystep.paper.figure3.table import figure3_table
from heavystep.paper.reproducible import Reproducible
from heavystep.paper.simulated import SimulatedFigure
from heavystep.paper.trained import TrainedFigure

FIGURES: dict[str, Reproducible] = {
    "figure1": SimulatedFigure(
        figure1,
        figure1_pictures,
        figure1_claims,
        full={"seeds": 20, "iterations": 1_000_000},
        quick={"seeds": 5, "iterations": 100_000},
    ),
    "figure2": SimulatedFigure(
        figure2,
        figure2_pictures,
        figure2_claims,
        full={"seeds": 5, "iterations": 20_000},
        quick={"seeds": 3, "iterations": 2_000},
        table=figure2_table,
        max_steps=(MAX_STEP, COMPANION_MAX_STEP),
    ),
    "figure3": TrainedFigure(
        figure3,
        figure3_pictures,
        figure3_claims,
        full={"seeds": 3, "epochs": 200},
        quick={"seeds": 2, "epochs": 3, "scale": QUICK},
        table=figure3_table,
    ),
}
