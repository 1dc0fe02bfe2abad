"""Seeds side by side: each has the numbers that it has alone, to the bit."""

import dataclasses
import os
import subprocess
import sys

import numpy as np
import pytest

from heavystep.problems import Cosine, LeastSquares, SparseLogistic, VarianceReduced
from heavystep.rules import FIXED, Search
from heavystep.simulation import run as runs
from heavystep.simulation.choice import decides_for_four, kernel_rule
from heavystep.simulation.fleet import Fleet, Run, full_loss
from heavystep.simulation.lanes import CACHE_LINE, aligned
from heavystep.simulation.layout import terms_of
from heavystep.simulation.run import lanes_for, simulate
from heavystep.simulation.terms import evaluate_all, implements
from heavystep.sparse import SparseRows
from tests.helpers.pinned_runs import CASES, problems
from tests.helpers.places import ROOT

KINDS = problems() | {"reduced": VarianceReduced(problems()["LeastSquares"])}
METHODS = {"LeastSquares": "Polyak, theory", "Cosine": "Armijo, diminishing",
           "SparseLogistic": "Armijo, practical", "reduced": "Polyak, theory"}  # fmt: skip
SEEDS = [7, 1, 30, 4, 9]


LANES = [(kind, lanes) for kind in KINDS for lanes in (2, 3, 5)]
LONG = {("Cosine", 5), ("SparseLogistic", 5)}
"""Kernels for four seeds and more, beside those of two problems that have them too."""


@pytest.mark.parametrize(
    ("kind", "lanes"),
    [pytest.param(*each, marks=pytest.mark.slow if each in LONG else ()) for each in LANES],
)
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


IN_FOURS = ["Polyak, theory", "Polyak, diminishing", "Armijo, theory", "Armijo, diminishing"]


@pytest.mark.parametrize(
    "kind",
    ["LeastSquares", pytest.param("Cosine", marks=pytest.mark.slow)],  # a kernel each
)
@pytest.mark.parametrize("name", IN_FOURS)
def test_four_seeds_at_once_change_no_bit(kind, name, monkeypatch):
    method, problem = CASES[name], KINDS[kind]
    assert decides_for_four(type(kernel_rule(method.rule)))
    assert implements(type(terms_of(problem)), evaluate_all)
    options = {"iterations": 60, "threads": 1}
    alone = [simulate(problem, method, seeds=[seed], **options) for seed in range(20)]
    monkeypatch.setattr(runs, "lanes_for", lambda problem: 20)
    for count in (3, 4, 5, 20):
        together = simulate(problem, method, seeds=count, **options)
        for seed in range(count):
            for metric, values in together.metrics.items():
                np.testing.assert_array_equal(values[seed], alone[seed].metrics[metric][0])


@pytest.mark.slow
def test_nor_on_a_processor_whose_registers_hold_two_numbers(tmp_path):
    around = {**os.environ, "NUMBA_CPU_NAME": "generic", "HEAVYSTEP_CACHE": str(tmp_path)}
    name = test_four_seeds_at_once_change_no_bit.__name__
    test = f"{__file__}::{name}[Armijo, theory-LeastSquares]"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
    done = subprocess.run(
        command, cwd=ROOT, env=around, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("dim", [1, 5, 16, 23])
def test_four_seeds_at_once_have_every_parameter(dim):
    draw = np.random.default_rng(dim)
    problem = LeastSquares(draw.standard_normal((30, dim)), draw.standard_normal(30))
    grid, none = np.array([9]), np.empty((4, 0, 3), dtype=np.int64)
    together = [Run(problem, CASES["Polyak, theory"], seed, grid) for seed in range(4)]
    assert Fleet(together).advance(9, none) == [9] * 4
    for seed, run in enumerate(together):
        alone = Run(problem, CASES["Polyak, theory"], seed, grid)
        alone.advance(9, none[0])
        np.testing.assert_array_equal(run.state.theta, alone.state.theta)
        np.testing.assert_array_equal(run.watch.average, alone.watch.average)


def deciding_by_cases(constants, memory, seen):
    return Search(0.1 if seen.loss > 1.0 else 0.2, True, False)


def test_a_rule_with_cases_decides_one_by_one():
    rule = dataclasses.replace(FIXED, name="cases", start=deciding_by_cases)
    assert not decides_for_four(type(kernel_rule(rule)))
    assert decides_for_four(type(kernel_rule(FIXED)))


@pytest.mark.parametrize("count", [3, 6])
def test_a_seed_that_stops_stops_no_other(count):
    problem, method = KINDS["LeastSquares"], CASES["Polyak, theory"]
    grid, none = np.array([5]), np.empty((count, 0, 1), dtype=np.int64)
    seeds = [Run(problem, method, seed, grid) for seed in range(count)]
    seeds[1].state.theta[0] = np.nan
    done = [5, 0, *[5] * (count - 2)]
    assert Fleet(seeds).advance(5, none) == done
    assert [run.steps for run in seeds] == done
    for seed in (0, *range(2, count)):
        alone = Run(problem, method, seed, grid)
        alone.advance(5, none[0])
        np.testing.assert_array_equal(seeds[seed].state.theta, alone.state.theta)
        np.testing.assert_array_equal(seeds[seed].out, alone.out)
    assert np.isnan(seeds[1].out).all()


def test_a_large_problem_has_the_cache_for_itself():
    wide = Cosine(np.ones(2), np.zeros((2, 10**5)))
    assert lanes_for(wide) == 1
    assert lanes_for(KINDS["Cosine"]) > 1


def sparse_problem(rows, dim, kind=np.float64, **more):
    draw = np.random.default_rng(rows)
    dense = draw.standard_normal((rows, dim)) * (draw.random((rows, dim)) < 0.4)
    labels = np.where(draw.random(rows) < 0.5, -1.0, 1.0)
    made = SparseRows.from_dense(dense)
    made = SparseRows(made.indptr, made.indices, made.values.astype(kind), dim)
    return SparseLogistic(made, labels, **more)


def test_sparse_rows_are_gone_through_once_for_several_seeds():
    assert lanes_for(sparse_problem(4, 300)) > 1
    assert lanes_for(VarianceReduced(sparse_problem(4, 300))) > 1
    assert lanes_for(SparseLogistic(SparseRows.from_dense(np.ones((1, 10**5))), [1.0])) == 1


@pytest.mark.parametrize("seeds", [1, 2, 8, 9])
@pytest.mark.parametrize(("rows", "kind"), [(3, "f8"), (256, "f8"), (600, "f8"), (3, "f4")])
def test_full_losses_of_seeds_side_by_side_are_those_of_each_alone(seeds, rows, kind):
    weights = np.random.default_rng(0).random(rows)
    problem = sparse_problem(rows, 7, np.dtype(kind), l2=0.3, weights=weights)
    fleet = [Run(problem, CASES["Polyak, practical"], seed, np.array([3])) for seed in range(seeds)]
    Fleet(fleet).advance(3, np.empty((seeds, 0, 2), dtype=np.int64))
    for run in fleet:
        assert run.out[0, 0] == full_loss(run, run.state.theta)
        exact = problem.objective(run.state.theta)
        np.testing.assert_allclose(run.out[0, 0], exact, rtol=1e2 * np.finfo(kind).eps)


def test_arrays_begin_with_a_cache_line():
    for size in range(1, 20):
        array = aligned(np.arange(float(size)))
        assert array.ctypes.data % CACHE_LINE == 0
        np.testing.assert_array_equal(array, np.arange(float(size)))
