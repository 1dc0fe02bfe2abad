"""A problem whose sampled losses are replaced by surrogates of less variance."""

from dataclasses import dataclass
from typing import ClassVar

from heavystep.arrays import Array
from heavystep.problems.base import FiniteSum
from heavystep.problems.logistic import SparseLogistic
from heavystep.validation import POSITIVE, Interval, real

PUBLISHED = {"AdaSVRPS": "AdaSPS", "AdaSVRLS": "AdaSLS"}
"""What the publication calls methods of the registry on :class:`VarianceReduced`."""
REFERENCE, EVIDENCE = "Jiang and Stich (2023), arXiv 2308.06058", "not verified"
FORMULAS = (
    r"f_k(\theta) = f(\theta; x_k) + \langle a_k, \theta \rangle + "
    r"\frac{\mu}{2} \|\theta - \theta_k\|^2, \qquad a_k = \nabla F(w_k) - \nabla f(w_k; x_k)",
    r"w_{k+1} = \theta_k \text{ with probability } p, \text{ else } w_k; \qquad w_0 = \theta_0",
    r"\ell_k = f_k(\theta_k) - \big(f(\theta_k; x_k) - f^\star(x_k) + \|a_k\|^2 / (2 \mu)\big)",
)
"""The surrogate, its anchor and its lower bound in LaTeX, a line each."""
SYMBOLS = {"probability": "p", "curvature": "mu"}
CHANCE = Interval(0.0, 1.0, closed_high=True)
SHARE = 0.1
"""The default of the curvature, in units of L."""
Reducible = FiniteSum | SparseLogistic


@dataclass(frozen=True, init=False, eq=False)
class VarianceReduced:
    r"""A finite sum that is simulated with variance-reduced losses, for any rule.

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

    Raises:
        TypeError: the problem is no finite sum, or is reduced already.
        ValueError: a number is out of range.

    >>> from heavystep.problems import LeastSquares
    >>> problem = LeastSquares([[1.0, 0.0], [0.0, 2.0], [1.0, 2.0]], [1.0, 4.0, 6.0])
    >>> reduced = VarianceReduced(problem)
    >>> reduced.curvature, reduced.L
    (0.5, 5.5)

    Reference: Jiang and Stich (2023), arXiv 2308.06058.
    """

    problem: Reducible
    probability: float | None
    curvature: float
    version: ClassVar[int] = 1

    def __init__(
        self, problem: Reducible, probability: float | None = None, curvature: float | None = None
    ) -> None:
        if not isinstance(problem, Reducible):
            wanted = "a finite sum or sparse logistic regression"
            raise TypeError(f"problem must be {wanted}, got {type(problem).__name__}")
        if probability is not None:
            real("probability", probability, CHANCE, SYMBOLS)
            probability = float(probability)
        mu = SHARE * problem.L if curvature is None else curvature
        real("curvature", mu, POSITIVE, SYMBOLS)
        self.__dict__.update(problem=problem, probability=probability, curvature=float(mu))

    @property
    def n(self) -> int:
        return self.problem.n

    @property
    def dim(self) -> int:
        return self.problem.dim

    @property
    def convex(self) -> bool:
        return self.problem.convex

    @property
    def theta0(self) -> Array:
        return self.problem.theta0

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


def original(problem: Reducible | VarianceReduced) -> Reducible:
    """The problem without the reduction."""
    return problem.problem if isinstance(problem, VarianceReduced) else problem
