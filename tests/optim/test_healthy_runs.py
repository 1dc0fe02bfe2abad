"""Runs that go well: warnings are errors here, so that a word too much fails."""

import pytest
import torch
from torch import nn

from heavystep import SHB, SHBAdam, SHBArmijo, SHBPolyak
from heavystep.optim import searches
from tests.helpers.training import loss_of, make_batches, make_net

STEPS = 320
SIDE = 8
"""Of images."""


def digits():
    data = pytest.importorskip("sklearn.datasets").load_digits()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    x = torch.tensor(data.data, dtype=torch.float32) / 16.0
    y = torch.tensor(data.target)
    return net, lambda rows: nn.functional.cross_entropy(net(x[rows]), y[rows]), len(x)


def noisy_regression():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
    x = torch.randn(512, 3)
    y = x.sum(dim=1, keepdim=True).sin() + 0.5 * torch.randn(512, 1)
    return net, lambda rows: nn.functional.mse_loss(net(x[rows]), y[rows]), 512


def small_images():
    torch.manual_seed(0)
    layers = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()
    net = nn.Sequential(*layers, nn.Linear(4 * (SIDE - 2) ** 2, 2))
    y = torch.arange(256) % 2
    x = torch.randn(256, 1, SIDE, SIDE) + 0.3 * y.reshape(-1, 1, 1, 1)
    return net, lambda rows: nn.functional.cross_entropy(net(x[rows]), y[rows]), 256


def likelihood():
    """A Gaussian's, which falls below 0."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
    x = torch.randn(512, 2)
    y = x[:, 0] * 0.5 + 0.05 * torch.randn(512)

    def loss(rows):
        mean, logarithm = net(x[rows]).unbind(dim=1)
        return nn.functional.gaussian_nll_loss(mean, y[rows], logarithm.exp())

    return net, loss, 512


def fitted():
    """One batch again and again, until the loss is next to nothing."""
    net, batch = make_net(), make_batches(1)[0]
    return net, lambda rows: loss_of(net, batch), 16


TASKS = {
    "digits": (digits, {}),
    "noisy regression": (noisy_regression, {}),
    "images with BatchNorm": (small_images, {}),
    "likelihood": (likelihood, {"lower_bound": None}),
    "fitted": (fitted, {}),
}
MAKERS = {
    "SHBPolyak": lambda net, **options: SHBPolyak(net.parameters(), **options),
    "SHBAdam": lambda net, **options: SHBAdam(net.parameters(), **options),
    "SHBArmijo": lambda net, **options: SHBArmijo(net.parameters(), buffers=net.buffers, **options),
    "SHB": lambda net, **_: SHB(net.parameters(), lr=0.001),
}


def losses_of(net, opt, loss_at, count):
    generator, losses = torch.Generator().manual_seed(1), []
    for _ in range(STEPS):
        rows = torch.randint(count, (32,), generator=generator)
        if searches(opt):
            losses.append(float(opt.step(lambda rows=rows: loss_at(rows))))
            continue
        opt.zero_grad()
        loss = loss_at(rows)
        loss.backward()
        losses.append(float(opt.step(loss=loss)))
    return losses


@pytest.mark.parametrize(
    ("task", "name"),
    [
        pytest.param(task, name, marks=pytest.mark.slow if i and j else ())
        for i, task in enumerate(TASKS)
        for j, name in enumerate(MAKERS)
    ],
)
def test_a_healthy_run_is_silent(task, name):
    make, options = TASKS[task]
    net, loss_at, count = make()
    losses = losses_of(net, MAKERS[name](net, **options), loss_at, count)
    assert sum(losses[-10:]) < sum(losses[:10])


def test_a_default_bound_that_is_wrong_is_told():
    net, loss_at, count = likelihood()
    with pytest.warns(RuntimeWarning, match="Give a lower bound .* or lower_bound=None"):
        losses = losses_of(net, SHBPolyak(net.parameters()), loss_at, count)
    assert losses[-1] < -0.5
