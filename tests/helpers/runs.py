"""Runs on finite sums: the paper's two methods as a literal loop, any method as its optimizer."""

import numpy as np
import torch

from heavystep.records import Record


def draw_samples(problem, *, runs, steps, seed=0):
    return np.random.default_rng(seed).integers(problem.n, size=(runs, steps))


def recorded(problem, rule, samples, *, beta, c, gamma_max, omega=None, eta=1.0, scaling="theory"):
    """Runs side by side, every iterate recorded; beta, gamma_max and eta may be schedules."""
    runs, steps = np.shape(samples)
    laws = [
        np.array([law(k) if callable(law) else law for k in range(steps)], dtype=float)
        for law in (beta, gamma_max, eta)
    ]
    theta = np.tile(problem.theta0, (runs, 1))
    move = np.zeros_like(theta)
    iterates, rows = [theta], []
    for k in range(steps):
        i, (b, cap, outer) = samples[:, k], (law[k] for law in laws)
        kappa = {"theory": (1.0 - b**0.5) ** 2 / 2.0, "practical": 0.5, "plain": 1.0}[scaling]
        loss, g, low = problem.losses(theta, i), problem.gradients(theta, i), problem.f_star[i]
        square = np.einsum("rd,rd->r", g, g)
        if omega is None:
            ratio = np.divide(loss - low, c * square, out=np.zeros(runs), where=square > 0.0)
            gamma = outer * np.minimum(kappa * ratio, cap)
        else:
            t = np.full(runs, cap / kappa)
            while True:
                trial = problem.losses(theta - t[:, None] * g, i)
                fails = (trial > loss - c * t * square + 4e-16 * abs(loss)) & (square > 0.0)
                if not fails.any():
                    break
                t = np.where(fails, omega * t, t)
            gamma = np.where(square > 0.0, outer * kappa * t, 0.0)
        move = b * move - gamma[:, None] * g
        theta = theta + move
        iterates.append(theta)
        rows.append((gamma, loss, square, low, g))
    gamma, loss, square, low = (np.stack([row[j] for row in rows], axis=1) for j in range(4))
    return Record(
        rule=rule, scaling=scaling, c=c, omega=omega, beta=laws[0], gamma_max=laws[1], eta=laws[2],
        gamma=gamma, loss=loss, grad_sqnorm=square, f_star=low,
        accepted=np.ones(gamma.shape, dtype=bool), iterates=np.stack(iterates, axis=1),
        gradients=np.stack([row[4] for row in rows], axis=1), samples=np.asarray(samples),
    )  # fmt: skip


def torch_run(make, problem, samples, dtype=torch.float64, bounded=True):
    """Iterates, steps and trials of an optimizer, and the optimizer; ``make`` is given parameters."""
    theta = torch.tensor(problem.theta0, dtype=dtype, requires_grad=True)
    opt = make([theta])
    iterates, steps, trials = [problem.theta0], [], []
    for i in samples:

        def closure(i=i):
            point = theta.detach().numpy()
            theta.grad = torch.tensor(problem.gradients(point, i), dtype=dtype)
            return float(problem.losses(point, i))

        searches, reads = opt.method.rule.searches, opt.method.rule.reads
        given = (
            {"lower_bound": float(problem.f_star[i])} if bounded and "lower_bound" in reads else {}
        )
        opt.step(closure, **given) if searches else opt.step(loss=closure(), **given)
        iterates.append(theta.detach().numpy().copy())
        steps.append(float(opt.info.step))
        trials.append(opt.info.trials)
    return np.array(iterates), np.array(steps), trials, opt
