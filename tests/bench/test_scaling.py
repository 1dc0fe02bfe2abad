"""The model of many ranks, in numbers worked out by hand."""

import math
import runpy

import pytest

from heavystep.bench.scaling import (
    Network,
    Workload,
    armijo_step,
    gradients,
    message,
    most_ranks,
    polyak_step,
    sgd_step,
    shortest_step,
    steps_to_save,
)
from tests.helpers.places import ROOT

DOCS = ROOT / "docs"
NETWORK = Network(hop=1e-3, bandwidth=1000.0)
LOAD = Workload(step=0.3, trial=0.1, gradient_bytes=100.0, trials=2.0)


@pytest.mark.parametrize(
    ("ranks", "hops"), [(1, 0), (2, 2), (3, 4), (4, 4), (5, 6), (8, 6), (4096, 24)]
)
def test_a_message_goes_up_a_tree_and_down(ranks, hops):
    assert message(ranks, NETWORK) == pytest.approx(hops * 1e-3)


@pytest.mark.parametrize(("ranks", "seconds"), [(1, 0.0), (2, 0.102), (4, 0.154), (8, 0.181)])
def test_gradients(ranks, seconds):
    assert gradients(ranks, LOAD, NETWORK) == pytest.approx(seconds)


def test_sgd_waits_only_for_what_the_backward_does_not_hide():
    assert sgd_step(8, LOAD, NETWORK) == 0.3
    slow = Network(hop=1e-3, bandwidth=500.0)
    assert gradients(8, LOAD, slow) == pytest.approx(0.356)
    assert sgd_step(8, LOAD, slow) == pytest.approx(0.3 + 0.356 - 0.2)


def test_steps_on_eight_ranks():
    assert polyak_step(8, LOAD, NETWORK) == pytest.approx(0.306)
    assert armijo_step(8, LOAD, NETWORK) == pytest.approx(0.306 + 2 * 0.106)
    assert steps_to_save(8, LOAD, NETWORK) == pytest.approx(1 - 0.306 / 0.518)


def test_one_rank_sends_nothing():
    assert polyak_step(1, LOAD, NETWORK) == sgd_step(1, LOAD, NETWORK) == LOAD.step
    assert armijo_step(1, LOAD, NETWORK) == pytest.approx(0.5)
    assert steps_to_save(1, LOAD, NETWORK) == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("share", "ranks"), [(0.01, 1), (0.02, 2), (0.039, 2), (0.041, 4), (0.1, 32)]
)
def test_most_ranks(share, ranks):
    """3 messages on 0.3 s: 2 alpha n = 6 ms a doubling, 0.02 of the step."""
    assert most_ranks(share, 3.0, 0.3, NETWORK) == ranks
    assert 3.0 * message(ranks, NETWORK) <= share * 0.3 * (1 + 1e-12)
    assert 3.0 * message(ranks + 1, NETWORK) > share * 0.3


def test_no_number_of_ranks_is_too_large_for_a_float():
    assert most_ranks(1.0, 1.0, 1e3, NETWORK) == math.inf


def test_shortest_step():
    assert shortest_step(0.1, 8, 3.0, NETWORK) == pytest.approx(0.18)


def test_nonsense_is_refused():
    with pytest.raises(ValueError, match="ranks must be >= 1, got 0"):
        message(0, NETWORK)
    for refuse in (most_ranks, shortest_step):
        with pytest.raises(ValueError, match="share must be > 0 and finite, got 0"):
            refuse(0.0, 1, 1.0, NETWORK)


def test_the_page_is_the_model_and_the_measured_figures():
    page = runpy.run_path(str(DOCS / "make_scaling.py"))["render"]()
    assert (DOCS / "scaling.md").read_text() == page, "run python docs/make_scaling.py"


def test_the_page_says_what_its_tables_show():
    made = runpy.run_path(str(DOCS / "make_scaling.py"))
    fast = made["NETWORKS"]["InfiniBand"]
    for load in made["WORKLOADS"].values():
        shares = [steps_to_save(ranks, load, fast) for ranks in made["RANKS"]]
        assert max(shares) - min(shares) < 0.01  # "hardly changes from one rank to thousands"
        assert steps_to_save(1, load, made["NETWORKS"]["Ethernet"]) > steps_to_save(
            64, load, made["NETWORKS"]["Ethernet"]
        )
