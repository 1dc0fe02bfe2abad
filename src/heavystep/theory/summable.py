"""What a sum that is finite almost surely says about all k at once."""

from dataclasses import dataclass
from typing import Any

from heavystep import validation
from heavystep.theory import conditions


@dataclass(frozen=True)
class SummableSequence:
    r"""A sum that is finite almost surely, with a bound for all k at once.

    For nonnegative :math:`X_m` with :math:`E\sum_m X_m \le` ``expected_sum`` Markov's inequality
    gives :math:`\sum_m X_m \le` ``expected_sum`` / p, except with probability p.
    """

    result: str
    expected_sum: float
    """Bound on the expectation of the sum over all m."""

    def bound(self, k: Any, probability: float) -> Any:
        """Bound on the mean of the first ``k`` terms.

        It holds for all k at once, except with the given probability. The quantity of the theorem
        is at most that mean: the gap of the average iterate (convex), the least squared gradient
        norm (non-convex).
        """
        conditions.real(self.result, validation.Interval(0.0, 1.0), probability=probability)
        steps = conditions.steps(self.result, k, least=1)
        return conditions.like(k, self.expected_sum / probability / steps)
