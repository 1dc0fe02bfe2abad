"""Batches that successive steps share, in simulations."""

import numpy as np
import pytest

from heavystep.problems import LeastSquares
from heavystep.simulation.configuration import configure
from heavystep.simulation.run import Run
from heavystep.simulation.streams import random_index, stream_key

RNG = np.random.default_rng(2)
PROBLEM = LeastSquares(RNG.normal(size=(9, 3)), RNG.normal(size=9))


def end(method, size, indices=None, steps=24):
    """Where a run ends, with its own batches or with given ones."""
    run = Run(PROBLEM, method, seed=5, grid=np.array([steps]))
    given = np.empty((0, size), dtype=np.int64) if indices is None else indices
    assert run.advance(steps, given) == steps
    return run.state.theta


def draws(positions):
    key = stream_key(5)
    return np.array([[random_index(key, p, PROBLEM.n) for p in row] for row in positions])


@pytest.mark.slow
def test_a_simulated_batch_is_kept():
    rows = draws([[k // 3 * 2, k // 3 * 2 + 1] for k in range(24)])
    np.testing.assert_array_equal(rows[0], rows[2])
    method = configure("SLiSeS", kept=3)
    np.testing.assert_array_equal(end(method, 2), end(method, 2, rows))


@pytest.mark.slow
@pytest.mark.parametrize(("size", "stride"), [(4, 2), (5, 3)])
def test_simulated_batches_overlap(size, stride):
    rows = draws([[k * stride + b for b in range(size)] for k in range(24)])
    np.testing.assert_array_equal(rows[0, stride:], rows[1, : size - stride])
    method = configure("MBCG")
    np.testing.assert_array_equal(end(method, size), end(method, size, rows))
