"""Formats of numbers: half precision with a wide state, mixed and changing ones, kernels or none."""

import math
from unittest import mock

import pytest
import torch

from heavystep import SHBPolyak
from heavystep.optim.measure import absolute_sum, squared_norm
from heavystep.optim.update import Active
from tests.helpers import rounding
from tests.helpers.cases import OPTIMIZERS, every_optimizer, over
from tests.helpers.training import (
    Run,
    expected_motion,
    flat,
    kept_of,
    make_batches,
    make_net,
    take_step,
)


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


@pytest.mark.parametrize("transposed", [False, True])
def test_memory_that_kernels_cannot_walk_is_read_as_torch_reads_it(transposed):
    """They read raw memory: repeated, strided and transposed gradients, and a transposed parameter."""
    odd = torch.arange(24.0).reshape(6, 4).t() / 1e2
    odd = (odd if transposed else odd.contiguous()).requires_grad_()
    even = odd.detach().clone(memory_format=torch.contiguous_format).requires_grad_()
    opts = [SHBPolyak([theta], max_step=0.5) for theta in (odd, even)]
    assert odd.is_contiguous() != transposed
    for grad in (
        torch.tensor([[1.0], [2.0], [3.0], [4.0]]).expand(4, 6),
        torch.arange(48.0).reshape(4, 12)[:, ::2],
        torch.arange(24.0).reshape(6, 4).t(),
    ):
        even.grad, odd.grad = grad.contiguous(), torch.zeros(4, 6)
        odd.grad.set_(grad.untyped_storage(), 0, grad.shape, grad.stride())
        for opt in opts:
            opt.step(loss=1e6)
        torch.testing.assert_close(odd, even)


@every_optimizer
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_keeps_all_else_in_float32(case, dtype):
    run = Run(case.make, {"dtype": dtype}).train(make_batches(3, dtype=dtype))
    net, opt = run.net, run.opt
    kept = [tensor for p in net.parameters() for tensor in opt.state[p].values()]
    kept += [opt.param_groups[0][name] for name in case.method.rule.memory]
    assert {tensor.dtype for tensor in kept if torch.is_tensor(tensor)} <= {torch.float32}
    assert {p.dtype for p in net.parameters()} == {dtype}
    numbers = opt.info.numbers().values()
    assert all(math.isfinite(number) for number in numbers if isinstance(number, float))


@over([case for case in OPTIMIZERS if not case.diagonal and not case.steers])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_model_may_change_its_format_in_the_middle(case, dtype):
    batches = make_batches(6)
    run = Run(case.make).train(batches[:2])
    net, opt = run.net.to(dtype), run.opt
    for x, y in batches[2:]:
        before = [p.detach().clone() for p in net.parameters()]
        old = [kept_of(opt, case, p) for p in net.parameters()]
        run.step((x.to(dtype), y))
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
        opt.step(lambda: ((a.double() - 4.0) ** 2).sum() + ((b - 1.0) ** 2).sum())
    assert (a.dtype, b.dtype) == (torch.float32, torch.float64)
    for param, start, target in ((a, 1.0, 4.0), (b, 3.0, 1.0)):
        x, d = start, 0.0
        for _ in range(3):  # every step is at the cap of 0.1
            d = 0.5 * d - 0.1 * 2.0 * (x - target)
            x += d
        # Two sums in each of the three steps.
        assert param[0].item() == pytest.approx(x, rel=rounding.of_a_sum(6, param.dtype))


def test_the_norm_is_accurate_in_float32():
    """Of long tensors, which are taken in blocks, and of short ones."""
    generator = torch.Generator().manual_seed(0)
    grads = [torch.randn(n, generator=generator) for n in (3_000_001, 4096, 17, 4097)]
    params = [torch.zeros_like(g, requires_grad=True) for g in grads]
    for p, g in zip(params, grads, strict=True):
        p.grad = g
    opt = SHBPolyak(params)
    opt.step(loss=1.0)
    exact = sum(g.double().square().sum() for g in grads).item()
    assert float(opt.info.grad_sqnorm) == pytest.approx(exact, rel=5e-7)


SHAPES = [(3,), (5000,), (2, 2048), (600, 1000), (0,), ()]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("reduced", "exact"), [(squared_norm, torch.square), (absolute_sum, torch.abs)]
)
def test_sums_of_long_tensors_keep_the_digits_of_their_format(reduced, exact, dtype):
    generator = torch.Generator().manual_seed(0)
    tensors = [torch.randn(shape, generator=generator).to(dtype) for shape in SHAPES]
    tensors += [torch.randn(7, generator=generator)]
    truth = sum(exact(tensor.double()).sum().item() for tensor in tensors)
    # A lane of a row adds 512 numbers; their roundings, of 2^-24, walk as far as 23 of them.
    assert reduced(tensors, torch.float32).item() == pytest.approx(truth, rel=100 * 2.0**-24)
