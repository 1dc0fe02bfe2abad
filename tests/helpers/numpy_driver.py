"""Any method on any finite sum, runs side by side in numpy: a second driver of the rules."""

import numpy as np

from heavystep.arrays import inner
from heavystep.momentum import divisor, second_moment
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


def draw_samples(problem, *, runs, steps, seed=0):
    """(runs, steps) indices, uniform and independent; one random stream a run."""
    streams = (np.random.default_rng([seed, run]) for run in range(runs))
    return np.array([stream.integers(0, problem.n, size=steps) for stream in streams])


def record_runs(problem, configuration, samples):
    """All runs at once, every iterate kept; ``samples`` (R, K): the term of each step."""
    samples = np.asarray(samples)
    (runs, steps), row = samples.shape, configuration.row
    rule, form = row.rule, row.form
    table, etas, betas = configuration.parameters(0, steps)
    iterates = np.empty((runs, steps + 1, problem.dim))
    gradients = np.empty((runs, steps, problem.dim))
    gamma, loss, sqnorm, f_star = (np.empty((runs, steps)) for _ in range(4))
    theta = iterates[:, 0] = np.broadcast_to(problem.theta0, (runs, problem.dim))
    buffer, squares, square_weight = np.zeros_like(theta), np.zeros_like(theta), 0.0
    memory = rule.Memory(*(np.full(runs, first) for first in rule.memory.values()))
    D = 1.0
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
            "|position|": np.abs(theta),
            "unit": np.full_like(theta, problem.dim**-0.5),
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

        def whole(search):
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
