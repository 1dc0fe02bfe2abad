"""Runs of a finite sum side by side, recorded in full: what certificates are made from."""

from typing import Any

import numpy as np

from heavystep.arrays import Array, inner
from heavystep.lab.simulation.configuration import Configuration
from heavystep.momentum import divisor, second_moment
from heavystep.problems import FiniteSum, VarianceReduced
from heavystep.records import Record
from heavystep.rules import (
    DIRECTION,
    PRODUCTS,
    Primitives,
    Search,
    Seen,
    batch_is_finite,
    is_finite,
    register,
)

register(np.ndarray, Primitives(np.where, np.minimum, np.maximum, np.any))  # an entry for each run


def checked_samples(problem: Any, samples: Any, ndim: int) -> Array:
    """Indices of terms as an array. Kernels do not check them.

    Raises:
        ValueError: they are not whole numbers, have another shape, or are out of range.
    """
    array = np.asarray(samples)
    if array.ndim != ndim or not array.size or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            f"samples must be whole numbers in {ndim} dimensions, got {array.dtype} {array.shape}"
        )
    if array.min() < 0 or array.max() >= problem.n:
        got = f"got {array.min()} .. {array.max()}"
        raise ValueError(f"samples must be in 0 .. {problem.n - 1}, {got}")
    return array


def draw_samples(problem: FiniteSum, *, runs: int, steps: int, seed: int = 0) -> Array:
    """(runs, steps) indices, uniform and independent; one random stream a run.

    >>> from heavystep.problems import paper_least_squares
    >>> draw_samples(paper_least_squares(), runs=2, steps=3).shape
    (2, 3)
    """
    streams = (np.random.default_rng([seed, run]) for run in range(runs))
    return np.array([stream.integers(0, problem.n, size=steps) for stream in streams])


def record_runs(problem: FiniteSum, configuration: Configuration, samples: Any) -> Record:
    """Run a method on a finite sum, all runs at once, and keep every iterate.

    The steps come from the rule of the method, with the exact infima of the terms as lower bounds,
    and its momentum form takes them. Memory is runs x steps x dim numbers, twice.

    Args:
        problem: where it starts (``theta0``), losses and gradients.
        configuration: from :func:`heavystep.lab.simulation.configure`.
        samples: (R, K) which term is sampled in which run at which step.

    Raises:
        TypeError: the problem is variance-reduced: what a method sees is then no finite sum.
        ValueError: samples are out of range, or a loss or gradient is not finite, or a search
            finds no step.

    >>> from heavystep.problems import LeastSquares
    >>> from heavystep.lab.simulation import configure
    >>> problem = LeastSquares([[1.0], [2.0]], [1.0, 2.0])
    >>> method = configure("SHBPolyak", momentum=0.0, c=0.5, scaling="theory")
    >>> record_runs(problem, method, [[0, 1]]).iterates.tolist()
    [[[0.0], [0.5], [0.75]]]
    """
    if isinstance(problem, VarianceReduced):  # its losses change from step to step
        raise TypeError(
            "record_runs takes a finite sum; a VarianceReduced problem runs in lab.simulate"
        )
    samples = checked_samples(problem, samples, ndim=2)
    (runs, steps), row = samples.shape, configuration.row
    rule, form = row.rule, row.form
    table, etas, betas = configuration.parameters(0, steps)
    iterates = np.empty((runs, steps + 1, problem.dim))
    gradients = np.empty((runs, steps, problem.dim))
    gamma, loss, sqnorm, f_star = (np.empty((runs, steps)) for _ in range(4))
    theta = iterates[:, 0] = np.broadcast_to(problem.theta0, (runs, problem.dim))
    buffer, squares, square_weight = np.zeros_like(theta), np.zeros_like(theta), 0.0
    memory = rule.Memory(*(np.full(runs, first) for first in rule.memory.values()))
    D: Any = 1.0
    for k in range(steps):
        i, beta = samples[:, k], betas[k]
        loss[:, k] = f = problem.losses(theta, i)
        gradients[:, k] = g = problem.gradients(theta, i)
        f_star[:, k] = low = problem.f_star[i]
        if configuration.diagonal is not None:
            tensor = configuration.diagonal == "tensor"
            new = np.mean(g * g, axis=1, keepdims=True) if tensor else g * g
            squares, square_weight = second_moment(squares, new), second_moment(square_weight, 1.0)
            D = divisor(squares, square_weight)
        vectors = {
            "gradient": g,
            "direction": form.direction(buffer, g, beta),
            "buffer": buffer,
            "position": theta,
        }
        products = {
            name: inner(vectors[left], vectors[right] / D**power)
            for name, (left, right, power) in PRODUCTS.items()
            if name in rule.reads or name == "grad_sqnorm"
        }
        sqnorm[:, k] = products["grad_sqnorm"]
        if not batch_is_finite(f, sqnorm[:, k]).all():
            raise ValueError(f"loss or gradient is not finite at step {k}: the run diverged")
        seen = Seen(f, low, loss_eps=configuration.loss_eps, **products)
        constants = rule.Constants(*table[k])

        def whole(search: Search) -> Search:
            values = (0.0 if value is None else value for value in search)
            return Search(*(np.broadcast_to(value, runs) for value in values))

        # Infinite and undefined values are part of the formulas, and no reason to warn.
        with np.errstate(all="ignore"):
            search = whole(rule.start(constants, memory, seen))
            while search.active.any():
                way = vectors[rule.along]
                if rule.along == DIRECTION and rule.steers:
                    way = form.direction(buffer, g, search.momentum[:, None])
                trial = problem.losses(theta - search.trial[:, None] * way / D, i)
                assert rule.advance is not None
                ahead = whole(rule.advance(constants, memory, seen, search, trial))
                # Searches that are over wait for the others.
                pairs = zip(ahead, search, strict=True)
                search = Search(*(np.where(search.active, new, old) for new, old in pairs))
        if not (search.accepted & is_finite(search.step)).all():
            raise ValueError(f"no step was accepted at step {k}")
        memory = rule.Memory(*rule.remember(constants, memory, seen, search))
        gamma[:, k] = etas[k] * search.step
        momentum = search.momentum[:, None] if rule.steers else beta
        step, weight = gamma[:, k, None], search.weight[:, None]
        motion, buffer = form.move(buffer, g / D, step, momentum, weight)
        iterates[:, k + 1] = theta = theta + motion
    _, largest = configuration.step_bounds(problem.L, 0, steps)
    options = dict(configuration.options)
    return Record(
        rule=row.known_as, scaling=options.get("scaling", ""),
        c=options.get("c", np.nan), omega=options.get("decrease_factor"),
        smooth_reset=options.get("steps_per_epoch") is not None, beta=betas, eta=etas,
        gamma_max=np.where(np.isnan(largest), np.inf, largest), gamma=gamma, loss=loss,
        grad_sqnorm=sqnorm, f_star=f_star, accepted=np.ones((runs, steps), dtype=bool),
        iterates=iterates, gradients=gradients, samples=samples,
    )  # fmt: skip
