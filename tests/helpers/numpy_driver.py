"""Any method on any finite sum, one run after another in numpy: a second driver of the rules."""

import numpy as np

from heavystep.momentum import divisor, second_moment
from heavystep.records import Record
from heavystep.rules import DIRECTION, PRODUCTS, Seen, batch_is_finite, is_finite


def draw_samples(problem, *, runs, steps, seed=0):
    """(runs, steps) indices, uniform and independent; one random stream a run."""
    streams = (np.random.default_rng([seed, run]) for run in range(runs))
    return np.array([stream.integers(0, problem.n, size=steps) for stream in streams])


def record_runs(problem, configuration, samples):
    """Every iterate of each run; ``samples`` (R, K): the term of each step."""
    samples, row = np.asarray(samples), configuration.row
    steps = samples.shape[1]
    _, etas, betas = configuration.parameters(0, steps)
    runs = [_run(problem, configuration, each) for each in samples]
    gamma, loss, sqnorm, f_star, gradients, iterates = (
        np.array(each) for each in zip(*runs, strict=True)
    )
    _, largest = configuration.step_bounds(problem.L, 0, steps)
    options = dict(configuration.options)
    return Record(
        rule=row.known_as, scaling=options.get("scaling", ""),
        c=options.get("c", np.nan), omega=options.get("decrease_factor"),
        smooth_reset=options.get("steps_per_epoch") is not None, beta=betas, eta=etas,
        gamma_max=np.where(np.isnan(largest), np.inf, largest), gamma=gamma, loss=loss,
        grad_sqnorm=sqnorm, f_star=f_star, accepted=np.ones(samples.shape, dtype=bool),
        iterates=iterates, gradients=gradients, samples=samples,
    )  # fmt: skip


def _run(problem, configuration, samples):
    rule, form = configuration.rule, configuration.row.form
    table, etas, betas = configuration.parameters(0, len(samples))
    theta = np.array(problem.theta0)
    buffer, squares, square_weight, D = np.zeros_like(theta), 0.0, 0.0, 1.0
    memory, rows, iterates = rule.Memory(**rule.memory), [], [theta]
    for k, i in enumerate(samples):
        beta, f, low = float(betas[k]), float(problem.losses(theta, i)), float(problem.f_star[i])
        g = problem.gradients(theta, i)
        if configuration.diagonal is not None:
            new = np.mean(g * g) if configuration.diagonal == "tensor" else g * g
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
            name: float(vectors[left] @ (vectors[right] / D**power))
            for name, (left, right, power) in PRODUCTS.items()
            if name in rule.reads or name == "grad_sqnorm"
        }
        if not batch_is_finite(f, products["grad_sqnorm"]):
            raise ValueError(f"loss or gradient is not finite at step {k}: the run diverged")
        seen = Seen(f, low, loss_eps=configuration.loss_eps, **products)
        constants = rule.Constants(*map(float, table[k]))
        search = rule.start(constants, memory, seen)
        momentum = search.momentum if rule.steers else beta
        along = form.direction(buffer, g, momentum) if rule.along == DIRECTION else g
        while search.active:
            trial = float(problem.losses(theta - search.trial * along / D, i))
            search = rule.advance(constants, memory, seen, search, trial)
        if not (search.accepted and is_finite(search.step)):
            raise ValueError(f"no step was accepted at step {k}")
        memory = rule.Memory(*rule.remember(constants, memory, seen, search))
        gamma = etas[k] * search.step
        motion, buffer = form.move(buffer, g / D, gamma, momentum, search.weight)
        theta = theta + motion
        rows.append((gamma, f, products["grad_sqnorm"], low, g))
        iterates.append(theta)
    return *zip(*rows, strict=True), iterates
