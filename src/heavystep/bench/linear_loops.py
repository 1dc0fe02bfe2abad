"""SHB-PS on sparse logistic regression, as one writes it without the engine.

With scipy matrices, and with torch and this package's optimizer. Both are written for speed with
what their library offers, and take the same iterates as the engine from the same batches. Their
lower bound is 0, so that no row may be empty.
"""

import numpy as np
import torch
from scipy.special import expit
from torch.nn.functional import embedding_bag, softplus

from heavystep.arrays import Array
from heavystep.bench.linear_data import scipy_matrix
from heavystep.optim import SHBPolyak
from heavystep.problems import SparseLogistic
from heavystep.rules import FIRST_STEP, kappa, polyak_step, remember_step, step_cap
from heavystep.simulation.method import Method
from heavystep.sparse import SparseRows


class ScipyLoop:
    """Slices of a scipy.sparse matrix, dense momentum."""

    def __init__(self, problem: SparseLogistic, method: Method) -> None:
        rows, signs = problem.rows, problem.y.astype(problem.rows.values.dtype)
        # With the labels in the rows a margin is one product.
        values = rows.values * signs[rows.row_of_entries()]
        self.signed = scipy_matrix(SparseRows(rows.indptr, rows.indices, values, rows.dim))
        self.theta = problem.theta0
        self.method = method

    def run(self, batches: Array) -> Array:
        """One step for each row of ``batches``; the last iterate."""
        method, theta, size = self.method, self.theta, batches.shape[1]
        factor, growth = kappa(method.scaling, method.beta), method.growth_factor()
        displacement, last_step = np.zeros_like(theta), FIRST_STEP
        for batch in batches:
            rows = self.signed[batch]
            margins = rows @ theta
            loss = float(np.logaddexp(0.0, -margins).mean())
            g = rows.T @ (expit(-margins) / -size)
            cap = step_cap(last_step, growth, method.gamma_max)
            step = polyak_step(loss, float(g @ g), 0.0, method.c, factor, cap)
            last_step = remember_step(last_step, step, True)
            displacement *= method.beta
            g *= step
            displacement -= g
            theta += displacement
        return theta


class TorchLoop:
    """Rows as bags of an embedding with one number a column, autograd, :class:`SHBPolyak`."""

    def __init__(self, problem: SparseLogistic, method: Method) -> None:
        rows = problem.rows
        self.starts = torch.from_numpy(np.array(rows.indptr))
        self.columns = torch.from_numpy(rows.indices.astype(np.int64))
        self.values = torch.from_numpy(np.array(rows.values))
        self.negative_labels = torch.from_numpy(-problem.y.astype(rows.values.dtype))
        self.theta = torch.zeros(problem.dim, 1, dtype=self.values.dtype, requires_grad=True)
        assert isinstance(method.beta, float)
        assert isinstance(method.gamma_max, float)
        self.optimizer = SHBPolyak(
            [self.theta],
            momentum=method.beta,
            c=method.c,
            max_step=method.gamma_max,
            scaling=method.scaling,
            steps_per_epoch=method.steps_per_epoch,
            growth=method.growth,
        )

    def run(self, batches: Array) -> Array:
        """One step for each row of ``batches``; the last iterate."""
        for batch in torch.from_numpy(batches):
            self.optimizer.zero_grad()
            loss = softplus(self.negative_labels[batch] * self._scores(batch)).mean()
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step(loss=loss)
        last: Array = self.theta.detach().numpy()[:, 0]
        return last

    def _scores(self, batch: torch.Tensor) -> torch.Tensor:
        """The batch's rows, one after another, times theta."""
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
