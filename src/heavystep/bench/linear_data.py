"""The data of the benchmark of linear models: the data sets that are here, and the twin."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from heavystep.bench.twin import real_sim_twin
from heavystep.data.catalogue import CATALOGUE
from heavystep.data.locate import present
from heavystep.problems import SparseLogistic
from heavystep.sparse import SparseRows
from heavystep.sweeps.specification import logistic_on

TWIN = "twin of real-sim"


def sets_at_hand() -> list[str]:
    """The names of the data sets that are here, the small ones first, and of the twin."""
    return [*sorted(present(CATALOGUE), key=lambda name: CATALOGUE[name].n), TWIN]


def plain_problem(name: str) -> SparseLogistic:
    """A data set with rows of unit length, without penalty.

    Args:
        name: a data set of the catalogue, or :data:`TWIN`.
    """
    return real_sim_twin() if name == TWIN else logistic_on(name)


def scipy_matrix(rows: SparseRows) -> sp.csr_matrix:
    """The same rows as a scipy matrix, with the narrow pointers that other packages ask for."""
    starts = rows.indptr.astype(np.int32)
    return sp.csr_matrix((rows.values, rows.indices, starts), (rows.n, rows.dim))


@dataclass(frozen=True)
class Task:
    """What every solver minimises: mean logistic loss + ||w||^2 / (2 n), without intercept."""

    problem: SparseLogistic

    @classmethod
    def of(cls, plain: SparseLogistic) -> "Task":
        """The task for the rows of a problem without penalty."""
        return cls(SparseLogistic(plain.rows, plain.y, 1.0 / plain.n))

    @cached_property
    def matrix(self) -> sp.csr_matrix:
        """The rows as scikit-learn takes them, without a copy."""
        return scipy_matrix(self.problem.rows)
