"""Batches on the device are crops of the right images."""

import numpy as np
import pytest
import torch

from heavystep.training import memory
from heavystep.training.images import PADDING, DeviceImages, colours, epoch_plan
from heavystep.training.memory import fitting_batch
from tests.helpers import rounding
from tests.helpers.image_training import BATCH, CPU, STEPS, TEST, TRAIN, literal_batch
from tests.helpers.training import DEVICES


def test_plans_are_permutations_with_every_crop_and_flip():
    plan = epoch_plan(5000, seed=1, epoch=2)
    assert sorted(plan[0]) == list(range(5000))
    assert {*plan[1]} == {*plan[2]} == set(range(2 * PADDING + 1))
    assert {*plan[3]} == {0, 1}
    assert 0.45 < plan[3].mean() < 0.55
    assert np.array_equal(plan, epoch_plan(5000, 1, 2))
    for other in (epoch_plan(5000, *of) for of in ((1, 3), (2, 2), (2, 1))):
        assert all((mine != theirs).any() for mine, theirs in zip(plan, other, strict=True))


@pytest.mark.parametrize("device", DEVICES)
def test_batches_are_crops_of_the_right_images(device):
    scale = colours(TRAIN.images)
    images = DeviceImages(TRAIN.images, TRAIN.labels, scale, BATCH, torch.device(device))
    # A difference and a quotient, of numbers up to the brightest pixel in deviations.
    apart = rounding.of_a_sum(1) * 255.0 / min(scale.deviation)
    plan = epoch_plan(len(TRAIN.labels), 0, 1)
    images.begin(plan)
    assert images.batches == STEPS
    for k in range(STEPS):
        images.load(k)
        images.prepare()
        part = plan[:, k * BATCH : (k + 1) * BATCH]
        expected = literal_batch(TRAIN.images, part, scale)
        np.testing.assert_allclose(images.inputs.cpu(), expected, rtol=0.0, atol=apart)
        assert images.targets.tolist() == TRAIN.labels[part[0]].tolist()


def test_all_test_images_count():
    images = DeviceImages(TEST.images, TEST.labels, colours(TEST.images), 10, CPU)
    parts = list(images.in_order())
    assert [len(targets) for _, targets in parts] == [10, 10, 6]
    assert torch.cat([targets for _, targets in parts]).tolist() == TEST.labels.tolist()


def test_colours_are_those_of_the_pixels():
    found = colours(TRAIN.images)
    pixels = TRAIN.images.transpose(1, 0, 2, 3).reshape(3, -1).astype(float)
    np.testing.assert_allclose(found.mean, pixels.mean(axis=1), rtol=1e-12)
    np.testing.assert_allclose(found.deviation, pixels.std(axis=1), rtol=1e-12)


def test_the_batch_that_would_fit(monkeypatch):
    tried, freed = [], []
    # All that the process holds would be gone through, twice for each attempt.
    monkeypatch.setattr(memory.gc, "collect", lambda: freed.append(len(tried)))

    def attempt(batch):
        tried.append(batch)
        if batch > 70:
            raise torch.OutOfMemoryError("no")

    assert fitting_batch(attempt, 512) == 64
    assert tried == [256, 128, 64]
    assert freed == [0, 1, 1, 2, 2, 3]  # before and after each
    assert fitting_batch(lambda batch: attempt(1000), 4) is None
