"""Records of runs: simulations and the recorder write them, certificates read them."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from heavystep import validation
from heavystep.arrays import Array
from heavystep.rules import SCALINGS
from heavystep.theory.rules import RULES, CoveredRule, checked


@dataclass(frozen=True, eq=False)
class Record:
    r"""Runs of one method, R of them side by side, of K steps each in d dimensions.

    Step k goes from :math:`\theta_k` to :math:`\theta_{k+1}`, k = 0 .. K - 1. Names are those
    of the paper; gradients and losses are the sampled ones, at :math:`\theta_k`. Of a rule that no
    theorem covers ``scaling``, ``c`` and ``omega`` are kept as they are given.

    Raises:
        TypeError: ``rule`` is not a name, or a constant of a covered rule is not a number.
        ValueError: an array has the wrong shape or is not finite where it must be, or a constant
            of a covered rule is missing, out of range or not one of its constants.
    """

    rule: str
    """The name of the rule, such as ``"polyak"`` or ``"armijo"``."""
    scaling: str
    """``"theory"``, ``"practical"`` or ``"plain"``; see :mod:`heavystep.rules.scaling`."""
    c: float
    """Divisor (Polyak) or sufficient decrease constant (Armijo)."""
    omega: float | None
    """Backtracking factor of the line search; None for a rule without one."""
    beta: Array
    """(K,) momentum beta_k."""
    gamma_max: Array
    """(K,) largest step before the outer multiplier, gamma_max,k."""
    eta: Array
    """(K,) outer multiplier eta_k; ones without a schedule."""
    gamma: Array
    """(R, K) steps taken, gamma_k."""
    loss: Array
    """(R, K) sampled losses f(theta_k; x_k)."""
    grad_sqnorm: Array
    """(R, K) squared norms of their gradients."""
    f_star: Array
    """(R, K) lower bounds of the sampled losses that the rule used; -inf if it had none."""
    accepted: Array
    """(R, K) False where a batch was refused and nothing moved."""
    iterates: Any = None
    """(R, K + 1, d) theta_0 .. theta_K, if recorded."""
    gradients: Any = None
    """(R, K, d) sampled gradients, if recorded."""
    samples: Array | None = None
    """(R, K) which term was sampled, if the objective is a finite sum and it is known."""
    smooth_reset: bool = False
    """True: the cap also depended on the step before."""
    eps: float = float(np.finfo(np.float64).eps)
    """Machine epsilon of the arithmetic that produced the run."""
    tiny: float = float(np.finfo(np.float64).tiny)
    """Its smallest normal number."""

    def __post_init__(self) -> None:
        if not isinstance(self.rule, str):
            raise TypeError(f"rule must be the name of a rule, got {self.rule!r}")
        if self.rule in RULES:
            validation.choice("scaling", self.scaling, SCALINGS)
            rule = checked("Record", self.rule, c=self.c, omega=self.omega)
            if self.omega is not None and "omega" not in rule.ranges:
                raise ValueError(f"the {rule.title} rule has no omega, got omega = {self.omega!r}")
        for name in (*_PER_STEP, *_PER_RUN):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, np.asarray(value))
        # A rule that no theorem covers need not have a largest step.
        finite = ("beta", "eta", "eps", "tiny", *(["gamma_max"] if self.rule in RULES else []))
        for name in finite:
            if not np.isfinite(getattr(self, name)).all():
                raise ValueError(f"{name} must be finite, got {getattr(self, name)}")
        if np.isnan(self.f_star).any():
            raise ValueError("f_star must hold lower bounds or -inf, got NaN")
        if self.gamma.ndim != 2 or not self.gamma.size:
            raise ValueError(f"gamma must have shape (R, K), got {self.gamma.shape}")
        runs, steps = self.gamma.shape
        path = self.gradients if self.iterates is None else self.iterates
        dim = () if path is None else path.shape[2:]
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(_PER_STEP, (steps,))
        shapes |= dict.fromkeys((*_SCALARS, "samples"), (runs, steps))
        shapes |= {"iterates": (runs, steps + 1, *dim), "gradients": (runs, steps, *dim)}
        for name, shape in shapes.items():
            array = getattr(self, name)
            if array is not None and array.shape != shape:
                raise ValueError(f"{name} must have shape {shape}, got {array.shape}")

    @property
    def theory(self) -> CoveredRule:
        """The rule as the theorems know it.

        Raises:
            ValueError: no theorem covers the rule.
        """
        if self.rule not in RULES:
            known = ", ".join(map(repr, RULES))
            raise ValueError(
                f"no theorem covers the rule {self.rule!r}, only the rules {known}: SHBPolyak and "
                'SHBArmijo follow them with scaling="theory"'
            )
        return RULES[self.rule]

    @property
    def runs(self) -> int:
        """R, the number of runs."""
        return int(self.gamma.shape[0])

    @property
    def steps(self) -> int:
        """K, the number of steps of each run."""
        return int(self.gamma.shape[1])


@dataclass(frozen=True)
class Trajectories:
    """Metrics of several runs on one grid.

    >>> Trajectories(np.arange(3), (0, 1), {"gap": np.ones((2, 3))})
    Trajectories(2 steps, 2 seeds, last means: gap=1)
    """

    k: Array
    """(G,) numbers of steps."""
    seeds: tuple[int, ...]
    metrics: dict[str, Array]
    """(seeds, G) each, by name; NaN from where a run stopped, if it was allowed to stop."""
    seconds: tuple[float, ...] = ()
    """The wall time of each run on the machine that made it; empty where nobody measured it."""

    def __repr__(self) -> str:
        means = {name: np.mean(values[:, -1]) for name, values in self.metrics.items()}
        told = ", ".join(f"{name}={mean:.3g}" for name, mean in means.items() if np.isfinite(mean))
        return f"Trajectories({self.k[-1]} steps, {len(self.seeds)} seeds, last means: {told})"


def heavy_ball_defect(
    iterates: Array, gamma: Array, gradients: Array, beta: Array, accepted: Array
) -> tuple[Array, Array]:
    r"""Distance of each step from heavy ball, and the size of the summands, (R, K, d) each.

    .. math:: \theta_{k+1} - \theta_k + \gamma_k g_k - \beta_k (\theta_k - \theta_{k-1}),
              \qquad \theta_{-1} = \theta_0

    A refused step must not move. The step after it carries on the move before the refused one.
    """
    error, size = np.zeros_like(gradients), np.zeros_like(gradients)
    previous = iterates[:, 0]
    for k in range(gradients.shape[1]):
        theta, new, used = iterates[:, k], iterates[:, k + 1], accepted[:, k, None]
        pull = np.where(used, gamma[:, k, None] * gradients[:, k], 0.0)
        carried = np.where(used, beta[k] * (theta - previous), 0.0)
        error[:, k] = new - theta + pull - carried
        size[:, k] = abs(new) + abs(theta) + abs(previous) + abs(pull)
        previous = np.where(used, theta, previous)
    return error, size


def stack(records: Sequence[Record]) -> Record:
    """Put the runs of several records side by side: one method, equally many steps.

    Raises:
        ValueError: there are no records, or their methods or shapes differ; names the field.
    """
    if not records:
        raise ValueError("stack needs at least one record, got none")
    first = records[0]
    per_run: dict[str, Any] = {}
    for field in fields(Record):
        values = [getattr(record, field.name) for record in records]
        if field.name in _PER_RUN:
            shapes = {None if value is None else value.shape[1:] for value in values}
            if len(shapes) > 1:
                raise ValueError(f"records differ in {field.name}: shapes {shapes}")
            per_run[field.name] = None if shapes == {None} else np.concatenate(values)
        elif not all(np.array_equal(value, values[0]) for value in values):
            raise ValueError(f"records are of different methods: {field.name} differs")
    return replace(first, **per_run)


_PER_STEP = ("beta", "gamma_max", "eta")
_SCALARS = ("gamma", "loss", "grad_sqnorm", "f_star", "accepted")
_PER_RUN = (*_SCALARS, "iterates", "gradients", "samples")
