"""Logistic regression on LIBSVM's data sets, as in the paper's Figure 2: no penalty."""

from functools import lru_cache, partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from heavystep.bench.tasks.batches import Examples, stream_of
from heavystep.bench.tasks.contract import HIGHER, Measured, Metric, Size, Task, Work
from heavystep.data.locate import missing_text
from heavystep.sweeps.specification import logistic_on

BATCH = 128
SETS = ("a9a", "cod-rna", "ijcnn1", "mushrooms", "phishing", "svmguide1", "w8a")
KEPT = 2
"""How many data sets are kept as whole matrices."""
BLOCK = 1000
"""Batches that are drawn at once."""
RIGHT = Metric("training accuracy", HIGHER, "points", 0.5)


@lru_cache(KEPT)
def rows_of(name: str) -> Examples:
    """Rows of unit length in float64, and labels -1 and +1."""
    problem = logistic_on(name)
    dense = np.zeros((problem.n, problem.dim))
    dense[problem.rows.row_of_entries(), problem.rows.indices] = problem.rows.values
    return Examples(torch.from_numpy(dense), torch.from_numpy(problem.y.astype(np.float64)))


class Logistic(Work):
    """Batches of rows that are drawn independently; the start is 0."""

    def __init__(self, data: Examples, seed: int, device: torch.device) -> None:
        network = nn.Linear(data.inputs.shape[1], 1, bias=False, dtype=torch.float64)
        nn.init.zeros_(network.weight)
        super().__init__(network, device)
        self._rows, self._labels = data.to(device)
        self._stream, self._drawn, self._used = stream_of(seed), torch.empty(0), 0
        self._which = torch.zeros(BATCH, dtype=torch.int64, device=device)

    def next(self) -> None:
        """Draw rows."""
        if self._used == len(self._drawn):
            shape = (BLOCK, BATCH)
            self._drawn = torch.randint(len(self._labels), shape, generator=self._stream)
            self._used = 0
        self._which.copy_(self._drawn[self._used])
        self._used += 1

    def loss(self) -> Tensor:
        """Mean of log(1 + exp(-y a'theta)) over the batch."""
        margins = self._labels[self._which] * self.forward(self._rows[self._which]).squeeze(1)
        return softplus(-margins, threshold=40.0).mean()

    def evaluate(self) -> Measured:
        """The full loss, and the share of rows on the right side in percent."""
        margins = self._labels * self.network(self._rows).squeeze(1)
        right = 100.0 * float((margins > 0).double().mean())
        return Measured(float(softplus(-margins, threshold=40.0).mean()), right)


def logistic(name: str, seed: int, device: torch.device, size: Size) -> Work:
    """The regression on one data set."""
    return Logistic(rows_of(name), seed, device)


def without_rows(name: str) -> str:
    """One line if a data set is not here, or nothing."""
    return missing_text([name])


LOGISTIC = tuple(
    Task(
        name, f"logistic regression on {name}", RIGHT, Size(20_000), Size(60),
        partial(logistic, name), partial(without_rows, name),
    )
    for name in SETS
)  # fmt: skip
