r"""The logistic loss of many margins at once.

The compiler cannot evaluate exp and log1p of the C library for several margins at once in vector
registers. It can do so with polynomials, if they are written without a loop over the coefficients.
Both tails are exact, because with :math:`e = e^{-|m|}` in [0, 1]

.. math:: \log(1 + e^{-m}) = \max\{-m, 0\} + \log(1 + e), \qquad
          \frac{1}{1 + e^m} = \frac{1 \text{ or } e}{1 + e} .

A margin that is NaN gives NaN.
"""

import math
from typing import Any

import numpy as np

from heavystep.simulation.kernel_cache import inner_kernel, subroutine

ROUND = 1.5 * 2.0**52
"""Adding and subtracting it rounds to a whole number, which is in the last bits of the sum."""
LOG2_E = 1.0 / math.log(2.0)
LN2_HIGH = float.fromhex("0x1.62e42feep-1")
LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
SMALLEST = -708.0
"""Below, e^x is not a normal number; it counts as 0."""
EXP = tuple(1.0 / math.factorial(degree) for degree in range(13, -1, -1))
"""Taylor coefficients, the highest degree first; the error for |r| <= ln(2) / 2 is less than half a
unit in the last place."""
ATANH = tuple(1.0 / (2 * degree + 1) for degree in range(17, -1, -1))
"""atanh(s) / s in powers of s^2 <= 1/9."""


@inner_kernel
def _exp_of_negative(x: Any) -> Any:
    """e^x for x <= 0, as 2^n e^r with |r| <= ln(2) / 2."""
    shifted = x * LOG2_E + ROUND
    n = shifted - ROUND
    r = (x - n * LN2_HIGH) - n * LN2_LOW
    series = EXP[0]
    series = (((series * r + EXP[1]) * r + EXP[2]) * r + EXP[3]) * r + EXP[4]
    series = (((series * r + EXP[5]) * r + EXP[6]) * r + EXP[7]) * r + EXP[8]
    series = (((series * r + EXP[9]) * r + EXP[10]) * r + EXP[11]) * r + EXP[12]
    series = series * r + EXP[13]
    power = np.int64((np.float64(shifted).view(np.int64) + 1023) << 52).view(np.float64)
    return 0.0 if x <= SMALLEST else series * power


@inner_kernel
def _log1p_of_fraction(e: Any) -> Any:
    """log(1 + e) = 2 atanh(e / (2 + e)) for e in [0, 1]."""
    s = e / (2.0 + e)
    z = s * s
    series = ATANH[0]
    series = (((series * z + ATANH[1]) * z + ATANH[2]) * z + ATANH[3]) * z + ATANH[4]
    series = (((series * z + ATANH[5]) * z + ATANH[6]) * z + ATANH[7]) * z + ATANH[8]
    series = (((series * z + ATANH[9]) * z + ATANH[10]) * z + ATANH[11]) * z + ATANH[12]
    series = (((series * z + ATANH[13]) * z + ATANH[14]) * z + ATANH[15]) * z + ATANH[16]
    series = series * z + ATANH[17]
    return 2.0 * s * series


# A loop for each function: of a chain of operations as long as both together, the processor would
# have too few margins in sight to be always at work.


@subroutine
def softplus_minus(margins: Any, losses: Any) -> None:
    """Write log(1 + e^-m) for each margin m."""
    for b in range(margins.shape[0]):
        losses[b] = _exp_of_negative(-abs(margins[b]))
    for b in range(margins.shape[0]):
        losses[b] = max(-margins[b], 0.0) + _log1p_of_fraction(losses[b])


@subroutine
def softplus_and_slope(margins: Any, losses: Any, slopes: Any) -> None:
    """Write log(1 + e^-m) and its derivative -1 / (1 + e^m) for each margin m."""
    for b in range(margins.shape[0]):
        losses[b] = _exp_of_negative(-abs(margins[b]))
    for b in range(margins.shape[0]):
        e = losses[b]
        slopes[b] = -(e if margins[b] >= 0.0 else 1.0) / (1.0 + e)
    for b in range(margins.shape[0]):
        losses[b] = max(-margins[b], 0.0) + _log1p_of_fraction(losses[b])
