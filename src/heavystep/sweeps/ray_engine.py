"""The engine that does jobs as tasks of a Ray cluster.

Ray is an extra: it is imported when it is used, so that this module can be imported without it.
"""

import logging
import os
import re
import socket
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from heavystep.files import hash_sources
from heavystep.sweeps.engines import Data, Job, Outcome, Outcomes, Progress

TRIES = 3
"""A job is given up after this many failures."""
LOSSES = 10
"""A job is given up after it has lost its node this often, which is then no accident."""
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS",
     "VECLIB_MAXIMUM_THREADS"), "1"
)  # fmt: skip
"""Each task has one core, so its libraries must not start a thread for every core."""
FOLDERS = ("HEAVYSTEP_DATA", "HEAVYSTEP_CACHE")
"""Environment variables of this process that workers get, too: where data and kernels are."""
IN_ADVANCE = 2
"""How many tasks are handed out for each core, so that no core waits for this process."""
WAIT = 2.0
"""Seconds between two looks at the size of the cluster, which may grow."""
PATIENCE = 10.0
"""Seconds to wait for an answer of the cluster."""
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class RayEngine:
    """Does jobs as tasks of a Ray cluster, one core each; results come back to this process.

    A task that raises, or whose worker dies, is tried three times in all. A task whose node is
    lost is tried again elsewhere. Data are built here and sent once, so that workers need no data
    files. All nodes must have the same heavystep, which is checked.
    """

    address: str | None = None
    """The address of the cluster, or "auto" for the one on this machine. None: the one that
    ``RAY_ADDRESS`` names, or else one that is started here for the sweep."""
    jobs: int | None = None
    """How many tasks run at a time; None: as many as the cluster has cores."""
    gpus: float = 0.0
    """How many GPUs a task needs."""

    def outcomes(self, jobs: Sequence[Job], progress: Progress) -> Outcomes:
        """See :class:`~heavystep.sweeps.engines.Engine`."""
        with _connected(self.address):
            _tell_what_is_missing(self.gpus, progress)
            _check_workers(progress)
            sweep = _Sweep(jobs, progress, self)
            try:
                yield from sweep.outcomes()
            finally:
                sweep.give_up()


@contextmanager
def _connected(address: str | None) -> Iterator[None]:
    import ray

    if ray.is_initialized():  # by a program that uses Ray itself
        yield
        return
    found = address or os.environ.get("RAY_ADDRESS") or "local"
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options: dict[str, Any] = {"include_dashboard": False} if found == "local" else {}
    try:
        _knock(found)
        ray.init(found, log_to_driver=False, logging_level=logging.ERROR, **options)
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).partition(". ")[0]
        raise ValueError(
            f"cannot reach a Ray cluster at {found} ({reason}): start one with 'ray start --head', "
            "or leave out the address for one on this machine"
        ) from None
    try:
        yield
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """Fail at once if nobody answers at host:port: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=PATIENCE).close()


def sources() -> str:
    """The hash of the whole package."""
    return hash_sources((".",))


def _tell_what_is_missing(gpus: float, progress: Progress) -> None:
    """Report what tasks will wait for. This is no error, because a cluster may grow by itself."""
    there = _resources()
    for name, text, needed in (("CPU", "core", 1.0), ("GPU", "GPU", gpus)):
        if there.get(name, 0.0) < needed:
            progress.note(f"the cluster has no {text}: waiting until a node with one joins it")


def _resources() -> dict[str, float]:
    import ray

    there: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return there


def _check_workers(progress: Progress) -> None:
    """Check that a worker has the same heavystep.

    Raises:
        ValueError: it has none, or a different one.
    """
    import ray
    from ray import exceptions

    task = _remote(sources).remote()
    if not ray.wait([task], timeout=PATIENCE)[0]:
        progress.note("waiting for a free core of the cluster")
    try:
        theirs = ray.get(task)
    except exceptions.RayError as error:
        raise ValueError(f"heavystep does not work on the cluster: {_last_line(error)}") from None
    if theirs != sources():
        raise ValueError("the cluster has another heavystep than this process: install the same")


def _remote(function: Any, gpus: float = 0.0) -> Any:
    """A task that Ray itself does not try again, so that tries can be counted here."""
    import ray

    # Absolute paths, because workers run in another folder.
    ours = {name: os.path.abspath(os.environ[name]) for name in FOLDERS if os.environ.get(name)}
    environment = {"env_vars": {**ours, **ONE_THREAD}}
    decorate = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=0, runtime_env=environment)
    return decorate(function)


def _task(work: Any, data: Any, arguments: tuple[Any, ...]) -> Any:
    return work(data, *arguments, advance=lambda amount: None)


class _Sweep:
    """The jobs that wait and the tasks in flight."""

    def __init__(self, jobs: Sequence[Job], progress: Progress, engine: RayEngine) -> None:
        self._jobs, self._progress, self._most = jobs, progress, engine.jobs
        self._task = _remote(_task, engine.gpus)
        self._waiting = deque(range(len(jobs)))
        self._flying: dict[Any, int] = {}
        self._sent: dict[Data | None, Any] = {None: None}
        self._failures: Counter[int] = Counter()
        self._losses: Counter[int] = Counter()

    def outcomes(self) -> Iterator[Outcome]:
        """Do all jobs and yield one outcome for each."""
        import ray

        while self._waiting or self._flying:
            self._hand_out()
            done, _ = ray.wait(list(self._flying), num_returns=1, timeout=WAIT)
            for task in done:
                outcome = self._landed(task, self._flying.pop(task))
                if outcome is not None:
                    yield outcome

    def give_up(self) -> None:
        """Stop the tasks in flight."""
        import ray

        for task in self._flying:
            ray.cancel(task, force=True)

    def _hand_out(self) -> None:
        import ray

        cores = int(_resources().get("CPU", 0.0))
        most = self._most or IN_ADVANCE * max(cores, 1)
        while self._waiting and len(self._flying) < most:
            place = self._waiting.popleft()
            job = self._jobs[place]
            if job.data not in self._sent:
                assert job.data is not None
                self._sent[job.data] = ray.put(job.data.build())
            task = self._task.remote(job.work, self._sent[job.data], job.arguments)
            self._flying[task] = place
            self._progress.begin(job.name)

    def _landed(self, task: Any, place: int) -> Outcome | None:
        """The outcome of a task; None if its job has to be done again."""
        import ray
        from ray import exceptions

        # Through no fault of the job its node is gone, or went with its result.
        lost = (
            exceptions.NodeDiedError, exceptions.ObjectLostError, exceptions.LocalRayletDiedError,
        )  # fmt: skip
        job = self._jobs[place]
        try:
            value = ray.get(task)
        except exceptions.RayError as error:
            counts, limit = self._failures, TRIES
            if isinstance(error, lost):
                counts, limit = self._losses, LOSSES
            counts[place] += 1
            if counts[place] == limit:
                return Outcome(place, failure=_text(error))
            self._progress.note(f"{job.name}: {_last_line(error)}; it is tried again")
            self._waiting.appendleft(place)
            return None
        self._progress.advance(job.amount)
        return Outcome(place, value)


def _text(error: Exception) -> str:
    """The message of an error of Ray, which holds the traceback of the task."""
    return COLOURS.sub("", str(error)).strip()


def _last_line(error: Exception) -> str:
    """The line that says what happened: the last of a traceback, the first of Ray's own texts."""
    from ray import exceptions

    lines = _text(error).splitlines() or [type(error).__name__]
    if isinstance(error, exceptions.RayTaskError):
        return lines[-1]
    return lines[0].partition(". ")[0]
