"""Runs what is missing of a sweep and keeps it."""

import logging
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Protocol

import numpy as np

from heavystep.parquet import DamagedError
from heavystep.records import Trajectories
from heavystep.simulation.run import Problem, check_compiler, trajectories
from heavystep.sweeps import engines
from heavystep.sweeps.engines import Advance, Engine, Job, LocalEngine
from heavystep.sweeps.specification import RunSpec, describe
from heavystep.sweeps.store import Store

Results = dict[str, Trajectories]
"""Runs by key."""


class FailedRunsError(ValueError):
    """Some runs failed; all others are complete and kept."""


class Progress(engines.Progress, Protocol):
    """What a runner tells, from any thread; see :mod:`heavystep.cli.progress`."""

    def start(self, runs: int, kept: int, steps: int) -> None:
        """How much there is to do: runs, those already complete, steps of the others."""

    def finish(self) -> None:
        """A run is complete and kept."""


class Logged:
    """Tells the log what the user should know, and how far the sweep is at level INFO."""

    def __init__(self) -> None:
        self._log = logging.getLogger("heavystep")
        self._runs = self._done = 0

    def start(self, runs: int, kept: int, steps: int) -> None:
        """How much there is to do."""
        self._runs, self._done = runs, kept

    def note(self, text: str) -> None:
        """A warning."""
        self._log.warning(text)

    def begin(self, run: str) -> None:
        """For those who want to know."""
        self._log.debug("%s begins", run)

    def advance(self, amount: float) -> None:
        """Too much for a log."""

    def finish(self) -> None:
        """How far it is."""
        self._done += 1
        self._log.info("%d of %d runs", self._done, self._runs)


def complete(
    runs: Mapping[str, RunSpec],
    store: Store,
    progress: Progress | None = None,
    *,
    engine: Engine | None = None,
    force: bool = False,
) -> Results:
    """All of these runs: those kept are read, the others run and kept as they become complete.

    Each seed is a job of its own, so that nobody waits for the last seeds of a run. Stopped at
    any moment, it loses at most the runs in flight; called again it goes on there.

    Args:
        runs: by key.
        store: where they are kept.
        progress: told what happens; None: the log "heavystep" is.
        engine: who does the jobs; None: threads of this process.
        force: run again what is there.

    Raises:
        FailedRunsError: when all others are complete.
    """
    progress = progress or Logged()
    results = {} if force else kept(runs, store, progress.note)
    missing = {key: run for key, run in runs.items() if key not in results}
    steps = sum(run.seeds * run.iterations for run in missing.values())
    progress.start(len(runs), len(results), steps)
    places = [(key, seed) for key, run in missing.items() for seed in range(run.seeds)]
    parts: dict[str, dict[int, Trajectories]] = {key: {} for key in missing}
    failed: dict[str, str] = {}
    jobs = [_job(missing[key], seed) for key, seed in places]
    if not jobs:
        return results
    check_compiler()  # once, since all jobs would say the same
    with closing((engine or LocalEngine()).outcomes(jobs, progress)) as outcomes:
        for place, value, failure in outcomes:
            key, seed = places[place]
            if failure:
                if key not in failed:  # its other seeds will fail alike
                    progress.note(f"{describe(missing[key])}, seed {seed} failed\n{failure}")
                failed[key] = failure.strip().splitlines()[-1]
                continue
            parts[key][seed] = value
            if len(parts[key]) == missing[key].seeds:
                results[key] = joined(parts.pop(key))
                store.save(missing[key], results[key])
                progress.finish()
    if failed:
        raise FailedRunsError(_failures(failed, missing, len(runs)))
    return results


def _failures(failed: dict[str, str], runs: Mapping[str, RunSpec], count: int) -> str:
    names = "; ".join(f"{describe(runs[key])} ({reason})" for key, reason in failed.items())
    return f"{len(failed)} of {count} runs failed, what is complete is kept: {names}"


def _job(run: RunSpec, seed: int) -> Job:
    return Job(describe(run), one_seed, (run, seed), run.iterations, run.problem)


def one_seed(problem: Problem, run: RunSpec, seed: int, advance: Advance) -> Trajectories:
    """A run from one seed.

    Args:
        problem: that of the run.
        run: all there is to know.
        seed: which of its seeds.
        advance: told of steps that were taken.
    """
    return trajectories(
        problem,
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


def kept(runs: Mapping[str, RunSpec], store: Store, note: Callable[[str], None]) -> Results:
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
