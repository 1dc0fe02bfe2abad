r"""The parameters in which a problem is solved: columns in one unit, full columns centred.

A column of LIBSVM data may hold grams and the next one tonnes. Steps along gradients need columns
of one size, so that the problem is solved in :math:`x'_j = (x_j - m_j) s_j` with

.. math:: s_j = (q_j + 4 \alpha)^{-1/2},

where :math:`q_j` is the mean square of the entries that are not 0: then neither the losses nor the
penalty curve the objective by more than about 1/4 along any parameter. With an intercept, columns
without zeros are centred first. The objective stays what it was: the penalty of parameter j becomes
:math:`\alpha s_j^2`, and what the centres add goes into the intercept, which is not penalised.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from heavystep.arrays import Array
from heavystep.linear.rows import dense_entries, with_intercept
from heavystep.simulation.columns import column_moments, transformed
from heavystep.sparse import SparseRows

LOOK = 2048
"""About this many rows are looked at, if columns are alike there or all of them have entries."""
ALIKE = 10.0
"""Columns whose entries differ from the typical size by less than this factor are alike."""
FEW = 0.05
"""Share of the entries that may be in smaller columns: so few do not slow down the others."""
ORDINARY = 1e3
"""Columns are rescaled if the typical size differs from 1 by more than this factor, since squares
might then vanish."""
FULL = 1.0 - 1e-12
"""A column with at least this share of the weight has no zeros; the rest is rounding."""


@dataclass(frozen=True)
class Columns:
    """How columns were moved and scaled, and the value that stands for the intercept."""

    shift: Array
    scale: Array
    intercept: float
    """The entry of the additional column, in its unit; 0: there is none."""

    @classmethod
    def of(
        cls,
        rows: SparseRows,
        weights: Array,
        alpha: float,
        *,
        fit_intercept: bool,
        stored: Callable[[Array], Array] | None = None,
    ) -> "Columns":
        """Fit the columns of some rows.

        Args:
            rows: features.
            weights: (n,) weights, >= 0 and not all 0.
            alpha: penalty in the user's columns, >= 0.
            fit_intercept: whether there is an intercept.
            stored: tells which of some columns have an entry in every row that there will be;
                None: nobody knows, and no column is centred.

        Raises:
            ValueError: squares of entries are too large for a number.
        """
        stored = stored if fit_intercept else None
        sizes = _Sizes(rows, weights, alpha, stored, every=max(1, rows.n // LOOK))
        if sizes.alike():
            unit = sizes.typical if fit_intercept else 0.0
            return cls(np.zeros(rows.dim), np.ones(rows.dim), unit)
        if not sizes.used.all():  # a rare column may have been overlooked
            sizes = _Sizes(rows, weights, alpha, stored)
        scale = np.divide(1.0, sizes.size, out=np.ones(rows.dim), where=sizes.used)
        return cls(np.where(sizes.centred, sizes.mean, 0.0), scale, float(fit_intercept))

    @property
    def alike(self) -> bool:
        """Whether columns are as the user has them, since their units are much the same."""
        return bool((self.scale == 1.0).all())

    def transform(self, rows: SparseRows) -> SparseRows:
        """Rows in the parameters' units, with the intercept's column."""
        if not self.alike and len(rows.values) == rows.n * rows.dim:
            return self._transform_full(rows)
        if not self.alike:
            rows = transformed(rows, self.shift, self.scale)
        return with_intercept(rows, self.intercept) if self.intercept else rows

    def _transform_full(self, rows: SparseRows) -> SparseRows:
        """The same for rows without holes, all at once."""
        dim = rows.dim + bool(self.intercept)
        inner = np.empty((rows.n, dim), rows.values.dtype)
        np.subtract(rows.values.reshape(rows.n, rows.dim), self.shift, out=inner[:, : rows.dim])
        inner[:, : rows.dim] *= self.scale
        inner[:, rows.dim :] = self.intercept
        return SparseRows.unchecked(*dense_entries(inner), dim)

    def penalties(self, alpha: float) -> Array:
        """The penalty of each parameter; none for the intercept."""
        penalties: Array = (alpha**0.5 * self.scale) ** 2
        return np.append(penalties, 0.0) if self.intercept else penalties

    def coefficients(self, theta: Array) -> tuple[Array, float]:
        """Coefficients w and intercept b for the user's columns."""
        if not self.intercept:
            return theta * self.scale, 0.0
        coefficients = theta[:-1] * self.scale
        return coefficients, float(theta[-1] * self.intercept - self.shift @ coefficients)

    def parameters(self, coefficients: Array, intercept: float) -> Array:
        """The parameters that stand for w and b."""
        theta: Array = coefficients / self.scale
        if not self.intercept:
            return theta
        return np.append(theta, (intercept + self.shift @ coefficients) / self.intercept)

    def without_centres(self) -> "Columns":
        """The same units without centres, for further rows that may have zeros in a full column."""
        return replace(self, shift=np.zeros_like(self.shift))


class _Sizes:
    """How large the entries of each column are."""

    def __init__(
        self,
        rows: SparseRows,
        weights: Array,
        alpha: float,
        stored: Callable[[Array], Array] | None,
        every: int = 1,
    ) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            moments = column_moments(rows, weights, every)
        if not np.isfinite(moments.square).all():
            raise ValueError("features are too large, their squares are not finite: scale them")
        if moments.weight.any() and not moments.square.any():
            raise ValueError("features are too small, their squares are 0: scale them")
        full = (moments.weight >= FULL * weights[::every].sum()) & (moments.spread > 0.0)
        self.mean, self.weight = moments.mean, moments.weight
        self.centred = np.zeros_like(full)
        if stored is not None and full.any():
            self.centred[full] = stored(np.flatnonzero(full))
        square = np.where(self.centred, moments.spread, moments.square)
        self.used = square > 0.0
        self.size = np.sqrt(square + 4.0 * alpha)

    @cached_property
    def typical(self) -> float:
        """The median size, over entries; 1 if there are none."""
        order = np.argsort(self.size[self.used])
        if not len(order):
            return 1.0
        weight = np.cumsum(self.weight[self.used][order])
        middle = order[np.searchsorted(weight, 0.5 * weight[-1])]
        return float(self.size[self.used][middle])

    def alike(self) -> bool:
        """Whether columns may stay as they are."""
        size, typical = self.size[self.used], self.typical
        small = self.weight[self.used] @ (size < typical / ALIKE)
        return not (
            self.centred.any()
            or size.max(initial=0.0) > ALIKE * typical
            or small > FEW * self.weight.sum()
            or not 1.0 / ORDINARY < typical < ORDINARY
        )
