"""What an iteration costs: the simulation against loops in numba, numpy and torch, in one run."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from heavystep.bench.limits import Limits, measured_limits, work_of
from heavystep.bench.literal import literal_run
from heavystep.bench.timing import Job, best_of, interleaved
from heavystep.methods import method_of
from heavystep.optim import SHBPolyak
from heavystep.paper.figure1.definition import BETAS, standard
from heavystep.problems import FiniteSum, LeastSquares, SparseLogistic
from heavystep.rules import kappa, polyak_step
from heavystep.simulation.batch import draw_samples, record_runs
from heavystep.simulation.configuration import Configuration, configure
from heavystep.simulation.fleet import Fleet, Run
from heavystep.simulation.run import lanes_for, simulate
from heavystep.sparse import SparseRows
from heavystep.sweeps.specification import ProblemSpec

LEAST_SQUARES = ProblemSpec("least squares", 0.3)
COSINE = ProblemSpec("cosine", "noise")
POLYAK, ARMIJO = "SHBPolyak", "SHBArmijo"
STEPS = 20_000
"""Of a measurement on the problems of Section 5: short ones, of which the shortest counts, find a
moment in which a busy machine has nothing else to do."""
SEEDS, BATCH, TURNS = 20, 128, 25
MANY = f"simulation, one core, {SEEDS} seeds"


class Cost(NamedTuple):
    """Nanoseconds for an iteration of one seed."""

    what: str
    nanoseconds: float
    ratio: float
    """To the literal numba loop of the same method on the same problem, which itself has 1."""


class Case(NamedTuple):
    """A method on a problem."""

    name: str
    problem: Any
    method: Configuration
    steps: int
    batch: int

    def prepared(self, seeds: int, steps: int) -> Job:
        """The simulation of some seeds, ready to run on one core and recorded at its end."""
        grid = np.array([steps])
        runs = [Run(self.problem, self.method, seed, grid) for seed in range(seeds)]
        lanes = min(seeds, lanes_for(self.problem))
        fleets = [Fleet(runs[first : first + lanes]) for first in range(0, seeds, lanes)]
        streams = [np.empty((len(f.runs), 0, self.batch), dtype=np.int64) for f in fleets]
        return lambda: [f.advance(steps, s) for f, s in zip(fleets, streams, strict=True)]

    def literal(self) -> object:
        """The loop that somebody would write."""
        return literal_run(self.problem, self.method, 0, self.steps, self.batch)

    def trials(self) -> float:
        """Of a step, on average."""
        steps = self.steps // 10
        result = simulate(
            self.problem, self.method, seeds=[0], iterations=steps, batch_size=self.batch,
            grid=np.array([steps]), threads=1,
        )  # fmt: skip
        return float(result.metrics["trials"][0, -1]) / steps


def cases() -> list[Case]:
    """Both rules of the paper on its three problems."""
    found = []
    for spec in (LEAST_SQUARES, COSINE):
        for name in (POLYAK, ARMIJO):
            method = standard(spec, name, BETAS[-1])
            title = f"{spec.name}, {method_of(name).title}"
            found.append(Case(title, spec.finite_sum(), method, STEPS, 1))
    for name in (POLYAK, ARMIJO):
        method = configure(
            name, momentum=0.9, scaling="practical", steps_per_epoch=40, max_step=100.0
        )
        title = f"logistic, batches of {BATCH}, {method_of(name).title}"
        found.append(Case(title, sparse_problem(), method, STEPS // 20, BATCH))
    return found


def sparse_problem() -> SparseLogistic:
    """Rows of unit length with about twelve entries, like those of the smaller LIBSVM sets."""
    draw = np.random.default_rng(0)
    rows = draw.standard_normal((5000, 120)) * (draw.random((5000, 120)) < 0.1)
    labels = np.where(rows @ draw.standard_normal(120) + draw.standard_normal(5000) > 0, 1.0, -1.0)
    return SparseLogistic(SparseRows.from_dense(rows).unit_length(), labels)


def simulation_costs() -> list[Cost]:
    """The first table of ``heavystep bench simulation``."""
    limits, rows = measured_limits(), []
    for case in cases():
        rows += compared(case, limits)
    method = standard(LEAST_SQUARES, POLYAK, BETAS[-1])
    problem = LEAST_SQUARES.finite_sum()
    assert isinstance(problem, LeastSquares)
    literal = next(row.nanoseconds for row in rows if row.ratio == 1.0)
    others: dict[str, Callable[[], tuple[Callable[[], object], int]]] = {
        "numpy, 20 seeds at once": lambda: (_batched(problem, method, 20, 2_000), 40_000),
        "numpy loop": lambda: (_numpy_loop(problem, method, 10_000), 10_000),
        "torch loop (SHBPolyak)": lambda: (_torch_loop(problem, method, 1_000), 1_000),
    }
    for name, make in others.items():
        job, steps = make()
        cost = best_of(job) / steps * 1e9
        rows.append(Cost(f"least squares, SHB-PS: {name}", cost, cost / literal))
    return rows


def compared(case: Case, limits: Limits, turns: int = TURNS) -> list[Cost]:
    """The literal loop, the simulation of one seed and of many, in turns; and the bound."""
    # As many steps of each seed as alone: a call and the first steps of a run cost more.
    makers: dict[str, Callable[[], Job]] = {
        "literal numba loop": lambda: case.literal,
        "simulation, one core": lambda: case.prepared(1, case.steps),
        MANY: lambda: case.prepared(SEEDS, case.steps),
    }
    for make in makers.values():
        make()()  # compiles, or loads what was compiled
    steps = dict.fromkeys(makers, case.steps) | {MANY: case.steps * SEEDS}
    costs = {name: time / steps[name] * 1e9 for name, time in interleaved(makers, turns).items()}
    work = work_of(case.problem, case.trials(), case.batch)
    costs["bound by operations and cache"] = limits.bound(work)
    literal = costs["literal numba loop"]
    return [Cost(f"{case.name}: {name}", cost, cost / literal) for name, cost in costs.items()]


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
