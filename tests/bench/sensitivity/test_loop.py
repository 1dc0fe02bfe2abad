"""The loop is the one that users write, whoever trains in it."""

import math
import sys

import numpy as np
import pytest
import torch

from heavystep import Average, SHBPolyak
from heavystep.bench.sensitivity.contenders import contender_of
from heavystep.bench.sensitivity.loop import METRICS, Setting, Training, share, train
from heavystep.bench.tasks import Size, Work
from heavystep.bench.tasks.supervised import Supervised
from tests.helpers.tiny_task import NORMED, PLAIN, STEPS

CPU = torch.device("cpu")


def run(contender, value=None, task="tiny", average=False, device="cpu", size=Size(STEPS)):  # noqa: B008
    setting = Setting(task, contender, value, 0, size, device, average)
    told = []
    found = train(None, setting, told.append)
    return {name: found.metrics[name][0] for name in METRICS}, told


def by_hand(optimizer_of, task=PLAIN, steps=STEPS):
    """The loop once more; yields the work at the end."""
    work = task.begun(0, CPU, Size(steps))
    optimizer = optimizer_of(work.parameters())
    average = Average(optimizer)
    for _ in range(steps):
        work.next()
        optimizer.zero_grad()
        loss = work.loss()
        loss.backward()
        optimizer.step(**({"loss": loss} if hasattr(optimizer, "hand_over") else {}))
    return work, average


def test_ours_is_the_plain_loop():
    work, _ = by_hand(lambda params: SHBPolyak(params, max_step=0.3))
    found, told = run("SHBPolyak", 0.3)
    assert tuple(found[name][1] for name in ("loss", "metric")) == work.measured()
    begun = PLAIN.begun(0, CPU, Size(STEPS)).measured()
    assert (found["loss"][0], found["metric"][0]) == begun
    assert told == [STEPS]


def test_torchs_is_the_plain_loop():
    work, _ = by_hand(lambda params: torch.optim.AdamW(params, 0.02, weight_decay=0.0))
    found, _ = run("AdamW", 0.02)
    assert found["loss"][1] == work.measured().loss


@pytest.mark.parametrize("name", ["SHBPolyak", "SHBArmijo"])
def test_a_recorded_step_is_the_plain_step(name, monkeypatch):
    """On a CPU it records nothing, but goes through the same parts."""
    expected, _ = run(name, task="tiny normed", average=True)
    monkeypatch.setattr(Training, "_records", True)
    found, _ = run(name, task="tiny normed", average=True)
    for metric in METRICS[:4]:
        np.testing.assert_allclose(found[metric], expected[metric], rtol=1e-4)


def test_the_averaged_iterate_has_statistics_of_its_own():
    work, average = by_hand(SHBPolyak, NORMED)
    expected = work.measured()
    with average.in_place():
        average.update_bn(work.inputs(), work.network)
        averaged = work.measured()
    found, _ = run("SHBPolyak", task="tiny normed", average=True)
    assert (found["loss"][1], found["metric"][1]) == expected
    assert (found["average_loss"][1], found["average_metric"][1]) == averaged
    assert averaged != expected
    for other in (run("SHBPolyak")[0], run("AdamW", average=True)[0]):
        assert math.isnan(other["average_metric"][1])


def test_the_schedule_rises_and_falls():
    rates = [share(k, 200) for k in range(200)]
    assert rates[:10] == sorted(rates[:10])
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == pytest.approx(1.0, abs=0.01)
    assert rates[-1] < 1e-3


@pytest.mark.parametrize("name", ["AdamW", "SHBPolyak"])
def test_a_schedule_drives_the_learning_rate(name):
    contender = contender_of(f"{name}+cosine")
    work = PLAIN.begun(0, CPU, Size(20))
    setting = Setting("tiny", contender.name, None, 0, Size(20), "cpu", False)
    training = Training(contender, work, setting)
    first, seen = training.optimizer.param_groups[0]["lr"], []
    training._step = lambda: seen.append(training.optimizer.param_groups[0]["lr"])
    assert training.go(lambda amount: None)
    np.testing.assert_allclose(seen, [first * share(k, 20) for k in range(20)])


def test_schedule_free_is_evaluated_in_its_eval_mode(monkeypatch):
    free = pytest.importorskip("schedulefree").AdamWScheduleFree
    made, modes = [], []
    monkeypatch.setattr(
        sys.modules["schedulefree"],
        "AdamWScheduleFree",
        lambda *args, **kwargs: made.append(free(*args, **kwargs)) or made[-1],
    )
    measured = Work.measured

    def watched(self):
        modes.append([group["train_mode"] for group in made[0].param_groups])
        return measured(self)

    monkeypatch.setattr(Work, "measured", watched)
    found, _ = run("ScheduleFree", 0.1)
    assert modes == [[False], [False]]  # before the first step, and at the end
    work = PLAIN.begun(0, CPU, Size(STEPS))
    optimizer = free(work.parameters(), lr=0.1)
    optimizer.train()
    for _ in range(STEPS):
        work.next()
        optimizer.zero_grad()
        work.loss().backward()
        optimizer.step()
    trained = measured(work).loss
    optimizer.eval()
    assert found["loss"][1] == measured(work).loss != trained


@pytest.mark.parametrize("name", ["momo-opt", "momo-opt-Adam", "Prodigy", "ScheduleFree"])
def test_packages_train(name):
    contender = contender_of(name)
    pytest.importorskip(contender.module)
    found, _ = run(name)
    assert found["loss"][1] < found["loss"][0]
    normed, _ = run(name, 0.1, task="tiny normed")
    assert np.isfinite(normed["loss"][1])


def test_a_run_that_diverges_stops_and_has_no_result(monkeypatch):
    steps, following = [], Supervised.next
    monkeypatch.setattr(Supervised, "next", lambda self: steps.append(1) or following(self))
    found, told = run("SGD", 1e6, size=Size(1000))
    assert np.isfinite(found["loss"][0])
    assert np.isnan([found["loss"][1], found["metric"][1]]).all()
    assert len(steps) < 1000
    assert sum(told) == 1000  # the progress counts the rest as done


def test_a_search_counts_its_trials():
    assert run("SHBArmijo")[0]["trials"][1] >= STEPS
    assert run("SHBPolyak")[0]["trials"][1] == 0


def test_dropout_and_order_come_from_the_seed():
    first, second = (run("SHBPolyak", task="tiny normed")[0] for _ in range(2))
    assert first["loss"][1] == second["loss"][1]


def test_warnings_are_counted_once_each(monkeypatch):
    from heavystep.optim.speaking import warn_caller

    plain = Training._plain

    def speaking(self):
        warn_caller("too loud")
        plain(self)

    monkeypatch.setattr(Training, "_plain", speaking)
    assert run("SHBPolyak")[0]["warnings"].tolist() == [0.0, 1.0]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(
    "name", ["SHBPolyak", "SHBPolyak+cosine", "SHBArmijo", "SGD+cosine", "AdamW+cosine", "momo-opt"]
)
def test_on_a_gpu(name):
    if reason := contender_of(name).left_out():
        pytest.skip(reason)
    expected, _ = run(name, average=True)
    found, _ = run(name, average=True, device="cuda")
    for metric in METRICS[:4]:
        # Roundings of float32, which a few steps make larger.
        np.testing.assert_allclose(found[metric], expected[metric], rtol=1e-3)
    dropped, _ = run(name, task="tiny normed", average=True, device="cuda")  # by other masks
    assert np.isfinite(dropped["loss"]).all()
