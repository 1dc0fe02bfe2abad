"""Sweeps: what is kept, what is run again, and what survives when somebody is killed."""

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from datetime import timedelta

import numpy as np
import pytest

from heavystep.lab.engines import Engine
from heavystep.lab.store import PREFIX, DamagedError, Store, claim_folder, write_atomically
from heavystep.lab.sweeps import FailedRunsError, complete, outcomes
from tests.helpers.launch import PATIENCE
from tests.helpers.places import ROOT
from tests.helpers.toy_runs import Threaded, Told, Toy

every_kind = pytest.mark.parametrize("kind", [Threaded, Toy], ids=["threads", "processes"])


def files(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.glob("[!.]*"))}


@every_kind
def test_results_are_kept_and_not_made_again(kind, tmp_path):
    runs, store, told = [kind(number) for number in range(5)], Store(tmp_path), Told()
    results = complete([*runs, runs[0]], store, told, Engine(jobs=2))
    assert told.started == (5, 0, 5.0)
    assert (told.finished, told.amount, len(told.begun)) == (5, 5.0, 5)
    for run in runs:
        np.testing.assert_array_equal(results[run.key()]["value"], run.compute(float)["value"])
    before, again = files(tmp_path), Told()
    assert list(complete(runs, store, again, Engine(jobs=2))) == [run.key() for run in runs]
    assert again.started == (5, 5, 0)
    assert not again.begun
    assert files(tmp_path) == before  # to the byte


@every_kind
def test_the_others_go_on_when_one_fails(kind, tmp_path):
    runs, told = [kind(0), kind(1, fails=True), kind(2)], Told()
    with pytest.raises(FailedRunsError, match="1 of 3 runs failed, what is complete is kept") as at:
        complete(runs, Store(tmp_path), told, Engine(jobs=2))
    assert set(at.value.results) == {runs[0].key(), runs[2].key()}
    assert "toy 1 (ValueError: number 1 is refused)" in str(at.value)
    assert len(files(tmp_path)) == 2
    assert any("Traceback" in note for note in told.notes)


def test_a_killed_worker_loses_what_it_held_and_one_that_always_is_its_run(tmp_path):
    runs = [Toy(number, tmp_path / f"mark{number}", kills=number == 3) for number in range(6)]
    told = Told()
    assert len(complete(runs, Store(tmp_path / "runs"), told, Engine(jobs=2))) == 6
    assert any("a worker was lost" in note for note in told.notes)
    always = [Toy(10), Toy(11, tmp_path / "nowhere" / "mark", kills=True)]  # it can leave no mark
    with pytest.raises(FailedRunsError) as at:
        complete(always, Store(tmp_path / "runs"), Told(), Engine(jobs=1))
    assert set(at.value.results) == {always[0].key()}


def test_a_progress_that_raises_loses_no_run(tmp_path, monkeypatch):
    monkeypatch.setattr(Told, "advance", lambda told, amount: timedelta(seconds=1e99 * amount))
    runs = [Toy(0), Toy(1)]
    assert len(complete(runs, Store(tmp_path), Told(), Engine(jobs=1))) == 2


def test_closing_gives_up_what_is_in_flight():
    runs = [Threaded(number, seconds=0.05) for number in range(50)]
    wanted = {run.key(): run for run in runs}
    with closing(outcomes(wanted, Told(), Engine(jobs=2))) as found:
        next(found)
        begin = time.monotonic()
    assert time.monotonic() - begin < 2.0


BAD = [
    (Engine("locl"), "engine must be one of 'local', 'ray', 'dask', got 'locl'"),
    (Engine(jobs=0), "jobs must be >= 1, got 0"),
    (Engine(address="here:1"), "address is that of a cluster: it needs the engine 'ray' or 'dask'"),
    (Engine("dask", None, "localhost:1"), "cannot reach a Dask cluster at localhost:1"),
    (Engine("ray", None, "localhost:1"), "cannot reach a Ray cluster at localhost:1"),
]


@pytest.mark.parametrize(("engine", "message"), BAD)
def test_bad_engines(engine, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        complete([Toy(0)], Store(tmp_path), Told(), engine)
    assert not files(tmp_path)


SCRIPT = """
import sys
from pathlib import Path
from heavystep.lab.store import Store
from heavystep.lab.engines import Engine
from heavystep.lab.sweeps import complete
from tests.helpers.toy_runs import Toy
if __name__ == "__main__":
    runs = [Toy(number, seconds=0.1) for number in range(12)]
    engine = Engine(sys.argv[2], 2, sys.argv[3] or None)
    complete(runs, Store(Path(sys.argv[1])), None, engine)
"""
SEARCHED = os.pathsep.join([str(ROOT), *sys.path])


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "driver.py"
    path.write_text(SCRIPT)
    return path


def driver(folder, script, engine="local", address=""):
    return subprocess.Popen(
        [sys.executable, str(script), str(folder), engine, address],
        env={**os.environ, "PYTHONPATH": SEARCHED}, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip


def wait_for(number, folder, process):
    deadline = time.monotonic() + PATIENCE
    while len(list(folder.glob("*.parquet"))) < number and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def survives(harm, engine, address, script, tmp_path):
    """Results are those of this machine; neither harm nor killed drivers lose what is kept."""
    here, there = tmp_path / "here", tmp_path / "there"
    assert driver(here, script).wait(PATIENCE) == 0
    for kept in (3, 6):
        process = driver(there, script, engine, address)
        wait_for(kept, there, process)
        if kept == 3:
            harm()
            wait_for(5, there, process)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert len(list(there.glob("*.parquet"))) >= kept
    assert driver(there, script, engine, address).wait(PATIENCE) == 0
    assert files(there) == files(here)
    assert len(files(here)) == 12


@pytest.fixture
def ray_cluster(monkeypatch):
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("PYTHONPATH", SEARCHED)  # of the nodes
    node = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    other = cluster.add_node(**node)
    yield cluster.address, lambda: cluster.remove_node(other, allow_graceful=False)
    cluster.shutdown()


@pytest.mark.slow
def test_a_driver_that_is_killed_goes_on_to_the_same_bytes(script, tmp_path):
    survives(lambda: None, "local", "", script, tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the libraries themselves
def test_a_started_dask_cluster_loses_a_worker_and_a_driver(script, tmp_path):
    from distributed import LocalCluster

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options, env={"PYTHONPATH": SEARCHED}) as cluster:
        first = next(iter(cluster.workers.values())).process.pid
        address = cluster.scheduler_address
        survives(lambda: os.kill(first, signal.SIGKILL), "dask", address, script, tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_started_ray_cluster_loses_a_node_and_a_driver(ray_cluster, script, tmp_path):
    address, lose_a_node = ray_cluster
    survives(lose_a_node, "ray", address, script, tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("engine", ["ray", "dask"])
def test_a_cluster_of_its_own_survives_a_killed_worker(engine, script, tmp_path):
    killing = "Path(sys.argv[1] + f'-{number}'), kills=number == 4"
    script.write_text(SCRIPT.replace("seconds=0.1", killing))
    assert driver(tmp_path / "runs", script, engine).wait(PATIENCE) == 0
    assert len(files(tmp_path / "runs")) == 12
    assert (tmp_path / "runs-4").exists()


RUN = Toy(7)
COLUMNS = {
    "k": np.arange(1000),
    "seed": np.zeros(1000, dtype=np.int64),
    "x": np.random.default_rng(1).normal(size=1000),
}


def test_a_store_gives_back_the_same_bits_of_the_run_that_was_asked_for(tmp_path):
    store = Store(tmp_path)
    store.save("key", "what", COLUMNS)
    found = store.load("key", "what")
    assert [(k, v.tobytes()) for k, v in found.items()] == [
        (k, v.tobytes()) for k, v in COLUMNS.items()
    ]
    assert all(values.flags.writeable for values in found.values())
    assert store.load("other", "what") is None
    with pytest.raises(DamagedError, match="is not the run that its name says"):
        store.load("key", "another")


def damage_data(path):
    """One bit of the numbers, far from the footer."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)


DAMAGE = {
    "cut": (lambda path: path.write_bytes(path.read_bytes()[:-50]), "cannot be read"),
    "one bit": (damage_data, "cannot be read|does not hold the numbers"),
    "empty": (lambda path: path.write_bytes(b""), "cannot be read"),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), "cannot be read"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_noticed_and_run_again(damage, tmp_path):
    (harm, message), store, told = DAMAGE[damage], Store(tmp_path), Told()
    store.save("key", "what", COLUMNS)
    harm(store.path("key"))
    with pytest.raises(DamagedError, match=message):
        store.load("key", "what")
    if damage == "cut":
        complete([RUN], store, told)
        harm(store.path(RUN.key()))
        complete([RUN], store, told)
        assert any("it has to be run again" in note for note in told.notes)
        assert store.load(RUN.key(), RUN.text()) is not None


def test_files_appear_in_one_step(tmp_path, monkeypatch):
    path = tmp_path / "below" / "file"
    write_atomically(path, "whole")
    with pytest.raises(OSError, match="file") as at:
        write_atomically(path / "file", "")
    assert at.value.filename == str(path / "file")
    monkeypatch.delattr(os, "replace")
    with pytest.raises(AttributeError):
        write_atomically(path, "half")
    assert [each.name for each in path.parent.iterdir()] == ["file"]
    assert path.read_text() == "whole"


def test_what_killed_processes_left_is_swept_up_and_nothing_else(tmp_path):
    claim_folder(tmp_path)
    (tmp_path / "runs").mkdir()
    paths = [tmp_path / "runs" / name for name in (f"{PREFIX}01", "run.csv", f"{PREFIX}23")]
    for path, age in zip(paths, (0, 0, time.time()), strict=True):
        path.write_text("half")
        os.utime(path, (age, age))
    claim_folder(tmp_path)
    assert [path.exists() for path in paths] == [False, True, True]
