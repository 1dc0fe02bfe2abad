"""Runs on disk: one Parquet file for each, whole or not there, that notices a changed number."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from heavystep.arrays import Array
from heavystep.lab.files import write_atomically

SPECIFICATION, CONTENT = b"heavystep.specification", b"heavystep.content"
ENDING = ".parquet"
Columns = dict[str, Array]  # numbers of equal length, by name


class DamagedError(Exception):
    """A file cannot be read, or is not what it should be."""


@dataclass(frozen=True)
class Store:
    """The runs in one folder."""

    folder: Path

    def path(self, key: str) -> Path:
        return self.folder / f"{key}{ENDING}"

    def save(self, key: str, specification: str, columns: Columns) -> None:
        """Write the file of a run; the same columns give the same bytes."""
        metadata = {SPECIFICATION: specification.encode(), CONTENT: _digest(columns)}
        table = pa.table(columns).replace_schema_metadata(metadata)
        write_atomically(
            self.path(key), lambda part: pq.write_table(table, part, write_page_checksum=True)
        )

    def load(self, key: str, specification: str) -> Columns | None:
        """The columns of a run, or None if there is no file.

        Raises:
            DamagedError: the file cannot be read, has another specification, or other numbers.
        """
        path = self.path(key)
        if not path.exists():
            return None
        try:
            # Not read_table, nor to_numpy: they import pandas if it is there, which takes a second.
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                table = file.read()
            columns = {
                name: np.concatenate([np.from_dlpack(part) for part in table[name].chunks])
                for name in table.column_names
            }
            metadata, digest = table.schema.metadata or {}, _digest(columns)
        except Exception as error:  # what a damaged file makes the reader raise may be anything
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise DamagedError(f"{path.name} cannot be read: {reason}") from None
        if metadata.get(SPECIFICATION) != specification.encode():
            raise DamagedError(f"{path.name} is not the run that its name says")
        if metadata.get(CONTENT) != digest:
            raise DamagedError(f"{path.name} does not hold the numbers that were written")
        return columns

    def contents(self) -> Iterator[dict[str, Any]]:
        """The specifications of all files; a damaged one is passed over until it is used."""
        for path in sorted(self.folder.glob(f"*{ENDING}")):
            try:
                content = json.loads((pq.read_schema(path).metadata or {})[SPECIFICATION])
            except Exception:  # as above
                continue
            if isinstance(content, dict):
                yield content


def key_of(specification: str) -> str:
    """The name under which a run with this specification is stored."""
    return hashlib.sha256(specification.encode()).hexdigest()[:24]


def _digest(columns: Columns) -> bytes:
    """The hash of all numbers, because the checksums of Parquet leave out headers of pages."""
    digest = hashlib.sha256()
    for name, values in columns.items():
        digest.update(name.encode() + b"\0" + np.ascontiguousarray(values).tobytes())
    return digest.hexdigest().encode()
