"""Stored runs are found, or found to be damaged."""

import os
import re
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from heavystep import parquet
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


def timed(small_figure1, folder):
    """A run that says how long it took, in a store of its own."""
    figure, _, results = small_figure1
    key, run = next(iter(figure.runs().items()))
    result, store = replace(results[key], seconds=(0.25,)), Store(folder)
    store.save(run, result)
    return store, run, result


def test_a_name_that_is_no_text_any_more_is_damage(small_figure1, tmp_path):
    """A bit in the name of a column that no letter has."""
    store, run, result = timed(small_figure1, tmp_path)
    content, found = store.path(run).read_bytes(), 0
    for place in (match.start() for match in re.finditer(b"gap_last", content)):
        damaged = content[:place] + bytes([content[place] ^ 0x80]) + content[place + 1 :]
        store.path(run).write_bytes(damaged)
        try:
            loaded = store.load(run)
        except DamagedError:
            found += 1
        else:  # some of it is written twice and read once
            assert loaded.seconds == result.seconds
            for name, values in result.metrics.items():
                np.testing.assert_array_equal(loaded.metrics[name], values)
    assert found > 0


@pytest.mark.parametrize("note", [b"[0.5]", b"[0.25", b'["long"]', b"\xff", b"7"])
def test_a_changed_note_is_damage(small_figure1, tmp_path, note):
    store, run, _ = timed(small_figure1, tmp_path)
    table = pq.read_table(store.path(run))
    metadata = {**table.schema.metadata, b"heavystep.seconds": note}
    pq.write_table(table.replace_schema_metadata(metadata), store.path(run))
    with pytest.raises(DamagedError, match=store.path(run).name):
        store.load(run)
    del metadata[b"heavystep.seconds"]
    pq.write_table(table.replace_schema_metadata(metadata), store.path(run))
    with pytest.raises(DamagedError, match="does not hold the notes that were written"):
        store.load(run)


def test_files_without_a_digest_of_their_notes_are_read(small_figure1, tmp_path):
    """As earlier versions wrote them."""
    store, run, result = timed(small_figure1, tmp_path)
    table = pq.read_table(store.path(run))
    numbers, plus, _ = table.schema.metadata[parquet.CONTENT].partition(b"+")
    assert plus
    earlier = {**table.schema.metadata, parquet.CONTENT: numbers}
    pq.write_table(table.replace_schema_metadata(earlier), store.path(run))
    assert store.load(run).seconds == result.seconds


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
