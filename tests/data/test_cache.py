"""Kept binaries: used when they match, never trusted when they do not, and never in the way."""

import bz2
import os
import shutil
from pathlib import Path

import pytest

from heavystep import files
from heavystep.data import cache, load, read_libsvm
from heavystep.data.cache import MAGIC, load_file, load_identified, pack, unpack
from heavystep.data.compressed import text_digest
from tests.helpers.data_sets import assert_same, files_under

TEXT = b"1 1:0.1 3:2\n-1\n1 2:-0 3:1e-300\n"
OTHER = b"1 1:0.2 3:2\n-1\n1 2:-0 3:1e-300\n"


@pytest.fixture
def source(tmp_path, home):
    path = tmp_path / "files" / "a.bz2"
    path.parent.mkdir()
    path.write_bytes(bz2.compress(TEXT))
    return path


def kept_beside(source):
    return source.with_name("a.bz2.csr")


def no_parsing(monkeypatch):
    def refuse(*arguments):
        raise AssertionError("parsed again")

    monkeypatch.setattr(cache, "parse", refuse)


def test_the_second_load_reads_what_was_kept(source, home, monkeypatch):
    first = load_file(source)
    assert_same(first, read_libsvm(source))
    assert files_under(source.parent) == ["a.bz2", "a.bz2.csr"]
    assert not home.exists()
    no_parsing(monkeypatch)
    second = load_file(source)
    assert_same(second, first)
    for array in (second.labels, second.rows.indptr, second.rows.indices, second.rows.values):
        assert array.flags.writeable
        assert array.flags.aligned
        assert array.dtype.isnative


def test_rows_without_entries_are_kept(source, monkeypatch):
    source.write_bytes(b"1\n2\n")
    first = load_file(source)
    no_parsing(monkeypatch)
    assert_same(load_file(source), first)


def test_columns_can_be_asked_for_with_a_kept_file(source):
    for _ in range(2):
        assert load_file(source).rows.dim == 3
        assert load_file(source, dim=8).rows.dim == 8
        with pytest.raises(ValueError, match=r"a\.bz2, line 1: index 3; there are 2 columns"):
            load_file(source, dim=2)
        with pytest.raises(TypeError, match="dim must be an int"):
            load_file(source, dim="3")


DAMAGES = {
    "cut": lambda content: content[:-1],
    "longer": lambda content: content + b"\0",
    "number": lambda content: content[:-5] + bytes([content[-5] ^ 1]) + content[-4:],
    "columns": lambda content: content.replace(b'"dim": 3', b'"dim": 9'),
    "version": lambda content: content.replace(b"csr 1", b"csr 0"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_parsed_anew_and_replaced(source, damage):
    first = load_file(source)
    whole = kept_beside(source).read_bytes()
    assert damage(whole) != whole
    kept_beside(source).write_bytes(damage(whole))
    assert_same(load_file(source), first)
    assert kept_beside(source).read_bytes() == whole


FOREIGN = {
    "matrix": b"%%MatrixMarket matrix coordinate real general\n",
    "data set": TEXT,
    "empty": b"",
    "about ours": b"heavystep csr files are kept here\n",
    "beginning as ours": MAGIC[:-3],
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_a_file_of_another_is_never_touched(source, home, content, monkeypatch):
    beside = kept_beside(source)
    beside.write_bytes(content)
    os.utime(beside, (1, 1))
    first = load_file(source)
    assert_same(first, read_libsvm(source))
    assert len(files_under(home / "data" / "parsed")) == 1
    no_parsing(monkeypatch)
    assert_same(load_file(source), first)
    assert beside.read_bytes() == content
    assert beside.stat().st_mtime == 1
    assert files_under(source.parent) == ["a.bz2", "a.bz2.csr"]


@pytest.mark.parametrize("target", ["nothing", "a file of ours"])
def test_a_link_of_another_stays_a_link(source, home, target):
    beside, elsewhere = kept_beside(source), source.with_name("elsewhere")
    if target == "a file of ours":
        load_file(source)
        beside.rename(elsewhere)
        source.write_bytes(OTHER)  # what the link leads to is out of date
    before = elsewhere.read_bytes() if elsewhere.exists() else None
    beside.symlink_to(elsewhere)
    assert_same(load_file(source), read_libsvm(source))
    assert beside.is_symlink()
    assert (elsewhere.read_bytes() if elsewhere.exists() else None) == before


def test_what_is_no_file_is_not_waited_for(source, home):
    os.mkfifo(kept_beside(source))
    assert_same(load_file(source), read_libsvm(source))
    assert kept_beside(source).is_fifo()


def test_a_file_that_cannot_be_looked_at_is_left_alone(source, home, monkeypatch):
    kept_beside(source).write_bytes(b"private")

    def refuse(path, *arguments, **named):
        if path == kept_beside(source):
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *arguments, **named)

    opened = Path.open
    monkeypatch.setattr(Path, "open", refuse)
    load_file(source)
    monkeypatch.undo()
    assert kept_beside(source).read_bytes() == b"private"


def test_the_cache_folder_replaces_what_is_damaged_from_its_first_byte(source, home, monkeypatch):
    kept_beside(source).mkdir()
    first = load_file(source)
    (kept,) = (home / "data" / "parsed").iterdir()
    kept.write_bytes(b"")
    load_file(source)
    no_parsing(monkeypatch)
    assert_same(load_file(source), first)


def test_any_wrong_byte_is_noticed(source):
    loaded = load_identified(source)
    whole = pack(loaded, "source")
    assert_same(unpack(bytearray(whole), "source").data, loaded.data)
    assert unpack(bytearray(whole), "source").text == loaded.text == text_digest(source)
    for at in range(len(whole)):
        wrong = bytearray(whole)
        wrong[at] ^= 0x04
        with pytest.raises(ValueError, match="not a whole file"):
            unpack(wrong, "source")
    for length in range(len(whole)):
        with pytest.raises(ValueError, match="not a whole file"):
            unpack(bytearray(whole[:length]), "source")


def test_another_text_of_the_same_size_and_age_is_parsed(source):
    source.write_bytes(TEXT)
    os.utime(source, (1, 1))
    load_file(source)
    source.write_bytes(OTHER)
    os.utime(source, (1, 1))
    assert load_file(source).rows.values[0] == 0.2
    assert load_file(source).rows.values[0] == 0.2


def test_another_parser_parses_anew(source, monkeypatch):
    load_file(source)
    before = kept_beside(source).read_bytes()
    monkeypatch.setattr(cache, "parser_hash", lambda: "another")
    load_file(source)
    assert kept_beside(source).read_bytes() != before


@pytest.mark.parametrize(
    "name", ["data/libsvm.py", "data/compressed.py", "data/cache.py", "sparse.py"]
)
def test_a_change_of_its_code_is_another_parser(name, tmp_path, monkeypatch):
    shutil.copytree(files.PACKAGE, tmp_path / "copy", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(files, "PACKAGE", tmp_path / "copy")
    before = cache.parser_hash.__wrapped__()
    assert before == cache.parser_hash.__wrapped__()
    with (tmp_path / "copy" / name).open("a") as code:
        code.write("# changed")
    assert cache.parser_hash.__wrapped__() != before


def test_a_read_only_folder_is_left_alone(source, home, monkeypatch):
    source.parent.chmod(0o555)
    try:
        first = load_file(source)
        assert files_under(source.parent) == ["a.bz2"]
        assert len(files_under(home / "data" / "parsed")) == 1
        no_parsing(monkeypatch)
        assert_same(load_file(source), first)
    finally:
        source.parent.chmod(0o755)


def test_a_file_kept_in_a_read_only_folder_is_used(source, home, monkeypatch):
    first = load_file(source)
    source.parent.chmod(0o555)
    no_parsing(monkeypatch)
    try:
        assert_same(load_file(source), first)
    finally:
        source.parent.chmod(0o755)
    assert not home.exists()


def test_when_writing_beside_fails_the_cache_folder_serves(source, home, monkeypatch):
    kept_beside(source).mkdir()  # nothing can be renamed to it
    first = load_file(source)
    assert files_under(source.parent) == ["a.bz2"]
    no_parsing(monkeypatch)
    assert_same(load_file(source), first)


def test_the_cache_folder_knows_files_by_what_is_in_them(source, home, tmp_path, monkeypatch):
    kept_beside(source).mkdir()
    first = load_file(source)
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    shutil.copy(source, moved / "b")
    no_parsing(monkeypatch)
    assert_same(load_file(moved / "b"), first)


def test_when_nothing_can_be_written_the_data_are_read_all_the_same(source, home):
    kept_beside(source).mkdir()
    home.write_text("a file where a folder should be")
    assert_same(load_file(source), read_libsvm(source))
    assert files_under(source.parent) == ["a.bz2"]


def test_an_interrupted_write_leaves_nothing(source, home, monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        load_file(source)
    assert files_under(source.parent) == ["a.bz2"]


def test_a_malformed_text_is_not_kept(source):
    source.write_bytes(b"1 1:2\n1 1:x\n")
    for _ in range(2):
        with pytest.raises(ValueError, match="line 2: value 'x'"):
            load_file(source)
    assert files_under(source.parent) == ["a.bz2"]


def test_load_takes_a_path(source):
    assert_same(load(source), read_libsvm(source))
    assert_same(load(str(source)), read_libsvm(source))
