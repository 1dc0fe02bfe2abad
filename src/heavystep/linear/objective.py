r"""The objective on all rows, in the parameters of :mod:`heavystep.linear.columns`.

The rows stay in the user's units: with :math:`w_j = s_j \theta_j` and
:math:`b = u\,\theta_b - \sum_j m_j w_j` the scores are those of the rescaled and centred columns.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from heavystep.arrays import Array
from heavystep.linear import kernels
from heavystep.linear.columns import Columns
from heavystep.linear.tables import Table


class Point(NamedTuple):
    """Parameters, and what a pass over the rows finds there."""

    theta: Array
    value: float
    gradient: Array
    margins: Array


class Objective:
    """Mean weighted logistic loss and penalty, for one vector of labels.

    Args:
        table: all rows.
        signs: (n,) labels, -1 or +1.
        weights: (n,) weights, >= 0, whose sum is 1.
        columns: units and centres.
        alpha: penalty in the user's units.
    """

    def __init__(
        self, table: Table, signs: Array, weights: Array, columns: Columns, alpha: float
    ) -> None:
        self.table, self.signs, self.weights, self.columns = table, signs, weights, columns
        self.penalties = columns.penalties(alpha)
        self.passes = 0
        """How often all rows were looked at."""

    def at(self, theta: Array) -> Point:
        """Value and gradient.

        Raises:
            ValueError: they are not finite.
        """
        columns = self.columns
        w, b = columns.coefficients(theta)
        sums = self.table.sums(self.signs, self.weights, w, b)
        self.passes += 1
        gradient = (sums.gradient - columns.shift * sums.by_intercept) * columns.scale
        if columns.intercept:
            gradient = np.append(gradient, sums.by_intercept * columns.intercept)
        value = sums.loss + 0.5 * float(self.penalties @ theta**2)
        gradient += self.penalties * theta
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            raise ValueError("the loss or its gradient is not finite: scale the features")
        return Point(theta, value, gradient, sums.margins)

    def curvatures(self, point: Point) -> Array:
        """(n,) weighted second derivatives of the losses by their margins."""
        out = np.empty(self.table.n)
        kernels.row_curvatures(point.margins, self.weights, out)
        return out

    def diagonal(self, curvatures: Array) -> Array:
        """The diagonal of the Hessian, for curvatures of the rows."""
        columns = self.columns
        squares = self.table.squares(columns.shift, curvatures) * columns.scale**2
        if columns.intercept:
            squares = np.append(squares, curvatures.sum() * columns.intercept**2)
        diagonal: Array = squares + self.penalties
        return diagonal

    @cached_property
    def mean_square(self) -> float:
        r"""Weighted mean of :math:`\sum_j x_{ij}'^2 / \lambda_j`, over columns with a penalty."""
        columns, penalties = self.columns, self.penalties[: self.table.dim]
        squares = self.table.squares(columns.shift, self.weights) * columns.scale**2
        parts = np.divide(squares, penalties, out=np.zeros_like(squares), where=penalties > 0.0)
        return float(parts.sum())
