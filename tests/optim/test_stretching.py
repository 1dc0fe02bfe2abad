"""The diagonal in passing, on torch's kernel, is the diagonal of its definition."""

import copy

import pytest
import torch

from heavystep import SHBAdam
from heavystep.optim import adam_kernel, create
from heavystep.optim.stretching import Stretch

METHODS = ("SHBAdam", "SHBPolyakAdam", "NGNMD", "IAMAdam", "MoMoAdam")
IN_PASSING = METHODS[:4]
"""Whose rules read no other product with the diagonal than the square of the gradient."""
DOUBLE = {"dtype": torch.float64}


def last_channels(*shape):
    return torch.zeros(shape, **DOUBLE).to(memory_format=torch.channels_last)


LAYOUTS = {
    "one block": lambda: [torch.zeros(5, 4, **DOUBLE)],
    "many blocks": lambda: [torch.zeros(7, 11, **DOUBLE), torch.zeros(64, **DOUBLE)],
    "short ones": lambda: [torch.zeros(n % 9, **DOUBLE) for n in range(40)],
    "a number": lambda: [torch.zeros((), **DOUBLE)],
    "nothing": lambda: [torch.zeros(0, 3, **DOUBLE), torch.zeros(2, **DOUBLE)],
    "channels last": lambda: [last_channels(3, 4, 5, 2), last_channels(2, 2, 1, 1)],
    "transposed": lambda: [torch.zeros(9, 6, **DOUBLE).t(), torch.zeros(4, **DOUBLE)],
    "two formats": lambda: [torch.zeros(30), torch.zeros(30, **DOUBLE)],
}
every_layout = pytest.mark.parametrize("layout", LAYOUTS)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(adam_kernel, "_BLOCK", 16)
    monkeypatch.setattr(adam_kernel, "_SHORT", 8)


def gradients(params, k):
    """Of the k-th batch: off centre, of very different sizes."""
    generator = torch.Generator().manual_seed(k)
    for i, param in enumerate(params):
        noise = torch.randn(param.shape, generator=generator, **DOUBLE)
        param.grad = torch.empty_like(param).copy_((param.detach() - 1.0 + noise) * 10.0 ** (i % 5))


def trained(method, layout, steps=6, late=True, **options):
    """Parameters and state after some steps, the first parameter without a gradient at first."""
    params = [tensor.requires_grad_() for tensor in LAYOUTS[layout]()]
    groups = [{"params": params[:2], "lr": 0.7}, {"params": params[2:]}]
    opt = create(method, [group for group in groups if group["params"]], **options)
    for k in range(steps):
        gradients(params, k)
        if late and k < 2 and len(params) > 1:
            params[0].grad = None
        opt.step(loss=torch.tensor(3.0 + 1.0 / (k + 1), **DOUBLE))
    return params, opt


@every_layout
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("momentum", [0.0, 0.8])
def test_it_is_the_diagonal_of_the_definition(layout, method, momentum):
    options = {"momentum": momentum, "weight_decay": 0.1, "beta2": 0.9}
    plain, expected = trained(method, layout, foreach=False, **options)
    params, found = trained(method, layout, foreach=True, **options)
    single = layout == "two formats"
    tolerance = {"rtol": 1e-5 if single else 1e-11, "atol": 1e-6 if single else 1e-12}
    assert any((param != 0.0).any() for param in params)
    for one, other in zip(plain, params, strict=True):
        torch.testing.assert_close(other, one, **tolerance)
        for name, value in expected.state[one].items():
            torch.testing.assert_close(found.state[other][name], value, **tolerance)


@every_layout
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("bad", ["loss", "inf", "nan", "square"])
def test_a_refused_batch_changes_nothing_to_the_bit(layout, method, bad):
    params, opt = trained(method, layout)
    gradients(params, 99)
    worst = {"loss": None, "inf": torch.inf, "nan": torch.nan, "square": 1e200}[bad]
    if worst is not None:
        params[-1].grad.view(-1)[-1] = worst
    before = copy.deepcopy((params, [opt.state[p] for p in params], opt.state_dict()))
    opt.step(loss=torch.tensor(torch.nan if bad == "loss" else 2.0))
    assert not opt.info.accepted
    after = (params, [opt.state[p] for p in params], opt.state_dict())
    for one, other in zip(*map(torch.utils._pytree.tree_leaves, (before, after)), strict=True):
        if isinstance(one, torch.Tensor):
            assert torch.equal(one, other)


@pytest.mark.parametrize("method", METHODS)
def test_gradients_stay_what_they_were(method):
    params, opt = trained(method, "many blocks")
    gradients(params, 99)
    params[0].grad[0, 0] = -0.0
    before = [param.grad.clone() for param in params]
    opt.step(loss=torch.tensor(2.0))
    for param, grad in zip(params, before, strict=True):
        assert torch.equal(param.grad.view(torch.int64), grad.view(torch.int64))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("layout", ["many blocks", "channels last", "short ones"])
def test_what_is_in_passing_is_not_kept(method, layout, monkeypatch):
    """By the definition, D is computed for methods alone that read more of it."""
    defined = []
    entry = Stretch._entry
    monkeypatch.setattr(Stretch, "_entry", lambda self, i: defined.append(i) or entry(self, i))
    trained(method, layout)
    assert bool(defined) is (method not in IN_PASSING)


def test_a_buffer_in_another_order_of_memory():
    """The kernel cannot walk it; the norm was computed in passing all the same."""
    params, opts = [], []
    for foreach in (False, True):
        param = torch.zeros(9, 6, **DOUBLE, requires_grad=True)
        opt = SHBAdam([param], foreach=foreach)
        for k in range(5):
            gradients([param], k)
            opt.step(loss=torch.tensor(3.0, **DOUBLE))
            own = opt.state[param]
            own["lead"] = own["lead"].t().contiguous().t()
        params.append(param)
        opts.append(opt)
    torch.testing.assert_close(*params, rtol=1e-11, atol=1e-13)
    for name in ("average_square", "square_weight"):
        torch.testing.assert_close(*(o.state[p][name] for o, p in zip(opts, params, strict=True)))


def test_half_precision_keeps_wide_averages():
    param = torch.zeros(40, dtype=torch.bfloat16, requires_grad=True)
    opt = SHBAdam([param])
    param.grad = torch.ones_like(param)
    opt.step(loss=torch.tensor(2.0))
    assert opt.state[param]["average_square"].dtype == torch.float32
    assert (param < 0.0).all()
