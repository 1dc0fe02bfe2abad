"""The toys as literal loops, which import nothing of the package."""

import numpy as np


def forgiving_steps(c, first):
    """Chooses steps one after another; ``value(t)`` is the loss at a trial step."""
    level = 0.0

    def choose(f, g2, value):
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

    def choose(f, g2, value):
        nonlocal following, last, before
        step = following
        following, last, before = 0.1 / (1.0 + before), g2, last
        return step

    return choose


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
