"""Stored runs are found, or found to be damaged."""

import os

import numpy as np
import pyarrow.parquet as pq
import pytest

from heavystep.parquet import DamagedError
from heavystep.sweeps.engines import LocalEngine
from heavystep.sweeps.runner import complete
from heavystep.sweeps.store import Store
from tests.helpers.small_figure1 import damage_data
from tests.helpers.told import Told


def damage_cut(path):
    path.write_bytes(path.read_bytes()[:-100])


def damage_empty(path):
    path.write_bytes(b"")


def damage_footer(path):
    content = bytearray(path.read_bytes())
    content[-6] ^= 0xFF
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("damage", [damage_cut, damage_empty, damage_data, damage_footer])
def test_a_damaged_file_is_found_reported_and_run_again(small_figure1, tmp_path, damage):
    figure, store, _ = small_figure1
    copy = Store(tmp_path)
    for path in store.folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    victim = next(iter(figure.runs().values()))
    whole = copy.path(victim).read_bytes()
    damage(copy.path(victim))
    with pytest.raises(DamagedError, match=copy.path(victim).name):
        copy.load(victim)
    progress = Told()
    complete(figure.runs(), copy, progress, engine=LocalEngine(2))
    assert len(progress.notes) == 1
    assert "run again" in progress.notes[0]
    assert progress.finished == 1
    assert copy.path(victim).read_bytes() == whole


def test_any_wrong_bit_is_found_or_changes_nothing(small_figure1, tmp_path):
    """Headers of pages have no checksum; what they may spoil is found by the hash of the numbers."""
    figure, store, results = small_figure1
    key, victim = next(iter(figure.runs().items()))
    whole, copy = store.path(victim).read_bytes(), Store(tmp_path)
    found = 0
    for position in range(0, len(whole), len(whole) // 150):
        content = bytearray(whole)
        content[position] ^= 0x10
        copy.path(victim).write_bytes(bytes(content))
        try:
            loaded = copy.load(victim)
        except DamagedError:
            found += 1
        else:
            for name, values in results[key].metrics.items():
                np.testing.assert_array_equal(loaded.metrics[name], values)
    assert found > 100


def test_other_numbers_under_the_same_specification_are_found(small_figure1, tmp_path):
    figure, store, _ = small_figure1
    run = next(iter(figure.runs().values()))
    table = pq.read_table(store.path(run))
    values = table["gap_last"].to_numpy().copy()
    values[-1] *= 1.0 + 1e-12
    index = table.column_names.index("gap_last")
    pq.write_table(table.set_column(index, "gap_last", [values]), Store(tmp_path).path(run))
    with pytest.raises(DamagedError, match="does not hold the numbers that were written"):
        Store(tmp_path).load(run)


def test_a_file_under_another_name_is_not_taken_for_the_run(small_figure1, tmp_path):
    figure, store, _ = small_figure1
    first, second, *_ = figure.runs().values()
    copy = Store(tmp_path)
    copy.path(first).write_bytes(store.path(second).read_bytes())
    with pytest.raises(DamagedError, match="is not the run that its name says"):
        copy.load(first)


def test_an_interrupted_write_leaves_nothing(small_figure1, tmp_path, monkeypatch):
    figure, _, results = small_figure1
    key, run = next(iter(figure.runs().items()))
    store = Store(tmp_path / "runs")

    def full_disk(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full_disk)
    with pytest.raises(OSError, match="No space left"):
        store.save(run, results[key])
    assert list((tmp_path / "runs").iterdir()) == []
