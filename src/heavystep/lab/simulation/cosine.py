r"""The non-convex problem of Section 5 in kernels.

The compiler can evaluate polynomials for several numbers at once, but not the sine and cosine of
the C library. With q the whole number nearest to :math:`2x/\pi`, Taylor's series are taken at
:math:`r = x - q\pi/2`, and q decides which of them is the sine, and with which sign. A number that
is NaN gives NaN.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from heavystep.arrays import Array
from heavystep.lab.simulation.compiling import part, polynomial, total
from heavystep.lab.simulation.kernels import (
    Kernels,
    dot,
    no_departure,
    no_preparation,
    plain_error,
    row_dot,
    row_dot_moved,
)
from heavystep.problems import Cosine

VANISHED = 1e-153
"""Smaller coordinates have subnormal squares, which are slow to compute with; they count as 0, as
their squares would in the end."""
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
COSINE_SERIES = tuple((-1.0) ** degree / math.factorial(2 * degree) for degree in range(9, 1, -1))
"""cos(r) = 1 - r^2 / 2 + ..., likewise."""


@polynomial
def sine_and_cosine(x: Any) -> Any:
    """The sine and the cosine of a number that is not far from 0."""
    shifted = x * TWO_OVER_PI + ROUND
    q = shifted - ROUND
    coarse, rest = x - q * HALF_PI_HIGH, q * HALF_PI_LOW
    r = coarse - rest
    tail = (coarse - r) - rest
    z = r * r
    series = ((SINE[0] * z + SINE[1]) * z + SINE[2]) * z + SINE[3]
    series = (((series * z + SINE[4]) * z + SINE[5]) * z + SINE[6]) * z + SINE[7]
    sine = r + (r * z * series + tail)
    even = COSINE_SERIES
    series = ((even[0] * z + even[1]) * z + even[2]) * z + even[3]
    series = (((series * z + even[4]) * z + even[5]) * z + even[6]) * z + even[7]
    half = 0.5 * z
    most = 1.0 - half
    cosine = most + (((1.0 - most) - half) + (z * z * series - r * tail))
    quarter = np.float64(shifted).view(np.int64)
    swapped = quarter & 1 == 1
    s, c = (cosine if swapped else sine), (sine if swapped else cosine)
    return (-s if quarter & 2 == 2 else s), (-c if (quarter + 1) & 2 == 2 else c)


@part
def write_sines_and_cosines(x: Any, sines: Any, cosines: Any) -> None:
    """Write the sine and the cosine of each number."""
    far = 0
    for j in range(x.shape[0]):
        far += abs(x[j]) > FARTHEST
    if far == 0:
        for j in range(x.shape[0]):
            sines[j], cosines[j] = sine_and_cosine(x[j])
    else:
        for j in range(x.shape[0]):
            sines[j], cosines[j] = math.sin(x[j]), math.cos(x[j])


class CosineData(NamedTuple):
    """Data of :class:`Cosine`."""

    s: Array
    xi: Array
    f_star: Array
    mean_s: float
    tilted: bool


def cosine_data(problem: Cosine) -> CosineData:
    """The problem, laid out for its kernels."""
    s, xi, f_star = (np.array(a, order="C") for a in (problem.s, problem.xi, problem.f_star))
    return CosineData(s, xi, f_star, float(problem.s.mean()), bool(problem.xi.any()))


class CosineWork(NamedTuple):
    """Numbers of one point, one for each coordinate x."""

    halves: Array
    """x / 2."""
    sines: Array
    """sin(x / 2)."""
    cosines: Array
    slopes: Array


def _workspace(data: Any, size: int) -> CosineWork:
    return CosineWork(*(np.zeros(data.xi.shape[1]) for _ in CosineWork._fields))


@total
def _bowls(halves: Any, sines: Any) -> Any:
    """Sum of x^2 / 2 + 2 (1 - cos x); 1 - cos x = 2 sin^2(x/2) loses nothing near 0."""
    result = 0.0
    for j in range(halves.shape[0]):
        result += halves[j] * halves[j] + 2.0 * sines[j] * sines[j]
    return 2.0 * result


@part
def _write_slopes(work: Any) -> None:
    """Write the derivatives x + 2 sin x = x + 4 sin(x/2) cos(x/2)."""
    for j in range(work.halves.shape[0]):
        work.slopes[j] = 2.0 * (work.halves[j] + 2.0 * work.sines[j] * work.cosines[j])


@part
def _evaluate(data: Any, theta: Any, batch: Any, g: Any, work: Any) -> Any:
    size, scale, low = batch.shape[0], 0.0, 0.0
    for b in range(size):
        scale += data.s[batch[b]]
        low += data.f_star[batch[b]]
    if size > 1:
        scale /= size
        low /= size
    for j in range(theta.shape[0]):
        work.halves[j] = 0.5 * theta[j] if abs(theta[j]) > VANISHED else 0.0
    write_sines_and_cosines(work.halves, work.sines, work.cosines)
    _write_slopes(work)
    loss, square = scale * _bowls(work.halves, work.sines), dot(work.slopes, work.slopes)
    for j in range(theta.shape[0]):
        g[j] = scale * work.slopes[j]
    if data.tilted:
        for b in range(size):
            i = batch[b]
            loss -= row_dot(data.xi, i, theta) / size
            for j in range(theta.shape[0]):
                g[j] -= data.xi[i, j] / size
    return loss, low, np.nan, data.mean_s * data.mean_s * square


@part
def _trial(data: Any, theta: Any, way: Any, t: Any, batch: Any, work: Any) -> Any:
    size, scale, tilt = batch.shape[0], 0.0, 0.0
    for b in range(size):
        scale += data.s[batch[b]]
        if data.tilted:
            tilt += row_dot_moved(data.xi, batch[b], theta, way, t)
    for j in range(theta.shape[0]):
        work.halves[j] = 0.5 * (theta[j] - t * way[j])
    write_sines_and_cosines(work.halves, work.sines, work.cosines)
    loss = scale * _bowls(work.halves, work.sines) - tilt
    return loss / size if size > 1 else loss


@part
def _gap(data: Any, point: Any, work: Any) -> Any:
    for j in range(point.shape[0]):
        work.halves[j] = 0.5 * point[j]
    write_sines_and_cosines(work.halves, work.sines, work.cosines)
    return data.mean_s * _bowls(work.halves, work.sines)


@part
def _full_sqnorm(data: Any, point: Any, work: Any) -> Any:
    _gap(data, point, work)
    _write_slopes(work)
    return data.mean_s * data.mean_s * dot(work.slopes, work.slopes)


COSINE = Kernels(
    name="cosine",
    workspace=_workspace,
    evaluate=_evaluate,
    prepare=no_preparation,
    trial=_trial,
    measure=_gap,
    full_sqnorm=_full_sqnorm,
    error=plain_error,
    depart=no_departure,
)
