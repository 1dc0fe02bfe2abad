"""Problems in kernels: samples, losses and gradients, without allocation.

They compute the same as the classes of :mod:`heavystep.problems`, from which the data come; a test
compares them. A number that is NaN gives NaN.
"""

import math
from collections import namedtuple
from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from typing import Any, NamedTuple

import numpy as np

from heavystep.arrays import square
from heavystep.lab.simulation.compiling import Function, part, subroutine, total
from heavystep.problems import Cosine, LeastSquares, Problem, SparseLogistic
from heavystep.problems.logistic import row_of_entries

# The random stream of a seed gives its samples. Entry k is a hash of the stream's key and k
# (SplitMix64), so that any part of a stream can be drawn at any time, by any thread.

GOLDEN, FIRST, SECOND = map(np.uint64, (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
S30, S27, S31, S11 = map(np.uint64, (30, 27, 31, 11))


def stream_key(seed: int) -> np.uint64:
    """The key of a seed's stream, from numpy's ``SeedSequence``: nearby seeds are unrelated."""
    return np.uint64(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])


@part
def random_index(key: Any, position: Any, n: Any) -> Any:
    """Entry ``position`` of a stream: uniform on 0 .. n - 1, with a bias below n / 2^53."""
    z = key + np.uint64(position + 1) * GOLDEN
    z = (z ^ (z >> S30)) * FIRST
    z = (z ^ (z >> S27)) * SECOND
    return int(float((z ^ (z >> S31)) >> S11) * 2.0**-53 * n)


class Kernels(NamedTuple):
    """The functions of one kind of problem, all but the first two compiled."""

    name: str
    shared: Callable[[Any], tuple[Any, ...]]
    """(problem): what all runs on it read, laid out."""
    data: Callable[[Any, int], Any]
    """(shared, size): that and the arrays that a run with batches of this size works with."""
    evaluate: Function
    """(data, theta, batch, g): writes the gradient of the batch to ``g``; returns its loss, its
    lower bound, ||g||^2 (NaN: to be summed up), and ||grad F||^2 (NaN: too costly)."""
    trial: Function  # (data, theta, way, t, batch): the loss of the batch at theta - t way
    objective: Function  # (data, point): F(point), less F* where that is known
    prepare: Function = part(lambda data, theta, way, batch: 0)
    """Computes what all trials along ``way`` share, after ``evaluate``."""
    full_sqnorm: Function = part(lambda data, point: np.nan)
    """||grad F(point)||^2, or NaN."""


@total
def dot(x: Any, y: Any) -> Any:
    """Inner product of two vectors."""
    result = 0.0
    for j in range(x.shape[0]):
        result += x[j] * y[j]
    return result


@total
def _dot_moved(row: Any, theta: Any, way: Any, t: Any) -> Any:
    """Inner product of a row with theta - t way."""
    result = 0.0
    for j in range(theta.shape[0]):
        result += row[j] * (theta[j] - t * way[j])
    return result


# Least squares. `squares` are those of the rows, and F - F* = ||root (theta - theta*)||^2.
SquaresData = namedtuple("SquaresData", "A b f_star squares root theta_star")


def _squares_shared(problem: LeastSquares) -> tuple[Any, ...]:
    _, S, V = np.linalg.svd(problem.A, full_matrices=False)
    root = S[:, None] * V / math.sqrt(2 * problem.n)
    squares = square(problem.A)
    arrays = (problem.A, problem.b, problem.f_star, squares, root, problem.theta_star)
    return tuple(np.array(array, order="C") for array in arrays)


@part
def _squares_evaluate(data: Any, theta: Any, batch: Any, g: Any) -> Any:
    size, loss, low, sqnorm = batch.shape[0], 0.0, 0.0, np.nan
    for b in range(size):
        i = batch[b]
        residual = dot(data.A[i], theta) - data.b[i]
        loss += 0.5 * residual * residual
        low += data.f_star[i]
        for j in range(theta.shape[0]):
            g[j] = residual * data.A[i, j] + (g[j] if b > 0 else 0.0)
    if size > 1:
        for j in range(theta.shape[0]):
            g[j] /= size
        loss /= size
        low /= size
    else:
        sqnorm = 2.0 * loss * data.squares[batch[0]]
    return loss, low, sqnorm, np.nan


@part
def _squares_trial(data: Any, theta: Any, way: Any, t: Any, batch: Any) -> Any:
    loss = 0.0
    for b in range(batch.shape[0]):
        i = batch[b]
        residual = _dot_moved(data.A[i], theta, way, t) - data.b[i]
        loss += 0.5 * residual * residual
    return loss / batch.shape[0] if batch.shape[0] > 1 else loss


@part
def _squares_gap(data: Any, point: Any) -> Any:
    gap = 0.0
    for i in range(data.root.shape[0]):
        image = 0.0
        for j in range(point.shape[0]):
            image += data.root[i, j] * (point[j] - data.theta_star[j])
        gap += image * image
    return gap


LEAST_SQUARES = Kernels(
    "least squares", _squares_shared, lambda shared, size: SquaresData(*shared),
    _squares_evaluate, _squares_trial, _squares_gap,
)  # fmt: skip

# The non-convex problem of Section 5.

VANISHED = 1e-153
"""Smaller coordinates have subnormal squares, which are slow to compute with; they count as 0, as
their squares would in the end."""
CosineData = namedtuple("CosineData", "s xi f_star mean_s tilted halves sines slopes")
"""The last three are of one point x: x / 2, the sine of that, and the derivative by x."""


def _cosine_shared(problem: Cosine) -> tuple[Any, ...]:
    arrays = (np.array(a, order="C") for a in (problem.s, problem.xi, problem.f_star))
    return (*arrays, float(problem.s.mean()), bool(problem.xi.any()))


@total
def _sum_of_bowls(halves: Any, sines: Any) -> Any:
    result = 0.0
    for j in range(halves.shape[0]):
        result += halves[j] * halves[j] + 2.0 * sines[j] * sines[j]
    return 2.0 * result


@part
def _bowls(data: Any, theta: Any, way: Any, t: Any, least: Any) -> Any:
    """Sum of x^2 / 2 + 2 (1 - cos x) at x = theta - t way.

    1 - cos x = 2 sin^2(x/2) loses nothing near 0. What is not above ``least`` counts as 0.
    """
    for j in range(theta.shape[0]):
        x = theta[j] - t * way[j]
        data.halves[j] = 0.5 * x if abs(x) > least else 0.0
        data.sines[j] = math.sin(data.halves[j])
    return _sum_of_bowls(data.halves, data.sines)


@part
def _slopes_sqnorm(data: Any) -> Any:
    """Write the derivatives x + 2 sin x = x + 4 sin(x/2) cos(x/2); the sum of their squares."""
    for j in range(data.halves.shape[0]):
        cosine = math.cos(data.halves[j])
        data.slopes[j] = 2.0 * (data.halves[j] + 2.0 * data.sines[j] * cosine)
    return dot(data.slopes, data.slopes)


@part
def _cosine_evaluate(data: Any, theta: Any, batch: Any, g: Any) -> Any:
    size, scale, low = batch.shape[0], 0.0, 0.0
    for b in range(size):
        scale += data.s[batch[b]] / size
        low += data.f_star[batch[b]] / size
    loss, sqnorm = scale * _bowls(data, theta, theta, 0.0, VANISHED), _slopes_sqnorm(data)
    for j in range(theta.shape[0]):
        g[j] = scale * data.slopes[j]
    if data.tilted:
        for b in range(size):
            i = batch[b]
            loss -= dot(data.xi[i], theta) / size
            for j in range(theta.shape[0]):
                g[j] -= data.xi[i, j] / size
    return loss, low, np.nan, data.mean_s * data.mean_s * sqnorm


@part
def _cosine_trial(data: Any, theta: Any, way: Any, t: Any, batch: Any) -> Any:
    size, scale, tilt = batch.shape[0], 0.0, 0.0
    for b in range(size):
        scale += data.s[batch[b]] / size
        if data.tilted:
            tilt += _dot_moved(data.xi[batch[b]], theta, way, t) / size
    return scale * _bowls(data, theta, way, t, 0.0) - tilt


@part
def _cosine_gap(data: Any, point: Any) -> Any:
    return data.mean_s * _bowls(data, point, point, 0.0, 0.0)


@part
def _cosine_full_sqnorm(data: Any, point: Any) -> Any:
    _bowls(data, point, point, 0.0, 0.0)
    return data.mean_s * data.mean_s * _slopes_sqnorm(data)


COSINE = Kernels(
    "cosine", _cosine_shared,
    lambda shared, size: CosineData(*shared, *np.zeros((3, shared[1].shape[1]))),
    _cosine_evaluate, _cosine_trial, _cosine_gap, full_sqnorm=_cosine_full_sqnorm,
)  # fmt: skip

# Logistic regression on sparse rows. The margins of a batch are linear in the step: at theta - t g
# they are m_i - t (a_i . g). After one more pass over the rows of the batch, every trial of a line
# search costs O(batch). With e = exp(-|m|) in [0, 1] both tails are exact:
# log(1 + exp(-m)) = max(-m, 0) + log(1 + e), and 1 / (1 + exp(m)) = (1 or e) / (1 + e).
# Exponential and logarithm are Taylor series, which the compiler evaluates for several margins at
# once, as it cannot call the C library; the errors are less than half a unit in the last place.


def _series(coefficients: Sequence[float]) -> Function:
    """A polynomial, the coefficient of the highest degree first."""
    formula = reduce(lambda inner, each: f"({inner} * x + {each})", map(repr, coefficients))
    return part(eval(f"lambda x: {formula}"))


ROUND = 1.5 * 2.0**52
"""Adding and subtracting it rounds to a whole number, which is in the last bits of the sum."""
LOG2_E = 1.0 / math.log(2.0)
LN2_HIGH = float.fromhex("0x1.62e42feep-1")
LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
SMALLEST = -708.0  # below, e^x is not a normal number; it counts as 0
_exp_series = _series([1.0 / math.factorial(degree) for degree in range(13, -1, -1)])
_atanh_series = _series([1.0 / (2 * degree + 1) for degree in range(17, -1, -1)])
"""atanh(s) / s in powers of s^2 <= 1/9."""


@part
def _exp_of_negative(x: Any) -> Any:
    """e^x for x <= 0, as 2^n e^r with |r| <= ln(2) / 2."""
    shifted = x * LOG2_E + ROUND
    n = shifted - ROUND
    r = (x - n * LN2_HIGH) - n * LN2_LOW
    power = np.int64((np.float64(shifted).view(np.int64) + 1023) << 52).view(np.float64)
    return 0.0 if x <= SMALLEST else _exp_series(r) * power


@part
def _log1p_of_fraction(e: Any) -> Any:
    """log(1 + e) = 2 atanh(e / (2 + e)) for e in [0, 1]."""
    s = e / (2.0 + e)
    return 2.0 * s * _atanh_series(s * s)


@subroutine
def _write_losses(margins: Any, losses: Any, slopes: Any) -> None:
    """Write log(1 + e^-m) for each margin m, and its derivative where there is room for it."""
    # A loop each: in one, chains of operations are too long for the processor to overlap them.
    for b in range(margins.shape[0]):
        losses[b] = _exp_of_negative(-abs(margins[b]))
    for b in range(slopes.shape[0]):
        slopes[b] = -(losses[b] if margins[b] >= 0.0 else 1.0) / (1.0 + losses[b])
    for b in range(margins.shape[0]):
        losses[b] = max(-margins[b], 0.0) + _log1p_of_fraction(losses[b])


# `values` are those of y_i a_i, so that margins are plain inner products. Unsigned indices need no
# check for negative ones. `penalties` are empty if there are none. Of one batch: `shares` are
# weights divided by its size, `slopes` the derivatives of losses by margins, `along` is how fast
# margins fall along the trial, `moved` are margins at the trial, and `products` are those of
# theta . theta, theta . way and way . way, weighted with the penalties.
LogisticData = namedtuple(
    "LogisticData",
    "indptr indices values weights f_star penalties "
    "shares margins losses slopes along moved products all_margins all_losses",
)


def _logistic_shared(problem: SparseLogistic) -> tuple[Any, ...]:
    rows, penalties = problem.rows, np.array(problem.l2)
    return (
        rows.indptr.astype(np.uint64),
        # Two bytes each where that is enough, because kernels wait for memory.
        rows.indices.astype(np.uint16 if problem.dim <= 1 << 16 else np.uint32),
        rows.data * problem.y[row_of_entries(rows)],
        np.array(problem.weights),
        np.array(problem.f_star),
        penalties if penalties.any() else np.empty(0),
    )


def _logistic_data(shared: Any, size: int) -> LogisticData:
    n = len(shared[3])
    return LogisticData(*shared, *(np.empty(each) for each in (*(size,) * 6, 3, n, n)))


@total
def _weighted_dot(weights: Any, x: Any, y: Any) -> Any:
    result = 0.0
    for j in range(x.shape[0]):
        result += weights[j] * x[j] * y[j]
    return result


@part
def _row_product(data: Any, i: Any, vector: Any) -> Any:
    """y_i a_i . vector."""
    result = 0.0
    for p in range(data.indptr[i], data.indptr[i + 1]):
        result += data.values[p] * vector[data.indices[p]]
    return result


@part
def _logistic_evaluate(data: Any, theta: Any, batch: Any, g: Any) -> Any:
    size, low = batch.shape[0], 0.0
    for b in range(size):
        i = batch[b]
        data.margins[b] = _row_product(data, i, theta)
        data.shares[b] = data.weights[i] / size
        low += data.shares[b] * data.f_star[i]
    _write_losses(data.margins, data.losses, data.slopes)
    g[:] = 0.0
    for b in range(size):
        i, share = batch[b], data.shares[b] * data.slopes[b]
        for p in range(data.indptr[i], data.indptr[i + 1]):
            g[data.indices[p]] += share * data.values[p]
    loss = dot(data.shares, data.losses)
    if data.penalties.shape[0] > 0:
        data.products[0] = _weighted_dot(data.penalties, theta, theta)
        loss += 0.5 * data.products[0]
        for j in range(theta.shape[0]):
            g[j] += data.penalties[j] * theta[j]
    return loss, low, np.nan, np.nan


@part
def _logistic_prepare(data: Any, theta: Any, way: Any, batch: Any) -> Any:
    for b in range(batch.shape[0]):
        data.along[b] = _row_product(data, batch[b], way)
    if data.penalties.shape[0] > 0:
        data.products[1] = _weighted_dot(data.penalties, theta, way)
        data.products[2] = _weighted_dot(data.penalties, way, way)
    return 0


@part
def _logistic_trial(data: Any, theta: Any, way: Any, t: Any, batch: Any) -> Any:
    for b in range(batch.shape[0]):
        data.moved[b] = data.margins[b] - t * data.along[b]
    _write_losses(data.moved, data.losses, data.slopes[:0])
    loss = dot(data.shares, data.losses)
    if data.penalties.shape[0] > 0:
        here, cross, square = data.products[0], data.products[1], data.products[2]
        loss += 0.5 * (here - t * (2.0 * cross - t * square))
    return loss


@subroutine
def _logistic_objective(data: Any, point: Any) -> Any:
    n = data.weights.shape[0]
    for i in range(n):
        data.all_margins[i] = _row_product(data, i, point)
    _write_losses(data.all_margins, data.all_losses, data.slopes[:0])
    result = dot(data.weights, data.all_losses) / n
    if data.penalties.shape[0] > 0:
        result += 0.5 * _weighted_dot(data.penalties, point, point)
    return result


LOGISTIC = Kernels(
    "logistic", _logistic_shared, _logistic_data, _logistic_evaluate, _logistic_trial,
    _logistic_objective, _logistic_prepare,
)  # fmt: skip

KNOWN = {LeastSquares: LEAST_SQUARES, Cosine: COSINE, SparseLogistic: LOGISTIC}


@lru_cache(16)
def kernels_of(problem: Problem) -> tuple[Kernels, Any]:
    """The kernels for a problem, and what all runs on it share.

    Raises:
        TypeError: there are no kernels for this kind of problem.
    """
    for kind, kernels in KNOWN.items():
        if isinstance(problem, kind):
            return kernels, kernels.shared(problem)
    names = ", ".join(kind.__name__ for kind in KNOWN)
    raise TypeError(f"there are no compiled kernels for {type(problem).__name__}, only for {names}")
