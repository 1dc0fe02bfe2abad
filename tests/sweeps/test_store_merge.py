"""Runs of several machines in one folder: the longer wins, nothing whole is lost."""

import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from heavystep import parquet
from heavystep.cli.app import app
from heavystep.sweeps.merge import merge
from heavystep.sweeps.output_folder import MARK, claim_folder
from tests.helpers import histories
from tests.helpers.histories import rows, save, spec, store_of


@pytest.fixture
def folders(tmp_path):
    """A source with the mark of ours, and where to merge it into."""
    claim_folder(tmp_path / "source")
    return tmp_path / "source", tmp_path / "out"


def merged(source, out):
    notes = []
    (count,) = merge([source], out, notes.append).values()
    return (count.copied, count.left_alone, count.damaged), notes


def epochs(out, run):
    return store_of(out).load(run).epochs


def test_what_is_missing_is_copied_with_its_checkpoint(folders):
    source, out = folders
    run = spec()
    save(source, run, rows(5, loss=0.25), "cuda", checkpoint=b"network")
    assert merged(source, out) == ((1, 0, 0), [])
    assert store_of(out).load(run) == store_of(source).load(run)
    assert store_of(out).checkpoint(run).read_bytes() == b"network"
    assert merged(source, out) == ((0, 1, 0), [])


def test_a_run_that_is_there_gets_the_checkpoint_that_it_lacks(folders):
    source, out = folders
    save(source, spec(), rows(5, loss=0.25), checkpoint=b"network")
    save(out, spec(), rows(5, loss=0.25))
    mark(out)
    assert merged(source, out) == ((1, 0, 0), [])
    assert store_of(out).checkpoint(spec()).read_bytes() == b"network"
    assert merged(source, out) == ((0, 1, 0), [])


def test_the_longer_history_wins_whichever_side_it_is_on(folders):
    source, out = folders
    grown, shorter = spec(seed=0), spec(seed=1)
    save(source, grown, rows(7), checkpoint=b"at 7")
    save(out, grown, rows(5), checkpoint=b"at 5")
    save(source, shorter, rows(5), checkpoint=b"at 5")
    save(out, shorter, rows(7), checkpoint=b"at 7")
    mark(out)
    assert merged(source, out) == ((1, 1, 0), [])
    for run in (grown, shorter):
        assert epochs(out, run) == 7
        assert store_of(out).checkpoint(run).read_bytes() == b"at 7"


def mark(out):
    (out / MARK).write_text("")


def test_a_shorter_checkpoint_stays_where_no_longer_one_comes(folders):
    source, out = folders
    save(source, spec(), rows(7))
    save(out, spec(), rows(5), checkpoint=b"at 5")
    mark(out)
    merged(source, out)
    assert epochs(out, spec()) == 7
    assert store_of(out).checkpoint(spec()).read_bytes() == b"at 5"


def test_a_checkpoint_of_the_first_epoch_goes_along(folders):
    source, out = folders
    path = store_of(source).checkpoint(spec())
    path.parent.mkdir(parents=True)
    path.write_bytes(b"amid epoch 1")
    assert merged(source, out) == ((1, 0, 0), [])
    assert store_of(out).checkpoint(spec()).read_bytes() == b"amid epoch 1"
    assert merged(source, out) == ((0, 0, 0), [])
    store_of(out).checkpoint(spec()).unlink()
    save(out, spec(), rows(3))
    assert merged(source, out) == ((0, 0, 0), [])


def test_a_tie_of_different_numbers_stays_and_is_told(folders):
    source, out = folders
    same, other = spec(seed=0), spec(seed=1)
    save(out, same, rows(5, step=np.nan))
    save(source, same, rows(5, step=np.nan, seconds=9.0))  # another machine, the same numbers
    save(out, other, rows(5, loss=0.5), checkpoint=b"ours")
    save(source, other, rows(5, loss=0.6), checkpoint=b"theirs")
    mark(out)
    counts, notes = merged(source, out)
    assert counts == (0, 2, 0)
    (note,) = notes
    assert "cifar10 SHB-PS seed 1" in note
    assert "other numbers" in note
    assert store_of(out).load(other).history[0].loss == 0.5
    assert store_of(out).checkpoint(other).read_bytes() == b"ours"


def test_a_damaged_file_is_named_and_the_others_are_merged(folders):
    source, out = folders
    for seed in range(3):
        save(source, spec(seed=seed), rows(5))
    victim = store_of(source).path(spec(seed=1))
    victim.write_bytes(victim.read_bytes()[:-100])
    misnamed = store_of(source).path(spec(seed=4))
    misnamed.write_bytes(store_of(source).path(spec(seed=0)).read_bytes())
    result = CliRunner().invoke(app, ["store", "merge", str(source), "--out", str(out)])
    assert result.exit_code == 1
    assert "2 copied, 0 left alone, 2 damaged" in result.stdout
    for path in (victim, misnamed):
        assert path.name in result.stderr
        assert not (store_of(out).folder / path.name).exists()
    assert epochs(out, spec(seed=0)) == epochs(out, spec(seed=2)) == 5


def test_a_damaged_file_at_home_is_replaced(folders):
    source, out = folders
    save(source, spec(), rows(3))
    save(out, spec(), rows(9))
    mark(out)
    store_of(out).path(spec()).write_bytes(b"")
    counts, notes = merged(source, out)
    assert counts == (1, 0, 0)
    assert "it is replaced" in notes[0]
    assert epochs(out, spec()) == 3


def test_plain_runs_are_copied_where_they_are_missing(folders):
    source, out = folders
    columns = {"k": np.arange(3)}
    for name in ("one", "two"):
        parquet.write(source / "figure1" / "runs" / f"{name}.parquet", name, columns)
    theirs = out / "figure1" / "runs" / "two.parquet"
    parquet.write(theirs, "two", columns)
    before = theirs.stat().st_mtime_ns
    mark(out)
    (source / "figure1" / "runs" / "broken.parquet").write_bytes(b"PAR1")
    counts, _ = merged(source, out)
    assert counts == (1, 1, 1)
    found = {path.name for path in theirs.parent.iterdir()}
    assert found == {"one.parquet", "two.parquet"}
    assert theirs.stat().st_mtime_ns == before


def test_a_source_that_is_not_ours_is_refused_before_anything_is_written(folders, tmp_path):
    source, out = folders
    save(source, spec(), rows(3))
    other = tmp_path / "photos"
    other.mkdir()
    command = ["store", "merge", str(source), str(other), "--out", str(out)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2
    assert result.stderr.strip() == f"{other} is not an output folder of heavystep"
    assert not out.exists()


def test_a_source_without_its_mark_is_known_by_its_runs(folders):
    source, out = folders
    save(source, spec(), rows(3))
    (source / MARK).unlink()
    assert merged(source, out)[0] == (1, 0, 0)


@pytest.mark.parametrize("at", ["checkpoint", "history"])
def test_stopped_between_checkpoint_and_history_it_does_the_rest_later(at, folders, monkeypatch):
    source, out = folders
    interrupted = {"checkpoint": (shutil, "copyfile"), "history": (histories.TrainingStore, "save")}
    save(source, spec(), rows(7), checkpoint=b"at 7")
    save(out, spec(), rows(5), checkpoint=b"at 5")
    mark(out)
    with monkeypatch.context() as patch:
        patch.setattr(*interrupted[at], interrupt)
        with pytest.raises(KeyboardInterrupt):
            merge([source], out, print)
    assert epochs(out, spec()) == 5
    assert merged(source, out)[0] == (1, 0, 0)
    assert epochs(out, spec()) == 7
    assert store_of(out).checkpoint(spec()).read_bytes() == b"at 7"


def interrupt(*arguments):
    raise KeyboardInterrupt


def test_the_list_shows_epochs_and_devices(folders):
    source, _ = folders
    save(source, spec(), rows(7), "some GPU", checkpoint=b"x")
    save(source, spec("cifar100", "SLS", 2), rows(3))
    (store_of(source).folder / "junk.parquet").write_bytes(b"")
    result = CliRunner().invoke(app, ["store", "list", "--out", str(source)])
    assert result.exit_code == 0
    lines = [line.split("│")[1:-1] for line in result.stdout.splitlines() if "│" in line]
    cells = [[cell.strip() for cell in line] for line in lines]
    assert cells == [
        ["cifar10", "SHB-PS", "0", "small", "32", "7", "checkpoint", "some GPU, float32"],
        ["cifar100", "SLS", "2", "small", "32", "3", "-", "cpu, float32"],
    ]
    assert "junk.parquet" in result.stderr


def test_an_empty_list_says_so(tmp_path):
    result = CliRunner().invoke(app, ["store", "list", "--out", str(tmp_path)])
    assert result.exit_code == 0
    assert "no training runs" in result.stdout


@pytest.mark.parametrize("epochs_done", [0, 5])
def test_a_link_in_the_place_of_a_checkpoint_is_not_followed(folders, tmp_path, epochs_done):
    source, out = folders
    run = spec()
    (tmp_path / "key").write_text("secret")
    if epochs_done:
        save(source, run, rows(epochs_done, loss=0.25), "cuda")
    link = store_of(source).checkpoint(run)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(tmp_path / "key")
    count, (note,) = merged(source, out)
    assert count == (bool(epochs_done), 0, 1)
    assert note.endswith(f"{link.name} is a link; it is left out")
    assert not store_of(out).checkpoint(run).exists()
