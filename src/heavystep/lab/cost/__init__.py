"""What things cost, as ratios within one run, because machines differ."""

import os
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from heavystep.optimizers import searches

Job = Callable[[], object]
CPU_FILE = Path("/proc/cpuinfo")
RUNS_A_TURN = 2
"""Each job is run this often in a turn: the first run pays for caches that others have filled."""
MEASURED: dict[str, tuple[str, dict[str, Any]]] = {
    "HeavyStep": ("HeavyStep", {}),
    "HeavyStep, no metric": ("HeavyStep", {"diagonal": None}),
    "SHB": ("SHB", {"lr": 1e-2}),
    "SHBPolyak": ("SHBPolyak", {"scaling": "practical"}),
    "SHBArmijo": ("SHBArmijo", {"scaling": "practical"}),
}
"""Whose costs are measured: method and options by the name in tables."""


def load_average() -> float:
    """The mean number of running processes in the last minute; 0 where it is not known."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def machine() -> str:
    """The processor, and the GPU if torch sees one."""
    lines = CPU_FILE.read_text().splitlines() if CPU_FILE.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = next(iter(models), "") or platform.processor() or platform.machine()
    return processor + (f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else "")


def seconds_of(job: Job) -> float:
    """The time of one call."""
    begin = time.perf_counter()
    job()
    return time.perf_counter() - begin


def in_turns(jobs: Mapping[str, Job], repeats: int, before: Job = int) -> dict[str, list[float]]:
    """All times of each job in seconds; they take turns, so that a busy spell falls on all.

    ``before`` is called before each measurement, and is not timed.
    """
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(repeats):
        for name, job in jobs.items():
            for _ in range(RUNS_A_TURN):
                before()
                times[name].append(seconds_of(job))
    return times


def shortest(jobs: Mapping[str, Job], repeats: int) -> dict[str, float]:
    """The shortest time of each job: it found a moment in which the machine did nothing else."""
    return {name: min(times) for name, times in in_turns(jobs, repeats).items()}


def usual_step(optimizer: Any, loss: Callable[[], Tensor]) -> None:
    """One step of any optimizer, of heavystep or of torch, as one usually writes it."""
    if searches(optimizer):
        optimizer.step(loss)
        return
    optimizer.zero_grad()
    value = loss()
    value.backward()  # type: ignore[no-untyped-call]
    optimizer.step(**({"loss": value} if hasattr(optimizer, "info") else {}))
