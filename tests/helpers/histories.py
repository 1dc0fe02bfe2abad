"""Training runs that nobody trained: rows of epochs made up for tests."""

import numpy as np

from heavystep.lab.figures.figure3 import method_specs
from heavystep.lab.training.epochs import EpochRow
from heavystep.lab.training.runs import Scale, TrainingSpec

EPOCHS = 20
TINY = Scale("small", 4, 32, 16)


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
