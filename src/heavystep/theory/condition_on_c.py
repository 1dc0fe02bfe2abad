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
from math import inf, sqrt

from heavystep.theory.diminishing_step_bounds import DiminishingSteps
from heavystep.theory.search import smallest_index

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
    cap, least = float(gamma_max(first)), float(steps.gamma_min(first))
    ratio = cap / least if least > 0.0 else 1.0  # both underflowed: the cap is what binds
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
        middle = _between(first, last, steps.schedules.eta.horizon)
        best = max(best, c_condition(steps, middle))
        for start, end in ((first, middle), (middle, last)):
            heappush(heap, (-_envelope(steps, start, end), next(order), start, end))
    return best


def _between(first: int, last: float, horizon: float) -> int:
    """A whole number between the two: halfway in log(1 + k / h), on which the schedules depend."""
    if last == inf:
        return 2 * first + int(horizon) + 2
    halfway = sqrt(horizon + first) * sqrt(horizon + last) - horizon
    return min(max(int(halfway), first + 1), int(last) - 1)


def smallest_K(steps: DiminishingSteps) -> int:
    """The smallest K >= -1 beyond which c meets the condition; -1 means from k = 0 on.

    It exists for every c > 0, because g goes to 0.
    """
    return smallest_index(
        lambda K: c_limit(steps, K) <= steps.c, f"Theorem 6's condition on c = {steps.c:g}"
    )
