"""What an iteration costs: the simulation against loops in numpy and torch, in one run."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from heavystep.bench.timing import best_of
from heavystep.methods import method_of
from heavystep.optim import SHBPolyak
from heavystep.paper.figure1.definition import BETAS, standard
from heavystep.problems import FiniteSum, LeastSquares
from heavystep.rules import kappa, polyak_step
from heavystep.simulation.batch import draw_samples, record_runs
from heavystep.simulation.configuration import Configuration
from heavystep.simulation.run import simulate
from heavystep.sweeps.specification import ProblemSpec

LEAST_SQUARES = ProblemSpec("least squares", 0.3)
COSINE = ProblemSpec("cosine", "noise")
POLYAK, ARMIJO = "SHBPolyak", "SHBArmijo"


class Cost(NamedTuple):
    """Nanoseconds for an iteration of one seed."""

    what: str
    nanoseconds: float
    ratio: float
    """To the simulation on the same problem with the same method, which itself has 1."""


def simulation_costs() -> list[Cost]:
    """The first table of ``heavystep bench simulation``."""
    method = standard(LEAST_SQUARES, POLYAK, BETAS[-1])
    problem = LEAST_SQUARES.finite_sum()
    assert isinstance(problem, LeastSquares)
    ours = _simulated(problem, method, 1_000_000)
    rows = [Cost("least squares, SHB-PS: simulation, one core", ours, 1.0)]
    others: dict[str, Callable[[], tuple[Callable[[], object], int]]] = {
        "numpy, 20 seeds at once": lambda: (_batched(problem, method, 20, 2_000), 40_000),
        "numpy loop": lambda: (_numpy_loop(problem, method, 10_000), 10_000),
        "torch loop (SHBPolyak)": lambda: (_torch_loop(problem, method, 1_000), 1_000),
    }
    for name, make in others.items():
        job, steps = make()
        cost = best_of(job) / steps * 1e9
        rows.append(Cost(f"least squares, SHB-PS: {name}", cost, cost / ours))
    for spec, name in ((LEAST_SQUARES, ARMIJO), (COSINE, POLYAK), (COSINE, ARMIJO)):
        cost = _simulated(spec.finite_sum(), standard(spec, name, BETAS[-1]), 300_000)
        what = f"{spec.name}, {method_of(name).title}: simulation, one core"
        rows.append(Cost(what, cost, 1.0))
    return rows


def scaling_costs() -> list[Cost]:
    """The second table: the cost is linear in iterations and seeds."""
    problem, method = LEAST_SQUARES.finite_sum(), standard(LEAST_SQUARES, POLYAK, BETAS[-1])
    rows: list[Cost] = []
    for iterations, seeds in ((10**5, 1), (10**6, 1), (10**7, 1), (10**6, 4)):
        cost = _simulated(problem, method, iterations, seeds)
        base = rows[0].nanoseconds if rows else cost
        rows.append(Cost(f"{iterations:.0e} iterations, {seeds} seeds", cost, cost / base))
    return rows


def _simulated(problem: FiniteSum, method: Configuration, iterations: int, seeds: int = 1) -> float:
    simulate(problem, method, seeds=[0], iterations=100)  # compiles, or loads what was compiled

    def job() -> object:
        return simulate(problem, method, seeds=range(seeds), iterations=iterations, threads=1)

    return best_of(job) / (iterations * seeds) * 1e9


def _batched(
    problem: FiniteSum, method: Configuration, seeds: int, steps: int
) -> Callable[[], object]:
    samples = draw_samples(problem, runs=seeds, steps=steps)
    return lambda: record_runs(problem, method, samples)


def _numpy_loop(problem: LeastSquares, method: Configuration, steps: int) -> Callable[[], object]:
    samples = draw_samples(problem, runs=1, steps=steps)[0]
    A, b = np.array(problem.A), np.array(problem.b)  # noqa: N806
    c, cap, beta = method["c"], method["max_step"], method["momentum"]
    factor = kappa(method["scaling"], beta)

    def job() -> object:
        theta, displacement = np.zeros(problem.dim), np.zeros(problem.dim)
        average = np.zeros(problem.dim)
        for k, i in enumerate(samples):
            average += (theta - average) / (k + 1)
            residual = A[i] @ theta - b[i]
            g = residual * A[i]
            step = polyak_step(0.5 * residual**2, g @ g, 0.0, c, factor, cap)
            displacement = beta * displacement - step * g
            theta = theta + displacement
        return average

    return job


def _torch_loop(problem: LeastSquares, method: Configuration, steps: int) -> Callable[[], object]:
    samples = draw_samples(problem, runs=1, steps=steps)[0]
    A, b = torch.tensor(problem.A), torch.tensor(problem.b)  # noqa: N806

    def job() -> object:
        theta = torch.zeros(problem.dim, dtype=torch.float64, requires_grad=True)
        opt = SHBPolyak([theta], **dict(method.options))
        for i in samples:
            opt.zero_grad()
            loss = 0.5 * (A[i] @ theta - b[i]) ** 2
            loss.backward()  # type: ignore[no-untyped-call]
            opt.step(loss=loss)
        return theta

    return job
