"""Training runs that nobody trained: rows of epochs made up for tests."""

import numpy as np

from heavystep.lab.figures.figure3 import methods
from heavystep.lab.training.runs import Scale, TrainingSpec, TrainingStore
from heavystep.lab.training.trainer import EpochRow

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


def store_of(out):
    """The runs of Figure 3 in an output folder."""
    return TrainingStore(out / "figure3" / "runs")


def spec(data_set="cifar10", method="SHB-PS", seed=0, scale=TINY):
    """One run."""
    return TrainingSpec(data_set, methods()[method], scale, seed)


def save(out, run, history, checkpoint=None):
    """Keep a run, and perhaps something in place of a checkpoint."""
    store = store_of(out)
    store.save(run, history)
    if checkpoint is not None:
        store.checkpoint(run).parent.mkdir(exist_ok=True)
        store.checkpoint(run).write_bytes(checkpoint)
