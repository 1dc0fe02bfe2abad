r"""Sine and cosine of many numbers at once.

The compiler can evaluate polynomials for several numbers at once in vector registers, but not the
functions of the C library; see :mod:`heavystep.simulation.softplus`. With q the whole number
nearest to :math:`2x/\pi`, Taylor's series are taken at :math:`r = x - q\pi/2`, and q decides which
of them is the sine, and with which sign. A number that is NaN gives NaN.
"""

import math
from typing import Any

import numpy as np

from heavystep.simulation.kernel_cache import inner_kernel, polynomial

ROUND = 1.5 * 2.0**52
"""Adding and subtracting it rounds to a whole number, which is in the last bits of the sum."""
TWO_OVER_PI = 2.0 / math.pi
HALF_PI_HIGH = float.fromhex("0x1.921fb544p0")
"""pi / 2 to 33 bits, so that its product with q is exact for numbers up to :data:`FARTHEST`."""
HALF_PI_LOW = float.fromhex("0x1.0b4611a626331p-34")
"""The rest of it."""
FARTHEST = 1e5
"""Numbers that are larger are left to the C library."""
SINE = tuple((-1.0) ** degree / math.factorial(2 * degree + 1) for degree in range(8, 0, -1))
"""sin(r) / r = 1 + ... in powers of r^2 <= (pi / 4)^2, the highest first; the error is less than a
hundredth of a unit in the last place."""
COSINE = tuple((-1.0) ** degree / math.factorial(2 * degree) for degree in range(9, 1, -1))
"""cos(r) = 1 - r^2 / 2 + ..., likewise."""


@polynomial
def _sine_and_cosine(x: Any) -> Any:
    shifted = x * TWO_OVER_PI + ROUND
    q = shifted - ROUND
    coarse, rest = x - q * HALF_PI_HIGH, q * HALF_PI_LOW
    r = coarse - rest
    tail = (coarse - r) - rest
    z = r * r
    series = ((SINE[0] * z + SINE[1]) * z + SINE[2]) * z + SINE[3]
    series = (((series * z + SINE[4]) * z + SINE[5]) * z + SINE[6]) * z + SINE[7]
    sine = r + (r * z * series + tail)
    series = ((COSINE[0] * z + COSINE[1]) * z + COSINE[2]) * z + COSINE[3]
    series = (((series * z + COSINE[4]) * z + COSINE[5]) * z + COSINE[6]) * z + COSINE[7]
    half = 0.5 * z
    most = 1.0 - half
    cosine = most + (((1.0 - most) - half) + (z * z * series - r * tail))
    quarter = np.float64(shifted).view(np.int64)
    swapped = quarter & 1 == 1
    s, c = (cosine if swapped else sine), (sine if swapped else cosine)
    return (-s if quarter & 2 == 2 else s), (-c if (quarter + 1) & 2 == 2 else c)


@inner_kernel
def write_sines_and_cosines(x: Any, sines: Any, cosines: Any) -> None:
    """Write the sine and the cosine of each number."""
    far = 0
    for j in range(x.shape[0]):
        far += abs(x[j]) > FARTHEST
    if far == 0:
        for j in range(x.shape[0]):
            sines[j], cosines[j] = _sine_and_cosine(x[j])
    else:
        for j in range(x.shape[0]):
            sines[j], cosines[j] = math.sin(x[j]), math.cos(x[j])
