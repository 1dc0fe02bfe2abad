"""Every kind of file that is read, damaged: found to be damaged, or read as it was written."""

import bz2
import gzip
import lzma
import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
import torch

from heavystep import parquet
from heavystep.data import read_libsvm
from heavystep.data.cache import load_file
from heavystep.parquet import DamagedError
from heavystep.simulation.kernel_files import KernelCache
from heavystep.training import checkpoint
from tests.fuzz.campaign import Campaign, damaged

SPECIFICATION, RUN = '{"format": 2}', '{"run": 1}'
COLUMNS = {"k": np.arange(50), "gap": np.linspace(1.0, 0.0, 50) ** 3}
NOTES = {"seconds": "[0.25]"}
STATE = {
    "a": torch.arange(20.0),
    "b": [1, 2.5, None],
    "c": {"d": torch.ones((), dtype=torch.int64)},
}
TEXT = b"1 1:0.5 3:2\n-1 2:1e-3\n" * 40
PACKERS = {".bz2": bz2.compress, ".xz": lzma.compress, ".gz": gzip.compress}


def spoil(path: Path, rng: np.random.Generator) -> None:
    path.write_bytes(damaged(path.read_bytes(), rng))


def runs(rng: np.random.Generator, folder: Path) -> None:
    """A Parquet file with a run."""
    path = folder / "run.parquet"
    path.write_bytes(_run())
    spoil(path, rng)
    parquet.specification(path)
    try:
        found = parquet.read(path, SPECIFICATION)
    except DamagedError:
        return
    assert found is not None
    columns, notes = found
    assert notes == NOTES, f"other notes: {notes}"
    assert columns.keys() == COLUMNS.keys()
    assert all(np.array_equal(columns[name], values) for name, values in COLUMNS.items())


@cache
def _run() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.parquet"
        parquet.write(path, SPECIFICATION, COLUMNS, NOTES)
        return path.read_bytes()


def checkpoints(rng: np.random.Generator, folder: Path) -> None:
    """A checkpoint of a training run."""
    path = folder / "run.pt"
    checkpoint.save(path, RUN, STATE)
    spoil(path, rng)
    try:
        found = checkpoint.load(path, RUN)
    except ValueError:
        return
    assert found is not None
    assert torch.equal(found["a"], STATE["a"])
    assert found["b"] == STATE["b"]
    assert torch.equal(found["c"]["d"], STATE["c"]["d"])


def kept_data(rng: np.random.Generator, folder: Path) -> None:
    """The binary that is kept beside a text."""
    # Where the kept form cannot be beside the text, it is in the user's folder.
    os.environ["HEAVYSTEP_CACHE"] = str(folder / "home")
    text, kept = folder / "text", folder / "text.csr"
    text.write_bytes(TEXT)
    expected = load_file(text)
    spoil(kept, rng)
    _same(load_file(text), expected)


def packed_data(rng: np.random.Generator, folder: Path) -> None:
    """A packed text: what is not refused is what was packed, wherever there is a checksum."""
    ending = sorted(PACKERS)[rng.integers(3)]
    path, plain = folder / f"text{ending}", folder / "plain"
    plain.write_bytes(TEXT)
    path.write_bytes(PACKERS[ending](TEXT))
    spoil(path, rng)
    try:
        found = read_libsvm(path)
    except ValueError:
        return
    _same(found, read_libsvm(plain))


def _same(found: Any, expected: Any) -> None:
    assert np.array_equal(found.labels, expected.labels)
    assert np.array_equal(found.rows.values, expected.rows.values)
    assert np.array_equal(found.rows.indices, expected.rows.indices)
    assert np.array_equal(found.rows.indptr, expected.rows.indptr)


def weighted(values: Any, factor: Any) -> Any:
    """A kernel, to be kept on disk."""
    total = 0.0
    for value in values:
        total += factor * value
    return total


@cache
def _kernel_files() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        assert _kernel(Path(folder))(np.arange(5.0), 0.5) == 5.0
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def _kernel(folder: Path) -> Any:
    made = numba.njit(weighted)
    made._cache = KernelCache(weighted, folder)
    return made


def kernels(rng: np.random.Generator, folder: Path) -> None:
    """The files of a compiled kernel. One that is not noticed ends this process, or lies."""
    for name, content in _kernel_files().items():
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o600)
    names = sorted(_kernel_files())
    spoil(folder / names[rng.integers(len(names))], rng)
    assert _kernel(folder)(np.arange(5.0), 0.5) == 5.0
    again = _kernel(folder)
    assert again(np.arange(5.0), 0.5) == 5.0
    assert sum(again.stats.cache_hits.values()) == 1, "it was not made anew"


CAMPAIGNS = [
    Campaign("damaged runs", runs, 4000),
    Campaign("damaged checkpoints", checkpoints, 3000),
    Campaign("damaged kept data", kept_data, 3000),
    Campaign("damaged packed data", packed_data, 3000),
    Campaign("damaged kernels", kernels, 150),
]
