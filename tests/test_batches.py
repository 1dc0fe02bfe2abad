"""Batches that successive steps share, for a DataLoader: what is in them, ranks, and going on."""

import json
import re
from itertools import islice, pairwise

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
@pytest.mark.parametrize("rank", [0, 1])
def test_a_stopped_run_goes_on_with_the_batches_it_would_have_had(rank, sharing):
    def made():
        return ranks(31, 4, 2, seed=3, **sharing)[rank]

    whole = made()
    epochs = [list(whole) for _ in range(3)]
    for stop in range(len(whole) + 1):
        stopped = made()
        assert list(stopped) == epochs[0]
        assert list(islice(stopped, stop)) == epochs[1][:stop]
        state = json.loads(json.dumps(stopped.state_dict()))
        resumed = made()
        resumed.load_state_dict(state)
        left = [epochs[1][stop:]] if stop < len(whole) else []
        for expected in (*left, epochs[2]):
            resumed.set_epoch(resumed.epoch)  # as training loops do
            assert list(resumed) == expected


def test_the_state_of_one_rank_is_that_of_all():
    sampled = ranks(24, 4, 2)
    epochs = [list(one) for one in ranks(24, 4, 2)]
    assert next(iter(sampled[0])) == epochs[0][0]
    sampled[1].load_state_dict(sampled[0].state_dict())
    assert list(sampled[1]) == epochs[1][1:]


def test_an_epoch_that_was_left_is_over():
    """Somebody who looks at the first batch does not move what comes after it."""
    batches, again = PersistentBatches(12, 4), PersistentBatches(12, 4)
    epochs = [list(again) for _ in range(3)]
    assert next(iter(batches)) == epochs[0][0]
    assert list(batches) == epochs[1]
    batches.set_epoch(0)
    assert next(iter(batches)) == epochs[0][0]
    batches.set_epoch(0)
    assert list(batches) == epochs[0]
    batches.load_state_dict({**batches.state_dict(), "epoch": 1, "position": 2})
    batches.set_epoch(2)
    assert list(batches) == epochs[2]


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_loader_goes_on(workers):
    def made():
        batches = PersistentBatches(20, 4, overlap=True, seed=1)
        return batches, DataLoader(torch.arange(20), batch_sampler=batches, num_workers=workers)

    whole = [batch.tolist() for batch in made()[1]]
    batches, loader = made()
    assert [batch.tolist() for batch in islice(loader, 3)] == whole[:3]
    state = batches.state_dict()
    state |= {"epoch": 0, "position": 3} if workers else {}
    again, rest = made()
    again.load_state_dict(state)
    assert [batch.tolist() for batch in rest] == whole[3:]


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


OTHERS = {"seed": 1, "n": 25, "batch_size": 3, "kept": 2, "overlap": True, "world_size": 2}
WHOLE = PersistentBatches(24, 4).state_dict()
BAD_STATES = {
    **{f"{name} must be {value} as in the state, got ":
       PersistentBatches(**{"n": 24, "batch_size": 4, name: value}).state_dict()
       for name, value in OTHERS.items()},
    "state must be that of such batches, with batch_size, ep": {"epoch": 0, "position": 0},
    "state must be that of such batches, with batch_size": None,
    "position must be at most the 6 steps of an epoch, got 7": {**WHOLE, "position": 7},
}  # fmt: skip


@pytest.mark.parametrize("message", BAD_STATES)
def test_states_that_are_refused(message):
    with pytest.raises(ValueError, match=f"^{message}"):
        PersistentBatches(24, 4).load_state_dict(BAD_STATES[message])
