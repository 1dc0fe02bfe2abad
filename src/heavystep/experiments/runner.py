"""Runs what is missing of a figure and keeps it."""

from collections.abc import Callable
from typing import Protocol

from heavystep.engine.run import Trajectories, trajectories
from heavystep.experiments.specification import Figure, RunSpec, describe
from heavystep.experiments.store import DamagedError, Store

Results = dict[str, Trajectories]
"""The runs of a figure by key."""


class Progress(Protocol):
    """What a runner tells; see :mod:`heavystep.cli.progress`."""

    def start(self, runs: int, kept: int, steps: int) -> None:
        """How much there is to do: runs, those already complete, steps of the others."""

    def note(self, text: str) -> None:
        """Something that the user should know."""

    def begin(self, run: str) -> None:
        """A run begins."""

    def advance(self, steps: int) -> None:
        """Steps were taken."""

    def finish(self) -> None:
        """The run is complete and kept."""


def complete(
    figure: Figure, store: Store, progress: Progress, *, jobs: int | None, force: bool
) -> Results:
    """All runs of a figure: those kept are read, the others run and kept one after another.

    Stopped at any moment, it loses at most the run in flight; called again it goes on there.
    """
    runs = figure.runs()
    results = {} if force else kept(runs, store, progress.note)
    missing = {key: run for key, run in runs.items() if key not in results}
    steps = sum(run.seeds * run.iterations for run in missing.values())
    progress.start(len(runs), len(results), steps)
    for key, run in missing.items():
        progress.begin(describe(run))
        results[key] = trajectories(
            run.problem.build(),
            run.method,
            seeds=range(run.seeds),
            iterations=run.iterations,
            threads=jobs,
            progress=progress.advance,
        )
        store.save(run, results[key])
        progress.finish()
    return results


def kept(runs: dict[str, RunSpec], store: Store, note: Callable[[str], None]) -> Results:
    """The runs that are there and whole; a damaged one is noted and left out."""
    results = {}
    for key, run in runs.items():
        try:
            found = store.load(run)
        except DamagedError as damage:
            note(f"{damage}; it has to be run again")
            continue
        if found is not None:
            results[key] = found
    return results
