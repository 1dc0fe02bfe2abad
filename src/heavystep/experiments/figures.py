"""The figures that can be reproduced, by name."""

from heavystep.experiments.appendix_e import MAX_STEP
from heavystep.experiments.figure1 import figure1
from heavystep.experiments.figure1_claims import figure1_claims
from heavystep.experiments.figure1_plot import figure1_pictures
from heavystep.experiments.figure2 import COMPANION_MAX_STEP, figure2
from heavystep.experiments.figure2_claims import figure2_claims
from heavystep.experiments.figure2_plot import figure2_pictures
from heavystep.experiments.figure2_table import figure2_table
from heavystep.experiments.figure3 import QUICK, figure3
from heavystep.experiments.figure3_claims import figure3_claims
from heavystep.experiments.figure3_plot import figure3_pictures
from heavystep.experiments.figure3_table import figure3_table
from heavystep.experiments.reproducible import Reproducible
from heavystep.experiments.simulated import SimulatedFigure
from heavystep.experiments.trained import TrainedFigure

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
