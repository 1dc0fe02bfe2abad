"""``heavystep bench train``: every optimizer in the same loop, on any machine."""

import re

import pytest
import torch
from typer.testing import CliRunner

import heavystep
from heavystep.bench import train as bench_train
from heavystep.bench.train import (
    BASELINE,
    Size,
    made_up_images,
    optimizers,
    size_of,
    training_costs,
)
from heavystep.cli.app import app
from heavystep.training.resnet import NETWORKS

TINY = Size("small", 8, 3, 20, rounds=1)
NAMES = [BASELINE, "SHB", "SHBPolyak, paper", "SHBArmijo, paper", "SHBPolyak", "SHBAdam"]


@pytest.mark.slow
def test_costs_of_all_optimizers_on_a_cpu():
    costs = training_costs(TINY, torch.device("cpu"))
    assert [cost.what for cost in costs] == NAMES
    for cost in costs:
        assert min(cost.step, cost.eager, cost.epoch) > 0.0
        assert cost.memory == cost.waits == 0
    assert [cost.what for cost in costs if cost.trials >= 1.0] == ["SHBArmijo, paper"]


def test_the_optimizers_are_figure_3s():
    made = {
        name: make(NETWORKS["small"](10), 195)
        for name, make in optimizers(torch.device("cpu")).items()
    }
    assert made["SHBPolyak, paper"].param_groups[0]["c"] == 1.0
    assert made["SHBArmijo, paper"].param_groups[0]["c"] == 0.1
    for name in ("SHBPolyak, paper", "SHBArmijo, paper"):
        assert made[name].param_groups[0]["steps_per_epoch"] == 195
        assert isinstance(made[name], getattr(heavystep, name.partition(",")[0]))
    for name in ("SHBPolyak", "SHBAdam"):
        assert made[name].param_groups[0]["scaling"] == "steady"
    assert made["SHB"].param_groups[0]["lr"] == 0.01
    assert made[BASELINE].param_groups[0]["fused"]


def test_the_table(monkeypatch):
    monkeypatch.setattr(bench_train, "SMALL", TINY)
    result = CliRunner().invoke(app, ["bench", "train", "--device", "cpu"])
    assert result.exit_code == 0, result.output
    rows = re.findall(r"│ (SGD\(fused\)|SHB[\w, ]*?) +│ +[\d.]+ +│ +([\d.]+)", result.stdout)
    assert [name for name, _ in rows] == NAMES
    assert rows[0][1] == "1.000"


def test_made_up_images_can_be_learnt_and_fit_a_byte():
    images = made_up_images(500)
    assert images.images.dtype == "uint8"
    assert images.images.shape == (500, 3, 32, 32)
    means = [images.images[images.labels == label].mean(axis=0) for label in range(10)]
    spread = images.images[images.labels == 0].std(axis=0).mean()
    assert abs(means[0] - means[1]).mean() > 0.3 * spread


def test_bytes_of_parameters_and_buffers():
    net = torch.nn.BatchNorm1d(4)
    assert size_of(net) == 4 * (4 + 4 + 4 + 4) + 8


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_costs_on_a_gpu():
    costs = {cost.what: cost for cost in training_costs(TINY, torch.device("cuda"))}
    assert costs["SHBPolyak"].waits == costs["SHBAdam"].waits == 0.0
    assert costs["SHBArmijo, paper"].waits >= 1.0
    assert all(cost.memory > 0 for cost in costs.values())
