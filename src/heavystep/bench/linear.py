"""What an iteration of SHB on sparse rows costs: the engine, scipy.sparse and torch in one run.

All take the same batches, and the rows named SHB-PS the same iterates. Drawing the batches is not
timed, nor is bringing the data into each one's own format.
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
from heavystep.simulation.method import Method
from heavystep.simulation.run import Run
from heavystep.simulation.streams import index_stream
from heavystep.sparse import SparseRows

Prepare = Callable[[SparseLogistic, Array], Job]
"""Makes a job that takes one step for each row of the batches, from the start."""


def polyak(problem: SparseLogistic) -> Method:
    """SHB-PS of Figure 2."""
    return methods(problem.n, MAX_STEP)["SHB-PS"]


def armijo(problem: SparseLogistic, max_step: float) -> Method:
    """SHB-ALS of Figure 2, with another largest step."""
    return methods(problem.n, max_step)["SHB-ALS"]


def engine_job(problem: SparseLogistic, method: Method, batches: Array) -> Job:
    """The engine on given batches, without records: those evaluate the full loss."""
    run = Run(problem, method, 0, np.array([len(batches) + 1]))

    def job() -> Array:
        done = run.advance(len(batches), batches)
        if done < len(batches):  # it would count as fast
            raise ValueError(f"{method.rule} stopped at step {done} of {len(batches)}")
        return run.state.theta

    return job


@lru_cache(maxsize=1)
def _single(problem: SparseLogistic) -> SparseLogistic:
    """The same numbers in float32; made once, so that repetitions find them in place."""
    rows = problem.rows
    values = rows.values.astype(np.float32)
    return SparseLogistic(SparseRows(rows.indptr, rows.indices, values, rows.dim), problem.y)


def _single_job(problem: SparseLogistic, batches: Array) -> Job:
    return engine_job(_single(problem), polyak(problem), batches)


def _scipy_job(problem: SparseLogistic, batches: Array) -> Job:
    loop = ScipyLoop(problem, polyak(problem))
    return lambda: loop.run(batches)


def _torch_job(problem: SparseLogistic, batches: Array) -> Job:
    loop = TorchLoop(problem, polyak(problem))
    return lambda: loop.run(batches)


POLYAK, ARMIJO, STEEP = "engine, SHB-PS", "engine, SHB-ALS", "engine, SHB-ALS, max_step 100"
SCIPY, TORCH = "scipy.sparse loop, SHB-PS", "torch loop, SHB-PS"
CONTESTANTS: dict[str, Prepare] = {
    POLYAK: lambda problem, batches: engine_job(problem, polyak(problem), batches),
    ARMIJO: lambda problem, batches: engine_job(problem, armijo(problem, MAX_STEP), batches),
    STEEP: lambda problem, batches: engine_job(
        problem, armijo(problem, COMPANION_MAX_STEP), batches
    ),
    "engine, fixed step": lambda problem, batches: engine_job(
        problem, Method.fixed(0.1, 0.9), batches
    ),
    "engine, SHB-PS, float32": _single_job,
    SCIPY: _scipy_job,
    TORCH: _torch_job,
}


def iteration_costs(problem: SparseLogistic, steps: int, repeats: int) -> dict[str, float]:
    """Microseconds an iteration on one core, by contestant.

    Args:
        problem: what to run on.
        steps: of each run.
        repeats: how often each is run; the shortest counts.
    """
    batches = index_stream(0, problem.n, steps * BATCH).reshape(steps, BATCH)
    with one_thread():
        for prepare in CONTESTANTS.values():
            prepare(problem, batches[:1])()  # compiles, or loads what was
        jobs = {name: partial(prepare, problem, batches) for name, prepare in CONTESTANTS.items()}
        return {name: s / steps * 1e6 for name, s in interleaved(jobs, repeats).items()}


class Target(NamedTuple):
    """What was aimed at beside what was measured."""

    what: str
    least: bool
    """Whether the aim is the least that will do; else the most."""
    aim: float
    measured: float

    @property
    def met(self) -> bool:
        """Whether it was reached."""
        return self.measured >= self.aim if self.least else self.measured <= self.aim


MICROSECONDS = {"a9a": 25.0, TWIN: 70.0}
"""The most that an iteration of SHB-PS should take."""


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
        Target("SHB-ALS / SHB-PS", False, 1.5, costs[ARMIJO] / ours),
        Target("SHB-ALS, max_step 100 / SHB-PS", False, 1.5, costs[STEEP] / ours),
    ]
