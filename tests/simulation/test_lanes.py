"""Seeds side by side: each has the numbers that it has alone, to the bit."""

import numpy as np
import pytest

from heavystep.problems import Cosine, VarianceReduced
from heavystep.simulation import run as runs
from heavystep.simulation.fleet import Fleet, Run
from heavystep.simulation.lanes import CACHE_LINE, aligned
from heavystep.simulation.run import lanes_for, simulate
from tests.helpers.pinned_runs import CASES, problems

KINDS = problems() | {"reduced": VarianceReduced(problems()["LeastSquares"])}
METHODS = {"LeastSquares": "Polyak, theory", "Cosine": "Armijo, diminishing",
           "SparseLogistic": "Armijo, practical", "reduced": "Polyak, theory"}  # fmt: skip
SEEDS = [7, 1, 30, 4, 9]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lanes", [2, 3, 5])
def test_the_number_of_lanes_changes_no_bit(kind, lanes, monkeypatch):
    options = {"iterations": 70, "batch_size": 2, "threads": 1}
    sizes, made = [], runs.Fleet

    def noted(members):
        sizes.append(len(members))
        return made(members)

    monkeypatch.setattr(runs, "Fleet", noted)
    monkeypatch.setattr(runs, "lanes_for", lambda problem: lanes)
    together = simulate(KINDS[kind], CASES[METHODS[kind]], seeds=SEEDS, **options)
    assert max(sizes) == lanes
    assert sum(sizes) == len(SEEDS)
    for place, seed in enumerate(SEEDS):
        alone = simulate(KINDS[kind], CASES[METHODS[kind]], seeds=[seed], **options)
        for name, values in alone.metrics.items():
            np.testing.assert_array_equal(together.metrics[name][place], values[0])


def test_a_seed_that_stops_stops_no_other():
    problem, method = KINDS["LeastSquares"], CASES["Polyak, theory"]
    grid, none = np.array([5]), np.empty((3, 0, 1), dtype=np.int64)
    seeds = [Run(problem, method, seed, grid) for seed in range(3)]
    seeds[1].state.theta[0] = np.nan
    assert Fleet(seeds).advance(5, none) == [5, 0, 5]
    assert [run.steps for run in seeds] == [5, 0, 5]
    for seed in (0, 2):
        alone = Run(problem, method, seed, grid)
        alone.advance(5, none[0])
        np.testing.assert_array_equal(seeds[seed].state.theta, alone.state.theta)
        np.testing.assert_array_equal(seeds[seed].out, alone.out)
    assert np.isnan(seeds[1].out).all()


def test_a_large_problem_has_the_cache_for_itself():
    wide = Cosine(np.ones(2), np.zeros((2, 10**5)))
    assert lanes_for(wide) == 1
    assert lanes_for(KINDS["Cosine"]) > 1


def test_sparse_rows_are_work_enough_for_one_seed():
    assert lanes_for(KINDS["SparseLogistic"]) == 1
    assert lanes_for(VarianceReduced(KINDS["SparseLogistic"])) == 1


def test_arrays_begin_with_a_cache_line():
    for size in range(1, 20):
        array = aligned(np.arange(float(size)))
        assert array.ctypes.data % CACHE_LINE == 0
        np.testing.assert_array_equal(array, np.arange(float(size)))
