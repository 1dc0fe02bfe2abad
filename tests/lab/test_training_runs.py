"""Runs of Figure 3: what is missing is trained, kept, stopped and gone on with."""

import io
import json
import os
import re
import signal
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from heavystep.lab.cost.training import made_up_images
from heavystep.lab.data import Images, TrainTest
from heavystep.lab.figures.figure3 import methods
from heavystep.lab.training import run as training
from heavystep.lab.training.images import colours
from heavystep.lab.training.run import How, train_missing, trainer_of
from heavystep.lab.training.runs import Scale, TrainingRuns, TrainingStore

pytestmark = pytest.mark.slow

SCALE = Scale("small", 16, 48, 20)
ON_CPU = How(device="cpu")


@pytest.fixture(autouse=True)
def images(monkeypatch):
    """A few made-up images in place of CIFAR."""
    train, test = made_up_images(200), made_up_images(50, seed=1)
    both = TrainTest(Images(train.images, train.labels), Images(test.images, test.labels))
    monkeypatch.setattr(training, "images_of", lambda data_set: both)
    return both


@pytest.fixture(autouse=True)
def every_epoch_writes_a_checkpoint(monkeypatch):
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)


class Told:
    """What a run told."""

    def __init__(self, at_epoch=lambda row: None):
        self.lines, self.rows, self.at_epoch, self.share = [], [], at_epoch, 0.0

    def start(self, runs, kept, epochs):
        self.lines.append(("start", runs, kept, epochs))

    def note(self, text):
        self.lines.append(("note", text))

    def begin(self, run):
        self.lines.append(("begin", run))

    def advance(self, share):
        self.share += share

    def epoch(self, row, images):
        self.rows.append(row)
        assert images == 48
        self.at_epoch(row)

    def finish(self):
        self.lines.append(("finish",))


def curve(name="SHB-PS", epochs=5, seeds=1, **scale):
    return TrainingRuns("cifar10", methods()[name], replace(SCALE, **scale), seeds, epochs)


def content_of(checkpoint):
    return torch.load(io.BytesIO(checkpoint.read_bytes()[32:]), weights_only=True)["state"]


def numbers(history):
    return [row[:-1] for row in history]


def trained(store, curves, how=ON_CPU, told=None):
    told = told or Told()
    return train_missing(curves, store, told, how), told


def test_trains_what_is_missing_and_only_that(tmp_path):
    store = TrainingStore(tmp_path / "runs")
    curves = [curve("SHB-PS", seeds=2), curve("SHB 0.01", seeds=2)]
    done, told = trained(store, curves)
    assert done
    assert told.lines[0] == ("start", 4, 0, 20)
    begun = [line[1] for line in told.lines if line[0] == "begin"]
    assert begun == [
        "cifar10 SHB-PS seed 0",
        "cifar10 SHB 0.01 seed 0",
        "cifar10 SHB-PS seed 1",
        "cifar10 SHB 0.01 seed 1",
    ]
    assert told.share == pytest.approx(20.0)
    history = store.load(curves[0].each()[1])
    assert [row.epoch for row in history] == [1, 2, 3, 4, 5]
    assert all(row.seconds > 0.0 for row in history)
    seeds = [numbers(store.load(run)) for run in curves[0].each()]
    assert seeds[0] != seeds[1]
    done, told = trained(store, curves)
    assert done
    assert told.lines == [("start", 4, 4, 0)]
    shorter = [curve("SHB-PS", seeds=2, epochs=3)]
    done, told = trained(store, shorter, replace(ON_CPU, force=True, minutes=0.0))
    assert not done
    assert store.epochs(curves[0].each()[0]) == 5
    done, told = trained(store, curves[:1], replace(ON_CPU, force=True))
    assert told.lines[0] == ("start", 2, 0, 10)
    assert len(told.rows) == 10
    assert [numbers(store.load(run)) for run in curves[0].each()] == seeds


def test_a_longer_run_goes_on_from_a_shorter_one(tmp_path):
    store, other = TrainingStore(tmp_path / "a" / "runs"), TrainingStore(tmp_path / "b" / "runs")
    trained(store, [curve(epochs=3)])
    _, told = trained(store, [curve(epochs=6)])
    assert told.lines[0] == ("start", 1, 0, 3)
    assert [row.epoch for row in told.rows] == [4, 5, 6]
    trained(other, [curve(epochs=6)])
    run = curve().each()[0]
    assert numbers(store.load(run)) == numbers(other.load(run))
    # Without its checkpoint it begins again, and what is there stays until there is more.
    store.checkpoint(run).unlink()
    _, told = trained(store, [curve(epochs=7)], replace(ON_CPU, minutes=0.0))
    assert told.lines[0] == ("start", 1, 0, 7)
    assert store.epochs(run) == 6
    stop = Told(lambda row: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(KeyboardInterrupt):
        trained(store, [curve(epochs=7)], told=stop)
    assert [row.epoch for row in stop.rows] == [1]
    assert store.epochs(run) == 6


def test_the_seed_decides_network_and_order(images):
    runs = curve(seeds=2).each()
    trainers = [trainer_of(run, torch.device("cpu")) for run in (*runs, runs[0])]
    for each in trainers:
        each.begin_epoch()
    networks = [each.network.head.weight for each in trainers]
    plans = [each._train._plan for each in trainers]
    for of_seed in (networks, plans):
        assert torch.equal(of_seed[0], of_seed[2])
        assert not torch.equal(of_seed[0], of_seed[1])
    assert (trainers[0]._train.count, trainers[0]._test.count) == (48, 20)
    scale = colours(images.train.images[:48])
    for part in (trainers[0]._train, trainers[0]._test):
        assert part._mean.tolist() == pytest.approx(scale.mean)
        assert part._deviation.tolist() == pytest.approx(scale.deviation)


def test_what_cannot_be_compiled_is_trained_as_it_is(monkeypatch):
    def broken(function):
        raise RuntimeError("no Triton here")

    monkeypatch.setattr(torch, "compile", lambda function: function)
    assert training.compiles.__wrapped__(torch.device("cpu"))
    monkeypatch.setattr(torch, "compile", broken)
    assert not training.compiles.__wrapped__(torch.device("cpu"))


def test_a_second_signal_does_not_wait():
    with pytest.raises(KeyboardInterrupt), training.stopping() as wish:  # noqa: PT012
        signal.raise_signal(signal.SIGTERM)
        assert wish()
        signal.raise_signal(signal.SIGTERM)


def test_minutes_have_sixty_seconds(monkeypatch):
    now = SimpleNamespace(seconds=10.0)
    monkeypatch.setattr(training, "time", SimpleNamespace(monotonic=lambda: now.seconds))
    with training.stopping(2.0) as wish:
        now.seconds = 129.0
        assert not wish()
        now.seconds = 131.0
        assert wish()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("name", ["SHB-PS", "SHB-ALS"])
def test_a_signal_leaves_a_checkpoint_and_the_run_goes_on(name, number, tmp_path):
    store, other = TrainingStore(tmp_path / "a" / "runs"), TrainingStore(tmp_path / "b" / "runs")
    before = signal.getsignal(number)

    def interrupt(row):
        if row.epoch == 3:
            os.kill(os.getpid(), number)

    with pytest.raises(KeyboardInterrupt):
        trained(store, [curve(name)], told=Told(interrupt))
    assert signal.getsignal(number) is before
    run = curve(name).each()[0]
    assert store.epochs(run) == 3
    _, told = trained(store, [curve(name)])
    assert [row.epoch for row in told.rows] == [4, 5]
    trained(other, [curve(name)])
    assert numbers(store.load(run)) == numbers(other.load(run))


def test_the_time_runs_out_and_the_next_call_goes_on(tmp_path):
    store = TrainingStore(tmp_path / "runs")
    done, _ = trained(store, [curve()], replace(ON_CPU, minutes=1e-6))
    assert not done
    assert store.checkpoint(curve().each()[0]).exists()
    assert trained(store, [curve()])[0]


def test_a_checkpoint_of_another_precision_is_refused(tmp_path, monkeypatch):
    store, real = TrainingStore(tmp_path / "runs"), training.trainer_of
    trained(store, [curve(epochs=1)])

    def on_a_gpu(*arguments):
        made = real(*arguments)
        made.precision = "bfloat16 autocast"
        return made

    monkeypatch.setattr(training, "trainer_of", on_a_gpu)
    with pytest.raises(ValueError, match="precision is 'float32' there, 'bfloat16 autocast' here"):
        trained(store, [curve()])


def test_a_complete_run_is_kept_though_its_last_step_is_bad(tmp_path, monkeypatch):
    store, run = TrainingStore(tmp_path / "runs"), curve().each()[0]
    real = training.trainer_of

    def bad_at_the_end(*arguments):
        made = real(*arguments)

        def loss():
            return made.loss() * (torch.nan if (len(made.history), made._done) == (2, 2) else 1.0)

        made.step._step._closure = loss
        return made

    monkeypatch.setattr(training, "trainer_of", bad_at_the_end)
    trained(store, [curve(epochs=3)])
    history = store.load(run)
    assert [row.refused for row in history] == [0, 0, 1]
    state = content_of(store.checkpoint(run))["trainer"]
    assert len(state["history"]) == 2
    _, told = trained(store, [curve(epochs=3)])
    assert not told.rows


def test_a_run_that_diverges_keeps_its_last_good_checkpoint(tmp_path, monkeypatch):
    store, run = TrainingStore(tmp_path / "runs"), curve().each()[0]

    def broken(row):
        """From the fourth epoch on nothing is finite."""
        if row.epoch == 3:
            torch.nn.init.constant_(made[-1].network.head.weight, torch.nan)

    made = []
    real = training.trainer_of

    def remember(*arguments):
        made.append(real(*arguments))
        return made[-1]

    monkeypatch.setattr(training, "trainer_of", remember)
    told = Told(broken)
    with pytest.raises(ValueError, match=r"^1 of 2 runs diverged: cifar10 SHB-PS seed 0$"):
        trained(store, [curve(epochs=9), curve("SPS", epochs=2)], told=told)
    (note,) = [text for kind, *text in told.lines if kind == "note"]
    said = "seed 0: the loss was not finite for 1\\d steps in a row, in epoch \\d+; the last good"
    assert re.search(said, note[0])
    assert str(store.checkpoint(run)) in note[0]
    assert store.epochs(curve("SPS").each()[0]) == 2
    assert store.epochs(run) == 3
    state = content_of(store.checkpoint(run))["trainer"]
    assert len(state["history"]) == 3
    assert all(torch.isfinite(value).all() for value in state["network"].values())
    assert json.loads(run.text())["protocol"] == 1


def test_out_of_memory_is_one_line(tmp_path, monkeypatch):
    def too_large(*arguments):
        raise torch.OutOfMemoryError

    monkeypatch.setattr(training, "trainer_of", too_large)
    with pytest.raises(ValueError, match=r"seed 0: out of GPU memory with batches of 16; free"):
        trained(TrainingStore(tmp_path / "runs"), [curve()])
