"""The estimate of L: right on quadratics, never above, and as if nothing had run."""

import math
from contextlib import nullcontext

import pytest
import torch
from torch import nn

from heavystep import SHBPolyak
from heavystep.smoothness import estimate_smoothness
from tests.helpers.training import fingerprint, loss_of, make_batches, make_net, on_gpu

SPECTRA = {
    "convex": [0.1, 1.0, 3.0, 7.0],
    "negative end": [-9.0, -1.0, 0.5, 4.0],
    "singular": [0.0, 0.0, 0.0, 2.5],
    "opposite ends": [-6.0, 0.2, 1.0, 6.0],
    "large": [1e5, 2e6, 1e7, 4e7],
    "small": [1e-9, 2e-9, 3e-9, 8e-9],
}


def make_quadratic(spectrum, dtype=torch.float64, seed=0, shift=3.0):
    """0.5 (theta - b)^T H (theta - b) with H of known spectrum; theta in two tensors."""
    generator = torch.Generator().manual_seed(seed)
    dim = len(spectrum)
    basis = torch.linalg.qr(torch.randn(dim, dim, generator=generator, dtype=torch.float64))[0]
    hessian = basis @ torch.diag(torch.tensor(spectrum, dtype=torch.float64)) @ basis.T
    hessian = (0.5 * (hessian + hessian.T)).to(dtype)
    centre = shift * torch.randn(dim, generator=generator, dtype=dtype)
    parts = [torch.zeros(1, dtype=dtype), torch.full((dim - 1, 1), 0.7, dtype=dtype)]
    params = [part.requires_grad_() for part in parts]

    def loss():
        offset = torch.cat([param.reshape(-1) for param in params]) - centre
        return 0.5 * offset @ hessian @ offset

    return loss, params


@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize("seed", range(2))
def test_quadratic_is_met_from_below(name, seed):
    loss, params = make_quadratic(SPECTRA[name], seed=seed)
    estimate = estimate_smoothness(loss, params, iterations=25, seed=seed)
    largest = max(abs(value) for value in SPECTRA[name])
    assert (1.0 - 1e-3) * largest <= estimate.value <= (1.0 + 1e-6) * largest
    assert estimate.value == max(estimate.quotients) > estimate.quotients[0]
    assert len(estimate.quotients) == 25
    assert "estimate L = " in str(estimate)


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e6])
def test_moves_are_relative_to_theta(scale):
    theta = torch.full((4,), scale, dtype=torch.float64, requires_grad=True)
    moves = []

    def closure():
        moves.append((theta.detach() - scale).norm().item())
        return (torch.linspace(1.0, 2.0, 4, dtype=torch.float64) * theta**2).sum()

    estimate_smoothness(closure, [theta], iterations=3, radius=0.01)
    distance = 0.01 * max(1.0, 2.0 * scale)
    assert moves == pytest.approx([0.0, distance, distance, distance], rel=1e-6)


def test_a_flat_direction_is_left_for_another():
    """The gradient differs only on one side of a kink, which some directions miss."""
    theta = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    both = [
        estimate_smoothness(lambda: (theta.clamp(min=0.0) ** 2).sum(), [theta], seed=seed)
        for seed in range(8)
    ]
    assert all(estimate.value == pytest.approx(2.0) for estimate in both)
    assert any(estimate.quotients[0] == 0.0 for estimate in both)


def noisy_net():
    net, batches = make_net(dropout=0.5, norm=True), make_batches(2)
    loss_of(net, batches[0]).backward()
    first, *_ = net.parameters()
    first.grad = None  # one gradient that is not there must not be there afterwards
    torch.manual_seed(11)
    return net, batches[1]


@pytest.mark.parametrize("way", ["plain", "zeroed", "zeroed in place", "sum"])
@pytest.mark.parametrize("grad_enabled", [True, False])
@pytest.mark.parametrize("fails_at", [None, 1, 2, 7])
def test_afterwards_it_is_as_if_nothing_had_run(way, grad_enabled, fails_at):
    net, batch = noisy_net()
    opt, calls = SHBPolyak(net.parameters()), []
    before = fingerprint(net)

    def closure():
        calls.append(None)
        if way in ("zeroed", "zeroed in place"):
            opt.zero_grad(set_to_none=way == "zeroed")
        loss = loss_of(net, batch)
        if way != "plain":
            loss.backward()
        if len(calls) == fails_at:
            raise RuntimeError("out of memory")
        return {"plain": loss, "zeroed in place": loss.item()}.get(way, loss.detach())

    fails = pytest.raises(RuntimeError, match="out of memory") if fails_at else nullcontext()
    with torch.set_grad_enabled(grad_enabled), fails:
        estimate = estimate_smoothness(closure, net.parameters(), buffers=net.buffers)
        assert 0.0 < estimate.value < 1e3
    assert fingerprint(net) == before


def estimate_of(net, batch, **options):
    return estimate_smoothness(
        lambda: loss_of(net, batch), net.parameters(), buffers=net.buffers, **options
    )


def test_dropout_sees_one_mask_and_batchnorm_one_batch():
    net, batch = noisy_net()
    outputs, statistics = [], []
    net[-2].register_forward_hook(lambda module, args, out: outputs.append(out == 0.0))
    net[1].register_forward_pre_hook(lambda m, args: statistics.append(m.running_mean.clone()))
    first, again, other = (estimate_of(net, batch, seed=seed) for seed in (0, 0, 1))
    assert len(outputs) == 3 * 21
    assert all(torch.equal(mask, outputs[0]) for mask in outputs)
    assert all(torch.equal(mean, statistics[0]) for mean in statistics)
    assert first == again != other


def test_frozen_and_repeated_parameters():
    loss, params = make_quadratic(SPECTRA["convex"])
    once = estimate_smoothness(loss, params)
    assert estimate_smoothness(loss, iter(params + params)) == once
    params[0].requires_grad_(False)
    fewer = estimate_smoothness(loss, params)
    assert fewer.value < 0.999 * once.value
    assert params[0].grad is None


def test_sparse_gradients_and_mixed_formats():
    table = nn.Embedding(5, 2, sparse=True)
    wide = torch.ones(2, dtype=torch.float64, requires_grad=True)

    def closure():
        return (3.0 * (table(torch.tensor([1, 3])).double() - wide) ** 2).sum() / 2

    estimate = estimate_smoothness(closure, [table.weight, wide])
    assert estimate.value == pytest.approx(9.0, rel=1e-3)  # 3 (A^T A), two rows minus one vector
    assert table.weight.grad is None


def test_a_closure_may_reuse_the_memory_of_its_gradient():
    theta = torch.tensor([3.0, -1.0], dtype=torch.float64, requires_grad=True)
    curvature, memory = torch.tensor([2.0, 5.0], dtype=torch.float64), torch.zeros(2).double()

    def closure():
        torch.mul(curvature, theta.detach() - 1.0, out=memory)
        theta.grad = memory
        return 1.0

    assert estimate_smoothness(closure, [theta]).value == pytest.approx(5.0, rel=1e-6)


def finite_until(last):
    theta, calls = torch.tensor([1.0], requires_grad=True), []

    def closure():
        calls.append(None)
        return (theta**2).sum() * (math.nan if len(calls) > last else 1.0)

    return closure, [theta]


def bad(theta=None, **kwargs):
    theta = torch.ones(2, requires_grad=True) if theta is None else theta
    return lambda: (theta**2).sum(), [theta], kwargs


def with_params(params):
    return lambda: bad()[0](), params, {}


LEAF = torch.ones(2, requires_grad=True)
BAD_CALLS = {
    "no iterations": (lambda: bad(iterations=0), ValueError, "iterations must be >= 1, got 0"),
    "no radius": (lambda: bad(radius=0.0), ValueError, "radius must be > 0 and finite, got 0.0"),
    "seed": (lambda: bad(seed=-1), ValueError, "seed must be >= 0, got -1"),
    "radius below rounding": (lambda: bad(radius=1e-12), ValueError, r"changes no parameter in torch.float32: raise radius"),
    "module as buffers": (lambda: bad(buffers=nn.BatchNorm1d(2)), TypeError, r"buffers must be .*: pass model.buffers\(\)"),
    "all frozen": (lambda: with_params([torch.ones(2)]), ValueError, "must hold a tensor that requires a gradient"),
    "one tensor": (lambda: with_params(LEAF), ValueError, r"params must be leaves, .*: pass \[theta\]"),
    "module": (lambda: with_params(make_net()), TypeError, r"params must .* pass .*model.parameters\(\)"),
    "groups": (lambda: with_params([{"params": [LEAF]}]), TypeError, "params must hold tensors, got dict"),
    "no leaf": (lambda: with_params([LEAF * 2]), ValueError, "params must be leaves"),
    "half precision": (lambda: bad(torch.ones(2, dtype=torch.bfloat16, requires_grad=True)), TypeError, "params must be float32 or float64, got torch.bfloat16"),
    "other parameters": (lambda: with_params([LEAF]), ValueError, "the closure gave no gradient"),
    "a number": (lambda: (lambda: 1.0, [LEAF], {}), ValueError, "the closure gave no gradient"),
    "nothing returned": (lambda: (lambda: None, [LEAF], {}), TypeError, "the closure must end with 'return loss'"),
    "NaN at theta": (lambda: (*finite_until(0), {}), ValueError, "the gradient is not finite"),
    "NaN nearby": (lambda: (*finite_until(2), {}), ValueError, "the gradient is not finite"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_CALLS)
def test_bad_calls_are_refused_in_one_line(name):
    make, error, message = BAD_CALLS[name]
    closure, params, kwargs = make()
    random = torch.get_rng_state()
    with pytest.raises(error, match=message) as caught:
        estimate_smoothness(closure, params, **kwargs)
    assert "\n" not in str(caught.value)
    assert torch.equal(torch.get_rng_state(), random)
    assert LEAF.grad is None
    assert torch.equal(LEAF, torch.ones(2))


@on_gpu
def test_on_a_gpu_it_is_as_if_nothing_had_run():
    net, (x, y) = noisy_net()
    net, batch = net.cuda(), (x.cuda(), y.cuda())
    before, random = fingerprint(net), torch.cuda.get_rng_state()
    estimates = [estimate_of(net, batch).value for _ in range(2)]
    assert fingerprint(net) == before
    assert torch.equal(torch.cuda.get_rng_state(), random)
    assert estimates[0] == pytest.approx(estimates[1], rel=1e-4)
