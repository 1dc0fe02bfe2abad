"""Histories of Figure 3 that nobody trained: ones on which every claim holds."""

import numpy as np
import pytest

from heavystep.lab.figures.appendix_e import FIXED, METHODS
from heavystep.lab.figures.figure3 import figures, method_specs
from heavystep.lab.training.epochs import EpochRow
from heavystep.lab.training.runs import Scale, TrainingSpec, curves

EPOCHS = 20
TINY = Scale("small", 4, 32, 16)
K = np.arange(1, EPOCHS + 1)
LOSSES = {"SHB-PS": 0.1, "SPS": 0.2, "SHB-ALS": 0.15, "SLS": 0.12, **dict.fromkeys(FIXED, 0.3)}
SPEEDS = {"SHB-PS": 1.0, "SPS": 0.4}
NOISE = (0.95, 1.0, 1.05)
BOTH = ("cifar10", "cifar100")


def rows(epochs=EPOCHS, **values):
    """Epochs with these values, each a number or one for every epoch."""
    plain = {"loss": 1.0, "test_loss": 1.0, "test_accuracy": 0.5, "step": 0.1, "capped": 0.0,
             "trials": 0.0, "refused": 0, "seconds": 2.0}  # fmt: skip
    columns = {
        name: np.broadcast_to(np.asarray(value), epochs) for name, value in (plain | values).items()
    }
    return [
        EpochRow(epoch + 1, *(columns[name][epoch].item() for name in EpochRow._fields[1:]))
        for epoch in range(epochs)
    ]


def folder_of(out):
    """Where the runs of Figure 3 are in an output folder."""
    return out / "figure3" / "runs"


def spec(data_set="cifar10", method="SHB-PS", seed=0, scale=TINY):
    """One run."""
    return TrainingSpec(data_set, method_specs()[method], scale, seed)


def save(out, run, history):
    """Keep a run."""
    run.save(folder_of(out), history)


def accuracy(speed):
    return 0.9 * (1.0 - np.exp(-speed * K))


def ideal(method):
    """A history of which every claim holds."""
    return {
        "loss": LOSSES[method] * (1.0 + 5.0 / K),
        "test_accuracy": accuracy(SPEEDS.get(method, 0.5)),
    }


def fill(out, data_sets=BOTH, seeds=3, scale=TINY, **other):
    """Keep runs; ``other`` has values in place of the ideal ones, by method."""
    for data_set in data_sets:
        for method in METHODS:
            for seed in range(seeds):
                values = ideal(method) | other.get(method, {})
                values["loss"] = values["loss"] * NOISE[seed]
                save(out, spec(data_set, method, seed, scale), rows(**values))


def drawn(out, note=pytest.fail, **options):
    """The figure with what is there of it."""
    (figure,) = figures(**({"epochs": EPOCHS, "scale": TINY} | options))
    results = curves(figure.runs(), folder_of(out), note)
    return figure.only(results), results


SLOW = 0.9 * (1.0 - np.exp(-0.3 * K))
BROKEN = {
    "PS.faster": {"SHB-PS": {"loss": np.where(K > 17, 0.05, 1.9) + 0.0 * K}},
    "PS.earlier": {"SHB-PS": {"test_accuracy": SLOW}},
    "ALS.comparable": {"SHB-ALS": {"test_accuracy": accuracy(0.5) - 0.016}},
    "SHB-PS.fixed": {FIXED[2]: {"loss": 0.05 + 0.0 * K}, "SHB-ALS": {"loss": 0.04 + 0.0 * K},
                     "SLS": {"loss": 0.03 + 0.0 * K}},
    "SHB-ALS.fixed": {FIXED[0]: {"loss": np.where(K > 18, 0.13, 9.0)}},
    "ALS.lower_without": {"SLS": {"loss": np.where(K > 18, 0.5, 0.01)}},
}  # fmt: skip
"""For each claim histories for which it does not hold, and all others do."""
