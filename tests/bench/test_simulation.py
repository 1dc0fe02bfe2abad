"""What the simulation is compared with does the same work, and costs are counted rightly."""

import numpy as np
import pytest

from heavystep.bench import growth
from heavystep.bench.growth import bytes_a_seed, growth_costs
from heavystep.bench.limits import Limits, Work, work_of
from heavystep.bench.literal import literal_run
from heavystep.bench.simulation import SEEDS, cases, compared
from heavystep.problems import Cosine, LeastSquares
from heavystep.simulation.configuration import configure
from heavystep.simulation.fleet import Run

CASES = {case.name: case for case in cases()}
STEPS = 200
LIMITS = Limits(operations=10.0, bytes=100.0)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if each else ())  # two kernels each
        for each, name in enumerate(CASES)
    ],
)
def test_the_literal_loop_takes_the_same_steps(name):
    case = CASES[name]
    run = Run(case.problem, case.method, 3, np.array([STEPS]))
    assert run.advance(STEPS, np.empty((0, case.batch), dtype=np.int64)) == STEPS
    literal = literal_run(case.problem, case.method, 3, STEPS, case.batch)
    # Sums in another order: a rounding a step, relative to the length of the path.
    size = np.abs(literal).max()
    np.testing.assert_allclose(run.state.theta, literal, rtol=0.0, atol=STEPS * 1e-14 * size)
    assert not np.array_equal(literal, case.problem.theta0)


@pytest.mark.slow
def test_a_table_has_the_loop_both_simulations_and_the_bound():
    case = next(iter(CASES.values()))._replace(steps=40)
    rows = compared(case, LIMITS, turns=1)
    assert [row.ratio for row in rows].count(1.0) == 1
    texts = " ".join(row.what for row in rows)
    for text in ("literal numba loop", "one core", f"{SEEDS} seeds", "bound"):
        assert text in texts
    bound = next(row for row in rows if "bound" in row.what)
    assert bound.nanoseconds == LIMITS.bound(work_of(case.problem, case.trials(), case.batch))


def test_the_bound_is_that_of_what_takes_longer():
    assert LIMITS.bound(Work(operations=50.0, bytes=100.0)) == 5.0
    assert LIMITS.bound(Work(operations=5.0, bytes=100.0)) == 1.0


def test_work_grows_with_trials_and_is_linear_in_the_dimension():
    small, large = (LeastSquares(np.eye(d), np.ones(d)) for d in (3, 12))
    for trials in (0.0, 1.5):
        one, many = work_of(small, trials), work_of(large, trials)
        np.testing.assert_allclose(many, 4.0 * np.array(one))
    assert work_of(small, 1.0) > work_of(small, 0.0)
    curved = Cosine(np.ones(2), np.zeros((2, 3)))
    assert work_of(curved, 0.0).operations > work_of(small, 0.0).operations


def test_bytes_of_a_seed_are_those_of_its_arrays():
    method = configure("SHBPolyak")
    held = [bytes_a_seed(growth._problem(d, 8), method, 1) for d in (10, 20, 30)]
    # Point, buffer, mean, gradient and the vector of trials.
    assert np.diff(held).tolist() == [10 * 5 * 8] * 2


def test_growth_has_a_row_for_each_size(monkeypatch):
    monkeypatch.setattr(growth, "SIZES", ((4, 8, 1, 1), (4, 8, 2, 3)))
    monkeypatch.setattr(growth, "GAUGE", 10)
    rows = growth_costs(repeats=1)
    assert [row[:4] for row in rows] == [(4, 8, 1, 1), (4, 8, 2, 3)]
    assert all(row.nanoseconds > 0.0 and row.data_bytes == 8 * (4 + 2) * 8 for row in rows)
    assert rows[1].each == rows[1].nanoseconds / 8
