"""Engines in this process, and what the commands say about engines."""

import subprocess
import sys
import time
from contextlib import closing

import pytest
from typer.testing import CliRunner

from heavystep.bench.train import made_up_images
from heavystep.cli.app import app
from heavystep.data.cifar import Images, TrainTest
from heavystep.paper.figure3.definition import methods
from heavystep.sweeps.engines import Job, LocalEngine, Order, Outcome
from heavystep.sweeps.output_folder import claim_folder, runs_folder
from heavystep.sweeps.training import train_on
from heavystep.training import setup as training_setup
from heavystep.training.runner import How, train_missing
from heavystep.training.specification import Scale, TrainingRuns
from heavystep.training.store import TrainingStore
from tests.helpers.told import Told


class Seven:
    def build(self):
        return 7


def add(data, number, advance):
    advance(2)
    if number == 2:
        raise ArithmeticError("no such number")
    return data + number


def doze(data, advance):
    time.sleep(0.05)


def test_a_job_that_fails_does_not_stop_the_others():
    told = Told()
    jobs = [Job(f"job {k}", add, (k,), 2, Seven()) for k in range(4)]
    first, second, failed, last = sorted(LocalEngine(2).outcomes(jobs, told))
    assert [first, second, last] == [Outcome(0, 7), Outcome(1, 8), Outcome(3, 10)]
    assert failed.failure.endswith("ArithmeticError: no such number\n")
    assert "in add" in failed.failure
    assert told.amount == 8
    assert sorted(told.begun) == [f"job {k}" for k in range(4)]


def test_closed_it_begins_nothing_more():
    told = Told()
    jobs = [Job(f"job {k}", doze, (), 1) for k in range(1000)]
    with closing(LocalEngine(1).outcomes(jobs, told)) as outcomes:
        next(outcomes)
    assert len(told.begun) < 1000


@pytest.fixture
def images(monkeypatch):
    """A few made-up images in place of CIFAR."""
    train, test = made_up_images(200), made_up_images(50, seed=1)
    both = TrainTest(Images(train.images, train.labels), Images(test.images, test.labels))
    monkeypatch.setattr(training_setup, "images_of", lambda data_set: both)


def curves(epochs):
    scale = Scale("small", 16, 48, 20)
    kinds = [methods()[name] for name in ("SHB-PS", "SLS")]
    return [TrainingRuns("cifar10", method, scale, 2, epochs) for method in kinds]


def store_in(out):
    claim_folder(out)
    return TrainingStore(runs_folder(out, "figure3"))


@pytest.mark.usefixtures("images")
def test_training_jobs_are_the_training_loop(tmp_path):
    here, there, told = store_in(tmp_path / "here"), store_in(tmp_path / "there"), Told()
    train_missing(curves(3), here, Told(), How("cpu"))
    train_missing(curves(1), there, Told(), How("cpu"))  # to go on from
    train_on(LocalEngine(1), curves(3), there, told, How("cpu"))
    for curve in curves(3):
        for run in curve.each():
            rows = [[row[:-1] for row in store.load(run).history] for store in (here, there)]
            assert rows[0] == rows[1]
            assert len(rows[0]) == 3
    assert told.started == (4, 0, 8)
    assert told.finished == 4
    assert told.amount == pytest.approx(8.0)
    again = Told()
    train_on(LocalEngine(1), curves(3), there, again, How("cpu"))
    assert again.started == (4, 4, 0)


@pytest.mark.usefixtures("images")
def test_a_folder_that_a_node_does_not_see(tmp_path):
    told = Told()
    store = TrainingStore(runs_folder(tmp_path / "elsewhere", "figure3"))
    with pytest.raises(ValueError, match="4 of 4 runs failed: cifar10 SHB-PS seed 0, "):
        train_on(LocalEngine(1), curves(1), store, told, How("cpu"))
    assert all("must be a path that all nodes see" in note for note in told.notes)


def test_modules_can_be_imported_without_ray():
    code = (
        "import sys; sys.modules['ray'] = None; "
        "from heavystep.sweeps import ray_engine; "
        "from heavystep.sweeps.engines import engine_of; engine_of('local'); engine_of('ray')"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: import of ray halted")
    assert "engine_of('ray')" in run.stderr or "in engine_of" in run.stderr


MISTAKES = [
    (["figure1", "--engine", "spark"], "engine must be one of 'local', 'ray', got 'spark'"),
    (["figure1", "--address", "auto"], "address is that of a Ray cluster: it needs the engine 'ray'"),
    (["figure2", "--engine", "ray", "--jobs", "0"], "jobs must be >= 1, got 0"),
    (["figure3", "--engine", "ray", "--minutes", "1"], "--minutes is not for --engine ray"),
    (["figure3", "--engine", "ray", "--device", "tpu"], "device must be one of"),
    (["figure3", "--no-train", "--engine", "ray"], "leaves nothing to do for --engine"),
    (["figure1", "--quick", "--engine", "ray", "--address", "127.0.0.1:1"],
     "cannot reach a Ray cluster at 127.0.0.1:1 (["),
    (["figure1", "--quick", "--engine", "ray", "--address", "nonsense"],
     "cannot reach a Ray cluster at nonsense (Invalid address"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "line"), MISTAKES)
def test_mistakes_get_one_line(arguments, line, tmp_path):
    pytest.importorskip("ray")
    result = CliRunner().invoke(app, ["reproduce", *arguments, "--out", str(tmp_path)])
    assert result.exit_code == 2, result.output
    assert line in result.output.replace("\n", " "), result.output


def test_jobs_without_kinds_keep_their_order():
    order = Order([None] * 4)
    assert [order.take() for _ in range(4)] == [0, 1, 2, 3]


def test_threads_do_not_wait_for_each_other_to_compile():
    """While the first job of a kind is at work, the other thread takes what is compiled."""
    order = Order(["a"] * 4 + ["b"] * 2 + ["c"])
    assert order.take() == 0
    order.end(0)
    assert order.take() == 4  # "b" is compiled
    assert [order.take(), order.take()] == [1, 2]
    order.end(4)
    assert order.take() == 6  # and now "c"
    assert [order.take(), order.take()] == [3, 5]
