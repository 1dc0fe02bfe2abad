"""What an iteration costs: the simulation against a literal loop, and how costs grow."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from heavystep.lab.cost import Job, interleaved
from heavystep.lab.cost.literal import literal_run
from heavystep.lab.simulation import Configuration, configure, simulate
from heavystep.methods import method_of
from heavystep.problems import Cosine, SparseLogistic, paper_least_squares
from heavystep.sparse import SparseRows

STEPS, SEEDS, BATCH, TURNS = 20_000, 20, 128, 25
"""Of a measurement: short ones, of which the shortest counts, find a moment in which a busy machine
has nothing else to do."""
GAUGE = 10_000
"""Numbers that a measurement of growth goes through, times 100."""
SIZES = (
    *((d, 500, 1, 1) for d in (10, 100, 1000, 10_000)),
    *((100, n, 1, 1) for n in (50, 5000, 50_000)),
    *((100, 500, batch, 1) for batch in (10, 100)),
    *((20, 500, 1, seeds) for seeds in (1, 4, 20)),
)
"""Parameters d, terms n, batch and seeds."""


class Cost(NamedTuple):
    """Nanoseconds for an iteration of one seed, and the ratio to the literal loop."""

    what: str
    nanoseconds: float
    ratio: float


class Growth(NamedTuple):
    """What the cosine problem of one size costs.

    Args:
        nanoseconds: for a step of one seed.
        each: the same for each number of the batch, equal for all sizes if costs are linear.
    """

    dim: int
    terms: int
    batch: int
    seeds: int
    nanoseconds: float
    each: float


def sparse_problem() -> SparseLogistic:
    """Rows of unit length with about twelve entries, like those of the smaller LIBSVM sets."""
    draw = np.random.default_rng(0)
    rows = draw.standard_normal((5000, 120)) * (draw.random((5000, 120)) < 0.1)
    labels = np.where(rows @ draw.standard_normal(120) + draw.standard_normal(5000) > 0, 1.0, -1.0)
    return SparseLogistic(SparseRows.from_dense(rows).unit_length(), labels)


def cases() -> dict[str, tuple[Any, Configuration, int, int]]:
    """Problem, method, steps and batch by name: both rules of the paper on two problems."""
    found: dict[str, tuple[Any, Configuration, int, int]] = {}
    for name, c in (("SHBPolyak", 0.75), ("SHBArmijo", 0.5)):
        title = method_of(name).title
        theory = configure(name, momentum=0.9, scaling="theory", c=c, average="uniform")
        found[f"least squares, {title}"] = (paper_least_squares(0.3), theory, STEPS, 1)
        common: dict[str, Any] = {"momentum": 0.9, "scaling": "practical", "max_step": 100.0}
        practical = configure(name, steps_per_epoch=40, **common)
        label = f"logistic, batches of {BATCH}, {title}"
        found[label] = (sparse_problem(), practical, STEPS // 20, BATCH)
    return found


def simulation_costs(turns: int = TURNS, share: float = 1.0) -> list[Cost]:
    """The literal loop, the simulation of one seed and of many on one core, in turns.

    Args:
        turns: how often each is timed.
        share: of the usual steps.
    """
    rows = []
    for name, (problem, method, usual, batch) in cases().items():
        steps = max(int(usual * share), 10)

        def simulated(
            seeds: int, problem: Any = problem, method: Configuration = method, steps: int = steps,
            batch: int = batch,
        ) -> Callable[[], Job]:  # fmt: skip
            return lambda: lambda: simulate(
                problem, method, seeds=seeds, iterations=steps, batch_size=batch,
                grid=np.array([steps]), threads=1,
            )  # fmt: skip

        def literal(
            problem: Any = problem, method: Configuration = method, steps: int = steps,
            batch: int = batch,
        ) -> Job:  # fmt: skip
            return lambda: literal_run(problem, method, 0, steps, batch)

        makers = {"literal loop": literal, "one seed": simulated(1),
                  f"{SEEDS} seeds": simulated(SEEDS)}  # fmt: skip
        for make in makers.values():
            make()()  # compiles, or loads what was compiled
        times = interleaved(makers, turns)
        base = times["literal loop"]
        for what, time in times.items():
            each = time / (SEEDS if what.endswith("seeds") else 1)
            rows.append(Cost(f"{name}: {what}", each / steps * 1e9, each / base))
    return rows


def growth_costs(repeats: int = 3, share: float = 1.0) -> list[Growth]:
    """All sizes, in turns."""
    method = configure("SHBPolyak", momentum=0.9, c=0.75, scaling="theory")
    steps = {each: max(100, int(100 * GAUGE * share) // (each[0] * each[2] * each[3]))
             for each in SIZES}  # fmt: skip
    problems = {}
    for dim, terms, *_ in SIZES:
        draw = np.random.default_rng([dim, terms])
        tilts = draw.standard_normal((terms, dim))
        problems[dim, terms] = Cosine(draw.uniform(0.5, 1.5, terms), tilts - tilts.mean(axis=0))

    def job(size: tuple[int, int, int, int]) -> Callable[[], Job]:
        dim, terms, batch, seeds = size
        return lambda: lambda: simulate(
            problems[dim, terms], method, seeds=seeds, iterations=steps[size], batch_size=batch,
            grid=np.array([steps[size]]), threads=1,
        )  # fmt: skip

    job(SIZES[0])()()  # compiles
    times = interleaved({str(size): job(size) for size in SIZES}, repeats)
    rows = []
    for size in SIZES:
        nanoseconds = times[str(size)] / (steps[size] * size[3]) * 1e9
        rows.append(Growth(*size, nanoseconds, nanoseconds / (size[0] * size[2])))
    return rows
