"""Line searches of the family as literal loops, each from its own publication or code.

Like :mod:`tests.reference_family`, with one argument more: ``stepper(theta, f, g, f_star, value)``,
where ``value(point)`` is the sampled loss at another point.
"""

import math


def backtrack(t, factor, accepts):
    """The first of t, t factor, t factor^2, ... that is accepted."""
    while not accepts(t):
        t *= factor
    return t


def sls(c, first, omega, reset, gamma=None, n_b=None, beta=0.0, form="heavy ball", eta=1.0):
    """Armijo's condition from the last step, from a larger one, or from the first anew."""
    last, previous, b = None, None, 0.0

    def step(theta, f, g, f_star, value):
        nonlocal last, previous, b
        t = first
        if last is not None and reset != "first":
            t = min(last * (gamma ** (1 / n_b) if reset == "smooth" else 1.0), first)
        last = backtrack(t, omega, lambda t: value(theta - t * g) <= f - c * t * (g @ g))
        if form == "nesterov":
            b = beta * b - eta * last * g
            return theta - eta * last * g + beta * b
        new = theta - eta * last * g + beta * (theta - (theta if previous is None else previous))
        previous = theta
        return new

    return step


def goldstein(c, first, most, omega, beta_f, gamma, n_b, eta=1.0):
    """Grow while the loss falls by too much, shrink while it falls by too little."""
    last = None

    def step(theta, f, g, f_star, value):
        nonlocal last
        t = first if last is None or n_b is None else last * gamma ** (1 / n_b)
        t = min(t, most)
        while True:
            new = value(theta - t * g)
            if new > f - c * t * (g @ g):
                t *= omega
            elif new < f - (1 - c) * t * (g @ g) and t < most:
                t = min(t * beta_f, most)
            else:
                break
        last = t
        return theta - eta * t * g

    return step


def adasls(rho, d, most, omega, eta=1.0):
    """gamma_k = min{a_k / (c_l sqrt(sum of a_s |g_s|^2)), gamma_{k-1}}, c_l = d / sqrt(a_0 |g_0|^2)."""
    gains, gamma_last = [], math.inf

    def step(theta, f, g, f_star, value):
        nonlocal gamma_last
        a = backtrack(most, omega, lambda t: value(theta - t * g) <= f - rho * t * (g @ g))
        gains.append(a * (g @ g))
        c_l = d / math.sqrt(gains[0])
        gamma_last = min(a / (c_l * math.sqrt(sum(gains))), gamma_last)
        return theta - eta * gamma_last * g

    return step


def ponos(c, c_p, most, least, delta, xi, eta=1.0):
    """A Polyak step times delta^l, and the condition of Zhang and Hager."""
    Q, C, saved = 0.0, 0.0, 0

    def step(theta, f, g, f_star, value):
        nonlocal Q, C, saved
        t = min(max((f - f_star) / (c_p * (g @ g)) * delta**saved, least), most)
        Q_old, Q = Q, xi * Q + 1
        C = (xi * Q_old * C + f) / Q
        backtracks = 0
        while value(theta - t * g) > max(C, f) - c * t * (g @ g):
            t *= delta
            backtracks += 1
        saved = max(saved + backtracks - 1, 0)
        return theta - eta * t * g

    return step


def sls_dec(c, most, omega, a, b, h, eta=1.0):
    """eta_k times the Armijo step from gamma_max,k."""
    k = 0

    def step(theta, f, g, f_star, value):
        nonlocal k
        first = most * (1 + k / h) ** -b
        t = backtrack(first, omega, lambda t: value(theta - t * g) <= f - c * t * (g @ g))
        new = theta - eta * (1 + k / h) ** -a * t * g
        k += 1
        return new

    return step


def salsa(c, first, grow, omega, beta_3, longest, eta=1.0):
    """The condition on averages; the next search comes when fast and slow averages differ."""
    last, fast, slow, h, s, since = first, 1e-30, 1e-30, 0.0, 0.0, 1000

    def step(theta, f, g, f_star, value):
        nonlocal last, fast, slow, h, s, since
        rate = max(fast / slow, slow / fast)
        since += 1
        if since >= min(longest, math.inf if rate == 1 else 1 / (rate - 1)):
            since = 0
            s = beta_3 * s + (1 - beta_3) * (g @ g)

            def decrease(t):
                return beta_3 * h + (1 - beta_3) * (f - value(theta - t * g))

            last = backtrack(last * grow, omega, lambda t: decrease(t) >= c * t * s)
            h = decrease(last)
            fast, slow = 0.9 * fast + 0.1 * last, 0.99 * slow + 0.01 * last
        return theta - eta * last * g

    return step


def descent(g, past, beta, factor):
    """The momentum times factor^j, and g + beta past, for the first j that points downhill."""
    while g @ (g + beta * past) <= 0.0:
        beta *= factor
    return g + beta * past


def msl(c, most, omega, gamma, n_b, beta, factor, eta=1.0):
    """Armijo's condition along the buffer of torch's SGD, which is damped where it is uphill."""
    d, last = 0.0, None

    def step(theta, f, g, f_star, value):
        nonlocal d, last
        d = descent(g, d + 0.0 * g, beta, factor)
        t = most if last is None else min(last * gamma ** (1 / n_b), most)
        last = backtrack(t, omega, lambda t: value(theta - t * d) <= f - c * t * (g @ d))
        return theta - eta * last * d

    return step


def directional(c, most, omega, gamma, n_b, beta, c_1, c_2, eta=1.0):
    """Armijo's condition along g + beta d, beta halved until <g, d> >= c_1 |g|^2, |d| <= c_2 |g|."""
    d, last = 0.0, None

    def step(theta, f, g, f_star, value):
        nonlocal d, last
        share, past = beta, d + 0.0 * g
        while g @ (g + share * past) < c_1 * (g @ g) or (
            (g + share * past) @ (g + share * past) > c_2**2 * (g @ g)
        ):
            share *= 0.5
        d = g + share * past
        t = most if last is None else min(last * gamma ** (1 / n_b), most)
        last = backtrack(t, omega, lambda t: value(theta - t * d) <= f - c * t * (g @ d))
        return theta - eta * last * d

    return step


def mbcg(c, c_p, most, least, delta, xi, clip, eta=1.0):
    """Fletcher and Reeves's direction, PoNoS's search along it."""
    Q, C, saved, d, before = 0.0, 0.0, 0, 0.0, None

    def step(theta, f, g, f_star, value):
        nonlocal Q, C, saved, d, before
        beta = 0.0 if before is None else min((g @ g) / before, clip)
        d, before = descent(g, d + 0.0 * g, beta, 0.5), g @ g
        t = min(max((f - f_star) / (c_p * (d @ d)) * delta**saved, least), most)
        Q_old, Q = Q, xi * Q + 1
        C = (xi * Q_old * C + f) / Q
        backtracks = 0
        while value(theta - t * d) > max(C, f) - c * t * (g @ d):
            t *= delta
            backtracks += 1
        saved = min(max(saved + backtracks - 1, 0), 5)
        return theta - eta * t * d

    return step


def slises(c, most, least, m, omega, eta=1.0):
    """Barzilai and Borwein's step if the batch is the one of the step before."""
    k, bb, before = 0, 1.0, None

    def step(theta, f, g, f_star, value):
        nonlocal k, bb, before
        if k % m:
            s, y = theta - before[0], g - before[1]
            bb = s @ s / (s @ y) if s @ y > 0.0 else bb
        bb = min(max(bb, least), most)
        k, before = k + 1, (theta, g)
        t = backtrack(bb, omega, lambda t: value(theta - t * g) <= f - c * t * (g @ g))
        return theta - eta * t * g

    return step
