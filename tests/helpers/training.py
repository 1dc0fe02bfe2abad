"""A small network and data for the torch contract tests."""

import copy

import pytest
import torch
from torch import nn

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[
            pytest.mark.gpu,
            pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU"),
        ],
    ),
]


def make_net(seed=0, dtype=torch.float32, dropout=0.0, norm=False):
    torch.manual_seed(seed)
    layers = [nn.Linear(6, 16), nn.Tanh()]
    if norm:
        layers.insert(1, nn.BatchNorm1d(16))
    if dropout:
        layers.append(nn.Dropout(dropout))
    return nn.Sequential(*layers, nn.Linear(16, 3)).to(dtype)


def make_batches(count=12, size=16, seed=1, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn(6, 3, generator=generator)
    batches = []
    for _ in range(count):
        x = torch.randn(size, 6, generator=generator) + 0.5
        y = (x @ weights + 0.3 * torch.randn(size, 3, generator=generator)).argmax(dim=1)
        batches.append((x.to(dtype), y))
    return batches


def loss_of(net, batch):
    x, y = batch
    return nn.functional.cross_entropy(net(x), y)


def take_step(opt, net, batch, case, **kwargs):
    """One step in the way the optimizer needs it."""
    if case.needs_closure:
        return opt.step(lambda: loss_of(net, batch), **kwargs)
    opt.zero_grad()
    loss = loss_of(net, batch)
    loss.backward()
    return opt.step(loss=loss, **kwargs)


def snapshot(net):
    return copy.deepcopy(net.state_dict())


def same(a, b):
    return all(torch.equal(a[key], b[key]) for key in a)


def flat(net):
    return torch.cat([p.detach().reshape(-1) for p in net.parameters()])
