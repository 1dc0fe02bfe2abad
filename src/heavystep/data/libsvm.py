r"""The LIBSVM text format, read strictly.

A line is a label, then ``index:value`` pairs whose indices start at 1 and ascend, with spaces or
tabs between; ``#`` begins a comment; blank lines count for nothing. A label alone is an empty row.
Numbers are finite decimals. An explicit 0 is an entry like any other.

Choices: a byte order mark at the very start is passed over; a carriage return is part of a line
end and allowed nowhere else; ``qid:`` is an error; a line has at most 2^25 bytes, more than a
million entries, and at most 2^24 blank lines follow each other, so that a file that is no text
cannot fill the memory or take forever.

Blocks of lines are converted at once where a regular expression finds nothing wrong with them.
Everything else goes to :func:`row_of_line`, which decides, and says what is wrong.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from heavystep import validation
from heavystep.arrays import Array
from heavystep.data.compressed import text_blocks
from heavystep.data.labelled import Labelled
from heavystep.sparse import SparseRows

LARGEST_INDEX = 2**31 - 2
"""Columns are int32 and counted from 0; one value is left over."""
LONG_LINE, LONGEST_LINE = 1 << 20, 1 << 25
MOST_BLANK = 1 << 24
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
SHOWN = 30

_DECIMAL = rb"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
NUMBER = re.compile(_DECIMAL)
INDEX = re.compile(rb"[0-9]+")
LINE = re.compile(rb"[ \t]*%b(?:[ \t]+[0-9]+:%b)*[ \t]*" % (_DECIMAL, _DECIMAL))


class Block(NamedTuple):
    """Rows that follow each other; ``counts`` holds the entries of each."""

    labels: Array
    counts: Array
    indices: Array
    values: Array


def read_libsvm(path: Path | str, dim: int | None = None) -> Labelled:
    """Read a file, plain or packed with bzip2, xz or gzip.

    Args:
        path: the file.
        dim: number of columns, for a test file that is to match its training file; default: the
            largest index.

    Raises:
        ValueError: a line is malformed, there is no row, or a packed file is damaged; the message
            names file and line.
        OSError: the file cannot be read.
    """
    with Path(path).open("rb") as file:
        return parse(text_blocks(file, str(path)), str(path), dim)


def parse(texts: Iterable[bytes], name: str, dim: int | None = None) -> Labelled:
    r"""Rows and labels of a text.

    Args:
        texts: the text in blocks, cut anywhere.
        name: what messages call it.
        dim: number of columns; default: the largest index.

    Raises:
        ValueError: a line is malformed, or there is no row.

    >>> data = parse([b"+1 1:0.5 3:2\n-1 # nothing\n"], "example")
    >>> data.labels.tolist(), data.rows.indices.tolist(), data.rows.n, data.rows.dim
    ([1.0, -1.0], [0, 2], 2, 3)
    >>> parse([b"1 2:1 2:1"], "a.txt")
    Traceback (most recent call last):
    ValueError: a.txt, line 1: index 2 after 2; indices must ascend
    """
    if dim is not None:
        validation.integer("dim", dim, 0)
    blocks, number, blank = [], 1, 0
    for lines in whole_lines(texts, name):
        if number == 1:
            lines[0] = lines[0].removeprefix(BYTE_ORDER_MARK)
        block = _rows(lines, number, name, dim)
        number += len(lines)
        if len(block.labels):
            blocks.append(block)
        blank = 0 if len(block.labels) else blank + len(lines)
        if blank > MOST_BLANK:
            raise ValueError(f"{name}, line {number}: more than {MOST_BLANK} blank lines in a row")
    if not blocks:
        raise ValueError(f"{name}: there is no row in this file")
    labels, counts, indices, values = map(np.concatenate, zip(*blocks, strict=True))
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    if dim is None:
        dim = int(indices.max()) + 1 if len(indices) else 0
    return Labelled(SparseRows(indptr, indices, values, dim), labels)


def whole_lines(texts: Iterable[bytes], name: str) -> Iterator[list[bytes]]:
    """Lists of lines without their ends and comments, from a text cut anywhere."""
    number, waiting, length = 1, [b""], 0
    for text in texts:
        body, newline, rest = text.rpartition(b"\n")
        if newline:
            lines = _bare(b"".join([*waiting, body]))
            yield lines
            number, waiting, length = number + len(lines), [], 0
        waiting.append(rest)
        length += len(rest)
        if length > LONGEST_LINE:
            raise ValueError(f"{name}, line {number}: longer than {LONGEST_LINE} bytes")
    yield _bare(b"".join(waiting))


def _bare(text: bytes) -> list[bytes]:
    lines = [line.removesuffix(b"\r") for line in text.split(b"\n")]
    return [line.partition(b"#")[0] for line in lines] if b"#" in text else lines


def _rows(lines: list[bytes], number: int, name: str, dim: int | None) -> Block:
    """The rows of lines, the first of which has this number in the file."""
    block = fast_rows([line for line in lines if line.strip(b" \t")], dim)
    return slow_rows(lines, number, name, dim) if block is None else block


def fast_rows(lines: list[bytes], dim: int | None) -> Block | None:
    """The rows of lines that are not blank; None where something is wrong with one of them."""
    # The expression keeps a record of every pair until its line ends.
    if not all(len(line) <= LONG_LINE and LINE.fullmatch(line) for line in lines):
        return None
    counts = np.fromiter((line.count(b":") for line in lines), np.int64, len(lines))
    tokens = b" ".join(lines).replace(b":", b" ").split()
    # float() rounds correctly.
    numbers = np.fromiter(map(float, tokens), np.float64, len(tokens))
    begins = np.cumsum(2 * counts + 1) - (2 * counts + 1)
    pairs = np.delete(numbers, begins).reshape(-1, 2)
    index, row = pairs[:, 0], np.repeat(np.arange(len(lines)), counts)
    ascends = (np.diff(index) > 0) | (np.diff(row) > 0)
    within = (index >= 1) & (index <= (LARGEST_INDEX if dim is None else min(dim, LARGEST_INDEX)))
    if not (ascends.all() and within.all() and np.isfinite(numbers).all()):
        return None
    return Block(numbers[begins], counts, index.astype(np.int32) - np.int32(1), pairs[:, 1].copy())


def slow_rows(lines: list[bytes], number: int, name: str, dim: int | None) -> Block:
    """The same one line after another; a malformed one is named."""
    labels: list[float] = []
    counts: list[int] = []
    indices: list[int] = []
    values: list[float] = []
    for position, line in enumerate(lines):
        if not line.strip(b" \t"):
            continue
        try:
            label, entries = row_of_line(line, dim)
        except ValueError as error:
            raise ValueError(f"{name}, line {number + position}: {error}") from None
        labels.append(label)
        counts.append(len(entries))
        indices += [index - 1 for index, _ in entries]
        values += [value for _, value in entries]
    return Block(
        np.array(labels, np.float64),
        np.array(counts, np.int64),
        np.array(indices, np.int32),
        np.array(values, np.float64),
    )


def row_of_line(line: bytes, dim: int | None = None) -> tuple[float, list[tuple[int, float]]]:
    """Label and pairs of one line; the definition of the format.

    Args:
        line: without line end and comment, and not blank.
        dim: the largest index allowed.

    Raises:
        ValueError: what is wrong with it.

    >>> row_of_line(b"-1 2:0.5 7:1e3")
    (-1.0, [(2, 0.5), (7, 1000.0)])
    """
    first, *words = filter(None, re.split(rb"[ \t]", line))
    label, entries, last = _number("label", first), [], 0
    for word in words:
        left, colon, right = word.partition(b":")
        if not colon:
            raise ValueError(f"{_shown(word)} is not index:value")
        index = _index(left, dim)
        if index <= last:
            raise ValueError(f"index {index} after {last}; indices must ascend")
        entries.append((index, _number("value", right)))
        last = index
    return label, entries


def _index(word: bytes, dim: int | None) -> int:
    if not INDEX.fullmatch(word):
        raise ValueError(f"index {_shown(word)} is not a whole number")
    digits = word.lstrip(b"0")
    if not digits:
        raise ValueError("index 0; indices start at 1")
    # Python refuses to convert thousands of digits.
    if len(digits) > len(str(LARGEST_INDEX)) or int(digits) > LARGEST_INDEX:
        raise ValueError(f"index {_shown(word)}; the largest index possible is {LARGEST_INDEX}")
    if dim is not None and int(digits) > dim:
        raise ValueError(f"index {int(digits)}; there are {dim} columns")
    return int(digits)


def _number(what: str, word: bytes) -> float:
    if not NUMBER.fullmatch(word) or not np.isfinite(float(word)):
        raise ValueError(f"{what} {_shown(word)} is not a finite number")
    return float(word)


def _shown(word: bytes) -> str:
    """A piece of the file for a message: quoted, escaped, and cut where it is long."""
    return repr(word[:SHOWN])[1:] + ("..." if len(word) > SHOWN else "")
