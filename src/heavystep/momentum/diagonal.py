r"""Diagonals D_k that stretch the space of the parameters: Adam's.

.. math:: v_k = \beta_2 v_{k-1} + (1 - \beta_2) g_k^2, \qquad
          w_k = \beta_2 w_{k-1} + (1 - \beta_2), \qquad
          D_k = \varepsilon + \sqrt{v_k / w_k}

with v_{-1} = 0 and w_{-1} = 0, so that w_k = 1 - beta_2^{k+1} corrects the bias. Where a method
has a diagonal, each parameter moves with the step divided by its own entry of D_k, and the squared
norms of its rule are g' D_k^-1 g and d' D_k^-1 d: the Polyak step of the stretched problem. The
momentum forms need not know.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from heavystep.momentum.exponential_average import averaged

SQUARES, WEIGHT = "average_square", "square_weight"
"""What the state of a parameter is called in a checkpoint."""

METRIC = (
    "Squared norms are in the metric of the diagonal, g' D_k^-1 g, and the step of a parameter is "
    "divided by its entry of D_k."
)
"""What pages say of every method with a diagonal."""


@dataclass(frozen=True, eq=False)
class Diagonal:
    """A diagonal. Make one at the end of this file; formulas are for one element, as a form's."""

    name: str
    formula: str
    r"""D_k in LaTeX, one line."""
    reference: str
    average: Callable[[Any, Any, Any], Any]
    """From (v_{k-1}, g_k, beta_2) to v_k."""
    weigh: Callable[[Any, Any], Any]
    """From (w_{k-1}, beta_2) to w_k."""
    divisor: Callable[[Any, Any, Any], Any]
    """From (v_k, w_k, eps) to D_k."""
    version: int = 1
    """To be raised when the same numbers go in and others come out; part of the key of runs."""


def average(squares: Any, gradient: Any, beta2: Any) -> Any:
    """The exponential average of squared gradients, from 0 on."""
    return averaged(squares, gradient * gradient, beta2)


def sum_of_weights(weight: Any, beta2: Any) -> Any:
    """The sum of the weights in that average, which Adam divides it by."""
    return averaged(weight, 1.0, beta2)


def divisor(squares: Any, weight: Any, eps: Any) -> Any:
    """The root of the mean square, and a little more, so that it can be divided by."""
    return eps + (squares / weight) ** 0.5


ADAM = Diagonal(
    name="Adam",
    formula=r"D_k = \varepsilon + \sqrt{v_k / (1 - \beta_2^{k+1})}, \quad "
    r"v_k = \beta_2 v_{k-1} + (1 - \beta_2) g_k^2",
    reference="Kingma and Ba (2015)",
    average=average,
    weigh=sum_of_weights,
    divisor=divisor,
)
