"""Batches that successive steps share, in simulations and for a DataLoader."""

import numpy as np
import pytest

from heavystep.data import PersistentBatches
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


def test_an_epoch_goes_through_all_samples():
    batches = PersistentBatches(12, 4, overlap=True, seed=3)
    first, second = list(batches), list(batches)
    assert len(batches) == len(first) == 5
    assert {i for batch in first for i in batch} == set(range(12))
    assert first != second
    again = PersistentBatches(12, 4, overlap=True, seed=3)
    again.epoch = 1
    assert list(again) == second


def test_the_last_samples_that_fill_no_batch_are_left_out():
    batches = list(PersistentBatches(11, 4, kept=3))
    assert len(batches) == 6
    assert batches[0] == batches[1] == batches[2] != batches[3]
    assert len({i for batch in batches for i in batch}) == 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((3, 4), "batch_size must be at most n = 3, got 4"), ((3, 0), "batch_size must be")],
)
def test_sizes_that_cannot_be(arguments, message):
    with pytest.raises(ValueError, match=message):
        PersistentBatches(*arguments)


def test_one_sample_has_no_half():
    with pytest.raises(ValueError, match="for halves to overlap, got 1"):
        PersistentBatches(3, 1, overlap=True)
