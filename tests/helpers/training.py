"""A small network and data for the torch contract tests."""

import copy
import io
import random

import numpy as np
import pytest
import torch
from torch import nn

from heavystep.rules import Search, Seen
from tests.helpers import rounding

GPU = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU"),
]
DEVICES = ["cpu", pytest.param("cuda", marks=GPU)]


def on_gpu(test):
    """Marks a test that needs one."""
    for mark in GPU:
        test = mark(test)
    return test


SIZES = (6, 16, 3)
"""Inputs, hidden units and classes."""
BATCH = 16
SUMMANDS = BATCH + sum(SIZES)
"""Additions in a row behind a gradient of the network: of each layer, and of the batch."""


def make_net(seed=0, dtype=torch.float32, dropout=0.0, norm=False):
    torch.manual_seed(seed)
    inputs, hidden, classes = SIZES
    layers = [nn.Linear(inputs, hidden), nn.Tanh()]
    if norm:
        layers.insert(1, nn.BatchNorm1d(hidden))
    if dropout:
        layers.append(nn.Dropout(dropout))
    return nn.Sequential(*layers, nn.Linear(hidden, classes)).to(dtype)


def make_batches(count=12, size=BATCH, seed=1, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    inputs, _, classes = SIZES
    weights = torch.randn(inputs, classes, generator=generator)
    batches = []
    for _ in range(count):
        x = torch.randn(size, inputs, generator=generator) + 0.5
        y = (x @ weights + 0.3 * torch.randn(size, classes, generator=generator)).argmax(dim=1)
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


class Run:
    """A small network and its optimizer on their way; ``net`` are options of the network."""

    def __init__(self, make, net=None, **options):
        self.net = make_net(**(net or {}))
        self.opt = make(self.net.parameters(), **options)

    @property
    def theta(self):
        return flat(self.net)

    def step(self, batch, change=lambda loss: loss):
        """A closure suits every optimizer; ``change`` is done to the loss."""
        return self.opt.step(lambda: change(loss_of(self.net, batch)))

    def train(self, batches):
        for batch in batches:
            self.step(batch)
        return self

    @property
    def saved(self):
        """A checkpoint that has been in a file."""
        return through_a_file({"net": self.net.state_dict(), "opt": self.opt.state_dict()})

    def load(self, saved):
        self.net.load_state_dict(saved["net"])
        self.opt.load_state_dict(saved["opt"])
        return self


def through_a_file(state):
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


def kept_of(opt, case, param):
    """The buffer of the momentum of a parameter, as it is now; 0 if there is none yet."""
    return opt.state.get(param, {}).get(case.buffer, torch.zeros(())).clone()


def expected_motion(opt, case, buffer, grad):
    """How the last step moves a parameter without decay, from the buffer before; and the new one.

    Only for methods whose elements share the step size.
    """
    step, weight = float(opt.info.step), last_search(opt).weight
    return case.method.form.move(buffer, grad, step, last_momentum(opt), weight)


def last_momentum(opt):
    """The momentum of the last step: that of the options, or the one that a closed form set."""
    own = last_search(opt).momentum
    return opt.param_groups[0]["momentum"] if own is None else own


def decayed_by(opt, decay, lr=None):
    """What decoupled weight decay multiplied the parameters of a group by at the last step."""
    amount = last_search(opt).decay
    amount = float(opt.info.base_step) if amount is None else amount
    lr = opt.param_groups[0]["lr"] if lr is None else lr
    return opt.method.form.shrink(lr * amount * decay)


def last_search(opt):
    """Weight, momentum and decay of the last step, if it was accepted, where the count alone says
    what they are."""
    rule, group = opt.method.rule, opt.param_groups[0]
    if rule.searches or not (rule.averages or rule.steers):
        return Search(0.0, True, False)
    memory = rule.Memory(*(float(group[name]) for name in rule.memory))
    ages = {
        name: getattr(memory, name) - 1.0
        for name in ("count", "age", "total")
        if name in rule.memory
    }
    return rule.start(rule.constants_of(group), memory._replace(**ages), Seen(1.0, 0.0, 1.0))


def state_of(opt):
    """All that an optimizer keeps, to be compared with :func:`equal_states`."""
    return copy.deepcopy(opt.state_dict())


def equal_states(one, other):
    """True if two states are the same to the bit."""
    if torch.is_tensor(one) or torch.is_tensor(other):
        both = torch.is_tensor(one) and torch.is_tensor(other)
        return both and one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal_states(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(equal_states, one, other))
    return type(one) is type(other) and one == other


def fingerprint(net):
    """All of a network to the bit, with the identity of every tensor, and the random streams."""

    def bits(tensor):
        return None if tensor is None else (id(tensor), tensor.detach().cpu().numpy().tobytes())

    return (
        {name: (bits(p), bits(p.grad), p.requires_grad) for name, p in net.named_parameters()},
        {name: bits(b) for name, b in net.named_buffers()},
        {name: m.training for name, m in net.named_modules()},
        torch.get_rng_state().numpy().tobytes(),
        str(np.random.get_state()),  # noqa: NPY002
        random.getstate(),
    )


def snapshot(net):
    return copy.deepcopy(net.state_dict())


def same(a, b):
    return all(torch.equal(a[key], b[key]) for key in a)


def assert_equal_but_for_rounding(one, other, steps, summands=SUMMANDS):
    """The parameters of two networks after steps that added in different orders."""
    one, other = flat(one), flat(other)
    tolerance = rounding.of_a_run(steps, summands, one, dtype=one.dtype)
    torch.testing.assert_close(one, other, rtol=0.0, atol=tolerance)


def flat(net):
    return torch.cat([p.detach().reshape(-1) for p in net.parameters()])
