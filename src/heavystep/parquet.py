"""Columns of numbers in a Parquet file that says what they are, and notices a changed number."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from heavystep.arrays import Array
from heavystep.files import write_atomically

SPECIFICATION, CONTENT = b"heavystep.specification", b"heavystep.content"
ENDING = ".parquet"


class DamagedError(Exception):
    """A file cannot be read, or is not what it should be."""


def write(
    path: Path, specification: str, columns: dict[str, Array], notes: dict[str, str] | None = None
) -> None:
    """Write a file under a temporary name, then rename it: a reader sees all of it or none.

    Args:
        path: the file.
        specification: what decides the numbers; a reader has to know it.
        columns: arrays of the same length, by name.
        notes: more texts, by name.
    """
    notes = notes or {}
    content = b"+".join([_digest(columns), _digest_of_notes(notes)])
    metadata = {SPECIFICATION: specification.encode(), CONTENT: content}
    metadata |= {f"heavystep.{name}".encode(): text.encode() for name, text in notes.items()}
    table = pa.table(columns).replace_schema_metadata(metadata)
    write_atomically(path, lambda part: pq.write_table(table, part, write_page_checksum=True))


def read(path: Path, specification: str) -> tuple[dict[str, Array], dict[str, str]] | None:
    """The columns and notes of a file; None if there is no file.

    Args:
        path: the file.
        specification: the one that it must have been written with.

    Raises:
        DamagedError: the file cannot be read, or was not written with this specification, or does
            not hold the numbers that were written.
    """
    if not path.exists():
        return None
    try:
        # Neither read_table nor to_numpy: they import pandas if it is there, which takes a second.
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            table = file.read()
        metadata = table.schema.metadata or {}
        columns = {name: _numbers(table[name]) for name in table.column_names}
        digest, notes = _digest(columns), _notes(metadata)
    except Exception as error:  # what a damaged file makes the reader raise may be anything
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise DamagedError(f"{path.name} cannot be read: {reason}") from None
    if metadata.get(SPECIFICATION) != specification.encode():
        raise DamagedError(f"{path.name} is not the run that its name says")
    numbers, plus, texts = metadata.get(CONTENT, b"").partition(b"+")
    if numbers != digest:
        raise DamagedError(f"{path.name} does not hold the numbers that were written")
    # Files of earlier versions have no digest of their notes.
    if plus and texts != _digest_of_notes(notes):
        raise DamagedError(f"{path.name} does not hold the notes that were written")
    return columns, notes


def _numbers(column: Any) -> Array:
    """A copy of a column's numbers, which may be written to."""
    return np.concatenate([np.from_dlpack(part) for part in column.chunks] or [np.empty(0)])


def specification(path: Path) -> str | None:
    """The specification that a file holds; None if it holds none, or cannot be read.

    Args:
        path: the file.
    """
    try:
        return str((pq.read_schema(path).metadata or {})[SPECIFICATION].decode())
    except Exception:  # as in `read`
        return None


def _notes(metadata: dict[bytes, bytes]) -> dict[str, str]:
    ours = {name: text for name, text in metadata.items() if name.startswith(b"heavystep.")}
    return {
        name.decode().removeprefix("heavystep."): text.decode()
        for name, text in ours.items()
        if name not in (SPECIFICATION, CONTENT)
    }


def _digest_of_notes(notes: dict[str, str]) -> bytes:
    return hashlib.sha256(repr(sorted(notes.items())).encode()).hexdigest().encode()


def _digest(columns: dict[str, Array]) -> bytes:
    """The hash of all numbers, because the checksums of Parquet leave out headers of pages."""
    digest = hashlib.sha256()
    for name, values in columns.items():
        digest.update(name.encode() + b"\0" + np.ascontiguousarray(values).tobytes())
    return digest.hexdigest().encode()
