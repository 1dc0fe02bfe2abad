"""SHB-PS on sparse logistic regression, as one writes it without this package's kernels.

One loop uses scipy matrices, the other one torch and this package's optimizer. Both are written for
speed with what their library offers, and take the same iterates as the simulation from the same
batches. Their lower bound of a loss is 0, so that no row may be empty.
"""

import numpy as np
import torch
from scipy.special import expit
from torch.nn.functional import embedding_bag, softplus

from heavystep.arrays import Array
from heavystep.bench.linear_data import scipy_matrix
from heavystep.optim import SHBPolyak
from heavystep.problems import SparseLogistic
from heavystep.rules import (
    FIRST_STEP,
    growth_factor,
    kappa,
    polyak_step,
    remember_step,
    step_cap,
)
from heavystep.simulation.configuration import Configuration
from heavystep.sparse import SparseRows


class ScipyLoop:
    """Takes slices of a scipy.sparse matrix, with a dense displacement."""

    def __init__(self, problem: SparseLogistic, method: Configuration) -> None:
        rows, signs = problem.rows, problem.y.astype(problem.rows.values.dtype)
        # With the labels in the rows a margin is one product.
        values = rows.values * signs[rows.row_of_entries()]
        self.signed = scipy_matrix(SparseRows(rows.indptr, rows.indices, values, rows.dim))
        self.theta = problem.theta0
        self.method = method

    def run(self, batches: Array) -> Array:
        """Take one step for each row of ``batches`` and return the last iterate."""
        method, theta, size = self.method, self.theta, batches.shape[1]
        c, beta, max_step = method["c"], method["momentum"], method["max_step"]
        factor = kappa(method["scaling"], beta)
        growth = growth_factor(method["growth"], method["steps_per_epoch"])
        displacement, last_step = np.zeros_like(theta), FIRST_STEP
        for batch in batches:
            rows = self.signed[batch]
            margins = rows @ theta
            loss = float(np.logaddexp(0.0, -margins).mean())
            g = rows.T @ (expit(-margins) / -size)
            cap = step_cap(last_step, growth, max_step)
            step = polyak_step(loss, float(g @ g), 0.0, c, factor, cap)
            last_step = remember_step(last_step, step)
            displacement *= beta
            g *= step
            displacement -= g
            theta += displacement
        return theta


class TorchLoop:
    """Has rows as bags of an embedding with one number for each column, and :class:`SHBPolyak`."""

    def __init__(self, problem: SparseLogistic, method: Configuration) -> None:
        rows = problem.rows
        self.starts = torch.from_numpy(np.array(rows.indptr))
        self.columns = torch.from_numpy(rows.indices.astype(np.int64))
        self.values = torch.from_numpy(np.array(rows.values))
        self.negative_labels = torch.from_numpy(-problem.y.astype(rows.values.dtype))
        self.theta = torch.zeros(problem.dim, 1, dtype=self.values.dtype, requires_grad=True)
        self.optimizer = SHBPolyak([self.theta], **dict(method.options))

    def run(self, batches: Array) -> Array:
        """Take one step for each row of ``batches`` and return the last iterate."""
        for batch in torch.from_numpy(batches):
            self.optimizer.zero_grad()
            loss = softplus(self.negative_labels[batch] * self._scores(batch)).mean()
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step(loss=loss)
        last: Array = self.theta.detach().numpy()[:, 0]
        return last

    def _scores(self, batch: torch.Tensor) -> torch.Tensor:
        """The rows of the batch, one after another, times theta."""
        starts = self.starts[batch]
        lengths = self.starts[batch + 1] - starts
        ends = lengths.cumsum(0)
        offsets = ends - lengths
        entries = torch.arange(int(ends[-1]))
        entries += torch.repeat_interleave(starts - offsets, lengths, output_size=len(entries))
        return embedding_bag(
            self.columns[entries],
            self.theta,
            offsets,
            mode="sum",
            per_sample_weights=self.values[entries],
        )[:, 0]
