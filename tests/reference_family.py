"""The relatives of the paper's methods as literal loops, each from its own publication or code.

Like :mod:`tests.reference` this never imports ``heavystep``. A method is a function that makes a
stepper, which is called once a step and keeps what the method remembers:
``stepper(theta, f, g, f_star)`` gives the next point. ``eta`` multiplies the step, and what is
remembered is the step before it.
"""

import math


def decsps(c, gamma_b, beta, eta=1.0):
    """gamma_k = min{(1 - beta) (f - f*) / |g|^2, c_{k-1} gamma_{k-1}} / c_k, c_k = c sqrt(k + 1)."""
    k, c_last, gamma_last, previous = 0, c, gamma_b, None

    def step(theta, f, g, f_star):
        nonlocal k, c_last, gamma_last, previous
        c_k = c * math.sqrt(k + 1)
        gamma = min((1 - beta) * (f - f_star) / (g @ g), c_last * gamma_last) / c_k
        new = theta - eta * gamma * g + beta * (theta - (theta if previous is None else previous))
        k, c_last, gamma_last, previous = k + 1, c_k, gamma, theta
        return new

    return step


def adasps(c, beta, eta=1.0):
    """gamma_k = min{(1 - beta) (f - f*) / (c_p |g|^2 sqrt(sum of gaps)), gamma_{k-1}}."""
    gaps, gamma_last, previous = [], math.inf, None

    def step(theta, f, g, f_star):
        nonlocal gamma_last, previous
        gaps.append(f - f_star)
        c_p = c / math.sqrt(gaps[0])
        gamma = (1 - beta) * gaps[-1] / (c_p * (g @ g) * math.sqrt(sum(gaps)))
        gamma = min(gamma, gamma_last)
        new = theta - eta * gamma * g + beta * (theta - (theta if previous is None else previous))
        gamma_last, previous = gamma, theta
        return new

    return step


def shb_ima(p, eta=1.0):
    """z -= eta_k g; theta = (lambda theta + z) / (1 + lambda), lambda = sum eta_j / (2 eta_{k+1})."""
    z, laws = None, []

    def step(theta, f, g, f_star):
        nonlocal z
        laws.append((len(laws) + 1) ** -p)
        z = (theta if z is None else z) - eta * laws[-1] * g
        mixing = sum(laws) / (2 * (len(laws) + 1) ** -p)
        return (mixing * theta + z) / (1 + mixing)

    return step


def sps_safe(M, eta=1.0):
    """gamma = (f - l*) / max{|g|^2, M}; M = 0 stands for the first |g|^2."""

    def step(theta, f, g, f_star):
        nonlocal M
        M = M or g @ g
        return theta - eta * (f - f_star) / max(g @ g, M) * g

    return step


def momsps_max(c, gamma_max, beta, eta=1.0):
    """gamma = (1 - beta) min{(f - f*) / (c |g|^2), gamma_max}."""
    previous = None

    def step(theta, f, g, f_star):
        nonlocal previous
        gamma = (1 - beta) * min((f - f_star) / (c * (g @ g)), gamma_max)
        new = theta - eta * gamma * g + beta * (theta - (theta if previous is None else previous))
        previous = theta
        return new

    return step


def momsps_smooth(c, first, tau, n_b, beta, eta=1.0):
    """gamma = min{(1 - beta) (f - f*) / (c |g|^2), tau^(1 / n_b) gamma_{k-1}}."""
    gamma_last, previous = first, None

    def step(theta, f, g, f_star):
        nonlocal gamma_last, previous
        ratio = (1 - beta) * (f - f_star) / (c * (g @ g))
        gamma_last = min(ratio, tau ** (1 / n_b) * gamma_last)
        new = (
            theta
            - eta * gamma_last * g
            + beta * (theta - (theta if previous is None else previous))
        )
        previous = theta
        return new

    return step


def alig(max_lr, eps, mu, eta=1.0):
    """theta -= gamma g; b = mu b - gamma g; theta += mu b."""
    b = 0.0

    def step(theta, f, g, f_star):
        nonlocal b
        gamma = eta * min((f - f_star) / (g @ g + eps), max_lr)
        theta = theta - gamma * g
        b = mu * b - gamma * g
        return theta + mu * b

    return step


def l4(alpha, minloss_factor, init_factor, tau, eps, beta, eta=1.0):
    """lr = alpha (L - minloss_factor L_min) / (<v, v> + eps), v the corrected average."""
    average, t, least = 0.0, 0, None

    def step(theta, f, g, f_star):
        nonlocal average, t, least
        t += 1
        average = beta * average + (1 - beta) * g
        v = average / (1 - beta**t)
        least = init_factor * f if least is None else least
        least = min(least, f)
        lr = alpha * max(f - minloss_factor * least, 0.0) / (v @ v + eps)
        least *= 1 + 1 / tau
        return theta - eta * lr * v

    return step


def alr_smag(c, gamma_max, beta, eta=1.0):
    """d = beta d + g; gamma = min{(f - f*) / (c |d|^2), gamma_max}; theta -= gamma d."""
    d = 0.0

    def step(theta, f, g, f_star):
        nonlocal d
        d = beta * d + g
        return theta - eta * min((f - f_star) / (c * (d @ d)), gamma_max) * d

    return step


def sgdm_aps(c, first, gamma, warmup_steps, beta, eta=1.0):
    """D = beta^1.5 D + (f - f*); step = min{(1 - sqrt(beta)) D / (c |d|^2), last gamma^(1/w)}."""
    d, D, last = 0.0, 0.0, first

    def step(theta, f, g, f_star):
        nonlocal d, D, last
        d = beta * d + g
        D = beta**1.5 * D + (f - f_star)
        last = min((1 - math.sqrt(beta)) * D / (c * (d @ d)), last * gamma ** (1 / warmup_steps))
        return theta - eta * last * d

    return step


def ngn(c, beta, eta=1.0):
    """gamma = (1 - beta) c / (1 + c |g|^2 / (2 f))."""
    previous = None

    def step(theta, f, g, f_star):
        nonlocal previous
        gamma = (1 - beta) * c / (1 + c * (g @ g) / (2 * (f - f_star)))
        new = theta - eta * gamma * g + beta * (theta - (theta if previous is None else previous))
        previous = theta
        return new

    return step


def sps_dec(c, gamma_max, a, b, h, eta=1.0):
    """gamma_k = (1 + k/h)^-a min{(f - f*) / (c |g|^2), gamma_max (1 + k/h)^-b}."""
    k = 0

    def step(theta, f, g, f_star):
        nonlocal k
        gamma = min((f - f_star) / (c * (g @ g)), gamma_max * (1 + k / h) ** -b)
        new = theta - eta * (1 + k / h) ** -a * gamma * g
        k += 1
        return new

    return step
