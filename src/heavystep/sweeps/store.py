"""Runs on disk: one Parquet file each, whole or not there."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from heavystep import parquet
from heavystep.parquet import DamagedError
from heavystep.records import Trajectories
from heavystep.simulation.run import metric_names
from heavystep.sweeps.specification import RunSpec


@dataclass(frozen=True)
class Store:
    """The runs of one figure, under ``folder``."""

    folder: Path

    def path(self, run: RunSpec) -> Path:
        """Where a run is kept."""
        return self.folder / f"{run.key()}{parquet.ENDING}"

    def save(self, run: RunSpec, result: Trajectories) -> None:
        """Keep a run."""
        seeds, points = len(result.seeds), len(result.k)
        columns = {
            "seed": np.repeat(np.asarray(result.seeds, dtype=np.int64), points),
            "k": np.tile(result.k, seeds),
            **{name: values.reshape(-1) for name, values in result.metrics.items()},
        }
        parquet.write(self.path(run), run.text(), columns)

    def sizes(self) -> list[dict[str, int]]:
        """Numbers of seeds and iterations for which there are runs."""
        found = set()
        for path in self.folder.glob(f"*{parquet.ENDING}"):
            try:
                run = json.loads(parquet.specification(path) or "")["run"]
                found.add((int(run["seeds"]), int(run["iterations"])))
            except (KeyError, TypeError, ValueError):
                continue  # not one of ours, or damaged: whoever needs it will say so
        return [{"seeds": seeds, "iterations": iterations} for seeds, iterations in found]

    def load(self, run: RunSpec) -> Trajectories | None:
        """A run that is complete, None if there is none.

        Raises:
            DamagedError: the file cannot be read or is not this run.
        """
        path = self.path(run)
        found = parquet.read(path, run.text())
        if found is None:
            return None
        columns, _ = found
        metrics = metric_names(run.problem.build())
        rows = len(columns["k"]) if "k" in columns else 0
        if set(columns) != {"seed", "k", *metrics} or rows % run.seeds:
            raise DamagedError(f"{path.name} does not have all columns and rows")
        shape = (run.seeds, rows // run.seeds)
        return Trajectories(
            columns["k"].reshape(shape)[0],
            tuple(int(seed) for seed in columns["seed"].reshape(shape)[:, 0]),
            {name: columns[name].reshape(shape) for name in metrics},
        )
