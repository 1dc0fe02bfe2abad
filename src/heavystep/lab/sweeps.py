"""Sweeps: runs that are kept in a folder, done by processes here or by a cluster.

What is complete is never run again. A sweep that is stopped at any moment, whatever is killed, goes
on where it was: it loses at most the runs in flight. Results come back to the process that asked
for them, which alone writes files::

    results = complete([MyRun(lr, seed) for lr in (0.1, 1.0) for seed in range(3)], Store(folder))
"""

import json
import logging
import threading
import time
import traceback
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from datetime import timedelta
from typing import Any, ClassVar

import joblib
import rich.progress
from rich.console import Console

from heavystep.lab.engines import BACKENDS, Engine
from heavystep.lab.store import Columns, DamagedError, Store, hash_sources, key_of

TRIES = 3  # so many times in a row may workers be lost without any run being completed in between
EVERY = 10.0  # the least number of seconds between two lines of a log
HOUR = 3600.0  # the time left is told by the speed since then
Advance = Callable[[float], None]
"""Told how much work was done since the last call; it raises when the sweep was stopped."""


class Run(ABC):
    """One piece of a sweep. Make it a frozen dataclass: workers get a pickled copy."""

    threads: ClassVar[bool] = False
    """True: :meth:`compute` releases the interpreter's lock, so threads do the work here."""
    work: float = 1.0
    """Amount of work, in the unit in which :meth:`compute` advances."""

    @property
    @abstractmethod
    def label(self) -> str:
        """Its name in progress and messages. It decides no number."""

    @abstractmethod
    def content(self) -> dict[str, Any]:
        """All that decides the numbers, of what JSON can hold."""

    @abstractmethod
    def compute(self, advance: Advance) -> Columns:
        """The result: arrays of numbers of equal length, by name."""

    def text(self) -> str:
        return json.dumps(self.content(), sort_keys=True)

    def key(self) -> str:
        """The name under which the result is stored."""
        return key_of(self.text())


class Progress:
    """Told what a sweep does, from any thread. This one writes notes to the log "heavystep"."""

    def start(self, runs: int, kept: int, work: float) -> None:
        """There are ``runs`` runs; ``kept`` are complete, and the others take so much ``work``."""

    def note(self, text: str) -> None:
        """The user should read this."""
        logging.getLogger("heavystep").warning(text)

    def begin(self, run: str) -> None:
        """A run begins."""

    def advance(self, amount: float) -> None:
        """Some work was done."""

    def report(self, numbers: str) -> None:
        """Numbers of the run that began last, so far."""

    def finish(self) -> None:
        """A run is complete and kept."""


class ShownProgress(Progress):
    """Shows on stderr what runs and how long the rest takes: a bar, or lines in a log."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        columns = ("{task.description}", rich.progress.BarColumn(bar_width=20),
                   "{task.percentage:>3.0f}%", rich.progress.TimeRemainingColumn(),
                   "{task.fields[done]}/{task.fields[runs]} runs")  # fmt: skip
        self.bar = rich.progress.Progress(
            *columns, console=console, disable=not console.is_terminal, speed_estimate_period=HOUR
        )
        self.bar.add_task("", total=None, done=0, runs=0)
        (self._task,) = self.bar.tasks
        self._run, self._told = "", time.monotonic()

    def start(self, runs: int, kept: int, work: float) -> None:
        total, completed = (work, 0) if work else (1.0, 1)
        self.bar.reset(self._task.id, total=total, completed=completed, done=kept, runs=runs)
        if kept:
            self.note(f"{kept} of {runs} runs are there already")

    def note(self, text: str) -> None:
        """Print a line above the bar. It is not broken, so that what it names can be copied."""
        self.bar.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def begin(self, run: str) -> None:
        self._run = run
        self.bar.update(self._task.id, description=run)

    def advance(self, amount: float) -> None:
        self.bar.advance(self._task.id, amount)
        now, task = time.monotonic(), self._task
        if self.bar.disable and now - self._told >= EVERY:
            self._told, left = now, task.time_remaining
            until = "" if left is None else f", {timedelta(seconds=min(left, 10**9))} left"
            done = f"{task.fields['done']}/{task.fields['runs']}"
            self.note(f"{task.description}; {done} runs{until}")

    def report(self, numbers: str) -> None:
        self.bar.update(self._task.id, description=f"{self._run}: {numbers}")

    def finish(self) -> None:
        self.bar.update(self._task.id, done=self._task.fields["done"] + 1)


class FailedRunsError(ValueError):
    """Some runs failed; ``results`` has those of all others, which are kept."""

    def __init__(self, text: str, results: dict[str, Columns]) -> None:
        super().__init__(text)
        self.results = results


def complete(
    runs: Iterable[Run],
    store: Store,
    progress: Progress | None = None,
    engine: Engine | None = None,
) -> dict[str, Columns]:
    """The results of all runs by key: those in the store are read, the others made and kept.

    Args:
        runs: what is wanted; runs with the same key are made once.
        store: where they are kept.
        progress: told what happens.
        engine: who does them; None: this machine.

    Raises:
        FailedRunsError: some runs failed. This is raised when all others are complete.
    """
    engine, progress = engine or Engine(), progress or Progress()
    engine.check()
    wanted, results = {run.key(): run for run in runs}, dict[str, Columns]()
    for key, run in wanted.items():
        try:
            if (columns := store.load(key, run.text())) is not None:
                results[key] = columns
        except DamagedError as damage:
            progress.note(f"{damage}; it has to be run again")
    missing, failed = {k: run for k, run in wanted.items() if k not in results}, list[str]()
    progress.start(len(wanted), len(results), sum(run.work for run in missing.values()))
    if not missing:  # a cluster takes long to start
        return results
    with closing(outcomes(missing, progress, engine)) as found:
        for key, made, failure in found:
            run = wanted[key]
            if made is None:
                progress.note(f"{run.label} failed\n{failure}")
                failed.append(f"{run.label} ({failure.strip().splitlines()[-1]})")
            else:
                store.save(key, run.text(), made)
                results[key] = made
                progress.finish()
    if failed:
        said = f"{len(failed)} of {len(wanted)} runs failed, what is complete is kept"
        raise FailedRunsError(f"{said}: {'; '.join(failed)}", results)
    return {key: results[key] for key in wanted}


Outcome = tuple[str, Columns | None, str]
"""The key of a run, and its result or the traceback of its failure."""


def outcomes(runs: Mapping[str, Run], progress: Progress, engine: Engine) -> Generator[Outcome]:
    """Do all runs and yield one outcome for each, in any order.

    Closing the generator gives up the runs in flight. When a worker is killed, the runs that are
    not done are handed out again.
    """
    left, losses, stopped, sources = dict(runs), 0, threading.Event(), hash_sources()

    def advance(amount: float) -> None:
        if stopped.is_set():
            raise RuntimeError("nobody waits for this run any more")
        progress.advance(amount)

    def in_a_thread(key: str, run: Run, sources: str) -> Outcome:
        progress.begin(run.label)
        return _done(key, run, sources, advance)

    here = engine.name == "local" and all(run.threads for run in runs.values())
    do = joblib.delayed(in_a_thread if here else _done)
    backend = BACKENDS.get(engine.name, "threading" if here else "loky")
    options: Any = {"inner_max_num_threads": 1} if backend == "loky" else {}
    with engine.connected() as count:
        try:
            while left:
                found: Any = None
                try:
                    # A cluster may have lost cores. One run a task: a result is written at once.
                    with joblib.parallel_config(backend, n_jobs=min(count(), len(runs)), **options):
                        parallel = joblib.Parallel(return_as="generator_unordered", batch_size=1)
                        found = parallel([do(key, run, sources) for key, run in left.items()])
                    for outcome in found:
                        run, losses = left.pop(outcome[0]), 0
                        yield outcome  # first, so that it is kept whatever progress raises
                        if not here:
                            progress.begin(run.label)
                            progress.advance(run.work)
                except Exception as lost:  # each engine has its own error for a worker that is gone
                    losses += 1
                    reason = str(lost).strip().partition("\n")[0] or type(lost).__name__
                    if losses == TRIES:
                        yield from ((key, None, reason) for key in left)
                        return
                    progress.note(f"a worker was lost ({reason}); its runs are handed out again")
                finally:
                    with warnings.catch_warnings(action="ignore"):  # about runs in flight
                        if found is not None:
                            found.close()
        finally:
            stopped.set()


def _done(key: str, run: Run, sources: str, advance: Advance = lambda work: None) -> Outcome:
    """Do a run, in a thread of this process or in another one, maybe on another machine."""
    if hash_sources() != sources:
        return key, None, "a worker has another heavystep than this process: install the same"
    try:
        return key, run.compute(advance), ""
    except Exception:
        return key, None, traceback.format_exc()
