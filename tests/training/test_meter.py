"""What is measured of an epoch."""

import numpy as np
import pytest
import torch

from heavystep import StepInfo
from heavystep.training.history import EpochRow
from heavystep.training.meter import Meter
from tests.helpers.image_training import CPU, STEPS, trainer


def outcome(loss, accepted, device):
    """Of a step, as the optimizers report it from the device or from the host."""
    step, number = (0.5 if accepted else 0.0), torch.tensor if device else lambda value: value
    return StepInfo(
        number(step), number(step), number(loss), None, 3, number(accepted), number(False)
    )


@pytest.mark.parametrize("device", [True, False])
def test_meter_tells_refused_from_bad(device):
    meter, nan = Meter(CPU), float("nan")
    steps = [(1.0, True), (nan, False), (nan, False), (9.0, False), (nan, False), (5.0, True)]
    streaks = [0, 1, 2, 2, 2, 2]
    for (loss, accepted), longest in zip(steps, streaks, strict=True):
        meter.add(outcome(loss, accepted, device))
        assert meter.longest_streak() == longest
        assert meter.in_a_streak() == np.isnan(loss)
    assert meter.means() == (3.0, 0.5, 0.0, 3.0, 4)
    for _ in range(3):
        meter.add(outcome(2.0, False, device))  # a search that fails has a finite loss
    assert meter.longest_streak() == 2


def test_meter_adds_up_what_was_taken():
    run = trainer("SHB-ALS")
    run.begin_epoch()
    infos = []
    for _ in range(STEPS):
        run.take_step()
        infos.append(run.optimizer.info)
    means = run.meter.means()
    assert means.loss == pytest.approx(np.mean([info.loss for info in infos]))
    assert means.step == pytest.approx(np.mean([info.step for info in infos]))
    assert means.trials == np.mean([info.trials for info in infos])
    run.meter.clear()
    assert np.isnan(run.meter.means().loss)


def test_meters_state_goes_along():
    meter, other = Meter(CPU), Meter(CPU)
    steps = [outcome(1.0, True, True), *2 * [outcome(float("nan"), False, True)]]
    for step in steps:
        meter.add(step)
    other.load_state_dict(meter.state_dict())
    for each in (meter, other):
        each.add(steps[-1])
        each.add(steps[0])
    assert meter.means() == other.means()
    assert meter.longest_streak() == other.longest_streak() == 3


def test_history_has_the_columns_that_are_stored():
    row = trainer("SPS").epoch()
    assert isinstance(row, EpochRow)
    assert row.epoch == 1
