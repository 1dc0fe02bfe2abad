"""The eight data sets: what the catalogue says is what the files hold; finding and checking them."""

import bz2
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file

from heavystep.data import binary_labels, load
from heavystep.data.catalogue import CATALOGUE, data_set
from heavystep.data.compressed import text_digest
from heavystep.data.locate import data_folder, locate, missing_text, present
from heavystep.data.verify import verify
from tests.helpers import data_sets
from tests.helpers.data_sets import TINY, TINY_TEXT

HERE = [name for name in CATALOGUE if name != "real-sim"]
LABELS = {
    "a9a": {-1: 24720, 1: 7841},
    "cod-rna": {-1: 39690, 1: 19845},
    "ijcnn1": {-1: 45137, 1: 4853},
    "mushrooms": {1: 3916, 2: 4208},
    "phishing": {0: 4898, 1: 6157},
    "svmguide1": {0: 1089, 1: 2000},
    "w8a": {-1: 48270, 1: 1479},
}


def test_the_catalogue_is_the_papers():
    titles = ["a9a", "Cod-RNA", "IJCNN1", "Mushrooms", "Phishing", "real-sim", "SVMguide1", "w8a"]
    assert [entry.title for entry in CATALOGUE.values()] == titles
    assert list(CATALOGUE) == [title.lower() for title in titles]
    for name, entry in CATALOGUE.items():
        assert entry.name == name
        assert entry.published.removesuffix(".bz2") == name
        assert len(bytes.fromhex(entry.text_sha256)) == 32
        assert 0 < entry.positives < entry.n
    assert len({entry.text_sha256 for entry in CATALOGUE.values()}) == 8


@pytest.mark.parametrize("name", HERE)
def test_a_real_file_holds_what_the_catalogue_says(name, monkeypatch, home):
    path = data_sets.require(monkeypatch, name)[name]
    entry = data_set(name)
    assert text_digest(path) == (entry.text_bytes, entry.text_sha256)
    rows, labels = load(name)
    assert (rows.n, rows.dim, len(rows.values)) == (entry.n, entry.dim, entry.entries)
    kinds, counts = np.unique(labels, return_counts=True)
    assert dict(zip(kinds, counts, strict=True)) == LABELS[name]
    assert np.count_nonzero(binary_labels(labels) == 1.0) == entry.positives
    assert entry.positives == list(LABELS[name].values())[-1]
    verify(entry, path)


@pytest.mark.slow
@pytest.mark.parametrize("name", HERE)
def test_scikit_learn_reads_the_same_numbers(name, monkeypatch, home):
    path = data_sets.require(monkeypatch, name)[name]
    matrix, labels = load_svmlight_file(str(path), zero_based=False)
    data = load(name)
    np.testing.assert_array_equal(data.labels, labels)
    np.testing.assert_array_equal(data.rows.indptr, matrix.indptr)
    np.testing.assert_array_equal(data.rows.indices, matrix.indices)
    np.testing.assert_array_equal(data.rows.values, matrix.data)
    assert (data.rows.n, data.rows.dim) == matrix.shape


def test_empty_rows_of_w8a(monkeypatch, home):
    data_sets.require(monkeypatch, "w8a")
    assert np.count_nonzero(np.diff(load("w8a").rows.indptr) == 0) == 4203


def test_the_data_folder(monkeypatch, tmp_path, home):
    monkeypatch.setenv("HEAVYSTEP_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    monkeypatch.setenv("HEAVYSTEP_DATA", "")
    assert data_folder() == home / "data"
    monkeypatch.delenv("HEAVYSTEP_DATA")
    assert data_folder() == home / "data"


def test_a_file_is_found_by_its_name_and_endings(folder):
    assert present(["tiny", "a9a"]) == {}
    for ending in (".gz", ".xz", ".bz2", ""):  # each is preferred to those before
        path = folder / f"tiny{ending}"
        path.write_bytes(TINY_TEXT)
        assert present(["a9a", "tiny"]) == {"tiny": path}
        assert locate("tiny") == path
    assert load("tiny").labels.tolist() == [1.0, 2.0, 2.0]
    assert load("tiny", dim=7).rows.dim == 7


def test_a_folder_of_that_name_is_no_data_set(folder):
    (folder / "tiny").mkdir()
    assert present(["tiny"]) == {}


def test_a_missing_data_set_says_what_to_do(folder):
    for call in (locate, load):
        with pytest.raises(FileNotFoundError) as caught:
            call("real-sim")
        assert caught.value.filename == "real-sim"
        text = caught.value.strerror
        assert text == missing_text(["real-sim"])
        assert len(text.splitlines()) == 1
        for part in (str(folder), ".bz2, .xz, .gz", "heavystep data fetch real-sim",
                     "real-sim.bz2 from https://www.csie.ntu.edu.tw", "HEAVYSTEP_DATA"):  # fmt: skip
            assert part in text
    (folder / "tiny").write_bytes(TINY_TEXT)
    assert missing_text(["tiny"]) == ""
    both = missing_text(["a9a", "tiny", "w8a"])
    assert "heavystep data fetch a9a w8a" in both
    assert "tiny" not in both


def test_the_folder_libsvm_itself_is_a_common_mistake(folder, monkeypatch):
    assert "not libsvm itself" not in missing_text(["a9a"])
    monkeypatch.setenv("HEAVYSTEP_DATA", str(folder))
    assert "not libsvm itself" in missing_text(["a9a"])


def test_an_unknown_name_is_refused(folder):
    for call in (data_set, locate, lambda name: present([name])):
        with pytest.raises(ValueError, match=r"data set must be one of 'a9a', .*, got 'a10a'"):
            call("a10a")


def test_line_ends_do_not_count(folder):
    path = folder / "tiny.bz2"
    path.write_bytes(bz2.compress(TINY_TEXT.replace(b"\n", b"\r\n")))
    verify(TINY, path)


def differently(**changes):
    return replace(TINY, **changes)


WRONG = [
    (TINY_TEXT + b"\n", TINY, r"17 bytes of text, not 16$"),
    (TINY_TEXT.replace(b"0.5", b"0.6"), TINY, r"the sha256 of its text is [0-9a-f]{12}\.\.\., not"),
    (TINY_TEXT, differently(n=4), r"3 rows, not 4$"),
    (TINY_TEXT, differently(dim=4), r"3 columns, not 4$"),
    (TINY_TEXT, differently(entries=4), r"2 entries, not 4$"),
    (TINY_TEXT, differently(positives=1), r"2 positive labels, not 1$"),
]


@pytest.mark.parametrize(("text", "entry", "message"), WRONG)
def test_another_file_is_not_the_published_one(folder, text, entry, message):
    (folder / "tiny").write_bytes(text)
    with pytest.raises(ValueError, match=r"tiny is not the published tiny: .*" + message):
        verify(entry, folder / "tiny")


def test_entries_that_nobody_counted_are_not_compared(folder):
    (folder / "tiny").write_bytes(TINY_TEXT)
    verify(differently(entries=None), folder / "tiny")


def test_loading_by_name_compares_the_text(folder):
    """From the text and from the kept form; any file may be read by its path."""
    for text, message in (
        (TINY_TEXT + b"1 1:1\n", "is not the published tiny: 22 bytes of text, not 16"),
        (TINY_TEXT.replace(b"0.5", b"0.6"), "is not the published tiny: the sha256 of its text"),
    ):
        (folder / "tiny").write_bytes(text)
        for _ in range(2):
            with pytest.raises(ValueError, match=message):
                load("tiny")
        assert load(folder / "tiny").rows.n == text.count(b"\n")
    (folder / "tiny").write_bytes(TINY_TEXT.replace(b"\n", b"\r\n"))
    assert load("tiny").rows.n == 3
