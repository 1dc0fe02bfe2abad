"""The toys as literal loops, which import nothing of the package."""

import numpy as np


def cautious_steps(c, first_cap):
    """Chooses steps one after another; keeps what it remembers."""
    steepest, count = 1e-30, 0

    def choose(f, g2, value, lower_bound=0.0):
        nonlocal steepest, count
        steepest = max(steepest, g2)
        step = min(max(f - lower_bound, 0.0) / (c * steepest), first_cap / (count + 1) ** 0.5)
        count += 1
        return step

    return choose


def forgiving_steps(c, first):
    """Likewise; ``value(t)`` is the loss at a trial step."""
    level = 0.0

    def choose(f, g2, value, lower_bound=0.0):
        nonlocal level
        t = first
        while value(t) > max(level, f) - c * t * g2:
            t /= 3.0
        level = 0.75 * level + 0.25 * f
        return t

    return choose


def history_steps():
    """Steps that follow from the squared norm two batches back."""
    following, last, before = 0.1, 1.0, 2.0

    def choose(f, g2, value, lower_bound=0.0):
        nonlocal following, last, before
        step = following
        following, last, before = 0.1 / (1.0 + before), g2, last
        return step

    return choose


def polyak_steps(c, max_step, lower_bound=0.0):
    """The plain Polyak step."""
    return lambda f, g2, value, low=lower_bound: min((f - low) / (c * g2), max_step)


def heavy_ball(theta, previous, state, g, step, beta):
    """The next point, and the state of the form, which heavy ball has none of."""
    return theta - step * g + beta * (theta - previous), state


def half_and_half(theta, previous, state, g, step, beta):
    """Halfway between the gradient and its average."""
    state = beta * state + (1 - beta) * g
    return theta - step * (g + state) / 2, state


def run(value, gradient, theta0, samples, choose, form, lr, beta):
    """Iterates and steps; ``value(theta, i)`` and ``gradient(theta, i)`` are of sample i."""
    theta = previous = np.array(theta0, dtype=np.float64)
    state = np.zeros_like(theta)
    iterates, steps = [theta], []
    for i in samples:
        f, g = value(theta, i), gradient(theta, i)
        step = lr * choose(f, g @ g, lambda t, i=i, g=g: value(iterates[-1] - t * g, i))
        new, state = form(theta, previous, state, g, step, beta)
        theta, previous = new, theta
        iterates.append(theta)
        steps.append(step)
    return np.array(iterates), np.array(steps)
