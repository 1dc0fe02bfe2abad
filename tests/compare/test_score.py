"""The score by hand, on made-up numbers."""

import numpy as np
import pytest

from heavystep.compare.score import counted, least, over_seeds, sensitivity

NAN, INF = float("nan"), float("inf")
START = np.array([2.0, 4.0])
# (constants, seeds); by hand: min{l_0, l}, its mean over seeds, less l* = 0.5.
FINAL = {
    "steady": np.array([[1.0, 1.0], [0.25, 0.75], [1.0, 3.0]]),  # 1, 0.5, 2
    "wild": np.array([[9.0, 1.0], [NAN, INF], [1.5, 1e300]]),  # 1.5, 3, 2.75
    "stuck": np.array([[2.0, 4.0], [NAN, NAN], [INF, 5.0]]),  # 3, 3, 3
}


def test_by_hand():
    means = over_seeds(FINAL, START)
    assert means["steady"].tolist() == [1.0, 0.5, 2.0]
    assert means["wild"].tolist() == [1.5, 3.0, 2.75]
    assert least(means) == 0.5
    scores = sensitivity(means)
    assert scores["steady"] == pytest.approx((0.5 + 0.0 + 1.5) / 3)
    assert scores["wild"] == pytest.approx((1.0 + 2.5 + 2.25) / 3)
    assert scores["stuck"] == START.mean() - 0.5  # the worst possible


def test_no_seed_counts_more_than_its_start():
    losses = counted(np.array([[3.0, 3.0], [NAN, -INF]]), START)
    assert losses.tolist() == [[2.0, 3.0], [2.0, 4.0]]


def test_the_least_loss_is_that_of_all_methods():
    alone = sensitivity({"a": np.array([1.0, 3.0])})
    beside = sensitivity({"a": np.array([1.0, 3.0]), "b": np.array([0.5])})
    assert (alone["a"], beside["a"]) == (1.0, 1.5)
