"""What an iteration of SHB on sparse rows costs: our kernels, scipy.sparse and torch in one run.

All take the same batches, and those named SHB-PS take the same iterates. Drawing the batches and
bringing the data into each format is not timed.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from heavystep.arrays import Array
from heavystep.bench.linear_data import TWIN
from heavystep.bench.linear_loops import ScipyLoop, TorchLoop
from heavystep.bench.timing import Job, interleaved, one_thread
from heavystep.paper.appendix_e import MAX_STEP
from heavystep.paper.figure2.definition import BATCH, COMPANION_MAX_STEP, methods
from heavystep.problems import SparseLogistic
from heavystep.simulation.configuration import Configuration, configure
from heavystep.simulation.run import Run
from heavystep.simulation.streams import index_stream
from heavystep.sparse import SparseRows

Prepare = Callable[[SparseLogistic, Array], Job]
"""Makes a job that starts anew and takes one step for each row of the batches."""


def polyak(problem: SparseLogistic) -> Configuration:
    """SHB-PS of Figure 2."""
    return methods(problem.n, MAX_STEP)["SHB-PS"]


def armijo(problem: SparseLogistic, max_step: float) -> Configuration:
    """SHB-ALS of Figure 2, with another largest step."""
    return methods(problem.n, max_step)["SHB-ALS"]


def kernel_job(problem: SparseLogistic, method: Configuration, batches: Array) -> Job:
    """Our kernel on given batches, without records, because those evaluate the full loss."""
    run = Run(problem, method, 0, np.array([len(batches) + 1]))

    def job() -> Array:
        done = run.advance(len(batches), batches)
        if done < len(batches):  # it would count as fast
            raise ValueError(f"{method.method} stopped at step {done} of {len(batches)}")
        return run.state.theta

    return job


@lru_cache(maxsize=1)
def _single(problem: SparseLogistic) -> SparseLogistic:
    """The same numbers in float32. They are made once, so that repetitions find them in place."""
    rows = problem.rows
    values = rows.values.astype(np.float32)
    return SparseLogistic(SparseRows(rows.indptr, rows.indices, values, rows.dim), problem.y)


POLYAK, ARMIJO, STEEP = "kernel, SHB-PS", "kernel, SHB-ALS", "kernel, SHB-ALS, max_step 100"
SCIPY, TORCH = "scipy.sparse loop, SHB-PS", "torch loop, SHB-PS"
CONTESTANTS: dict[str, Prepare] = {
    POLYAK: lambda problem, batches: kernel_job(problem, polyak(problem), batches),
    ARMIJO: lambda problem, batches: kernel_job(problem, armijo(problem, MAX_STEP), batches),
    STEEP: lambda problem, batches: kernel_job(
        problem, armijo(problem, COMPANION_MAX_STEP), batches
    ),
    "kernel, SHB": lambda problem, batches: kernel_job(
        problem, configure("SHB", lr=0.1, momentum=0.9), batches
    ),
    "kernel, SHB-PS, float32": lambda problem, batches: kernel_job(
        _single(problem), polyak(problem), batches
    ),
    SCIPY: lambda problem, batches: partial(ScipyLoop(problem, polyak(problem)).run, batches),
    TORCH: lambda problem, batches: partial(TorchLoop(problem, polyak(problem)).run, batches),
}


def iteration_costs(problem: SparseLogistic, steps: int, repeats: int) -> dict[str, float]:
    """Microseconds for an iteration on one core, by contestant.

    Args:
        problem: what to minimise.
        steps: length of each run.
        repeats: how often each contestant is run; the shortest time counts.
    """
    batches = index_stream(0, problem.n, steps * BATCH).reshape(steps, BATCH)
    with one_thread():
        for prepare in CONTESTANTS.values():
            prepare(problem, batches[:1])()  # compiles, or loads what was compiled
        jobs = {name: partial(prepare, problem, batches) for name, prepare in CONTESTANTS.items()}
        return {name: s / steps * 1e6 for name, s in interleaved(jobs, repeats).items()}


class Target(NamedTuple):
    """An aim beside what was measured."""

    what: str
    least: bool
    """Whether the aim is the least value that will do; otherwise it is the largest."""
    aim: float
    measured: float

    @property
    def met(self) -> bool:
        """Whether it was reached."""
        return self.measured >= self.aim if self.least else self.measured <= self.aim


MICROSECONDS = {"a9a": 25.0, TWIN: 70.0}
"""The longest that an iteration of SHB-PS should take, by data set."""


def targets(data: str, costs: Mapping[str, float]) -> list[Target]:
    """The aims for a data set of :data:`MICROSECONDS`.

    Args:
        data: its name.
        costs: from :func:`iteration_costs`.
    """
    ours = costs[POLYAK]
    return [
        Target("SHB-PS, us", False, MICROSECONDS[data], ours),
        Target("scipy.sparse / SHB-PS", True, 5.0, costs[SCIPY] / ours),
        Target("torch / SHB-PS", True, 12.0, costs[TORCH] / ours),
        Target("SHB-ALS / SHB-PS", False, 1.4, costs[ARMIJO] / ours),
        Target("SHB-ALS, max_step 100 / SHB-PS", False, 1.4, costs[STEEP] / ours),
    ]
