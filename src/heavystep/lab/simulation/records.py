"""Runs of a finite sum side by side, recorded in full: what certificates are made from."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from heavystep.arrays import Array, inner, square
from heavystep.lab.simulation.configuration import Configuration
from heavystep.methods import BETA2, DIAGONAL_EPS
from heavystep.problems import FiniteSum, VarianceReduced
from heavystep.records import Record
from heavystep.rules import (
    DIRECTION,
    PRODUCTS,
    Primitives,
    Rule,
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
        configuration: from :func:`heavystep.lab.simulation.configuration.configure`.
        samples: (R, K) which term is sampled in which run at which step.

    Raises:
        TypeError: the problem is variance-reduced: what a method sees is then no finite sum.
        ValueError: samples are out of range, or a loss or gradient is not finite, or a search
            finds no step.

    >>> from heavystep.problems import LeastSquares
    >>> from heavystep.lab.simulation.configuration import configure
    >>> problem = LeastSquares([[1.0], [2.0]], [1.0, 2.0])
    >>> method = configure("SHBPolyak", momentum=0.0, c=0.5, scaling="theory")
    >>> record_runs(problem, method, [[0, 1]]).iterates.tolist()
    [[[0.0], [0.5], [0.75]]]
    """
    _refuse_reduced(problem)
    samples = checked_samples(problem, samples, ndim=2)
    runs, steps = samples.shape
    rule, form = configuration.rule, configuration.form
    table, etas, betas = configuration.parameters(0, steps)
    iterates = np.empty((runs, steps + 1, problem.dim))
    gradients = np.empty((runs, steps, problem.dim))
    gamma, loss, sqnorm, f_star = (np.empty((runs, steps)) for _ in range(4))
    theta = iterates[:, 0] = np.broadcast_to(problem.theta0, (runs, problem.dim))
    buffer, stretched = np.zeros_like(theta), _Stretched(configuration, theta)
    memory = rule.Memory(*(np.full(runs, first) for first in rule.memory.values()))
    for k in range(steps):
        i = samples[:, k]
        loss[:, k] = f = problem.losses(theta, i)
        gradients[:, k] = g = problem.gradients(theta, i)
        divisor = stretched.by(g)
        sqnorm[:, k] = g2 = _square(g, divisor)
        f_star[:, k] = low = problem.f_star[i]
        if not batch_is_finite(f, g2).all():
            raise ValueError(f"loss or gradient is not finite at step {k}: the run diverged")
        vectors = Vectors(g, form.direction(buffer, g, betas[k]), buffer, theta, divisor)
        seen = Seen(f, low, g2, loss_eps=configuration.loss_eps, **_products(rule, vectors))
        constants = rule.Constants(*table[k])
        trial_losses = _trial_losses(problem, configuration, vectors, i)
        search = _decide(rule, constants, memory, seen, trial_losses)
        if not (search.accepted & is_finite(search.step)).all():
            raise ValueError(f"no step was accepted at step {k}")
        weight = np.broadcast_to(rule.weigh(constants, memory), runs)[:, None]
        memory = rule.Memory(*rule.remember(constants, memory, seen, search))
        gamma[:, k] = etas[k] * search.step
        momentum = search.momentum[:, None] if rule.steers else betas[k]
        motion, buffer = form.move(buffer, g, gamma[:, k, None] / divisor, momentum, weight)
        iterates[:, k + 1] = theta = theta + motion
    largest = configuration.largest_steps(0, steps)
    return Record(
        **_symbols(configuration), beta=betas, eta=etas,
        gamma_max=np.where(np.isnan(largest), np.inf, largest), gamma=gamma, loss=loss,
        grad_sqnorm=sqnorm, f_star=f_star, accepted=np.ones((runs, steps), dtype=bool),
        iterates=iterates, gradients=gradients, samples=samples,
    )  # fmt: skip


def _refuse_reduced(problem: Any) -> None:
    """Certificates are made from losses that stay the same from step to step."""
    if isinstance(problem, VarianceReduced):
        raise TypeError(
            "record_runs takes a finite sum; a VarianceReduced problem runs in heavystep.simulate"
        )


class Vectors(NamedTuple):
    """What inner products are taken of, (runs, dim) each."""

    gradient: Array
    direction: Array
    buffer: Array
    position: Array
    divisor: Any
    """The diagonal; 1 without one."""


class _Stretched:
    """The diagonal of each run, if the method has one."""

    def __init__(self, configuration: Configuration, theta: Array) -> None:
        self.diagonal = configuration.diagonal
        if self.diagonal is not None:
            self._beta2, self._eps = (configuration[o.name] for o in (BETA2, DIAGONAL_EPS))
        self._squares, self._weight = np.zeros_like(theta), 0.0

    def by(self, g: Array) -> Any:
        """Take the gradients into the averages; gives the diagonal."""
        if self.diagonal is None:
            return 1.0
        self._squares = self.diagonal.average(self._squares, g, self._beta2)
        self._weight = self.diagonal.weigh(self._weight, self._beta2)
        return self.diagonal.divisor(self._squares, self._weight, self._eps)


def _square(g: Array, divisor: Any) -> Array:
    """G' D^-1 g; the divisor is the number 1 without a diagonal."""
    plain = square(g)
    if isinstance(divisor, float):
        return plain
    # A gradient whose square overflows would vanish when it is divided by the diagonal.
    with np.errstate(all="ignore"):
        return np.where(is_finite(plain), inner(g, g / divisor), plain)


def _products(rule: Rule, vectors: Vectors) -> dict[str, Array]:
    """The inner products that the rule reads, beside the squared norm of the gradient."""
    found = {}
    for name, (left, right, divided) in PRODUCTS.items():
        if name in rule.reads and name != "grad_sqnorm":
            other = getattr(vectors, right)
            found[name] = inner(
                getattr(vectors, left), other / vectors.divisor if divided else other
            )
    return found


def _decide(
    rule: Rule, constants: Any, memory: Any, seen: Seen, trial_losses: Callable[[Search], Array]
) -> Search:
    """What the rule decides for each run; searches that are over wait for the others."""
    shape = seen.loss.shape
    # Infinite and undefined values are part of the formulas, and no reason to warn.
    with np.errstate(all="ignore"):
        first = rule.start(constants, memory, seen)
        search = Search(*(np.broadcast_to(value, shape) for value in first))
        while search.active.any():
            loss = trial_losses(search)
            ahead = rule.advance(constants, memory, seen, search, loss)
            pairs = zip(ahead, search, strict=True)
            search = Search(*(np.where(search.active, new, old) for new, old in pairs))
    return search


def _trial_losses(
    problem: FiniteSum, configuration: Configuration, vectors: Vectors, i: Array
) -> Callable[[Search], Array]:
    """The losses at the trial steps, along what the rule asks for."""
    rule, form = configuration.rule, configuration.form

    def losses(search: Search) -> Array:
        way = getattr(vectors, rule.along)
        if rule.along == DIRECTION and rule.steers:
            way = form.direction(vectors.buffer, vectors.gradient, search.momentum[:, None])
        motion = search.trial[:, None] * way / vectors.divisor
        return problem.losses(vectors.position - motion, i)

    return losses


def _symbols(configuration: Configuration) -> dict[str, Any]:
    """The method in the symbols of the paper, as far as they speak of it."""
    options = dict(configuration.options)
    return {
        "rule": configuration.known_as,
        "scaling": options.get("scaling", ""),
        "c": options.get("c", np.nan),
        "omega": options.get("decrease_factor"),
        "smooth_reset": options.get("steps_per_epoch") is not None,
    }
