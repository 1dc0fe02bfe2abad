"""Makes the runs of a sweep that are missing, and keeps them."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Protocol

import numpy as np

from heavystep.parquet import DamagedError
from heavystep.records import Trajectories
from heavystep.simulation.run import check_compiler
from heavystep.sweeps import engines
from heavystep.sweeps.engines import Engine, LocalEngine
from heavystep.sweeps.runs import Runs
from heavystep.sweeps.store import Store

Results = dict[str, Trajectories]
"""Results by the key of their run."""
JOBS_A_CORE = 4
"""At least so many, if there are as many seeds: then cores end at about the same time."""
FINER, ENOUGH = 4, 8
"""So many times as many jobs if each still has this many seeds, two fours of them."""


def seeds_of_a_job(seeds: int, cores: int) -> int:
    """How many of all seeds a job may have: seeds side by side are cheaper, cores must not wait.

    >>> [seeds_of_a_job(560, cores) for cores in (1, 2, 4, 8, 16, 32, 64, 999)]
    [35, 17, 8, 8, 8, 4, 2, 0]
    """
    few = seeds // (JOBS_A_CORE * cores)
    return max(few // FINER, min(few, ENOUGH))


class FailedRunsError(ValueError):
    """Some runs failed; all others are complete and kept."""

    def __init__(self, text: str, failed: dict[str, str], results: Results) -> None:
        super().__init__(text)
        self.failed = failed
        """Why, by key."""
        self.results = results
        """Those of the others."""


class Progress(engines.Progress, Protocol):
    """What a runner reports, from any thread; see :mod:`heavystep.cli.progress`."""

    def start(self, runs: int, kept: int, steps: int) -> None:
        """There are ``runs`` runs; ``kept`` are complete, and the others take ``steps`` steps."""

    def finish(self) -> None:
        """A run is complete and kept."""


class Logged:
    """Writes notes to the log "heavystep" as warnings, and each finished run at level INFO."""

    def __init__(self) -> None:
        self._log = logging.getLogger("heavystep")
        self._runs = self._done = 0

    def start(self, runs: int, kept: int, steps: int) -> None:
        """Remember how many runs there are."""
        self._runs, self._done = runs, kept

    def note(self, text: str) -> None:
        """Write a warning."""
        self._log.warning(text)

    def begin(self, run: str) -> None:
        """Write the name of the run at level DEBUG."""
        self._log.debug("%s begins", run)

    def advance(self, amount: float) -> None:
        """Write nothing: this comes too often for a log."""

    def finish(self) -> None:
        """Write how many runs are complete."""
        self._done += 1
        self._log.info("%d of %d runs", self._done, self._runs)


def complete(
    runs: Mapping[str, Runs],
    store: Store,
    progress: Progress | None = None,
    *,
    engine: Engine | None = None,
    force: bool = False,
) -> Results:
    """The results of all runs: those in the store are read, the others are made and kept.

    A job is some seeds of a run, as many as there are numbers to compute while others are waited
    for, and few enough that no core waits for the last jobs. A sweep can be stopped at any moment:
    it loses the runs in flight, and a new call goes on there.

    Args:
        runs: by key.
        store: where they are kept.
        progress: told what happens; None: it is written to the log "heavystep".
        engine: does the jobs; None: threads of this process.
        force: whether runs that are there are made again.

    Raises:
        FailedRunsError: some runs failed. This is raised when all others are complete.
    """
    progress = progress or Logged()
    results = {} if force else kept(runs, store, progress.note)
    missing = {key: run for key, run in runs.items() if key not in results}
    steps = sum(run.seeds * run.iterations for run in missing.values())
    progress.start(len(runs), len(results), steps)
    if not missing:
        return results
    for line in store.outdated(missing.values()):
        progress.note(f"{line}; what is missing is run again")
    check_compiler()  # once, since all jobs would say the same
    most = seeds_of_a_job(sum(run.seeds for run in missing.values()), os.cpu_count() or 1)
    places = [(key, seeds) for key, run in missing.items() for seeds in run.groups(most)]
    jobs = [missing[key].job(seeds) for key, seeds in places]
    parts: dict[str, list[Trajectories]] = {key: [] for key in missing}
    failed: dict[str, str] = {}
    with closing((engine or LocalEngine()).outcomes(jobs, progress)) as outcomes:
        for place, value, failure in outcomes:
            key, seeds = places[place]
            if failure:
                if key not in failed:  # its other seeds will fail alike
                    names = ", ".join(map(str, seeds))
                    progress.note(f"{missing[key].label}, seed {names} failed\n{failure}")
                failed[key] = failure.strip().splitlines()[-1]
                continue
            parts[key].append(value)
            if sum(len(part.seeds) for part in parts[key]) == missing[key].seeds:
                results[key] = joined(parts.pop(key))
                store.save(missing[key], results[key])
                progress.finish()
    if failed:
        names = "; ".join(f"{missing[key].label} ({reason})" for key, reason in failed.items())
        raise FailedRunsError(
            f"{len(failed)} of {len(runs)} runs failed, what is complete is kept: {names}",
            failed,
            results,
        )
    return results


def joined(parts: Sequence[Trajectories]) -> Trajectories:
    """Join the results of some seeds each, in the order of the seeds."""
    parts = sorted(parts, key=lambda part: part.seeds)
    seeds = tuple(seed for part in parts for seed in part.seeds)
    metrics = {
        name: np.concatenate([part.metrics[name] for part in parts]) for name in parts[0].metrics
    }
    seconds = tuple(second for part in parts for second in part.seconds)
    return Trajectories(parts[0].k, seeds, metrics, seconds)


def kept(runs: Mapping[str, Runs], store: Store, note: Callable[[str], None]) -> Results:
    """The results of the runs that are in the store; damaged ones are noted and left out."""
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
