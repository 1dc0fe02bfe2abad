"""A problem whose sampled losses are replaced by surrogates of less variance."""

from dataclasses import dataclass
from typing import ClassVar

from heavystep.arrays import Array
from heavystep.problems.base import Problem
from heavystep.validation import POSITIVE, Interval, real

PUBLISHED = {"AdaSVRPS": "AdaSPS", "AdaSVRLS": "AdaSLS"}
"""The publication's names for methods of the registry on :class:`VarianceReduced`."""
SYMBOLS = {"probability": "p", "curvature": "mu"}
CHANCE = Interval(0.0, 1.0, closed_high=True)
SHARE = 0.1
"""The default of the curvature, in units of L."""


@dataclass(frozen=True, init=False, eq=False)
class VarianceReduced(Problem):
    r"""A problem that is simulated with variance-reduced losses, for any rule.

    At step k a method sees, in place of the sampled loss :math:`f(\theta; x_k)`, the surrogate

    .. math:: f_k(\theta) = f(\theta; x_k) + \langle a_k, \theta\rangle
              + \tfrac{\mu}{2}\|\theta - \theta_k\|^2, \qquad
              a_k = \nabla F(w_k) - \nabla f(w_k; x_k),

    whose gradient at :math:`\theta_k` is that of loopless SVRG. The anchor :math:`w_k` starts at
    :math:`\theta_0`, and :math:`w_{k+1}` is :math:`\theta_k` with probability p = ``probability``,
    else :math:`w_k`. With :math:`\mu` = ``curvature`` the surrogate is bounded below,

    .. math:: f_k(\theta_k) - \inf f_k \le f(\theta_k; x_k) - f^\star(x_k) + \|a_k\|^2 / (2\mu),

    by dropping what is not negative and minimising the rest, whether or not the terms are convex.
    The right side is what rules take for the gap. ``AdaSPS`` on this problem is AdaSVRPS, and
    ``AdaSLS`` is AdaSVRLS, from memory of the publication, not verified; mu is our choice. A rule
    whose steps may grow again (``SPS``, ``SLS``) needs a ``max_step`` of about 1 / L here.

    Args:
        problem: least squares, the cosine problem or sparse logistic regression.
        probability: p, in (0, 1]; None: the batch size over n (at most 1), so that the anchor moves
            once an epoch on average.
        curvature: mu, > 0; None: a tenth of the smoothness L of the terms. A large mu makes short
            steps, a small one long first steps.

    >>> from heavystep.problems import LeastSquares
    >>> problem = LeastSquares([[1.0, 0.0], [0.0, 2.0], [1.0, 2.0]], [1.0, 4.0, 6.0])
    >>> reduced = VarianceReduced(problem)
    >>> reduced.curvature, reduced.L
    (0.5, 5.5)

    Reference: Jiang and Stich (2023), arXiv 2308.06058.
    """

    problem: Problem
    probability: float | None
    curvature: float
    version: ClassVar[int] = 1

    @property
    def original(self) -> Problem:
        """The problem without the reduction."""
        return self.problem

    def __init__(
        self, problem: Problem, probability: float | None = None, curvature: float | None = None
    ) -> None:
        if not isinstance(problem, Problem) or isinstance(problem, VarianceReduced):
            wanted = "a finite sum or sparse logistic regression"
            raise TypeError(f"problem must be {wanted}, got {type(problem).__name__}")
        if probability is not None:
            real("probability", probability, CHANCE, SYMBOLS)
            probability = float(probability)
        mu = SHARE * problem.L if curvature is None else curvature
        real("curvature", mu, POSITIVE, SYMBOLS)
        own = {"problem": problem, "probability": probability, "curvature": float(mu)}
        same = {name: getattr(problem, name) for name in ("convex", "n", "theta0")}
        self.__dict__.update(own, **same)

    @property
    def L(self) -> float:
        """Smoothness of the surrogates: that of the terms, and the curvature."""
        return self.problem.L + self.curvature

    @property
    def f_star(self) -> Array:
        """(n,) infimum of each term of the problem itself."""
        return self.problem.f_star

    def objective(self, theta: Array) -> Array:
        return self.problem.objective(theta)

    def full_gradient(self, theta: Array) -> Array:
        return self.problem.full_gradient(theta)
