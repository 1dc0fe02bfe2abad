"""Batches that successive steps share, for a DataLoader: what is in them, ranks, and going on."""

import re
from itertools import pairwise

import pytest
import torch
from torch.utils.data import DataLoader

from heavystep.batches import PersistentBatches

SHARING = [{}, {"kept": 3}, {"overlap": True}, {"kept": 2, "overlap": True}]
every_sharing = pytest.mark.parametrize("sharing", SHARING, ids=str)


def ranks(n, size, world_size, **options):
    return [
        PersistentBatches(n, size, rank=rank, world_size=world_size, **options)
        for rank in range(world_size)
    ]


def rows(batches):
    return {index for batch in batches for index in batch}


def test_an_epoch_goes_through_all_samples():
    batches = PersistentBatches(12, 4, overlap=True, seed=3)
    first, second = list(batches), list(batches)
    assert len(batches) == len(first) == 5
    assert {i for batch in first for i in batch} == set(range(12))
    assert first != second
    again = PersistentBatches(12, 4, overlap=True, seed=3)
    again.set_epoch(1)
    assert list(again) == second


def test_the_last_samples_that_fill_no_batch_are_left_out():
    batches = list(PersistentBatches(11, 4, kept=3))
    assert len(batches) == 6
    assert batches[0] == batches[1] == batches[2] != batches[3]
    assert len({i for batch in batches for i in batch}) == 8


@every_sharing
@pytest.mark.parametrize(("n", "used"), [(24, 24), (26, 24)])
def test_ranks_share_the_samples_out(n, used, sharing):
    sampled = ranks(n, 4, 3, seed=7, **sharing)
    for _ in range(2):
        epochs = [list(one) for one in sampled]
        assert {len(epoch) for epoch in epochs} == {len(one) for one in sampled}
        parts = [rows(epoch) for epoch in epochs]
        assert [len(part) for part in parts] == [used // 3] * 3
        assert len(set.union(*parts)) == used


def test_one_rank_is_no_other_than_none():
    assert list(ranks(13, 4, 1, seed=5)[0]) == list(PersistentBatches(13, 4, seed=5))


def test_what_is_left_over_is_another_in_each_epoch():
    sampled = ranks(7, 1, 2)
    left = [set(range(7)) - set.union(*(rows(list(one)) for one in sampled)) for _ in range(20)]
    assert all(len(one) == 1 for one in left)
    assert len(set.union(*left)) > 3


def test_halves_overlap_within_a_rank():
    for one in ranks(40, 5, 2, overlap=True):
        epoch = list(one)
        assert len(epoch) == 6
        assert all(after[:2] == before[3:] for before, after in pairwise(epoch))
        assert all(len(set(batch)) == 5 for batch in epoch)


def test_a_batch_is_kept_within_a_rank():
    for one in ranks(24, 4, 2, kept=3):
        epoch = list(one)
        assert len(epoch) == 9
        assert epoch[0::3] == epoch[1::3] == epoch[2::3]
        assert len(rows(epoch)) == 12


@every_sharing
def test_a_stopped_run_goes_on_with_the_batches_it_would_have_had(sharing):
    whole, resumed = (ranks(31, 4, 2, seed=3, **sharing)[1] for _ in range(2))
    epochs = [list(whole) for _ in range(3)]
    for stop in range(len(whole) + 1):
        resumed.set_epoch(1, stop)
        assert [list(resumed) for _ in range(2)] == [epochs[1][stop:], epochs[2]]


def test_an_epoch_that_was_left_is_over():
    """Somebody who looks at the first batch does not move what comes after it."""
    batches, again = PersistentBatches(12, 4), PersistentBatches(12, 4)
    epochs = [list(again) for _ in range(2)]
    assert next(iter(batches)) == epochs[0][0]
    assert list(batches) == epochs[1]


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_loader_goes_on(workers):
    batches = PersistentBatches(20, 4, overlap=True, seed=1)
    loader = DataLoader(torch.arange(20), batch_sampler=batches, num_workers=workers)
    whole = [batch.tolist() for batch in loader]
    batches.set_epoch(0, 3)
    assert [batch.tolist() for batch in loader] == whole[3:]


BAD = {
    "batch_size must be at most n = 3, got 4": {"n": 3},
    "batch_size must be >= 1, got 0": {"batch_size": 0},
    "batch_size must be >= 2 for halves to overlap, got 1": {"batch_size": 1, "overlap": True},
    "overlap must be one of False, True, got 'no'": {"overlap": "no"},
    "rank must be below world_size = 2, got 2": {"rank": 2, "world_size": 2},
    "rank must be >= 0, got -1": {"rank": -1, "world_size": 2},
    "world_size must be >= 1, got 0": {"world_size": 0},
    "batch_size must be at most n / world_size = 4, got 5": {"batch_size": 5, "world_size": 3},
}


@pytest.mark.parametrize("message", BAD)
def test_arguments_that_cannot_be(message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        PersistentBatches(**{"n": 13, "batch_size": 4, **BAD[message]})
