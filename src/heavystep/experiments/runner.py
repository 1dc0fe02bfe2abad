"""Runs what is missing of a figure and keeps it."""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Protocol

import numpy as np

from heavystep.engine.run import Trajectories, trajectories
from heavystep.experiments.parquet import DamagedError
from heavystep.experiments.specification import RunSpec, describe
from heavystep.experiments.store import Store

Results = dict[str, Trajectories]
"""Runs by key."""


class Progress(Protocol):
    """What a runner tells, from any thread; see :mod:`heavystep.cli.progress`."""

    def start(self, runs: int, kept: int, steps: int) -> None:
        """How much there is to do: runs, those already complete, steps of the others."""

    def note(self, text: str) -> None:
        """Something that the user should know."""

    def begin(self, run: str) -> None:
        """A run begins."""

    def advance(self, steps: int) -> None:
        """Steps were taken."""

    def finish(self) -> None:
        """A run is complete and kept."""


def complete(
    runs: dict[str, RunSpec], store: Store, progress: Progress, *, jobs: int | None, force: bool
) -> Results:
    """All of these runs: those kept are read, the others run and kept as they become complete.

    Each seed is a job of its own, so that no thread waits for the last seeds of a run. Stopped at
    any moment, it loses at most the runs in flight; called again it goes on there.
    """
    results = {} if force else kept(runs, store, progress.note)
    missing = {key: run for key, run in runs.items() if key not in results}
    steps = sum(run.seeds * run.iterations for run in missing.values())
    progress.start(len(runs), len(results), steps)
    parts: dict[str, dict[int, Trajectories]] = {key: {} for key in missing}
    with _threads(jobs) as (pool, stopped):
        futures = {
            pool.submit(_one_seed, run, seed, progress, stopped): (key, seed)
            for key, run in missing.items()
            for seed in range(run.seeds)
        }
        for future in as_completed(futures):
            key, seed = futures[future]
            parts[key][seed] = future.result()
            if len(parts[key]) == missing[key].seeds:
                results[key] = joined(parts.pop(key))
                store.save(missing[key], results[key])
                progress.finish()
    return results


@contextmanager
def _threads(jobs: int | None) -> Iterator[tuple[ThreadPoolExecutor, threading.Event]]:
    """A pool, and what tells its jobs that nobody waits for them any more."""
    pool, stopped = ThreadPoolExecutor(jobs or os.cpu_count()), threading.Event()
    try:
        yield pool, stopped
    finally:
        stopped.set()
        pool.shutdown(cancel_futures=True)


class _StoppedError(Exception):
    """Ends a job; nobody waits for its result."""


def _one_seed(
    run: RunSpec, seed: int, progress: Progress, stopped: threading.Event
) -> Trajectories:
    def advance(steps: int) -> None:
        if stopped.is_set():
            raise _StoppedError
        progress.advance(steps)

    if seed == 0:
        progress.begin(describe(run))
    return trajectories(
        run.problem.build(),
        run.method,
        seeds=[seed],
        iterations=run.iterations,
        grid=run.grid(),
        batch_size=run.batch_size,
        threads=1,
        progress=advance,
    )


def joined(parts: dict[int, Trajectories]) -> Trajectories:
    """Runs of one seed each as one, in the order of the seeds."""
    seeds = tuple(sorted(parts))
    names = parts[seeds[0]].metrics
    metrics = {
        name: np.concatenate([parts[seed].metrics[name] for seed in seeds]) for name in names
    }
    return Trajectories(parts[seeds[0]].k, seeds, metrics)


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
