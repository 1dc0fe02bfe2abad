"""Work for the workers of a cluster, which import it by name."""

import os
import signal
import time
from pathlib import Path

import numpy
import threadpoolctl

from heavystep.data.cifar import CIFAR
from heavystep.sweeps.training import train_there
from tests.helpers import tiny_cifar
from tests.helpers.launch import PATIENCE

LATE = 1.5
"""Seconds that a job takes which nobody waits for."""


def attempt(folder):
    """Which attempt at a job this is, counted on disk."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    number = len(list(Path(folder).iterdir())) + 1
    (Path(folder) / str(number)).touch()
    return number


def double(data, number, advance):
    return 2 * number


def add(data, number, advance):
    return data.sum() + number


def crash_once(data, folder, advance):
    number = attempt(folder)
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def always_fail(data, folder, advance):
    attempt(folder)
    raise ArithmeticError("no such number")


def meet(data, folder, number, advance):
    """The node on which this runs, once the other one is there."""
    import ray

    (folder / str(number)).touch()
    deadline = time.monotonic() + PATIENCE
    while len(list(folder.iterdir())) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return ray.get_runtime_context().get_node_id()


def begin_and_end(data, seconds, advance):
    begin = time.time()
    time.sleep(seconds)
    return begin, time.time()


def mark_late(data, folder, advance):
    (folder / "begun").touch()
    time.sleep(LATE)
    (folder / "ended").touch()


def threads(data, advance):
    numpy.ones((50, 50)) @ numpy.ones((50, 50))
    pools = {pool["internal_api"]: pool["num_threads"] for pool in threadpoolctl.threadpool_info()}
    return pools, os.environ["NUMBA_NUM_THREADS"]


def data_folder(data, advance):
    return os.environ.get("HEAVYSTEP_DATA")


def train_tiny_there(data, *arguments, counts, advance):
    """Train on tiny data sets in place of the published ones."""
    CIFAR["cifar10"], _ = tiny_cifar.sized("cifar10", counts)
    return train_there(data, *arguments, advance=advance)
