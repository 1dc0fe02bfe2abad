"""Sweeps on a real Ray cluster of two nodes: the same bytes, whatever is lost on the way."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from heavystep.cli.app import app
from heavystep.data.cifar import CIFAR
from heavystep.paper.figure1.definition import figure1
from heavystep.sweeps import training as figure3_sweep
from heavystep.sweeps.engines import Job, LocalEngine, Outcome
from heavystep.sweeps.runner import complete
from heavystep.sweeps.store import Store
from heavystep.training import setup as training_setup
from tests.helpers import tiny_cifar
from tests.helpers.launch import PATIENCE
from tests.helpers.told import Told
from tests.sweeps import ray_jobs

ray = pytest.importorskip("ray")
from ray._private.state import available_resources_per_node  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402

from heavystep.sweeps import ray_engine  # noqa: E402
from heavystep.sweeps.ray_engine import TRIES, RayEngine  # noqa: E402

pytestmark = pytest.mark.slow  # a cluster takes long to start, and to lose its nodes
NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20}


@pytest.fixture(scope="module")
def cluster():
    """The head and another node."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patched.delenv("RAY_ADDRESS", raising=False)
        patched.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # of the nodes
        made = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
        made.add_node(**NODE)
        yield made
        made.shutdown()


@pytest.fixture(scope="class")
def connection(cluster):
    """One for many tests, since it and its workers take seconds to start."""
    ray.init(cluster.address, log_to_driver=False)
    yield
    ray.shutdown()


def outcomes(jobs, told=None, most=None):
    return sorted(RayEngine(jobs=most).outcomes(jobs, told or Told()))


def notes(told):
    """All but that Ray waits for a core, which it does on a busy machine."""
    return [note for note in told.notes if not note.startswith("waiting for a free core")]


def wait_until(something):
    deadline = time.monotonic() + PATIENCE
    while not something():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def contents(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


class Ones:
    """Data that many jobs read; counts how often they are built."""

    def __init__(self):
        self.built = 0

    def build(self):
        self.built += 1
        return np.ones(5)


@pytest.mark.usefixtures("connection")
class TestJobs:
    def test_they_come_back_whatever_their_order(self):
        told = Told()
        jobs = [Job(f"number {k}", ray_jobs.double, (k,), 3) for k in range(7)]
        assert outcomes(jobs, told) == [Outcome(k, 2 * k) for k in range(7)]
        assert told.amount == 21
        assert notes(told) == []
        assert ray.is_initialized()  # the connection of the program outlives the sweep

    def test_data_are_built_once_and_sent(self):
        ones = Ones()
        jobs = [Job("sum", ray_jobs.add, (k,), 1, ones) for k in range(4)]
        assert [outcome.value for outcome in outcomes(jobs)] == [5.0, 6.0, 7.0, 8.0]
        assert ones.built == 1

    def test_both_nodes_work_at_the_same_time(self, tmp_path):
        jobs = [Job("", ray_jobs.meet, (tmp_path, k), 1) for k in range(2)]
        assert len({outcome.value for outcome in outcomes(jobs)}) == 2

    def test_no_more_at_a_time_than_asked_for(self):
        jobs = [Job("", ray_jobs.begin_and_end, (0.2,), 1) for _ in range(3)]
        times = sorted(outcome.value for outcome in outcomes(jobs, most=1))
        assert all(end <= begin for (_, end), (begin, _) in pairwise(times))

    def test_each_library_has_one_thread(self):
        ((_, (pools, numba), _),) = outcomes([Job("", ray_jobs.threads, (), 1)])
        assert pools
        assert set(pools.values()) == {1}
        assert numba == "1"

    def test_workers_look_for_data_where_we_do(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HEAVYSTEP_DATA", "data")
        ((_, folder, _),) = outcomes([Job("", ray_jobs.data_folder, (), 1)])
        assert folder == str(tmp_path / "data")  # workers are at home elsewhere

    def test_a_worker_that_dies_is_replaced(self, tmp_path):
        told = Told()
        jobs = [Job("fragile", ray_jobs.crash_once, (tmp_path / "fragile",), 1)]
        assert outcomes(jobs, told) == [Outcome(0, 2)]
        (note,) = notes(told)
        assert note.startswith("fragile: The worker died")
        assert note.endswith("it is tried again")

    def test_what_fails_three_times_is_reported_and_the_rest_goes_on(self, tmp_path):
        jobs = [
            Job("hopeless", ray_jobs.always_fail, (tmp_path / "hopeless",), 1),
            *(Job(f"number {k}", ray_jobs.double, (k,), 1) for k in range(3)),
        ]
        failed, *others = outcomes(jobs)
        assert len(list((tmp_path / "hopeless").iterdir())) == TRIES == 3
        assert "ray_jobs.py" in failed.failure
        assert failed.failure.endswith("ArithmeticError: no such number")
        assert "\x1b" not in failed.failure
        assert [outcome.value for outcome in others] == [0, 2, 4]

    def test_another_heavystep_on_the_cluster_is_refused(self, monkeypatch):
        monkeypatch.setattr(ray_engine, "hash_sources", lambda names: "another")
        with pytest.raises(ValueError, match="another heavystep"):
            outcomes([Job("", ray_jobs.double, (1,), 1)])

    def test_what_tasks_wait_for_is_told(self):
        class Impatient(Told):
            def note(self, text):
                raise TimeoutError(text)

        some = RayEngine(gpus=1.0).outcomes([Job("", ray_jobs.double, (1,), 1)], Impatient())
        with pytest.raises(TimeoutError, match="no GPU: waiting until a node with one joins it"):
            next(some)

    def test_closed_it_stops_what_is_in_flight(self, tmp_path):
        jobs = [Job("", ray_jobs.double, (1,), 1), Job("", ray_jobs.mark_late, (tmp_path,), 1)]
        some = RayEngine().outcomes(jobs, Told())
        assert next(some) == Outcome(0, 2)
        wait_until((tmp_path / "begun").exists)
        some.close()
        time.sleep(ray_jobs.LATE + 0.5)
        assert not (tmp_path / "ended").exists()


def test_a_driver_killed_goes_on(cluster, tmp_path):
    runs = figure1(seeds=2, iterations=30_000).runs()
    complete(runs, Store(tmp_path / "here"), Told(), engine=LocalEngine(2))
    command = ["reproduce", "figure1", "--seeds", "2", "--iterations", "30000"]
    command += ["--engine", "ray", "--address", cluster.address, "--out", str(tmp_path / "there")]
    driver = subprocess.Popen(
        [sys.executable, "-m", "heavystep", *command],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.DEVNULL,
    )
    stored = tmp_path / "there" / "figure1" / "runs"
    wait_until(lambda: len(list(stored.glob("*.parquet"))) >= 3 or driver.poll() is not None)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    kept = len(list(stored.glob("*.parquet")))
    assert kept < 28
    result = CliRunner().invoke(app, command)
    assert f"{kept} of 28 runs are there already" in result.output
    for path in stored.glob(".*"):  # what was being written when it was killed
        path.unlink()
    assert contents(stored) == contents(tmp_path / "here")


def test_training_is_the_same_on_a_cluster(cluster, tmp_path, monkeypatch):
    """Runs and checkpoints are written by the workers, into the folder that all see."""
    counts = (103, 103, 103, 103, 100, 256)
    entry, files = tiny_cifar.sized("cifar10", counts)
    monkeypatch.setenv("HEAVYSTEP_DATA", str(tmp_path / "data"))
    monkeypatch.setitem(CIFAR, "cifar10", entry)
    tiny_cifar.write(tmp_path / "data" / entry.folder, files)
    training_setup.images_of.cache_clear()
    tiny = partial(ray_jobs.train_tiny_there, counts=counts)
    monkeypatch.setattr(figure3_sweep, "train_there", tiny)
    options = ["--quick", "--seeds", "1", "--epochs", "1", "--device", "cpu"]
    options += ["--datasets", "cifar10"]
    monkeypatch.chdir(tmp_path)
    on_ray = ["--engine", "ray", "--address", cluster.address, "--tensorboard", "logs"]
    made = [
        CliRunner().invoke(app, ["reproduce", "figure3", *options, *more, "--out", str(out)])
        for more, out in (([], tmp_path / "here"), (on_ray, tmp_path / "there"))
    ]
    training_setup.images_of.cache_clear()
    assert [result.exit_code for result in made] == [0, 0], made[1].output
    here, there = (tmp_path / where / "figure3" for where in ("here", "there"))
    assert (here / "claims.json").read_bytes() == (there / "claims.json").read_bytes()
    assert len(list((there / "checkpoints").iterdir())) == 8
    assert len(list((there / "runs").iterdir())) == 8
    for path in (here / "runs").iterdir():
        numbers = [
            pq.read_table(each).drop_columns("seconds")
            for each in (path, there / "runs" / path.name)
        ]
        assert numbers[0].equals(numbers[1])
    assert (tmp_path / "logs").exists()  # not where the workers are at home


class Killer(Told):
    """Kills a node as soon as it works, when the first job is done."""

    def __init__(self, cluster, victim):
        super().__init__()
        self.cluster, self.victim, self.killed = cluster, victim, False

    def advance(self, amount):
        super().advance(amount)
        if not self.killed:
            wait_until(lambda: not available_resources_per_node()[self.victim.node_id].get("CPU"))
            self.cluster.remove_node(self.victim, allow_graceful=False)
            self.killed = True


def test_a_node_killed_in_the_middle_changes_no_byte(cluster, tmp_path):
    """The last test, since it leaves one node."""
    runs = dict(list(figure1(seeds=2, iterations=2 * 10**6).runs().items())[:6])
    complete(runs, Store(tmp_path / "here"), Told(), engine=LocalEngine(2))
    (victim,) = set(cluster.list_all_nodes()) - {cluster.head_node}
    killer = Killer(cluster, victim)
    complete(runs, Store(tmp_path / "there"), killer, engine=RayEngine(cluster.address))
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    lost = notes(killer)
    assert lost
    assert all("node" in note and note.endswith("tried again") for note in lost)
    assert all(note.count(". ") == 0 for note in lost)  # the first of Ray's sentences
    assert killer.amount == 6 * 2 * 2 * 10**6
