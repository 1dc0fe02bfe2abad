"""Literal loops of steady steps, from their description in the documentation.

Everything that was seen is kept in lists and looked at anew: slow, and hard to get wrong.
"""

import math

import numpy as np

from tests.reference_averages import adam_diagonal


def running(values, p):
    """a_1 = v_1 and so on, a_n = a_{n-1} + min(p / n, 1) (v_n - a_{n-1})."""
    average = 0.0
    for n, value in enumerate(values, start=1):
        average += min(p / n, 1.0) * (value - average)
    return average


class Losses:
    """The losses of a run: their level, and which share of a step is taken."""

    def __init__(self, outlook, total):
        self.outlook, self.total = outlook, total
        self.raw, self.used, self.gaps, self.deviations = [], [], [], []
        self.slow = 0.0
        self.lowest = math.inf

    def level(self, f, bound):
        """The bound, unless the losses have been below it in the mean."""
        low = min(0.0 if bound == -math.inf else bound, self.lowest)
        first = self.raw[0] if self.raw else f
        witness = running(self.used, 8) if self.raw and low > 0.0 else f
        below = witness < low - 1e-3 * abs(first - low)
        if below or (bound == -math.inf and witness <= low):
            low = witness - (max((first - witness) / 2, abs(witness) / 10) or 1.0)
        return low

    def unusual(self, f):
        """How far a loss and the one before lie above four deviations more than the average."""
        if len(self.raw) < 10:
            return 0.0
        most = running(self.used, 8) + 4 * running(self.deviations, 8)
        return max(min(f, self.raw[-1]) - most, 0.0)

    def share(self, level, beyond=0.0):
        """What is left of the step, from the losses so far."""
        k = len(self.raw)
        if k == 0:
            share = 1.0
        else:
            fast = running(self.used, 8)
            gap = max(fast - level, 1e-30)
            decrease = math.sqrt((gap + beyond) / (gap + beyond + sum(self.gaps)))
            share = min(1.0, max(decrease, self.progress(level)))
        return share * min(1.0, max(1 - k / self.total, 0.0) / 0.4)

    def progress(self, level):
        """What is expected to be lost yet, of what is above the level."""
        if not self.raw:
            return 0.0
        fast = running(self.used, 8)
        return self.outlook * (self.slow - fast) / max(fast - level, 1e-30)

    def noise(self, level):
        """How much the losses of batches differ, in units of what is above the level."""
        if len(self.raw) < 10:
            return 1.0
        return running(self.deviations, 8) / max(running(self.used, 8) - level, 1e-30)

    def fall(self, level):
        """Whether much was lost lately, more than noise could be."""
        fast = running(self.used, 8)
        lost, gap = self.slow - fast, max(fast - level, 1e-30)
        clear = lost > 2 * running(self.deviations, 8)
        return len(self.raw) >= 10 and clear and lost > 2 / 15 * gap

    def add(self, f, bound):
        """Take in a loss; one far above the average counts as one a little above it."""
        level = self.level(f, bound)
        used = f
        if len(self.raw) >= 10:
            used = min(f, running(self.used, 8) + 4 * running(self.deviations, 8))
        self.raw.append(f)
        self.used.append(used)
        self.gaps.append(max(used - level, 0.0))
        self.deviations.append(abs(used - running(self.used, 8)))
        if level < min(0.0 if bound == -math.inf else bound, self.lowest):
            self.lowest = level
        fast, before = running(self.used, 8), self.slow
        self.slow += min(2 / len(self.raw), 1.0) * (used - self.slow)
        self.slow = min(self.slow, 2 * fast - level) if fast > level else min(self.slow, fast)
        if len(self.raw) > 100:
            self.slow = min(self.slow, before)


def steady_polyak(
    c,
    beta,
    outlook,
    alike=0.0,
    reach=1.0,
    total=math.inf,
    cap=math.inf,
    eta=1.0,
    beta2=None,
    eps=None,
):
    """r = (f - l) / (2 c |g|^2), never above a cap that grows slowly, or the mean of past r.

    Points z go along the gradient, x is their average with weights that grow as the eighth power,
    and theta goes a step along the gradient and beta of the way that x goes; of an explosion, half
    of what points weigh is forgotten at each step. In place of 2 stands up to 1 / (1 - beta) where
    batches are alike. While losses fall fast, points go up to ``reach`` times as far. ``step.fallen``
    has, for each step, whether losses had been seen to fall, and ``step.further`` how much further.
    """
    losses, diagonal = Losses(outlook, total), adam_diagonal(beta2, eps)
    mean = largest = z = x = None
    count, points, fallen, further = 0, 0, [], []

    def step(theta, f, g, f_star):
        nonlocal mean, largest, z, x, count, points
        z, x = (theta, theta) if z is None else (z, x)
        D = diagonal(g)
        level = losses.level(f, f_star)
        straight = alike / (alike + losses.noise(level)) if alike else 0.0
        divisor = 2 + straight * max(1 / (1 - beta) - 2, 0)
        r = max(f - level, 0.0) / (divisor * c * (g @ (g / D))) if g.any() else 0.0
        if largest is None and r > 0:
            largest = r / 1000
        share, beyond = losses.share(level), losses.unusual(f)
        taken = losses.share(level, beyond)
        gamma = min(taken * min(r, largest if r > 0 else 0.0), cap)
        before = min(0.0 if f_star == -math.inf else f_star, losses.lowest)
        fell = level >= before and (losses.fall(level) or (bool(fallen) and fallen[-1]))
        fallen.append(fell)
        rate = 2**0.1 - 1
        if fell:
            rate = min(rate, max(rate * share**2, 1.5 / (count + 1)))
        count += 1
        if r > 0:
            mean = r if mean is None else mean
            near = min(max(r, mean / 100), 100 * mean)
            mean = math.exp(
                math.log(mean) + max(0.02, 1 / count) * (math.log(near) - math.log(mean))
            )
            largest = min((1 + rate) * largest, mean)
        most = min(1 + (reach - 1) * points / (points + 1000), 30 * (1 - beta))
        further.append(max(1.0, min(losses.progress(level), most)))
        losses.add(f, f_star)
        z = z - eta * gamma * further[-1] / (1 - beta) * g / D
        follow = 9 / (points + 9) * (z - x)
        x = x + follow
        points = points / 2 if beyond > 0 else points + 1
        return theta - eta * gamma * g / D + (1 - (1 - beta) / further[-1]) * follow

    step.fallen, step.further = fallen, further
    return step


def steady_armijo(c, omega, beta, outlook, total=math.inf, cap=math.inf, eta=1.0):
    """t down by omega from 1.0718 times the last one or the mean of the last, until f(theta - t g) <= f - c t |g|^2."""
    losses, last, mean, previous = Losses(outlook, total), None, None, None

    def step(theta, f, g, f_star, loss_at):
        nonlocal last, mean, previous
        level = losses.level(f, f_star)
        trial = (f - level) / (1000 * (g @ g)) if last is None else max(2**0.1 * last, mean)
        trial = min(trial, 2 * cap)
        while not loss_at(theta - trial * g) <= f - c * trial * (g @ g) + 4 * EPS * abs(f):
            trial *= omega
        last = trial
        mean = trial if mean is None else mean**0.9 * trial**0.1
        gamma = losses.share(level) * trial / 2
        losses.add(f, f_star)
        moved = theta - (theta if previous is None else previous)
        previous = theta
        return theta - eta * gamma * g + beta * moved

    return step


EPS = float(np.finfo(np.float64).eps)
