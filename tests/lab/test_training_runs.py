"""Runs of Figure 3: what is missing is trained, kept, killed and gone on with."""

import io
from dataclasses import replace

import pytest
import torch

from heavystep.lab.cost.networks import made_up_images
from heavystep.lab.data import Split
from heavystep.lab.figures.figure3 import method_specs
from heavystep.lab.training import runs as training
from heavystep.lab.training.images import colours
from heavystep.lab.training.runs import Scale, TrainingRuns, train_missing
from tests.helpers.toy_runs import Told

pytestmark = pytest.mark.slow

SCALE, CPU = Scale("small", 16, 48, 20), torch.device("cpu")
TRAIN = made_up_images(200)


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    """Of runs on a few made-up images in place of CIFAR, with checkpoints after every step."""
    both = Split(TRAIN, made_up_images(50, seed=1))
    scale = colours(TRAIN.inputs[: SCALE.train_images])
    monkeypatch.setattr(training, "images_of", lambda data_set: both)
    monkeypatch.setattr(training, "colours_of", lambda data_set, images: scale)
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    return tmp_path / "runs"


def curve(name="SHB-PS", epochs=5, seeds=1):
    return TrainingRuns("cifar10", method_specs()[name], SCALE, tuple(range(seeds)), epochs)


class Killed(Told):
    """Stops after so much work, as Ctrl-C or a kill does."""

    def __init__(self, after):
        super().__init__()
        self.after = after

    def advance(self, amount):
        super().advance(amount)
        if self.amount > self.after:
            raise KeyboardInterrupt


def trained(folder, curves, told=None):
    told = told or Told()
    train_missing(curves, folder, told, CPU)
    return told


def numbers(run, folder):
    return [row[:-1] for row in run.history(folder)]


def test_trains_what_is_missing_and_only_that(folder):
    curves = [curve("SHB-PS", seeds=2), curve("SHB 0.01", seeds=2)]
    told = trained(folder, curves)
    assert (told.started, told.finished, len(told.reports)) == ((4, 0, 20), 4, 20)
    assert told.begun == [
        f"cifar10 {name} seed {seed}" for seed in (0, 1) for name in ("SHB-PS", "SHB 0.01")
    ]
    assert told.amount == pytest.approx(20.0)
    first, second = (numbers(run, folder) for run in curves[0].each())
    assert [row[0] for row in first] == [1, 2, 3, 4, 5]
    assert first != second
    assert trained(folder, curves).started == (4, 4, 0)
    assert trained(folder, [curve(seeds=2, epochs=3)]).started == (2, 2, 0)


@pytest.mark.parametrize("name", ["SHB-PS", "SHB-ALS"])
def test_a_run_that_is_killed_or_made_longer_goes_on(name, tmp_path):
    """In the middle of an epoch, and to the bit."""
    one, other, run = tmp_path / "a" / "runs", tmp_path / "b" / "runs", curve(name).each()[0]
    with pytest.raises(KeyboardInterrupt):
        trained(one, [curve(name, epochs=3)], Killed(after=1.5))
    assert len(run.history(one)) == 1
    assert trained(one, [curve(name, epochs=3)]).amount == pytest.approx(5 / 3)
    assert trained(one, [curve(name, epochs=6)]).started == (1, 0, 3)
    trained(other, [curve(name, epochs=6)])
    assert numbers(run, one) == numbers(run, other)
    # Without its checkpoint it begins again, and what is there stays until there is more.
    run.checkpoint(one).unlink()
    with pytest.raises(KeyboardInterrupt):
        trained(one, [curve(name, epochs=7)], killed := Killed(after=1.5))
    assert killed.started == (1, 0, 7)
    assert len(run.history(one)) == 6


@pytest.mark.parametrize("bad", [range(8, 9), range(9, 99)], ids=["last step", "from then on"])
def test_bad_steps_are_in_no_checkpoint(bad, folder, monkeypatch):
    real, diverges = training.ImageWork.loss, len(bad) > 1

    def loss(work):
        return real(work) * (torch.nan if work.done - 1 in bad else 1.0)

    monkeypatch.setattr(training.ImageWork, "loss", loss)
    told, long = Told(), curve(epochs=9 if diverges else 3)
    if diverges:  # the others are trained
        with pytest.raises(ValueError, match=r"^1 of 2 runs diverged: cifar10 SHB-PS seed 0$"):
            trained(folder, [long, curve("SPS", epochs=2)], told)
        assert "seed 0: the loss was not finite for 1" in told.notes[0]
        assert curve("SPS").each()[0].history(folder)
    else:
        trained(folder, [long], told)
        assert not trained(folder, [long]).reports
    run = long.each()[0]
    assert [row.refused for row in run.history(folder)] == ([0, 0] if diverges else [0, 0, 1])
    body = io.BytesIO(run.checkpoint(folder).read_bytes()[32:])
    state = torch.load(body, weights_only=True)[1]
    assert (len(state["history"]), state["done"]) == (2, 3 if diverges else 2)


def test_the_seed_decides_network_and_order():
    runs = curve(seeds=2).each()
    works = [run.trainer(CPU).work for run in (*runs, runs[0])]
    for each in works:
        each.next()
        each.prepare()
        assert (each.train.count, each.test.count) == (48, 20)
    for of_seed in ([w.network.head.weight for w in works], [w.train.inputs for w in works]):
        assert torch.equal(of_seed[0], of_seed[2])
        assert not torch.equal(of_seed[0], of_seed[1])


def test_a_history_and_a_checkpoint_are_those_of_their_run(folder):
    run, notes = curve(epochs=1).each()[0], []
    trained(folder, [curve(epochs=1)])
    with pytest.raises(ValueError, match=r"another run, version or precision.*float32"):
        training.load_checkpoint(run.checkpoint(folder), "bfloat16")
    other = replace(run, seed=1)
    (folder / f"{run.key()}.parquet").rename(folder / f"{other.key()}.parquet")
    assert other.history(folder, notes.append) == []
    assert "is not the run that its name says; it is left out" in notes[0]
