"""Results of Figure 2 that nobody ran: curves on which every claim holds."""

import numpy as np

from heavystep.lab.figures.appendix_e import FAMILIES, FIXED
from heavystep.lab.simulation.loop import TRAINING_METRICS
from heavystep.lab.simulation.sweep import ProblemSpec
from heavystep.records import Trajectories

ADAPTIVE = [name for pair in FAMILIES.values() for name in pair]


def by_label(figure, data_set):
    """The runs on one data set."""
    return {
        curve.label: curve.run
        for panel in figure.panels
        for curve in panel.curves
        if curve.run.problem == ProblemSpec("libsvm", data_set)
    }


K = np.arange(100, 2001, 100)
LEVELS = {
    "SHB-PS": 1e-3, "SPS": 1e-2, "SHB-ALS": 1e-3, "SLS": 1e-2, **dict.fromkeys(FIXED, 2e-2),
}  # fmt: skip


def trajectory(loss, **others):
    """Five seeds around a curve of losses."""
    loss = loss * np.linspace(0.9, 1.1, 5)[:, None]
    metrics = {name: np.zeros_like(loss) for name in TRAINING_METRICS}
    return Trajectories(K, tuple(range(5)), {**metrics, "loss": loss, **others})


def ideal(figure):
    """Tables on which every claim holds."""
    return {
        curve.run.key(): trajectory(LEVELS[curve.label] * (1.0 + 50.0 / K))
        for panel in figure.panels
        for curve in panel.curves
    }
