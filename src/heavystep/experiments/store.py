"""Runs on disk: one Parquet file each, whole or not there."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from heavystep.arrays import Array
from heavystep.engine.run import Trajectories, metric_names
from heavystep.experiments.specification import RunSpec
from heavystep.files import write_atomically

SPECIFICATION, CONTENT = b"heavystep.specification", b"heavystep.content"


class DamagedError(Exception):
    """A file that is not the run it should be."""


@dataclass(frozen=True)
class Store:
    """The runs of one figure, under ``folder``."""

    folder: Path

    def path(self, run: RunSpec) -> Path:
        """Where a run is kept."""
        return self.folder / f"{run.key()}.parquet"

    def save(self, run: RunSpec, result: Trajectories) -> None:
        """Write a run under a temporary name, then rename it: a reader sees all of it or none."""
        seeds, points = len(result.seeds), len(result.k)
        columns = {
            "seed": np.repeat(np.asarray(result.seeds, dtype=np.int64), points),
            "k": np.tile(result.k, seeds),
            **{name: values.reshape(-1) for name, values in result.metrics.items()},
        }
        metadata = {SPECIFICATION: run.text().encode(), CONTENT: _digest(columns)}
        table = pa.table(columns).replace_schema_metadata(metadata)
        write_atomically(
            self.path(run), lambda path: pq.write_table(table, path, write_page_checksum=True)
        )

    def sizes(self) -> list[dict[str, int]]:
        """Numbers of seeds and iterations for which there are runs."""
        found = set()
        for path in self.folder.glob("*.parquet"):
            try:
                metadata = pq.read_schema(path).metadata or {}
                run = json.loads(metadata[SPECIFICATION])["run"]
                found.add((int(run["seeds"]), int(run["iterations"])))
            except (OSError, KeyError, TypeError, ValueError, pa.ArrowException):
                continue  # not one of ours, or damaged: whoever needs it will say so
        return [{"seeds": seeds, "iterations": iterations} for seeds, iterations in found]

    def load(self, run: RunSpec) -> Trajectories | None:
        """A run that is complete, None if there is none.

        Raises:
            DamagedError: the file cannot be read or is not this run.
        """
        path = self.path(run)
        if not path.exists():
            return None
        try:
            table = pq.read_table(path, page_checksum_verification=True)
        except (OSError, ValueError, pa.ArrowException) as error:
            reason = str(error).splitlines()[0]
            raise DamagedError(f"{path.name} cannot be read: {reason}") from None
        if (table.schema.metadata or {}).get(SPECIFICATION) != run.text().encode():
            raise DamagedError(f"{path.name} is not the run that its name says")
        columns = {name: table[name].to_numpy() for name in table.column_names}
        if (table.schema.metadata or {}).get(CONTENT) != _digest(columns):
            raise DamagedError(f"{path.name} does not hold the numbers that were written")
        metrics = metric_names(run.problem.build())
        if set(columns) != {"seed", "k", *metrics} or len(table) % run.seeds:
            raise DamagedError(f"{path.name} does not have all columns and rows")
        shape = (run.seeds, len(table) // run.seeds)
        return Trajectories(
            columns["k"].reshape(shape)[0],
            tuple(int(seed) for seed in columns["seed"].reshape(shape)[:, 0]),
            {name: columns[name].reshape(shape) for name in metrics},
        )


def _digest(columns: dict[str, Array]) -> bytes:
    """Hash of all numbers: checksums of pages leave out their headers."""
    digest = hashlib.sha256()
    for name, values in columns.items():
        digest.update(name.encode() + b"\0" + np.ascontiguousarray(values).tobytes())
    return digest.hexdigest().encode()
