"""The engine that does jobs in processes of this machine, one core each.

It is for work that holds the interpreter's lock or draws from torch's own random numbers, which
threads of one process would share.
"""

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from heavystep.sweeps.engines import Engine, Job, LocalEngine, Outcome, Outcomes, Progress

BEGIN, ADVANCE = "begin", "advance"
_parent: dict[str, Any] = {}
"""In a process that does jobs: where it reports to, and whether it is to stop."""


@dataclass(frozen=True)
class ProcessEngine:
    """Does jobs in new processes; each of them does many, one after another."""

    jobs: int | None = None
    """How many jobs run at a time; None: one for each core."""

    def outcomes(self, jobs: Sequence[Job], progress: Progress) -> Outcomes:
        """See :class:`~heavystep.sweeps.engines.Engine`."""
        # Not forked: a copy of a process that has used CUDA or OpenMP may hang.
        context = multiprocessing.get_context("spawn")
        reports, stopped = context.SimpleQueue(), context.Event()
        count = min(self.jobs or os.cpu_count() or 1, len(jobs))
        pool = ProcessPoolExecutor(count, context, _prepare, (reports, stopped))
        with _forwarded(reports, progress):
            try:
                futures = {pool.submit(_done, job): place for place, job in enumerate(jobs)}
                for future in as_completed(futures):
                    try:
                        outcome = Outcome(futures[future], future.result())
                    except Exception:
                        outcome = Outcome(futures[future], failure=traceback.format_exc())
                    yield outcome
            finally:  # the generator may have been closed: nobody waits for the other jobs
                stopped.set()
                pool.shutdown(cancel_futures=True)


@contextmanager
def _forwarded(reports: Any, progress: Progress) -> Iterator[None]:
    """Within the block, pass on what processes report."""

    def forward() -> None:
        while (report := reports.get()) is not None:
            kind, value = report
            (progress.begin if kind == BEGIN else progress.advance)(value)

    thread = threading.Thread(target=forward, daemon=True)
    thread.start()
    try:
        yield
    finally:
        reports.put(None)
        thread.join()


def _prepare(reports: Any, stopped: Any) -> None:
    """Begin a process that does jobs."""
    _parent.update(reports=reports, stopped=stopped)
    end_with_parent()


def end_with_parent() -> None:
    """Let the process that started this one decide when it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_follow, daemon=True).start()


def _follow() -> None:
    """End with the process that started this one, even if that was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class _StoppedError(Exception):
    """Ends a job that nobody waits for any more."""


def _done(job: Job) -> Any:
    reports, stopped = _parent["reports"], _parent["stopped"]

    def advance(amount: float) -> None:
        if stopped.is_set():
            raise _StoppedError
        reports.put((ADVANCE, amount))

    reports.put((BEGIN, job.name))
    data = None if job.data is None else job.data.build()
    return job.work(data, *job.arguments, advance=advance)


def isolated(engine: Engine) -> Engine:
    """The same engine for jobs that must not share a process: threads become processes.

    Args:
        engine: one at a time needs no other process, and stays as it is.
    """
    if isinstance(engine, LocalEngine) and engine.jobs != 1:
        return ProcessEngine(engine.jobs)
    return engine
