"""Points as arrays (..., d): their inner products and squared norms."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def inner(x: Array, y: Array) -> Array:
    """Inner products of points: (..., d) twice gives (...).

    >>> inner(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, -1.0]))
    array([-1., -1.])
    """
    products: Array = np.einsum("...d,...d->...", x, y)
    return products


def square(x: Array) -> Array:
    """Squared norms of points: (..., d) gives (...).

    >>> square(np.array([[3.0, 4.0]]))
    array([25.])
    """
    return inner(x, x)
