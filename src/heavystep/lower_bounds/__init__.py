"""Lower bounds of losses, for ``lower_bound=`` of an optimizer or of its ``step``.

The Polyak step divides what the loss has above its lower bound. For plain cross-entropy and squared
error that is 0; smoothed labels, soft targets, mixed labels and densities have another one, which
these functions compute from what the loss is computed from. Some are numbers, to be given to the
optimizer once. Others depend on the batch: 0-dim tensors on the device of the targets, which nobody
waits for, to be given to ``step(loss=loss, lower_bound=...)``. Between processes that train one
model together the optimizer averages such bounds as it does losses.

A Kullback-Leibler divergence has the bound 0, whatever its targets and its temperature.
"""

from heavystep.lower_bounds.classification import (
    cross_entropy,
    distillation,
    label_smoothing,
    mixup,
)
from heavystep.lower_bounds.regression import gaussian_nll, squared_error
from heavystep.lower_bounds.sums import weighted_sum

__all__ = [
    "cross_entropy",
    "distillation",
    "gaussian_nll",
    "label_smoothing",
    "mixup",
    "squared_error",
    "weighted_sum",
]
