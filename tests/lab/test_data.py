"""Data sets: found, read as published, refused if they are not, fetched whole or not at all."""

import bz2
import gzip
import io
import lzma
import tarfile
import threading
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from heavystep.lab import data
from heavystep.lab.data import LIBSVM, SETS
from tests.helpers import data_sets, tiny_libsvm
from tests.helpers.data_sets import changed, file_of, tiny_cifar, write

# pooch leaves the socket of a broken download to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
PACKED = {"": bytes, ".bz2": bz2.compress, ".xz": lzma.compress, ".gz": gzip.compress}
VERSE = b"to be, or not to be,\nthat is"
VERSE_SET = replace(
    SETS["tinyshakespeare"], name="verse", files=file_of("text/verse.txt", VERSE), n=len(VERSE)
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty data folder."""
    monkeypatch.setenv("HEAVYSTEP_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("no_proxy", "*")  # the server on this machine is asked directly
    return tmp_path / "data"


# Reading


@pytest.mark.parametrize(("ending", "named"), [*zip(PACKED, PACKED, strict=True), (".gz", ".xz")])
def test_the_first_bytes_say_how_a_file_is_packed(ending, named, tmp_path):
    path = tmp_path / f"rows{named}"
    path.write_bytes(PACKED[ending](b"1 1:0.5 3:-2e-3\n-1\r\n+1 2:7 # comment\n"))
    found = data.load(path)
    assert found.targets.tolist() == [1.0, -1.0, 1.0]
    assert found.inputs.indptr.tolist() == [0, 2, 2, 3]
    assert found.inputs.indices.tolist() == [0, 2, 1]
    assert found.inputs.data.tolist() == [0.5, -2e-3, 7.0]
    assert found.inputs.shape[1] == 3
    assert [each.name for each in tmp_path.iterdir()] == [path.name]  # nothing beside it


WRONG = {
    "no rows": b" \n",
    "no number": b"1 1:x\n",
    "index 0": b"1 0:1\n",
    "twice": b"1 2:1 2:3\n",
    "not a number": b"1 1:nan\n",
    "infinite": b"1 1:1e999\n",
    "cut bz2": bz2.compress(b"1 1:1\n" * 999)[:-9],
    "damaged gz": gzip.compress(b"1 1:1\n" * 999)[:40] + b"xx",
    "damaged xz": lzma.compress(b"1 1:1\n" * 999)[:40],
}


@pytest.mark.parametrize("content", WRONG.values(), ids=WRONG)
def test_what_is_no_libsvm_file_is_refused_in_one_line(content, tmp_path):
    (tmp_path / "rows").write_bytes(content)
    with pytest.raises(ValueError, match=str(tmp_path / "rows")) as caught:
        data.load(tmp_path / "rows")
    assert "\n" not in str(caught.value)


# The catalogue


def test_the_larger_of_two_labels_is_positive():
    assert data.binary_labels(np.array([2.0, 1.0, 1.0])).tolist() == [1.0, -1.0, -1.0]
    with pytest.raises(ValueError, match="exactly two values, got 3: 0, 1, 2"):
        data.binary_labels(np.array([0.0, 1.0, 2.0]))


def test_line_ends_do_not_count_and_anything_else_does(tmp_path, monkeypatch):
    with tiny_libsvm.folder(tmp_path / "data", ["a9a"]) as libsvm:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "a9a").write_text("1 1:1\n")  # a name is the data set
        text = (libsvm / "a9a").read_bytes()
        expected = data.load("a9a")
        assert expected.inputs.shape[0] == tiny_libsvm.ROWS
        (libsvm / "a9a").write_bytes(text.replace(b"\n", b"\r\n"))
        np.testing.assert_array_equal(data.load("a9a").inputs.data, expected.inputs.data)
        for damaged in (text[:-8], text.replace(b"6:1", b"6:2", 1)):
            (libsvm / "a9a").write_bytes(damaged)
            for read in (data.load, data.verify):
                with pytest.raises(ValueError, match="is not the published a9a: "):
                    read("a9a")


def test_what_is_missing_is_told_in_one_line(folder):
    for name, known in SETS.items():
        text, fetch = data.missing_text([name]), f"heavystep data fetch {name}"
        for part in (name, fetch, known.url, "https://", "HEAVYSTEP_DATA", str(folder)):
            assert part in text
        assert "\n" not in text
        with pytest.raises(FileNotFoundError):
            data.verify(name)
    with pytest.raises(ValueError, match="data set must be one of"):
        data.present(["a9b"])


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_images_are_read_as_they_are(name, folder):
    entry, contents = tiny_cifar(name)
    write(folder, contents)
    with changed(**{name: entry}):
        train, test = data.load_cifar(name)
        assert data.verify(name).name == next(iter(entry.files)).partition("/")[0]
    *parts, last = (np.frombuffer(each, np.uint8) for each in contents.values())
    width = 3072 + (1 if name == "cifar10" else 2)
    expected = np.concatenate(parts).reshape(-1, width)
    np.testing.assert_array_equal(train.targets, expected[:, width - 3073])
    np.testing.assert_array_equal(train.inputs.reshape(-1, 3072), expected[:, width - 3072 :])
    assert test.inputs.shape == (len(last) // width, 3, 32, 32)


@pytest.mark.parametrize("damage", ["bit", "cut", "gone"])
def test_damaged_images_are_refused(damage, folder):
    entry, contents = tiny_cifar("cifar10")
    place = list(entry.files)[2]
    changes = {"bit": b"\x01" + contents[place][1:], "cut": contents[place][:-1]}
    whole = {**contents, place: changes.get(damage)}
    write(folder, {name: content for name, content in whole.items() if content})
    with changed(cifar10=entry), pytest.raises((ValueError, OSError), match=r"cifar10|CIFAR"):
        data.load_cifar("cifar10")


def test_a_text_is_read(folder):
    write(folder, {"text/verse.txt": VERSE.replace(b"\n", b"\r\n")})
    with changed(verse=VERSE_SET):
        assert data.load_text("verse") == VERSE.decode()


@pytest.mark.parametrize("name", SETS)
def test_the_published_ones_that_are_here(name, monkeypatch):
    data_sets.require(monkeypatch, name)
    data.verify(name)
    if name in LIBSVM:
        found = data.load(name)
        counts = *found.inputs.shape, int((found.targets == found.targets.max()).sum())
        assert counts == (SETS[name].n, SETS[name].dim, SETS[name].positives)


# Fetching


@contextmanager
def published(entry, **pages):
    """A function that fetches a data set from a page of a site, which may fail."""

    class Site(BaseHTTPRequestHandler):
        def do_GET(self):
            path = self.path.strip("/")
            if path == "garbage":
                self.wfile.write(b"no status\nline\r\n\r\n")
                return
            body = VERSE if path == "cut" else pages.get(path, b"gone")
            self.send_response(200 if path in (*pages, "cut") else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[:10] if path == "cut" else body)

        def log_message(self, *arguments):
            pass

    def fetch(page):
        url = f"http://127.0.0.1:{server.server_port}/{page}"
        with changed(**{entry.name: replace(entry, url=url)}):
            return data.fetch(entry.name)

    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield fetch
        finally:
            server.shutdown()
            thread.join()


def files_in(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_a_file_is_fetched_checked_and_in_its_place(folder):
    text, positives = tiny_libsvm.text(3)
    known = file_of("libsvm/ijcnn1", text.encode())
    entry = replace(SETS["ijcnn1"], files=known, positives=positives)
    packed = bz2.compress(text.encode())
    pages = {"good.bz2": packed, "bad.bz2": packed[:-4] + b"oops"}
    with published(entry, **pages) as fetch:
        with pytest.raises(ValueError, match=r"damaged|not the published"):
            fetch("bad.bz2")
        assert files_in(folder) == []
        assert fetch("good.bz2") == folder / "libsvm" / "ijcnn1"
        assert (folder / "libsvm" / "ijcnn1").read_text() == text


@pytest.mark.parametrize("page", ["nowhere", "cut", "garbage"])
def test_failures_of_the_network_are_one_line(page, folder):
    with (
        published(VERSE_SET) as fetch,
        pytest.raises(OSError, match="cannot be fetched from") as caught,
    ):
        fetch(page)
    assert "\n" not in str(caught.value.strerror)
    assert files_in(folder) == []


def test_another_text_is_refused_and_a_large_one_is_not_unpacked(folder, monkeypatch):
    monkeypatch.setattr(data, "LARGEST", len(VERSE))
    bomb = gzip.compress(VERSE + b"1" * 10_000_000)
    with published(VERSE_SET, other=VERSE.upper(), bomb=bomb) as fetch:
        with pytest.raises(ValueError, match="is not the published verse: its sha256 is"):
            fetch("other")
        assert files_in(folder) == []
        assert fetch("bomb") == folder / "text" / "verse.txt"


def archive(contents):
    """A packed archive of files; those without content are links out of it."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content or b"")
            if content is None:
                member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tar.addfile(member, io.BytesIO(content or b""))
    return packed.getvalue()


def test_of_an_archive_only_the_expected_files_are_written(folder, tmp_path):
    entry, contents = tiny_cifar("cifar10")
    first = next(iter(entry.files))
    outside = {"../../outside": b"x", "cifar-10-batches-bin/more.bin": b"y", "/abs": b"z"}
    pages = {
        "good": archive(contents | outside),
        "short": archive({place: content for place, content in contents.items() if place != first}),
        "link": archive({**contents, first: None}),
        "other": archive({**contents, first: contents[first][::-1]}),
        "half": archive(contents)[:-200],
        "text": b"no archive",
    }
    with published(entry, **pages) as fetch:
        for page in ("short", "link", "other", "half", "text"):
            with pytest.raises(ValueError, match=r"archive|has no|not the published"):
                fetch(page)
            assert files_in(tmp_path) == []
        assert fetch("good") == folder / "cifar-10-batches-bin"
        assert files_in(tmp_path) == sorted(f"data/{place}" for place in contents)
