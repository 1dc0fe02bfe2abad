"""The problems inside kernels: losses, gradients and metrics on one point, without allocation.

A kernel is compiled once for each kind of data; which functions it calls follows from the type.
They agree with :mod:`heavystep.problems`, from which the data come; a test compares them.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from heavystep.arrays import Array
from heavystep.engine.kernel_cache import kernel, reduction
from heavystep.problems import Cosine, FiniteSum, LeastSquares

VANISHED = 1e-153
"""Coordinates below this have squares below the normal numbers; they count as 0, as the squares
would in the end, and cost no slow arithmetic on the way."""


class LeastSquaresTerms(NamedTuple):
    """Data of :class:`LeastSquares`."""

    A: Array
    b: Array
    f_star: Array
    root: Array
    """R with F - F* = ||R (theta - theta*)||^2."""
    theta_star: Array


class CosineTerms(NamedTuple):
    """Data of :class:`Cosine`."""

    s: Array
    xi: Array
    f_star: Array
    mean_s: float
    tilted: bool


@lru_cache(maxsize=8)
def terms_of(problem: FiniteSum) -> Any:
    """The data of a problem, laid out for its kernels."""
    if isinstance(problem, LeastSquares):
        _, S, V = np.linalg.svd(problem.A, full_matrices=False)
        root = S[:, None] * V / math.sqrt(2 * problem.n)
        arrays = (problem.A, problem.b, problem.f_star, root, problem.theta_star)
        return LeastSquaresTerms(*map(np.array, arrays))
    if isinstance(problem, Cosine):
        s, xi, f_star = map(np.array, (problem.s, problem.xi, problem.f_star))
        return CosineTerms(s, xi, f_star, float(problem.s.mean()), bool(problem.xi.any()))
    raise TypeError(f"no kernels for {type(problem).__name__}; there are LeastSquares and Cosine")


def evaluate(terms: Any, theta: Any, batch: Any, g: Any) -> Any:
    """Loss, lower bound and ||grad F||^2 (NaN if costly); the gradient is written into ``g``."""
    raise NotImplementedError


def trial_loss(terms: Any, theta: Any, g: Any, t: Any, batch: Any) -> Any:
    """Loss of the batch at theta - t g."""
    raise NotImplementedError


def objective_gap(terms: Any, point: Any) -> Any:
    """F(point) - F*."""
    raise NotImplementedError


def full_sqnorm(terms: Any, point: Any) -> Any:
    """||grad F(point)||^2; NaN where it is not a metric of the problem."""
    raise NotImplementedError


@reduction
def dot(x: Any, y: Any) -> Any:
    """Inner product of two vectors."""
    total = 0.0
    for j in range(x.shape[0]):
        total += x[j] * y[j]
    return total


@reduction
def row_dot(A: Any, i: Any, theta: Any) -> Any:
    """Inner product of row i with theta; no view of the row is made, which would be counted."""
    total = 0.0
    for j in range(theta.shape[0]):
        total += A[i, j] * theta[j]
    return total


@reduction
def row_dot_moved(A: Any, i: Any, theta: Any, g: Any, t: Any) -> Any:
    """Inner product of row i with theta - t g."""
    total = 0.0
    for j in range(theta.shape[0]):
        total += A[i, j] * (theta[j] - t * g[j])
    return total


def _ls_evaluate(terms: Any, theta: Any, batch: Any, g: Any) -> Any:
    size, dim = batch.shape[0], theta.shape[0]
    loss, low = 0.0, 0.0
    for b in range(size):
        i = batch[b]
        residual = row_dot(terms.A, i, theta) - terms.b[i]
        loss += 0.5 * residual * residual
        low += terms.f_star[i]
        share = residual / size
        if b == 0:
            for j in range(dim):
                g[j] = share * terms.A[i, j]
        else:
            for j in range(dim):
                g[j] += share * terms.A[i, j]
    return loss / size, low / size, np.nan


def _ls_trial_loss(terms: Any, theta: Any, g: Any, t: Any, batch: Any) -> Any:
    loss = 0.0
    for i in batch:
        residual = row_dot_moved(terms.A, i, theta, g, t) - terms.b[i]
        loss += 0.5 * residual * residual
    return loss / batch.shape[0]


def _ls_gap(terms: Any, point: Any) -> Any:
    gap = 0.0
    for row in terms.root:
        image = 0.0
        for j in range(point.shape[0]):
            image += row[j] * (point[j] - terms.theta_star[j])
        gap += image * image
    return gap


def _ls_full_sqnorm(terms: Any, point: Any) -> Any:
    return np.nan


@kernel
def bowl(x: Any) -> Any:
    """x^2 / 2 + 2 (1 - cos x); 1 - cos x = 2 sin^2(x/2) loses nothing near 0."""
    half = math.sin(0.5 * x)
    return 0.5 * x * x + 4.0 * half * half


@kernel
def bowl_slope(x: Any) -> Any:
    """Its derivative x + 2 sin x, with the sine that :func:`bowl` needs, too."""
    return x + 4.0 * math.sin(0.5 * x) * math.cos(0.5 * x)


def _cosine_evaluate(terms: Any, theta: Any, batch: Any, g: Any) -> Any:
    size, dim = batch.shape[0], theta.shape[0]
    scale, low = 0.0, 0.0
    for i in batch:
        scale += terms.s[i]
        low += terms.f_star[i]
    scale /= size
    height, square = 0.0, 0.0
    for j in range(dim):
        x = theta[j] if abs(theta[j]) > VANISHED else 0.0
        slope = bowl_slope(x)
        height += bowl(x)
        square += slope * slope
        g[j] = scale * slope
    loss = scale * height
    if terms.tilted:
        for i in batch:
            for j in range(dim):
                loss -= terms.xi[i, j] * theta[j] / size
                g[j] -= terms.xi[i, j] / size
    return loss, low / size, terms.mean_s * terms.mean_s * square


def _cosine_trial_loss(terms: Any, theta: Any, g: Any, t: Any, batch: Any) -> Any:
    size, dim = batch.shape[0], theta.shape[0]
    scale, height, tilt = 0.0, 0.0, 0.0
    for i in batch:
        scale += terms.s[i]
    for j in range(dim):
        height += bowl(theta[j] - t * g[j])
    if terms.tilted:
        for i in batch:
            for j in range(dim):
                tilt += terms.xi[i, j] * (theta[j] - t * g[j])
    return (scale * height - tilt) / size


def _cosine_gap(terms: Any, point: Any) -> Any:
    gap = 0.0
    for x in point:
        gap += bowl(x)
    return terms.mean_s * gap


def _cosine_full_sqnorm(terms: Any, point: Any) -> Any:
    square = 0.0
    for x in point:
        square += bowl_slope(x) ** 2
    return terms.mean_s * terms.mean_s * square


Functions = dict[type, Callable[..., Any]]


def _dispatch(stub: Callable[..., Any], functions: Functions) -> None:
    """Let kernels call ``stub``: the data's type says which function it is."""

    def choose(terms: Any, *others: Any) -> Any:
        return functions[terms.instance_class]

    overload(stub, strict=False)(choose)


_dispatch(evaluate, {LeastSquaresTerms: _ls_evaluate, CosineTerms: _cosine_evaluate})
_dispatch(trial_loss, {LeastSquaresTerms: _ls_trial_loss, CosineTerms: _cosine_trial_loss})
_dispatch(objective_gap, {LeastSquaresTerms: _ls_gap, CosineTerms: _cosine_gap})
_dispatch(full_sqnorm, {LeastSquaresTerms: _ls_full_sqnorm, CosineTerms: _cosine_full_sqnorm})
