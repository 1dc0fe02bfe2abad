"""The relatives of the paper's methods as literal loops, each from its own publication or code.

Like :mod:`tests.reference` this never imports ``heavystep``. A method is a function that makes a
stepper, which keeps what the method remembers: ``stepper(theta, f, g, low, value)`` gives the next
point, where ``value(point)`` is the sampled loss at another point and ``low`` its lower bound. ETA
multiplies the step, and what is remembered is the step before it.
"""

import math
from typing import Any, NamedTuple

import numpy as np

ETA = 0.8


class At(NamedTuple):
    """What a step size may depend on."""

    f: float
    gap: float
    g: Any
    g2: float
    moved: Any
    """theta_k - theta_{k-1}."""
    loss: Any
    """loss(t) is the loss at theta - t g."""


def heavy_ball(gamma, beta=0.0):
    """theta - eta gamma(at) g + beta (theta - theta_{k-1})."""
    previous = None

    def step(theta, f, g, low, value):
        nonlocal previous
        moved = 0.0 * theta if previous is None else theta - previous
        previous = theta
        at = At(f, f - low, g, g @ g, moved, lambda t: value(theta - t * g))
        return theta - ETA * gamma(at) * g + beta * moved

    return step


def torch_buffer(gamma, beta, factor=1.0):
    """d = beta d + factor g; theta - eta gamma(gap, d) d."""
    d = 0.0

    def step(theta, f, g, low, value):
        nonlocal d
        d = beta * d + factor * g
        return theta - ETA * gamma(f, f - low, d) * d

    return step


def decsps(c, gamma_b, beta=0.0):
    """gamma_k = min{(1 - beta) (f - f*) / |g|^2, c_{k-1} gamma_{k-1}} / c_k, c_k = c sqrt(k + 1)."""
    k, c_last, last = 0, c, gamma_b

    def gamma(at):
        nonlocal k, c_last, last
        c_k = c * math.sqrt(k + 1)
        last = min((1 - beta) * at.gap / at.g2, c_last * last) / c_k
        k, c_last = k + 1, c_k
        return last

    return heavy_ball(gamma, beta)


def adasps(c, beta=0.0):
    """gamma_k = min{(1 - beta) (f - f*) / (c_p |g|^2 sqrt(sum of gaps)), gamma_{k-1}}."""
    gaps, last = [], math.inf

    def gamma(at):
        nonlocal last
        gaps.append(at.gap)
        c_p = c / math.sqrt(gaps[0])
        last = min((1 - beta) * gaps[-1] / (c_p * at.g2 * math.sqrt(sum(gaps))), last)
        return last

    return heavy_ball(gamma, beta)


def sps_safe(M):
    """gamma = (f - l*) / max{|g|^2, M}; M = 0 stands for the first |g|^2."""

    def gamma(at):
        nonlocal M
        M = M or at.g2
        return at.gap / max(at.g2, M)

    return heavy_ball(gamma)


def ima_sps_safe(M, beta):
    """step = [f - l + <g, z - theta>]_+ / max{|g|^2, M}; z -= step g; theta = (lam theta + z)/(1 + lam).

    ETA multiplies the move of theta, as under heavy ball.
    """
    lam = beta / (1 - beta)

    def gamma(at):
        return (1 - beta) * max(at.gap + lam * (at.g @ at.moved), 0.0) / max(at.g2, M)

    return heavy_ball(gamma, beta)


def momsps_max(c, gamma_max, beta):
    """gamma = (1 - beta) min{(f - f*) / (c |g|^2), gamma_max}."""
    return heavy_ball(lambda at: (1 - beta) * min(at.gap / (c * at.g2), gamma_max), beta)


def ngn(c, beta=0.0):
    """gamma = (1 - beta) c / (1 + c |g|^2 / (2 f))."""
    return heavy_ball(lambda at: (1 - beta) * c / (1 + c * at.g2 / (2 * at.gap)), beta)


def alr_shb(c, gamma_max, beta):
    """gamma = min{(f - f*) / (c |g|^2) + beta <g, theta_k - theta_{k-1}> / |g|^2, gamma_max}."""

    def gamma(at):
        return min(max(at.gap / (c * at.g2) + beta * (at.g @ at.moved) / at.g2, 0.0), gamma_max)

    return heavy_ball(gamma, beta)


def alig(max_lr, eps, mu):
    """theta -= gamma g; b = mu b - gamma g; theta += mu b."""
    b = 0.0

    def step(theta, f, g, low, value):
        nonlocal b
        gamma = ETA * min((f - low) / (g @ g + eps), max_lr)
        theta = theta - gamma * g
        b = mu * b - gamma * g
        return theta + mu * b

    return step


def l4(alpha, minloss_factor, init_factor, tau, eps, beta):
    """lr = alpha (L - minloss_factor L_min) / (<v, v> + eps), v the corrected average."""
    t, least = 0, None

    def gamma(f, gap, d):
        nonlocal t, least
        t += 1
        v = d / (1 - beta**t)
        least = min(init_factor * f if least is None else least, f)
        lr = alpha * max(f - minloss_factor * least, 0.0) / (v @ v + eps)
        least *= 1 + 1 / tau
        return lr / (1 - beta**t)

    return torch_buffer(gamma, beta, 1 - beta)


def alr_smag(c, gamma_max, beta):
    """d = beta d + g; gamma = min{(f - f*) / (c |d|^2), gamma_max}; theta -= gamma d."""
    return torch_buffer(lambda f, gap, d: min(gap / (c * (d @ d)), gamma_max), beta)


def sgdm_aps(c, first, growth, warmup_steps, beta):
    """D = beta^1.5 D + (f - f*); step = min{(1 - sqrt(beta)) D / (c |d|^2), last growth^(1/w)}."""
    D, last = 0.0, first

    def gamma(f, gap, d):
        nonlocal D, last
        D = beta**1.5 * D + gap
        ratio = (1 - math.sqrt(beta)) * D / (c * (d @ d))
        last = min(ratio, last * growth ** (1 / warmup_steps))
        return last

    return torch_buffer(gamma, beta)


# Averages of iterates, models of the loss, and squared gradients.


def adam_diagonal(adam):
    """D = eps + sqrt(v / (1 - beta2^t)), v = beta2 v + (1 - beta2) g^2; ones without ``adam``."""
    v, t, beta2 = 0.0, 0, 0.999

    def diagonal(g):
        nonlocal v, t
        t += 1
        v = beta2 * v + (1 - beta2) * g**2
        return 1e-20 + np.sqrt(v / (1 - beta2**t)) if adam else np.ones_like(g)

    return diagonal


def iam(cap, beta, adam=False):
    """tau = min{cap, [f - f* + <g, z - x>]_+ / |g|^2}; z -= tau g; x = (lam x + z) / (1 + lam)."""
    z, lam, diagonal = None, beta / (1 - beta), adam_diagonal(adam)

    def step(x, f, g, low, value):
        nonlocal z
        z = x if z is None else z
        D = diagonal(g)
        tau = min(cap, max(f - low + g @ (z - x), 0.0) / (g @ (g / D)))
        z = z - ETA * tau * g / D
        return (lam * x + z) / (1 + lam)

    return step


def momo(lr, beta, adam=False):
    """tau = min{lr / rho, [f_bar - lb_bar + <d, theta> - m_bar]_+ / |d|^2}; theta -= tau d."""
    gap_bar = m_bar = d = 0.0
    t, diagonal = 0, adam_diagonal(adam)

    def step(theta, f, g, low, value):
        nonlocal gap_bar, m_bar, d, t
        t += 1
        D = diagonal(g)
        gap_bar = beta * gap_bar + (1 - beta) * (f - low)
        m_bar = beta * m_bar + (1 - beta) * (g @ theta)
        d = beta * d + (1 - beta) * g
        gap = max(gap_bar + d @ theta - m_bar, 0.0)
        return theta - ETA * min(lr / (1 - beta**t), gap / (d @ (d / D))) * d / D

    return step


def ngn_md(c, beta1):
    """gamma = c / (1 + c sum(g^2 / D) / (2 f)); theta - (1 - beta1) gamma g / D + beta1 moved."""
    previous, diagonal = None, adam_diagonal(True)

    def step(theta, f, g, low, value):
        nonlocal previous
        D = diagonal(g)
        gamma = c / (1 + c * (g**2 / D).sum() / (2 * (f - low)))
        moved = theta - (theta if previous is None else previous)
        previous = theta
        return theta - ETA * (1 - beta1) * gamma * g / D + beta1 * moved

    return step


def schedule_free_polyak(c, longest, beta, p=0.0, adam=False):
    """Both points of Schedule-Free: z -= a D^-1 g; x += w (z - x); theta = (1 - beta) z + beta x."""
    z = x = None
    k, diagonal = 0, adam_diagonal(adam)

    def step(theta, f, g, low, value):
        nonlocal z, x, k
        z, x = (theta, theta) if z is None else (z, x)
        D = diagonal(g)
        a = min(max(f - low + g @ (z - theta), 0.0) / (c * (g @ (g / D))), longest)
        z = z - ETA * a * g / D
        x = x + (p + 1) / (k + p + 1) * (z - x)
        k += 1
        return (1 - beta) * z + beta * x

    return step


# Line searches.


def backtrack(t, factor, accepts):
    """The first of t, t factor, t factor^2, ... that is accepted."""
    while not accepts(t):
        t *= factor
    return t


def armijo(at, first, omega, c):
    """The first trial along -g with the decrease that it asks for."""
    return backtrack(first, omega, lambda t: at.loss(t) <= at.f - c * t * at.g2)


def sls(c, first, omega, growth=1.0, n_b=None):
    """Armijo's condition, from growth^(1/n_b) times the last step, and not above the first."""
    last, q = math.inf, math.inf if n_b is None else growth ** (1 / n_b)

    def gamma(at):
        nonlocal last
        last = armijo(at, min(last * q, first), omega, c)
        return last

    return heavy_ball(gamma)


def adasls(rho, most, omega, d):
    """gamma_k = min{a_k / (c_l sqrt(sum of a_s |g_s|^2)), gamma_{k-1}}, c_l = d / sqrt(a_0 |g_0|^2)."""
    gains, last = [], math.inf

    def gamma(at):
        nonlocal last
        a = armijo(at, most, omega, rho)
        gains.append(a * at.g2)
        c_l = d / math.sqrt(gains[0])
        last = min(a / (c_l * math.sqrt(sum(gains))), last)
        return last

    return heavy_ball(gamma)


def ponos(c, c_p, most, least, delta, xi):
    """A Polyak step times delta^l, and the condition on an average of losses."""
    Q, C, saved = 0.0, 0.0, 0

    def gamma(at):
        nonlocal Q, C, saved
        t = min(max(at.gap / (c_p * at.g2) * delta**saved, least), most)
        Q_old, Q = Q, xi * Q + 1
        C = (xi * Q_old * C + at.f) / Q
        backtracks = 0
        while at.loss(t) > max(C, at.f) - c * t * at.g2:
            t *= delta
            backtracks += 1
        saved = max(saved + backtracks - 1, 0)
        return t

    return heavy_ball(gamma)


def salsa(c, first, grow, omega, beta_3, longest):
    """The condition on averages; the next search comes when fast and slow averages differ."""
    last, fast, slow, h, s, since = first, 1e-30, 1e-30, 0.0, 0.0, 1000

    def gamma(at):
        nonlocal last, fast, slow, h, s, since
        rate = max(fast / slow, slow / fast)
        since += 1
        if since >= min(longest, math.inf if rate == 1 else 1 / (rate - 1)):
            since = 0
            s = beta_3 * s + (1 - beta_3) * at.g2

            def decrease(t):
                return beta_3 * h + (1 - beta_3) * (at.f - at.loss(t))

            last = backtrack(last * grow, omega, lambda t: decrease(t) >= c * t * s)
            h = decrease(last)
            fast, slow = 0.9 * fast + 0.1 * last, 0.99 * slow + 0.01 * last
        return last

    return heavy_ball(gamma)


def msl(c, most, omega, growth, n_b, beta, uphill="correct"):
    """Armijo's condition along torch's buffer, whose momentum is damped where it is uphill."""
    d, last, factor = 0.0, math.inf, {"correct": 0.5, "restart": 0.0}[uphill]

    def step(theta, f, g, low, value):
        nonlocal d, last
        share = beta
        while g @ (g + share * d) <= 0.0:
            share *= factor
        d = g + share * d
        first = min(last * growth ** (1 / n_b), most)
        last = backtrack(first, omega, lambda t: value(theta - t * d) <= f - c * t * (g @ d))
        return theta - ETA * last * d

    return step
