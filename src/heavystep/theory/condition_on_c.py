r"""The condition on c of Theorem 6, with its supremum over k > K.

.. math:: c \ge \sup_{k>K} g(k), \qquad
          g(k) = \frac{\eta_k}{1+\beta_k-\frac{\beta_k}{1+\beta_k}
          \frac{\gamma_{\max,k}}{\gamma_{\min,k}}}

gamma_min,k depends on c itself, so the supremum is a function of c, not a number to compare
it with. The denominator must be positive (the paper does not say so); where it is not, g is
infinite here.
"""

from heapq import heappop, heappush
from itertools import count
from math import inf

from heavystep.theory.diminishing_step_bounds import DiminishingSteps

TOLERANCE = 1e-9


def c_condition(steps: DiminishingSteps, k: int) -> float:
    """g(k) above; infinite if its denominator is not positive."""
    return _envelope(steps, k, k)


def _envelope(steps: DiminishingSteps, first: int, last: float) -> float:
    """Upper bound on g over first <= k <= last, exact for a single k.

    All schedules and gamma_max / gamma_min decrease, so the numerator and the part that is
    subtracted are largest at ``first``, the part that is added is smallest at ``last``.
    """
    eta, beta, gamma_max = steps.schedules
    beta_first, beta_last = float(beta(first)), 0.0 if last == inf else float(beta(last))
    ratio = float(gamma_max(first) / steps.gamma_min(first))
    denominator = 1.0 + beta_last - beta_first / (1.0 + beta_first) * ratio
    return float(eta(first)) / denominator if denominator > 0.0 else inf


def c_limit(steps: DiminishingSteps, K: int) -> float:
    r"""The supremum of g over all k > K: what c must be at least.

    Branch and bound on :func:`_envelope`: exact up to a relative 1e-9, from above. Power laws
    with p_eta > 0, the only ones that Assumption 5 leaves, make it fall to 0 as K grows.

    >>> from heavystep.schedules import Schedules
    >>> laws = Schedules.power_laws(0.5, 0.4, 0.9, 1.1, 0.02, 0.3)
    >>> round(c_limit(DiminishingSteps("polyak", 42.0, laws, 0.75, None), K=0), 4)
    0.3837
    """
    least = K + 1
    best = c_condition(steps, least)
    order = count()  # ties in the heap are broken by age, intervals are never compared
    heap = [(-_envelope(steps, least, inf), next(order), least, inf)]
    while heap and best < inf:
        upper, _, first, last = heappop(heap)
        if -upper <= best * (1.0 + TOLERANCE):
            return -upper if -upper > best else best
        if last - first <= 1:
            continue  # both ends are known
        middle = 2 * first + int(steps.schedules.eta.horizon) + 2
        if last < inf:
            middle = (first + int(last)) // 2
        best = max(best, c_condition(steps, middle))
        for start, end in ((first, middle), (middle, last)):
            heappush(heap, (-_envelope(steps, start, end), next(order), start, end))
    return best


def smallest_K(steps: DiminishingSteps) -> int:
    """The smallest K >= -1 beyond which c meets the condition; -1 means from k = 0 on.

    It exists for every c > 0, because g goes to 0.
    """
    if c_limit(steps, -1) <= steps.c:
        return -1
    fails, holds = -1, 1
    while c_limit(steps, holds) > steps.c:
        fails, holds = holds, 2 * holds + int(steps.schedules.eta.horizon)
    while holds - fails > 1:
        middle = (fails + holds) // 2
        if c_limit(steps, middle) <= steps.c:
            holds = middle
        else:
            fails = middle
    return holds
