"""Parsed files kept as checked binaries, because reading text is slow.

``a9a.bz2`` is kept in ``a9a.bz2.csr`` beside it. Where that folder must not or cannot be written
to, or holds a file of that name that is not from here, it is kept under the user's cache folder,
named after the hash of the source. What is kept
counts only while everything matches: the source's bytes, the parser's own code, and the hash of
the kept file itself. Otherwise the text is parsed anew. Failing to keep something is no error.
Who may not read the text may not read what is kept of it either.

The file: a magic line, sha256 of all that follows, length of the header, header in JSON padded to
eight bytes, then indptr, labels, values and indices, little-endian.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from heavystep import validation
from heavystep.arrays import Array
from heavystep.data.compressed import Digest, text_blocks
from heavystep.data.labelled import Labelled
from heavystep.data.libsvm import parse, read_libsvm
from heavystep.data.locate import may_write
from heavystep.data.published import FileDigest
from heavystep.files import (
    cache_home,
    hash_sources,
    permissions,
    remove_leftovers,
    write_atomically,
)
from heavystep.sparse import SparseRows

MAGIC = b"heavystep csr 1\n"
OURS = re.compile(rb"heavystep csr [0-9]+\n")
"""How every version of such a file begins."""
ENDING = ".csr"
DIGEST, LENGTH = 32, 8
SOURCES = ("data/libsvm.py", "data/compressed.py", "data/cache.py", "sparse.py")


@cache
def parser_hash() -> str:
    """Hash of the code that a kept file comes from."""
    return hash_sources(SOURCES)


class Loaded(NamedTuple):
    """What was read, and what identifies the text it came from."""

    data: Labelled
    text: FileDigest


def load_file(path: Path | str, dim: int | None = None) -> Labelled:
    """A LIBSVM file, from its kept form where there is one that matches.

    Args:
        path: the text, plain or packed.
        dim: number of columns; default: the largest index.

    Raises:
        ValueError: a line is malformed, or an index exceeds ``dim``.
        OSError: the file cannot be read.
    """
    if dim is not None:
        validation.integer("dim", dim, 0)
    data = load_identified(path).data
    if dim is None or dim == data.rows.dim:
        return data
    if dim < data.rows.dim:  # parsed once more, because the message names the line
        return read_libsvm(path, dim)
    rows = SparseRows(data.rows.indptr, data.rows.indices, data.rows.values, dim)
    return Labelled(rows, data.labels)


def load_identified(path: Path | str) -> Loaded:
    """The same with size and hash of the text, which are kept, too.

    Args:
        path: the text, plain or packed.

    Raises:
        ValueError: a line is malformed.
        OSError: the file cannot be read.
    """
    path = Path(path)
    with path.open("rb") as file:
        source = hashlib.file_digest(file, "sha256").hexdigest()
        loaded = _kept(path, source)
        if loaded is None:
            file.seek(0)
            digest = Digest()
            data = parse(digest.passing(text_blocks(file, str(path))), str(path))
            loaded = Loaded(data, digest.value())
            _keep(path, source, loaded)
    return loaded


def places(path: Path, source: str) -> Iterator[Path]:
    """Where the kept form of a file may be, the preferred place first.

    Args:
        path: the text.
        source: hash of its bytes as stored.
    """
    yield path.with_name(path.name + ENDING)
    with suppress(OSError):  # a user may have no home directory
        yield cache_home() / "data" / "parsed" / (source + ENDING)


def _kept(path: Path, source: str) -> Loaded | None:
    for place in filter(_is_ours, places(path, source)):
        with suppress(OSError, ValueError, KeyError, TypeError):
            return unpack(bytearray(place.read_bytes()), source)
    return None


def _keep(path: Path, source: str, loaded: Loaded) -> None:
    content = pack(loaded, source)
    for place in filter(lambda place: may_write(place.parent), places(path, source)):
        with suppress(OSError):
            # In the cache folder nobody else uses a name of 64 digits.
            if place.parent == path.parent and not _may_replace(place):
                continue
            remove_leftovers(place.parent)
            write_atomically(place, lambda part: part.write_bytes(content), permissions(path))
            return


def _may_replace(place: Path) -> bool:
    """Whether a place is free or holds a file from here; a link is somebody's own."""
    return not place.is_symlink() and (not place.exists() or _is_ours(place))


def _is_ours(place: Path) -> bool:
    """Whether a file begins as those that are kept; a pipe, say, is not even opened."""
    with suppress(OSError):
        if place.is_file():
            with place.open("rb") as file:
                return OURS.match(file.read(len(MAGIC) + 8)) is not None
    return False


def _arrays(n: int, entries: int) -> list[tuple[str, str, int]]:
    """Name, type and length of the arrays in the file; the widest first, so that all align."""
    return [
        ("indptr", "<i8", n + 1),
        ("labels", "<f8", n),
        ("values", "<f8", entries),
        ("indices", "<i4", entries),
    ]


def pack(loaded: Loaded, source: str) -> bytes:
    """The kept form.

    Args:
        loaded: what was parsed.
        source: hash of the text's bytes as stored.
    """
    data, digest = loaded
    rows = data.rows
    header = {"source": source, "parser": parser_hash(), "n": rows.n, "dim": rows.dim}
    header |= {"text_size": digest.size, "text_sha256": digest.sha256}
    text = json.dumps(header | {"entries": len(rows.values)}).encode()
    text += b" " * (-len(text) % 8)
    arrays: dict[str, Array] = {"labels": data.labels, **vars(rows)}
    body = [len(text).to_bytes(LENGTH, "little"), text]
    for name, kind, _ in _arrays(rows.n, len(rows.values)):
        body.append(arrays[name].astype(kind).tobytes())
    content = b"".join(body)
    return MAGIC + hashlib.sha256(content).digest() + content


def unpack(content: bytearray, source: str) -> Loaded:
    """What was kept; the arrays share ``content``, and may be written to.

    Args:
        content: the kept form.
        source: hash that the text's bytes have now.

    Raises:
        ValueError: damaged, or made from other bytes or by other code.
    """
    view = memoryview(content)
    begin = len(MAGIC) + DIGEST
    digest = hashlib.sha256(view[begin:]).digest()
    if view[:begin] != MAGIC + digest:
        raise ValueError("not a whole file of this kind")
    at = begin + LENGTH + int.from_bytes(view[begin : begin + LENGTH], "little")
    header: dict[str, Any] = json.loads(bytes(view[begin + LENGTH : at]))
    if (header["source"], header["parser"]) != (source, parser_hash()):
        raise ValueError("made from another text or by another parser")
    arrays = {}
    for name, kind, length in _arrays(header["n"], header["entries"]):
        array = np.frombuffer(content, kind, length, at)
        arrays[name] = array.astype(array.dtype.newbyteorder("="), copy=False)
        at += array.nbytes
    if at != len(content):
        raise ValueError("longer than its arrays")
    labels = arrays.pop("labels")
    data = Labelled(SparseRows(**arrays, dim=header["dim"]), labels)
    return Loaded(data, FileDigest(header["text_size"], header["text_sha256"]))
