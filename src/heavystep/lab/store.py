"""The store on disk: files that appear in one step, and a Parquet file a run."""

import csv
import errno
import hashlib
import io
import os
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from heavystep.arrays import Array

PACKAGE = Path(__file__).parents[1]
VARIABLE = "HEAVYSTEP_CACHE"
PREFIX = ".heavystep-part."
ORPHANED = 3600.0  # what is older than this many seconds belongs to nobody
ANYBODY = 0o666  # the permissions of a file before the user's umask takes some away
MARK = ".heavystep"  # the name of the file that marks an output folder
RUNS = "runs"  # the folder of the runs of a figure, a comparison or a sweep
SPECIFICATION, CONTENT = b"heavystep.specification", b"heavystep.content"
ENDING = ".parquet"
Columns = dict[str, Array]  # numbers of equal length, by name


def cache_home() -> Path:
    """The folder for everything that can be made again; ``HEAVYSTEP_CACHE`` names another one."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else expanded("~") / ".cache" / "heavystep"


def expanded(path: str | Path) -> Path:
    """A path with ``~`` and ``~user`` replaced by the home directory that they mean."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        reason = f"there is no such home directory; name a folder, for caches by {VARIABLE}"
        raise OSError(errno.ENOENT, reason, str(path)) from None


@cache
def hash_sources(names: tuple[str, ...] = (".",)) -> str:
    """The hash of some modules and folders of the package; default: of all of it."""
    digest = hashlib.sha256()
    for name in names:
        path = PACKAGE / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def write_atomically(path: Path, content: str | bytes, mode: int = ANYBODY) -> None:
    """Write a file beside ``path``, then rename it to ``path`` in one step."""
    temporary = path.parent / f"{PREFIX}{secrets.token_hex(8)}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:  # about the file that the user knows
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None


def csv_text(columns: Sequence[str], lines: Iterable[Mapping[str, Any]]) -> str:
    """A table as CSV; columns that are not named are left out."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def claim_folder(out: Path) -> None:
    """Mark a folder as an output folder, and make it if there is none.

    Files that killed processes left under temporary names are removed.

    Raises:
        ValueError: the folder holds files of others, or cannot be written to.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        others = [path for path in out.iterdir() if not path.name.startswith(MARK)]
        if others and not (out / MARK).exists():
            raise ValueError(f"{out} holds other files: give an empty or a new output folder")
        write_atomically(out / MARK, "made by heavystep\n")
    except OSError as error:
        reason = error.strerror or os.strerror(error.errno or 0)
        raise ValueError(f"cannot write to {out}: {reason}") from None
    for path in list(out.rglob(f"{PREFIX}*")):
        with suppress(OSError):
            if time.time() - path.lstat().st_mtime > ORPHANED:
                path.unlink()


class DamagedError(Exception):
    """A file cannot be read, or is not what it should be."""


@dataclass(frozen=True)
class Store:
    """The runs in one folder: each is whole or not there, and a changed number is noticed."""

    folder: Path

    def path(self, key: str) -> Path:
        return self.folder / f"{key}{ENDING}"

    def save(self, key: str, specification: str, columns: Columns) -> None:
        """Write the file of a run; the same columns give the same bytes."""
        metadata = {SPECIFICATION: specification.encode(), CONTENT: _digest(columns)}
        content = pa.BufferOutputStream()
        pq.write_table(pa.table(columns).replace_schema_metadata(metadata), content)
        write_atomically(self.path(key), content.getvalue().to_pybytes())

    def load(self, key: str, specification: str) -> Columns | None:
        """The columns of a run, or None if there is no file.

        Raises:
            DamagedError: the file cannot be read, has another specification, or other numbers.
        """
        path = self.path(key)
        if not path.exists():
            return None
        found, columns = read_run(path)
        if found != specification:
            raise DamagedError(f"{path.name} is not the run that its name says")
        return columns


def read_run(path: Path) -> tuple[str, Columns]:
    """The specification and the columns in a file; DamagedError if it is not as it was written."""
    try:
        # Not read_table, nor to_numpy: they import pandas if it is there, which takes a second.
        with pq.ParquetFile(path) as file:
            table = file.read()
        columns = {
            name: np.concatenate([np.from_dlpack(part) for part in table[name].chunks])
            for name in table.column_names
        }
        specification = table.schema.metadata[SPECIFICATION].decode()
        same = table.schema.metadata[CONTENT] == _digest(columns)
    except Exception as error:  # what a damaged file makes the reader raise may be anything
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise DamagedError(f"{path.name} cannot be read: {reason}") from None
    if not same:
        raise DamagedError(f"{path.name} does not hold the numbers that were written")
    return specification, columns


def key_of(specification: str) -> str:
    """The name under which a run with this specification is stored."""
    return hashlib.sha256(specification.encode()).hexdigest()[:24]


def _digest(columns: Columns) -> bytes:
    """The hash of all numbers with their names."""
    digest = hashlib.sha256()
    for name, values in columns.items():
        digest.update(name.encode() + b"\0" + np.ascontiguousarray(values).tobytes())
    return digest.hexdigest().encode()
