"""Variance-reduced losses in kernels, around the kernels of the problem itself.

The surrogate is computed less the constant <a_k, theta_k>, on which no step depends: its loss at
theta_k is then the sampled loss, and the large products with a_k cancel nowhere.
"""

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from heavystep.arrays import Array
from heavystep.lab.simulation.compiling import part, total
from heavystep.lab.simulation.kernels import Kernels, dot
from heavystep.lab.simulation.streams import random_unit, second_key
from heavystep.problems import VarianceReduced


class ReducedData(NamedTuple):
    """Data of :class:`VarianceReduced`, and the anchor of one run."""

    inside: Any
    """The data of the problem itself."""
    n: int
    anchor: Array
    gradient: Array
    """(d,) grad F at the anchor."""
    curvature: float
    probability: float
    """With which probability the anchor moves, whatever the size of the batch."""
    per_sample: float
    """The same for each sample of the batch; one of the two is 0."""


class ReducedWork(NamedTuple):
    """One batch's numbers."""

    inside: Any
    """The workspace of the problem itself."""
    shift: Array
    """(d,) a_k."""
    products: Array
    """<a_k, d> and <d, d> for the vector d that trials go along."""
    everyone: Array
    """(n,) the batch of all terms."""
    whole: Any
    """The workspace of the problem itself for that batch."""


def reduced_data(problem: VarianceReduced, inside: Any) -> ReducedData:
    """The problem with an anchor at its start, around the data ``inside``."""
    anchor = np.array(problem.theta0, dtype=np.float64)
    original: Any = problem.problem
    if hasattr(original, "full_gradient"):
        gradient = np.array(original.full_gradient(anchor), dtype=np.float64)
    else:
        everyone = np.arange(problem.n)
        gradient = original.gradients(np.broadcast_to(anchor, (problem.n, len(anchor))), everyone)
        gradient = gradient.mean(axis=0)
    given = problem.probability
    chances = (0.0, 1.0 / problem.n) if given is None else (given, 0.0)
    return ReducedData(inside, problem.n, anchor, gradient, problem.curvature, *chances)


@total
def _apart(x: Any, y: Any) -> Any:
    """||x - y||^2."""
    result = 0.0
    for j in range(x.shape[0]):
        result += (x[j] - y[j]) * (x[j] - y[j])
    return result


@cache
def reduced(inside: Kernels) -> Kernels:
    """The kernels around those of a problem."""
    evaluate_inside, prepare_inside, trial_inside = inside.evaluate, inside.prepare, inside.trial
    measure_inside, sqnorm_inside = inside.measure, inside.full_sqnorm

    def workspace(data: Any, size: int) -> ReducedWork:
        return ReducedWork(
            inside.workspace(data.inside, size),
            np.empty_like(data.anchor),
            np.empty(2),
            np.arange(data.n),
            inside.workspace(data.inside, data.n),
        )

    @part
    def evaluate(data: Any, theta: Any, batch: Any, g: Any, work: Any) -> Any:
        shift = work.shift
        # The anchor comes first: trials need what the workspace keeps of theta.
        evaluate_inside(data.inside, data.anchor, batch, shift, work.inside)
        loss, low, _, full = evaluate_inside(data.inside, theta, batch, g, work.inside)
        for j in range(g.shape[0]):
            shift[j] = data.gradient[j] - shift[j]
            g[j] += shift[j]
        low -= 0.5 * dot(shift, shift) / data.curvature
        return loss, low, np.nan, full

    @part
    def prepare(data: Any, theta: Any, way: Any, batch: Any, work: Any) -> Any:
        prepare_inside(data.inside, theta, way, batch, work.inside)
        work.products[0] = dot(work.shift, way)
        work.products[1] = dot(way, way)
        return 0

    @part
    def trial(data: Any, theta: Any, way: Any, t: Any, batch: Any, work: Any) -> Any:
        along, square = work.products[0], work.products[1]
        loss = trial_inside(data.inside, theta, way, t, batch, work.inside)
        return loss - t * along + 0.5 * data.curvature * t * t * square

    @part
    def measure(data: Any, point: Any, work: Any) -> Any:
        return measure_inside(data.inside, point, work.inside)

    @part
    def full_sqnorm(data: Any, point: Any, work: Any) -> Any:
        return sqnorm_inside(data.inside, point, work.inside)

    @part
    def error(data: Any, theta: Any, g: Any, loss: Any, eps: Any, work: Any) -> Any:
        # The rounding of theta alone moves the loss by ||grad f|| ||theta|| eps. Where the gradient
        # is that of the step this is small beside the decrease that a search asks for; here not.
        moved = math.sqrt(_apart(g, work.shift) * dot(theta, theta))
        return eps * (1.0 + moved / abs(loss)) if loss != 0.0 else eps

    @part
    def depart(data: Any, theta: Any, key: Any, k: Any, size: Any, work: Any) -> Any:
        if random_unit(second_key(key), k) < data.probability + size * data.per_sample:
            for j in range(theta.shape[0]):
                data.anchor[j] = theta[j]
            evaluate_inside(data.inside, theta, work.everyone, data.gradient, work.whole)
        return 0

    return Kernels(
        f"reduced {inside.name}", workspace, evaluate, prepare, trial, measure, full_sqnorm, error,
        depart,
    )  # fmt: skip
