"""Small files that would fill the memory, or take forever, are refused on the way."""

import bz2
import gzip
import io
import lzma

import pytest

from heavystep.data import compressed, libsvm, read_libsvm
from heavystep.data.compressed import BLOCK, text_blocks

PACKERS = {"bz2": bz2.compress, "xz": lzma.compress, "gz": gzip.compress}
LINES = {"one line": b"1", "blank lines": b"\n", "rows": b"1 1:1  \n"}


def packed(pack, text, streams):
    """So many streams, one after another, of BLOCK bytes each."""
    return pack(text * (BLOCK // len(text))) * streams


@pytest.mark.parametrize("text", LINES.values(), ids=LINES)
@pytest.mark.parametrize("ending", ["bz2", "xz"])
def test_a_small_file_that_unpacks_to_a_huge_one_is_refused(ending, text, tmp_path, monkeypatch):
    monkeypatch.setattr(compressed, "ALLOWED", 4 * BLOCK)
    monkeypatch.setattr(compressed, "RATIO", 10)
    read = []

    def counted(blocks, name):
        return whole_lines((read.append(len(block)) or block for block in blocks), name)

    whole_lines = libsvm.whole_lines
    monkeypatch.setattr(libsvm, "whole_lines", counted)
    path = tmp_path / f"bomb.{ending}"
    path.write_bytes(packed(PACKERS[ending], text, 256))
    size = path.stat().st_size
    with pytest.raises(
        ValueError, match=rf"^{path}: {size} bytes unpack to more than \d+, 10 times"
    ):
        read_libsvm(path)
    assert sum(read) <= 4 * BLOCK + 10 * size


def test_a_line_has_a_limit_that_a_million_entries_keep():
    row = b"1 " + b" ".join(b"%d:0.123456" % index for index in range(1, 1_000_001))
    assert len(row) < libsvm.LONGEST_LINE
    blocks = iter([b"1" * BLOCK] * 1000)
    with pytest.raises(ValueError, match=r"^a, line 1: longer than 33554432 bytes$"):
        list(libsvm.whole_lines(blocks, "a"))
    assert len(list(blocks)) == 1000 - libsvm.LONGEST_LINE // BLOCK - 1


def test_blank_lines_without_end_are_refused(monkeypatch):
    monkeypatch.setattr(libsvm, "MOST_BLANK", 100)
    blocks = iter([b"1 1:1\n", *[b" \t\r\n" * 30] * 1000])
    with pytest.raises(ValueError, match=r"^a, line 122: more than 100 blank lines in a row$"):
        libsvm.parse(blocks, "a")
    assert len(list(blocks)) == 996
    some = [b"1 1:1\n", *[b"\n" * 30] * 3] * 50
    assert libsvm.parse(some, "a").rows.n == 50


@pytest.mark.parametrize("ending", PACKERS)
def test_what_repeats_as_data_do_is_read(ending):
    file = io.BytesIO(packed(PACKERS[ending], b"1 1:1 2:1\n-1 1:1 3:1\n", 8))
    assert sum(map(len, text_blocks(file, "a"))) > 7 * BLOCK
