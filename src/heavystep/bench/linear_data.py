"""The data of the benchmark of linear models: the data sets that are here, and three made ones."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from heavystep.arrays import Array
from heavystep.bench.made import ill_conditioned, power_law
from heavystep.bench.twin import real_sim_twin
from heavystep.data.catalogue import CATALOGUE
from heavystep.data.locate import present
from heavystep.problems import SparseLogistic
from heavystep.sparse import SparseRows
from heavystep.sweeps.specification import logistic_on

TWIN, DENSE, RARE = "twin of real-sim", "dense, ill conditioned", "columns of a power law"
MADE: dict[str, Callable[[], SparseLogistic]] = {
    TWIN: real_sim_twin,
    DENSE: ill_conditioned,
    RARE: power_law,
}
"""The sets that are made up."""


def sets_at_hand() -> list[str]:
    """The names of the data sets that are here, the small ones first, and of the made ones."""
    return [*sorted(present(CATALOGUE), key=lambda name: CATALOGUE[name].n), *MADE]


def plain_problem(name: str) -> SparseLogistic:
    """A set without penalty; those of the catalogue and the twin have rows of unit length.

    Args:
        name: a data set of the catalogue or of :data:`MADE`.
    """
    return MADE[name]() if name in MADE else logistic_on(name)


def task_on(name: str) -> "Task":
    """The task on a set."""
    return Task.of(plain_problem(name), dense=name == DENSE)


def scipy_matrix(rows: SparseRows) -> sp.csr_matrix:
    """The same rows as a scipy matrix, with the narrow pointers that other packages ask for."""
    starts = rows.indptr.astype(np.int32)
    return sp.csr_matrix((rows.values, rows.indices, starts), (rows.n, rows.dim))


@dataclass(frozen=True)
class Task:
    """What every solver minimises: mean logistic loss + ||w||^2 / (2 n), without intercept."""

    problem: SparseLogistic
    dense: bool = False
    """Whether solvers get a dense array; rows must have all entries."""

    @classmethod
    def of(cls, plain: SparseLogistic, dense: bool = False) -> "Task":
        """The task for the rows of a problem without penalty."""
        return cls(SparseLogistic(plain.rows, plain.y, 1.0 / plain.n), dense)

    @cached_property
    def matrix(self) -> "sp.csr_matrix | Array":
        """The rows as scikit-learn takes them, without a copy."""
        rows = self.problem.rows
        return rows.values.reshape(rows.n, rows.dim) if self.dense else scipy_matrix(rows)
