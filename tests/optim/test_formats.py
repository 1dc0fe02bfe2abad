"""Formats of numbers: half precision with a wide state, mixed and changing ones, kernels or none."""

import math
from unittest import mock

import pytest
import torch

from heavystep import SHBPolyak
from heavystep.optim.update import Active
from tests.helpers import rounding
from tests.helpers.cases import OPTIMIZERS, every_optimizer, over
from tests.helpers.training import expected_motion, flat, kept_of, make_batches, make_net, take_step


@every_optimizer
@pytest.mark.parametrize("decay", ["decoupled", "objective"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_kernels_are_the_definition(case, dtype, decay):
    batches = make_batches(4, dtype=torch.float64)
    nets = [make_net(dtype=torch.float64).to(dtype) for _ in range(2)]
    opts = [case.make(net.parameters(), weight_decay=0.1, decay=decay) for net in nets]
    # Half-precision trial losses are coarse: compare one step from equal parameters at a time.
    for x, y in batches:
        nets[1].load_state_dict(nets[0].state_dict())
        take_step(opts[0], nets[0], (x.to(dtype), y), case)
        with mock.patch.object(Active, "_has_kernel", return_value=False):  # the definition
            take_step(opts[1], nets[1], (x.to(dtype), y), case)
        tolerance = 100 * torch.finfo(dtype).eps
        torch.testing.assert_close(flat(nets[0]), flat(nets[1]), rtol=tolerance, atol=tolerance)


def test_fused_update_falls_back_on_memory_that_it_cannot_walk():
    """A transposed gradient and a strided parameter: the kernels read raw memory."""
    weight = torch.arange(80.0 * 90.0).reshape(90, 80).t() / 1e3  # strides of a transpose
    param = weight.clone(memory_format=torch.preserve_format).requires_grad_()
    dense = torch.ones(80, 90).cumsum(1).requires_grad_()
    assert not param.is_contiguous()
    opt = SHBPolyak([param, dense], max_step=0.5, scaling="plain")
    moves = [torch.zeros(80, 90)] * 2
    for _ in range(3):
        grad = torch.randn(80, 90, generator=torch.Generator().manual_seed(0))
        param.grad, dense.grad = grad, grad.t().contiguous().t()
        before = [p.detach().clone() for p in (param, dense)]
        opt.step(loss=2.0)
        moves = [0.9 * move - float(opt.info.step) * grad for move in moves]
        for p, old, move in zip((param, dense), before, moves, strict=True):
            torch.testing.assert_close(p.detach(), old + move)


@every_optimizer
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_keeps_all_else_in_float32(case, dtype):
    net, batches = make_net(dtype=dtype), make_batches(3, dtype=dtype)
    opt = case.make(net.parameters())
    for batch in batches:
        take_step(opt, net, batch, case)
    kept = [tensor for p in net.parameters() for tensor in opt.state[p].values()]
    kept += [opt.param_groups[0][name] for name in case.method.rule.memory]
    assert {tensor.dtype for tensor in kept if torch.is_tensor(tensor)} <= {torch.float32}
    assert {p.dtype for p in net.parameters()} == {dtype}
    numbers = opt.info.numbers().values()
    assert all(math.isfinite(number) for number in numbers if isinstance(number, float))


def test_the_norm_is_accurate_in_float32():
    generator = torch.Generator().manual_seed(0)
    grads = [torch.randn(n, generator=generator) for n in (3_000_001, 4096, 17, 4097)]
    params = [torch.zeros_like(g, requires_grad=True) for g in grads]
    for p, g in zip(params, grads, strict=True):
        p.grad = g
    opt = SHBPolyak(params)
    opt.step(loss=1.0)
    exact = sum(g.double().square().sum() for g in grads).item()
    assert float(opt.info.grad_sqnorm) == pytest.approx(exact, rel=5e-7)


@over([case for case in OPTIMIZERS if not case.diagonal and not case.steers])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_model_may_change_its_format_in_the_middle(case, dtype):
    net, batches = make_net(), make_batches(6)
    opt = case.make(net.parameters())
    for batch in batches[:2]:
        take_step(opt, net, batch, case)
    net.to(dtype)
    for x, y in batches[2:]:
        before = [p.detach().clone() for p in net.parameters()]
        old = [kept_of(opt, case, p) for p in net.parameters()]
        take_step(opt, net, (x.to(dtype), y), case)
        assert opt.info.accepted
        for p, theta, d in zip(net.parameters(), before, old, strict=True):
            wide = torch.float64 if dtype == torch.float64 else torch.float32
            motion, _ = expected_motion(opt, case, d.to(wide), p.grad.to(wide))
            tolerance = 1e-12 if dtype == torch.float64 else 2e-2
            expected = (theta.to(wide) + motion).to(dtype)
            torch.testing.assert_close(p.detach(), expected, rtol=tolerance, atol=tolerance)


def test_mixed_float32_and_float64_parameters():
    """Scalars are then float64; each tensor is updated in its own format."""
    a = torch.tensor([1.0, 2.0], dtype=torch.float32, requires_grad=True)
    b = torch.tensor([3.0], dtype=torch.float64, requires_grad=True)
    opt = SHBPolyak([a, b], momentum=0.5, max_step=0.1, scaling="plain")
    for _ in range(3):
        opt.zero_grad()
        loss = ((a.double() - 4.0) ** 2).sum() + ((b - 1.0) ** 2).sum()
        loss.backward()
        opt.step(loss=loss)
    assert (a.dtype, b.dtype) == (torch.float32, torch.float64)
    for param, start, target in ((a, 1.0, 4.0), (b, 3.0, 1.0)):
        x, d = start, 0.0
        for _ in range(3):  # every step is at the cap of 0.1
            d = 0.5 * d - 0.1 * 2.0 * (x - target)
            x += d
        # Two sums in each of the three steps.
        assert param[0].item() == pytest.approx(x, rel=rounding.of_a_sum(6, param.dtype))
