"""Runs on disk: one Parquet file for each specification, whole or not there."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from heavystep import parquet
from heavystep.parquet import DamagedError
from heavystep.records import Trajectories
from heavystep.sweeps.runs import Runs
from heavystep.sweeps.specification import FORMAT

SECONDS = "seconds"
"""The note that holds the wall times."""


@dataclass(frozen=True)
class Store:
    """The runs in one folder."""

    folder: Path

    def path(self, run: Runs) -> Path:
        """The file of a run."""
        return self.folder / f"{run.key()}{parquet.ENDING}"

    def save(self, run: Runs, result: Trajectories) -> None:
        """Write the file of a run."""
        seeds, points = len(result.seeds), len(result.k)
        columns = {
            "seed": np.repeat(np.asarray(result.seeds, dtype=np.int64), points),
            "k": np.tile(result.k, seeds),
            **{name: values.reshape(-1) for name, values in result.metrics.items()},
        }
        # A fact about a machine: it is no part of what the run is known by, nor of its numbers.
        notes = {SECONDS: json.dumps(result.seconds)} if result.seconds else {}
        parquet.write(self.path(run), run.text(), columns, notes)

    def load(self, run: Runs) -> Trajectories | None:
        """The result of a run, or None if there is no file.

        Raises:
            DamagedError: the file cannot be read, or is not this run.
        """
        path = self.path(run)
        found = parquet.read(path, run.text())
        if found is None:
            return None
        columns, notes = found
        metrics = run.metric_names()
        rows = len(columns["k"]) if "k" in columns else 0
        if set(columns) != {"seed", "k", *metrics} or rows % run.seeds:
            raise DamagedError(f"{path.name} does not have all columns and rows")
        shape = (run.seeds, rows // run.seeds)
        try:
            seconds = tuple(map(float, json.loads(notes.get(SECONDS, "[]"))))
        except (TypeError, ValueError):
            raise DamagedError(f"{path.name} does not say how long it took") from None
        return Trajectories(
            columns["k"].reshape(shape)[0],
            tuple(int(seed) for seed in columns["seed"].reshape(shape)[:, 0]),
            {name: columns[name].reshape(shape) for name in metrics},
            seconds,
        )

    def sizes(self) -> list[dict[str, int]]:
        """The numbers of seeds and iterations of the runs that are there."""
        sizes = {
            (content["seeds"], content["iterations"])
            for content in self._contents()
            if content.get("format") == FORMAT
        }
        return [{"seeds": seeds, "iterations": iterations} for seeds, iterations in sizes]

    def outdated(self, runs: Iterable[Runs] = ()) -> list[str]:
        """Say in a line or two which runs in the folder cannot be used any more, and why.

        Args:
            runs: those that are wanted. Of these, runs made with other versions count; runs that an
                earlier heavystep made do so in any case, because they do not say what they are.
        """
        contents, lines = list(self._contents()), []
        if early := sum("mathematics" in content for content in contents):
            lines.append(
                f"{early} runs in {self.folder} are not used: an earlier heavystep made them, and "
                "they do not say with which versions of rule, momentum form, kernel and problem"
            )
        wanted = {_question(content): content for content in (run.content() for run in runs)}
        others: dict[str, int] = {}
        for content in contents:
            now = wanted.get(_question(content))
            if now is not None and now["versions"] != content.get("versions"):
                change = _changes(content.get("versions") or {}, now["versions"])
                others[change] = others.get(change, 0) + 1
        for change, count in others.items():
            lines.append(
                f"{count} runs in {self.folder} are not used: they were made with other versions "
                f"({change})"
            )
        return lines

    def _contents(self) -> Iterable[dict[str, Any]]:
        """The specifications of all files; a damaged one is passed over until it is used."""
        for path in self.folder.glob(f"*{parquet.ENDING}"):
            try:
                content = json.loads(parquet.specification(path) or "")
            except ValueError:
                continue
            if isinstance(content, dict):
                yield content


def _question(content: dict[str, Any]) -> str:
    """A specification without its versions: what was asked for, whatever answers it."""
    return json.dumps({**content, "versions": None}, sort_keys=True)


def _changes(before: dict[str, int], now: dict[str, int]) -> str:
    """The versions that differ.

    >>> _changes({"rule": 1, "kernel": 1}, {"rule": 2, "kernel": 1})
    'rule 1 is now 2'
    """
    return ", ".join(
        f"{name} {before.get(name, 'unknown')} is now {version}"
        for name, version in now.items()
        if before.get(name) != version
    )
