"""Literal loops of methods that average iterates, models of the loss, or squared gradients.

In the manner of :mod:`tests.reference_family`, each from its own publication or code.
"""

import numpy as np


def adam_diagonal(beta2, eps):
    """D = eps + sqrt(v / (1 - beta2^t)), v = beta2 v + (1 - beta2) g^2; None for no diagonal."""
    v, t = 0.0, 0

    def diagonal(g):
        nonlocal v, t
        if beta2 is None:
            return np.ones_like(g)
        t += 1
        v = beta2 * v + (1 - beta2) * g**2
        return eps + np.sqrt(v / (1 - beta2**t))

    return diagonal


def iam(cap, lam, eta=1.0, beta2=None, eps=None):
    """tau = min{cap, [f - f* + <g, z - x>]_+ / |g|^2}; z -= tau g; x = (lam x + z) / (1 + lam)."""
    z, diagonal = None, adam_diagonal(beta2, eps)

    def step(x, f, g, f_star):
        nonlocal z
        z = x if z is None else z
        D = diagonal(g)
        tau = min(cap, max(f - f_star + g @ (z - x), 0.0) / (g @ (g / D)))
        z = z - eta * tau * g / D
        return (lam * x + z) / (1 + lam)

    return step


def alr_shb(c, gamma_max, beta, eta=1.0):
    """gamma = min{(f - f*) / (c |g|^2) + beta <g, theta_k - theta_{k-1}> / |g|^2, gamma_max}."""
    previous = None

    def step(theta, f, g, f_star):
        nonlocal previous
        moved = theta - (theta if previous is None else previous)
        gamma = (f - f_star) / (c * (g @ g)) + beta * (g @ moved) / (g @ g)
        previous = theta
        return theta - eta * min(max(gamma, 0.0), gamma_max) * g + beta * moved

    return step


def momo(lr, beta, eta=1.0, beta2=None, eps=None):
    """tau = min{lr / rho, [f_bar - lb_bar + <d, theta> - m_bar]_+ / |d|^2}; theta -= tau d."""
    f_bar = lb_bar = m_bar = 0.0
    d, t, diagonal = 0.0, 0, adam_diagonal(beta2, eps)

    def step(theta, f, g, f_star):
        nonlocal f_bar, lb_bar, m_bar, d, t
        t += 1
        D = diagonal(g)
        f_bar = beta * f_bar + (1 - beta) * f
        lb_bar = beta * lb_bar + (1 - beta) * f_star
        m_bar = beta * m_bar + (1 - beta) * (g @ theta)
        d = beta * d + (1 - beta) * g
        gap = max(f_bar - lb_bar + d @ theta - m_bar, 0.0)
        return theta - eta * min(lr / (1 - beta**t), gap / (d @ (d / D))) * d / D

    return step


def ngn_md(c, beta1, beta2, eps, eta=1.0):
    """gamma = c / (1 + c sum(g^2 / D) / (2 f)); theta - (1 - beta1) gamma g / D + beta1 moved."""
    previous, diagonal = None, adam_diagonal(beta2, eps)

    def step(theta, f, g, f_star):
        nonlocal previous
        D = diagonal(g)
        gamma = c / (1 + c * (g**2 / D).sum() / (2 * (f - f_star)))
        moved = theta - (theta if previous is None else previous)
        previous = theta
        return theta - eta * (1 - beta1) * gamma * g / D + beta1 * moved

    return step


def ima_sps_safe(M, lam, eta=1.0):
    """step = [f - l + <g, z - theta>]_+ / max{|g|^2, M}; z -= step g; theta = (lam theta + z)/(1 + lam).

    ``eta`` multiplies the move of theta, as under heavy ball.
    """
    previous = None
    beta = lam / (1 + lam)

    def step(theta, f, g, f_star):
        nonlocal previous
        d = theta - (theta if previous is None else previous)
        length = max(f - f_star + lam * (g @ d), 0.0) / max(g @ g, M)
        previous = theta
        return theta - eta * (1 - beta) * length * g + beta * d

    return step


def schedule_free_polyak(c, longest, p, beta, eta=1.0, adam=False):
    """Both points of Schedule-Free: z -= a D^-1 g; x += w (z - x); theta = (1 - beta) z + beta x."""
    z = x = v = None
    k = 0

    def step(theta, f, g, f_star):
        nonlocal z, x, v, k
        if z is None:
            z, x, v = theta.copy(), theta.copy(), 0.0 * g
        v = 0.999 * v + 0.001 * g * g
        D = 1e-20 + (v / (1 - 0.999 ** (k + 1))) ** 0.5 if adam else 1.0
        a = min(max(f - f_star + g @ (z - theta), 0.0) / (c * (g @ (g / D))), longest)
        z = z - eta * a * g / D
        x = x + (p + 1) / (k + p + 1) * (z - x)
        k += 1
        return (1 - beta) * z + beta * x

    return step
