"""Each task gives what the loop asks for, and its data are what it says."""

import math

import numpy as np
import pytest
import torch

from heavystep.bench.tasks import TASKS, Size, task_of
from heavystep.bench.tasks import images as image_task
from heavystep.bench.tasks import logistic as logistic_task
from heavystep.bench.tasks import text as text_task
from heavystep.bench.tasks.transformer import Shape
from heavystep.bench.train import made_up_images
from heavystep.data.cifar import Images, TrainTest
from heavystep.data.locate import VARIABLE
from heavystep.data.text import TEXTS
from heavystep.sweeps.specification import logistic_on
from heavystep.training.images import colours
from tests.helpers import tiny_libsvm
from tests.helpers.data_sets import VERSE, tiny_verse

CPU = torch.device("cpu")
WITHOUT_FILES = ["mlp", "cnn", "frozen", "vae", "regression", "nll", "units", "targets-0.01",
                 "targets-100", "inputs-100", "summed", "diabetes"]  # fmt: skip


@pytest.fixture(params=WITHOUT_FILES)
def task(request):
    found = TASKS[request.param]
    if reason := found.missing():
        pytest.skip(reason)
    return found


def begun(task, seed=0):
    return task.begun(seed, CPU, task.quick)


def test_it_trains(task):
    work = begun(task)
    first = work.measured()
    assert all(map(math.isfinite, first))
    optimizer = torch.optim.AdamW(work.parameters(), 1e-3, weight_decay=0.0)
    for _ in range(5):
        work.next()
        work.prepare()
        optimizer.zero_grad()
        work.loss().backward()
        optimizer.step()
    assert work.measured().loss < first.loss
    assert work.network.training


def test_it_comes_from_its_seed(task):
    def losses(seed):
        work = begun(task, seed)
        found = []
        for _ in range(2):
            work.next()
            found.append(work.loss().item())
        return found

    assert losses(3) == losses(3)
    assert losses(3) != losses(4)


def test_measuring_changes_nothing(task):
    work = begun(task)
    work.next()
    before, stream = [b.clone() for b in work.network.buffers()], torch.get_rng_state()
    assert work.measured() == work.measured()
    assert torch.equal(torch.get_rng_state(), stream)
    assert all(map(torch.equal, before, work.network.buffers()))


def test_only_the_head_is_trained():
    work = begun(TASKS["frozen"])
    assert [tuple(param.shape) for param in work.parameters()] == [(10, 12), (10,)]


def test_units_change_units_only():
    """At outputs of 0 losses go with the square of the unit, and 1 - R2 stays."""
    found = {}
    for name in ("units", "targets-0.01", "targets-100", "summed"):
        work = begun(TASKS[name])
        with torch.no_grad():
            for param in work.parameters():
                param.zero_()
        found[name] = work.measured()
    loss, metric = found["units"]
    for name, factor in {"targets-0.01": 1e-4, "targets-100": 1e4, "summed": 2000.0}.items():
        assert found[name].loss == pytest.approx(factor * loss, rel=1e-4)
        assert found[name].metric == pytest.approx(metric, rel=1e-4)


def test_inputs_for_batchnorm_where_there_is_one():
    pytest.importorskip("sklearn")
    assert sum(len(part) for part in begun(TASKS["cnn"]).inputs()) == 21 * 64
    assert not list(begun(TASKS["mlp"]).inputs())


def test_logistic_regression_is_that_of_figure_2(tmp_path):
    with tiny_libsvm.folder(tmp_path, ["a9a"]):
        logistic_task.rows_of.cache_clear()
        task = TASKS["a9a"]
        assert task.missing() == ""
        assert "heavystep data fetch w8a" in TASKS["w8a"].missing()
        work, problem = begun(task), logistic_on("a9a")
        assert work.measured().loss == pytest.approx(math.log(2.0), rel=1e-14)
        theta = np.linspace(-2.0, 3.0, problem.dim)
        with torch.no_grad():
            work.network.weight.copy_(torch.from_numpy(theta))
        loss, right = work.measured()
        assert loss == pytest.approx(float(problem.objective(theta)), rel=1e-12)
        assert right == pytest.approx(100.0 * (problem.margins(theta) > 0).mean())
        work.next()
        which = work._which.numpy()
        expected = np.log1p(np.exp(-problem.margins(theta)[which])).mean()
        assert work.loss().item() == pytest.approx(expected, rel=1e-12)
        logistic_task.rows_of.cache_clear()


@pytest.fixture
def verse(tmp_path, monkeypatch):
    """A text of one line, said over and over, in place of Shakespeare."""
    many = VERSE * 40
    entry = tiny_verse()
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    monkeypatch.setitem(TEXTS, "tinyshakespeare", entry)
    monkeypatch.setattr(text_task, "load_text", lambda name: many.decode())
    text_task.characters.cache_clear()
    yield
    text_task.characters.cache_clear()


def test_the_language_model_predicts_the_next_character(verse):
    shape = Shape(layers=2, heads=2, width=16, context=8, batch_size=4, dropout=0.0)
    torch.manual_seed(0)
    work = text_task.LanguageModel(shape, 0, CPU, evaluations=3)
    characters = len(set(VERSE))
    assert work.measured().loss == pytest.approx(math.log(characters), abs=0.1)
    window = torch.randint(characters, (2, 8))
    logits = work.network(window)
    changed = window.clone()
    changed[:, 5] = (changed[:, 5] + 1) % characters
    after = work.network(changed)
    assert torch.allclose(logits[:, :5], after[:, :5], atol=1e-6)  # nothing is seen in advance
    assert not torch.allclose(logits[:, 5:], after[:, 5:], atol=1e-6)
    optimizer = torch.optim.AdamW(work.parameters(), 1e-2)
    for _ in range(60):
        work.next()
        optimizer.zero_grad()
        work.loss().backward()
        optimizer.step()
    assert max(work.measured()) < 1.2  # the line is learnt, and validation is the same line


def test_sizes_are_those_of_nanogpt():
    for shape, low, high in ((text_task.SMALL, 0.7e6, 0.9e6), (text_task.LARGE, 10e6, 11e6)):
        count = sum(p.numel() for p in text_task.Transformer(65, shape).parameters())
        assert low < count < high


def test_images_are_cropped_trained_and_measured(monkeypatch):
    parts = made_up_images(24), made_up_images(8, seed=1)
    made = TrainTest(*(Images(part.images, part.labels) for part in parts))
    monkeypatch.setattr(image_task, "images_of", lambda name: made)
    monkeypatch.setattr(image_task, "colours_of", lambda name, count: colours(made.train.images))
    for name, value in {"NETWORK": "small", "BATCH": 8, "TEST_BATCH": 8, "STATISTICS": 2}.items():
        monkeypatch.setattr(image_task, name, value)
    work = task_of("cifar10").begun(0, CPU, Size(4))
    batches = []
    for _ in range(4):  # into the second epoch
        work.next()
        work.prepare()
        batches.append(work._train.inputs.clone())
        work.loss().backward()
    assert not torch.equal(batches[0], batches[3])
    loss, accuracy = work.measured()
    assert math.isfinite(loss)
    assert 0.0 <= accuracy <= 100.0
    assert [tuple(part.shape) for part in work.inputs()] == [(8, 3, 32, 32)] * 2
