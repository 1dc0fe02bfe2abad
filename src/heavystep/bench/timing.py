"""Measures wall times on a machine that may be busy."""

import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from threadpoolctl import threadpool_limits

Job = Callable[[], object]
REPEATS = 3
CPU_FILE = Path("/proc/cpuinfo")
RUNS_A_TURN = 2
"""Each job is run this often in a turn: the first run pays for caches that others have filled."""


def load_average() -> float:
    """The mean number of running processes in the last minute; 0 where it is not known."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def machine() -> str:
    """The processor, and the GPU if torch sees one."""
    lines = CPU_FILE.read_text().splitlines() if CPU_FILE.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = next(iter(models), "") or platform.processor() or platform.machine()
    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    return processor + gpu


def seconds_of(job: Job) -> float:
    """The time of one call, in seconds."""
    begin = time.perf_counter()
    job()
    return time.perf_counter() - begin


def best_of(job: Job, repeats: int = REPEATS) -> float:
    """The shortest time of a few repetitions, in seconds; a busy machine only adds to it."""
    return min(seconds_of(job) for _ in range(repeats))


def in_turns(prepare: Mapping[str, Callable[[], Job]], repeats: int) -> dict[str, list[float]]:
    """All times of each job, in seconds.

    The jobs take turns, so that a busy spell of the machine falls on all of them.

    Args:
        prepare: makes each job anew, which is not timed.
        repeats: number of turns.
    """
    times: dict[str, list[float]] = {name: [] for name in prepare}
    for _ in range(repeats):
        for name, make in prepare.items():
            times[name] += [seconds_of(make()) for _ in range(RUNS_A_TURN)]
    return times


def interleaved(prepare: Mapping[str, Callable[[], Job]], repeats: int) -> dict[str, float]:
    """The shortest time of each job, as :func:`in_turns` takes them."""
    return {name: min(times) for name, times in in_turns(prepare, repeats).items()}


@contextmanager
def one_thread() -> Iterator[None]:
    """Within the block, torch, BLAS and OpenMP use one thread each."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(threads)
