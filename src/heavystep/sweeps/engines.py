"""Engines do the jobs of a sweep: here the one that uses threads of this process.

An engine takes jobs and yields their outcomes as they come, in any order. What a job computes does
not depend on the engine, so results are the same to the byte. The other engine is
:mod:`heavystep.sweeps.ray_engine`; :func:`engine_of` finds one by its name.
"""

import os
import threading
import traceback
from collections.abc import Callable, Generator, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from heavystep import validation

ENGINES = ("local", "ray")
Advance = Callable[[float], None]
"""Told how much of a job was done since the last call."""


class Progress(Protocol):
    """What an engine reports; it may be called from any thread."""

    def note(self, text: str) -> None:
        """The user should read this text."""

    def begin(self, run: str) -> None:
        """The job of this name begins."""

    def advance(self, amount: Any) -> None:
        """This amount of work was done, in the unit of :attr:`Job.amount`."""


class Data(Protocol):
    """Data that many jobs read; it is hashable, so that an engine builds it once for all."""

    def build(self) -> Any:
        """Return the data."""


@dataclass(frozen=True)
class Job:
    """A piece of a sweep, which a process does by calling ``work(data, *arguments, advance)``."""

    name: str
    """What people call it."""
    work: Callable[..., Any]
    """A function at the top of a module, because other processes find it by its name. It calls
    ``advance(amount)`` now and then."""
    arguments: tuple[Any, ...]
    amount: float
    """How much work it is, for the progress."""
    data: Data | None = None
    """Passed to ``work`` after it was built; None if the job needs no data."""
    kind: Hashable = None
    """Jobs of one kind need the same compiled code, which the first of them makes; None: none."""


class Outcome(NamedTuple):
    """The result of a job, or why there is none."""

    place: int
    """The position of the job in the list that the engine was given."""
    value: Any = None
    """What ``work`` returned."""
    failure: str = ""
    """The traceback of a job that failed; empty for one that succeeded."""


Outcomes = Generator[Outcome, None, None]


class Engine(Protocol):
    """Anything that can do jobs."""

    def outcomes(self, jobs: Sequence[Job], progress: Progress) -> Outcomes:
        """Do all jobs and yield one outcome for each. The others go on when one fails.

        Closing the generator gives up the jobs in flight.
        """


@dataclass(frozen=True)
class LocalEngine:
    """Does jobs in threads of this process; the work should release the interpreter's lock."""

    jobs: int | None = None
    """How many jobs run at a time; None: one for each core."""

    def outcomes(self, jobs: Sequence[Job], progress: Progress) -> Outcomes:
        """See :class:`Engine`."""
        pool, stopped = ThreadPoolExecutor(self.jobs or os.cpu_count()), threading.Event()
        order = Order([job.kind for job in jobs])

        def next_done() -> Outcome:
            place = order.take()
            try:
                return Outcome(place, _done(jobs[place], progress, stopped))
            except Exception:
                return Outcome(place, failure=traceback.format_exc())
            finally:
                order.end(place)

        try:
            for future in as_completed([pool.submit(next_done) for _ in jobs]):
                yield future.result()
        finally:  # the generator may have been closed: nobody waits for the other jobs
            stopped.set()
            pool.shutdown(cancel_futures=True)


class Order:
    """Which job comes next: threads should not wait for each other to compile.

    While the first job of a kind is at work, jobs of kinds that are known come before others; and
    while none is, the first job of the next kind.

    Args:
        kinds: of all jobs.

    >>> order = Order(["a", "a", "a", "b", "b"])
    >>> order.take(), order.take()  # nothing is compiled yet
    (0, 1)
    >>> order.end(0)
    >>> order.take(), order.take()
    (3, 2)
    """

    def __init__(self, kinds: Sequence[Hashable]) -> None:
        self._kinds, self._waiting = kinds, list(range(len(kinds)))
        self._begun: set[Hashable] = set()
        self._known: set[Hashable] = {None}
        self._lock = threading.Lock()

    def take(self) -> int:
        """The place of the next job."""
        with self._lock:
            compiling = bool(self._begun - self._known)
            suited = (p for p in self._waiting if (self._kinds[p] in self._known) is compiling)
            place = next(suited, self._waiting[0])
            self._waiting.remove(place)
            self._begun.add(self._kinds[place])
            return place

    def end(self, place: int) -> None:
        """A job is done, or has failed."""
        with self._lock:
            self._known.add(self._kinds[place])


class _StoppedError(Exception):
    """Ends a job that nobody waits for any more."""


def _done(job: Job, progress: Progress, stopped: threading.Event) -> Any:
    def advance(amount: float) -> None:
        if stopped.is_set():
            raise _StoppedError
        progress.advance(amount)

    progress.begin(job.name)
    data = None if job.data is None else job.data.build()
    return job.work(data, *job.arguments, advance=advance)


def engine_of(
    name: str = "local",
    *,
    jobs: int | None = None,
    address: str | None = None,
    gpus: float = 0.0,
) -> Engine:
    """The engine of a name.

    Args:
        name: ``"local"`` for threads of this process, or ``"ray"``.
        jobs: how many jobs run at a time, >= 1; None: as many as there are cores.
        address: of a Ray cluster; see :class:`heavystep.sweeps.ray_engine.RayEngine`.
        gpus: that each job needs on a cluster.

    Raises:
        ValueError: there is no such engine, or an option is not for it.
        ModuleNotFoundError: Ray is not installed.

    >>> engine_of("local", jobs=2)
    LocalEngine(jobs=2)
    """
    validation.choice("engine", name, ENGINES)
    if jobs is not None:
        validation.integer("jobs", jobs, 1)
    if name == "ray":
        import ray  # noqa: F401  # an extra: that it is missing is said before anything runs

        from heavystep.sweeps.ray_engine import RayEngine

        return RayEngine(address, jobs, gpus)
    if address is not None:
        raise ValueError("address is that of a Ray cluster: it needs the engine 'ray'")
    return LocalEngine(jobs)
