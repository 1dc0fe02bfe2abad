"""Where the jobs of a sweep are done; here: in threads of this process.

An engine takes jobs and gives outcomes as they come, in any order. What a job computes does not
depend on the engine, so that results are the same to the byte.
"""

import os
import threading
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

Advance = Callable[[float], None]


class Progress(Protocol):
    """What an engine tells, from any thread."""

    def note(self, text: str) -> None:
        """Something that the user should know."""

    def begin(self, run: str) -> None:
        """A job begins."""

    def advance(self, amount: Any) -> None:
        """So much was done, in the unit of :attr:`Job.amount`."""


class Data(Protocol):
    """What many jobs read; hashable, so that it is built once."""

    def build(self) -> Any:
        """The data themselves."""


@dataclass(frozen=True)
class Job:
    """A piece of a sweep, which any process can do.

    ``work(data, *arguments, advance)`` does it: a function of a module, told by name to other
    processes. It calls ``advance(amount)`` now and then.
    """

    name: str
    """For people."""
    work: Callable[..., Any]
    arguments: tuple[Any, ...]
    amount: float
    """How much there is to do, for the progress."""
    data: Data | None = None


class Outcome(NamedTuple):
    """What came of a job."""

    place: int
    """Which of the jobs it was."""
    value: Any = None
    failure: str = ""
    """The traceback, if it failed for good."""


Outcomes = Generator[Outcome, None, None]


class Engine(Protocol):
    """Does jobs."""

    def outcomes(self, jobs: Sequence[Job], progress: Progress) -> Outcomes:
        """One of each job; a failed job does not keep the others from being done.

        Closing the generator gives up the jobs in flight.
        """


@dataclass(frozen=True)
class LocalEngine:
    """Threads of this process, for work that releases the interpreter's lock."""

    jobs: int | None = None
    """How many at a time; None: as many as there are cores."""

    def outcomes(self, jobs: Sequence[Job], progress: Progress) -> Outcomes:
        """See :class:`Engine`."""
        with _threads(self.jobs) as (pool, stopped):
            futures = {
                pool.submit(_done, job, progress, stopped): place for place, job in enumerate(jobs)
            }
            for future in as_completed(futures):
                place = futures[future]
                try:
                    outcome = Outcome(place, future.result())
                except Exception:
                    outcome = Outcome(place, failure=traceback.format_exc())
                yield outcome


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


def _done(job: Job, progress: Progress, stopped: threading.Event) -> Any:
    def advance(amount: float) -> None:
        if stopped.is_set():
            raise _StoppedError
        progress.advance(amount)

    progress.begin(job.name)
    data = None if job.data is None else job.data.build()
    return job.work(data, *job.arguments, advance=advance)
