"""Parameter groups, missing gradients, frozen and unsupported parameters, dtypes, foreach."""

import copy
import pickle

import pytest
import torch

from heavystep import SHBArmijo, SHBPolyak
from tests.helpers import rounding
from tests.helpers.cases import OPTIMIZERS
from tests.helpers.training import (
    assert_equal_but_for_rounding,
    flat,
    loss_of,
    make_batches,
    make_net,
    same,
    snapshot,
    take_step,
)

every_optimizer = pytest.mark.parametrize("case", OPTIMIZERS, ids=lambda case: case.id)


@every_optimizer
def test_decreases_the_loss(case):
    net, batches = make_net(), make_batches(60)
    opt = case.make(net.parameters())
    before = sum(loss_of(net, b).item() for b in batches)
    for batch in batches:
        take_step(opt, net, batch, case)
        assert opt.info.accepted
    assert sum(loss_of(net, b).item() for b in batches) < 0.9 * before


@every_optimizer
def test_groups_make_no_difference_when_they_agree(case):
    """All groups are searched together: splitting the parameters changes nothing."""
    batches = make_batches()
    nets = [make_net(), make_net()]
    first, *rest = nets[1].parameters()
    opts = [case.make(nets[0].parameters()), case.make([{"params": [first]}, {"params": rest}])]
    for batch in batches:
        for opt, net in zip(opts, nets, strict=True):
            take_step(opt, net, batch, case)
    assert_equal_but_for_rounding(*nets, steps=len(batches))


@every_optimizer
def test_lr_and_weight_decay_differ_by_group(case):
    net, batch = make_net(), make_batches(1)[0]
    first, second, *_ = params = list(net.parameters())
    groups = [
        {"params": [first], "lr": 0.02},
        {"params": [second], "lr": 0.005, "weight_decay": 0.3},
        {"params": params[2:], "lr": 0.0},
    ]
    opt = case.make(groups)
    old = [p.detach().clone() for p in params]
    take_step(opt, net, batch, case)
    base = float(opt.info.base_step)
    assert float(opt.info.step) == pytest.approx(0.02 * base)
    torch.testing.assert_close(first.detach(), old[0] - 0.02 * base * first.grad)
    decayed = (1 - 0.005 * base * 0.3) * old[1]
    torch.testing.assert_close(second.detach(), decayed - 0.005 * base * second.grad)
    for p, before in zip(params[2:], old[2:], strict=True):
        assert torch.equal(p, before)


@every_optimizer
def test_add_param_group(case):
    net, batches = make_net(), make_batches()
    first, *rest = net.parameters()
    opt = case.make([first])
    take_step(opt, net, batches[0], case)
    opt.add_param_group({"params": rest})
    old = [p.detach().clone() for p in rest]
    take_step(opt, net, batches[1], case)
    assert all(not torch.equal(p, before) for p, before in zip(rest, old, strict=True))


@every_optimizer
def test_parameters_without_gradient_stay_and_do_not_disturb(case):
    batches, nets = make_batches(), [make_net(), make_net()]
    unused = torch.nn.Parameter(torch.ones(5))
    opts = [case.make(nets[0].parameters()), case.make([*nets[1].parameters(), unused])]
    for batch in batches:
        for opt, net in zip(opts, nets, strict=True):
            take_step(opt, net, batch, case)
    assert unused.grad is None
    assert torch.equal(unused, torch.ones(5))
    assert torch.equal(flat(nets[0]), flat(nets[1]))


@every_optimizer
def test_frozen_parameters_stay(case):
    net, batches = make_net(), make_batches()
    opt = case.make(net.parameters())
    take_step(opt, net, batches[0], case)
    frozen = net[0].weight.requires_grad_(False)  # with the gradient of the last batch
    before = frozen.detach().clone()
    for batch in batches[1:]:
        take_step(opt, net, batch, case)
    assert torch.equal(frozen, before)
    assert opt.info.accepted


@every_optimizer
def test_a_batch_without_any_gradient_warns_and_changes_nothing(case):
    net = make_net()
    opt = case.make(net.parameters())
    before = snapshot(net)
    with pytest.warns(
        RuntimeWarning, match=r"no parameter has a gradient.*was backward\(\) called"
    ):
        opt.step(lambda: 1.5)
    assert same(before, net.state_dict())


@every_optimizer
def test_sparse_gradients_are_refused(case):
    embedding = torch.nn.Embedding(5, 3, sparse=True)
    opt = case.make(embedding.parameters())
    before = embedding.weight.detach().clone()
    with pytest.raises(TypeError, match="does not support sparse gradients"):
        opt.step(lambda: embedding(torch.tensor([1, 3])).square().sum())
    assert torch.equal(embedding.weight, before)


@every_optimizer
def test_complex_and_integer_parameters_are_refused(case):
    with pytest.raises(TypeError, match="real floating-point parameters, got complex"):
        case.make([torch.zeros(3, dtype=torch.complex64, requires_grad=True)])
    with pytest.raises(TypeError, match=r"real floating-point parameters, got torch\.int64"):
        case.make([torch.zeros(3, dtype=torch.int64)])


@every_optimizer
def test_mixed_devices_are_refused(case):
    on_cpu, elsewhere = torch.zeros(3), torch.zeros(3, device="meta")
    with pytest.raises(ValueError, match="all parameters must be on one device, got cpu and meta"):
        case.make([on_cpu.requires_grad_(), elsewhere.requires_grad_()])


@every_optimizer
@pytest.mark.parametrize("decay", ["decoupled", "objective"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_foreach_and_single_tensor_paths_agree(case, dtype, decay):
    batches = make_batches(8, dtype=torch.float64)
    nets = [make_net(dtype=torch.float64).to(dtype) for _ in range(2)]
    opts = [
        case.make(net.parameters(), foreach=foreach, weight_decay=0.1, decay=decay)
        for net, foreach in zip(nets, (True, False), strict=True)
    ]
    # Half-precision trial losses are coarse: compare one step from equal parameters at a time.
    for x, y in batches:
        nets[1].load_state_dict(nets[0].state_dict())
        for opt, net in zip(opts, nets, strict=True):
            take_step(opt, net, (x.to(dtype), y), case)
        tolerance = 100 * torch.finfo(dtype).eps
        torch.testing.assert_close(flat(nets[0]), flat(nets[1]), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "case", [case for case in OPTIMIZERS if case.has_momentum], ids=lambda case: case.id
)
@pytest.mark.parametrize("foreach", [True, False])
def test_momentum_may_rise_from_zero_reach_it_and_come_back(case, foreach):
    """Schedulers that cycle the momentum: the displacement is kept all the while."""
    net, batches = make_net(), make_batches(7)
    opt = case.make(net.parameters(), foreach=foreach, weight_decay=0.1)
    params = list(net.parameters())
    previous = [torch.zeros_like(p) for p in params]
    for batch, momentum in zip(batches, (0.0, 0.9, 0.9, 0.0, 0.0, 0.9, 0.5), strict=True):
        opt.param_groups[0]["momentum"] = momentum
        before = [p.detach().clone() for p in params]
        take_step(opt, net, batch, case)
        step = float(opt.info.step)
        motion = [momentum * d - step * p.grad for p, d in zip(params, previous, strict=True)]
        for p, theta, m in zip(params, before, motion, strict=True):
            torch.testing.assert_close(p.detach(), (1 - step * 0.1) * theta + m)
        previous = motion


def test_an_empty_parameter_group_is_allowed():
    """Splits by decay or by layer leave some groups empty."""
    for case in OPTIMIZERS:
        net = make_net()
        opt = case.make([{"params": []}, {"params": list(net.parameters())}])
        before = flat(net)
        take_step(opt, net, make_batches(1)[0], case)
        assert not torch.equal(flat(net), before), case.id


def test_no_parameter_at_all_warns_and_does_nothing():
    for case in OPTIMIZERS:
        opt = case.make([{"params": []}])
        with pytest.warns(RuntimeWarning, match="no parameter has a gradient"):
            opt.step(lambda: 1.0)


def test_objective_decay_differs_by_group():
    a, b = (torch.tensor([2.0], dtype=torch.float64, requires_grad=True) for _ in range(2))
    opt = SHBPolyak([{"params": [a], "weight_decay": 0.3}, {"params": [b], "weight_decay": 1.5}],
                    decay="objective", momentum=0.0, max_step=10.0, steps_per_epoch=None)  # fmt: skip
    opt.step(lambda: ((a - 1.0) ** 2 + (b - 1.0) ** 2).sum())
    loss = 2.0 + 0.15 * 4.0 + 0.75 * 4.0
    ga, gb = 2.0 + 0.3 * 2.0, 2.0 + 1.5 * 2.0
    step = 0.5 * loss / (ga**2 + gb**2)
    assert float(opt.info.loss) == pytest.approx(loss, rel=1e-14)
    assert float(opt.info.step) == pytest.approx(step, rel=1e-14)
    assert (a.item(), b.item()) == pytest.approx((2.0 - step * ga, 2.0 - step * gb), rel=1e-14)


def test_fused_update_falls_back_on_memory_that_it_cannot_walk():
    """A transposed gradient and a strided parameter: the kernels read raw memory."""
    for foreach in (True, False):
        weight = torch.arange(80.0 * 90.0).reshape(90, 80).t() / 1e3  # strides of a transpose
        param = weight.clone(memory_format=torch.preserve_format).requires_grad_()
        dense = torch.ones(80, 90).cumsum(1).requires_grad_()
        assert not param.is_contiguous()
        opt = SHBPolyak([param, dense], max_step=0.5, steps_per_epoch=None, foreach=foreach)
        for _ in range(3):
            old = [p.detach().clone() for p in (param, dense)]
            grad = torch.randn(80, 90, generator=torch.Generator().manual_seed(0))
            param.grad = grad
            dense.grad = grad.t().contiguous().t()
            state = [
                opt.state[p].get("displacement", torch.zeros_like(p)).clone()
                for p in (param, dense)
            ]
            opt.step(loss=2.0)
            for p, before, d in zip((param, dense), old, state, strict=True):
                expected = before + 0.9 * d - float(opt.info.step) * grad
                torch.testing.assert_close(p.detach(), expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("foreach", [True, False])
def test_half_precision_keeps_a_float32_displacement(dtype, foreach):
    """Steps far below the parameter's resolution add up instead of being lost in the buffer."""
    theta = torch.full((3,), 100.0, dtype=dtype, requires_grad=True)
    opt = SHBPolyak([theta], momentum=0.9, max_step=1e-3, steps_per_epoch=None, foreach=foreach)
    expected = torch.zeros(3)
    for _ in range(20):
        theta.grad = torch.full((3,), 0.125, dtype=dtype)
        opt.step(loss=1.0)
        expected = 0.9 * expected - 1e-3 * 0.125  # in float32 too
    displacement = opt.state[theta]["displacement"]
    assert displacement.dtype == torch.float32
    # A fused multiplication and addition may round once where others round twice, 20 times.
    torch.testing.assert_close(displacement, expected, rtol=rounding.of_a_sum(20), atol=0)
    assert opt.info.grad_sqnorm.dtype == torch.float32


def test_one_buffer_a_parameter_and_none_without_momentum():
    net, batches = make_net(), make_batches(2)
    for case in OPTIMIZERS:
        opt = case.make(net.parameters())
        for batch in batches:
            take_step(opt, net, batch, case)
        for p in net.parameters():
            tensors = [v for v in opt.state[p].values() if isinstance(v, torch.Tensor)]
            assert len(tensors) == (1 if case.has_momentum else 0), case.id


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


@every_optimizer
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_model_may_change_its_format_in_the_middle(case, dtype):
    net, batches = make_net(), make_batches(6)
    opt = case.make(net.parameters())
    for batch in batches[:2]:
        take_step(opt, net, batch, case)
    net.to(dtype)
    for x, y in batches[2:]:
        before = [p.detach().clone() for p in net.parameters()]
        old = [
            opt.state.get(p, {}).get("displacement", torch.zeros(())).clone()
            for p in net.parameters()
        ]
        take_step(opt, net, (x.to(dtype), y), case)
        assert opt.info.accepted
        momentum = opt.param_groups[0]["momentum"]
        for p, theta, d in zip(net.parameters(), before, old, strict=True):
            wide = torch.float64 if dtype == torch.float64 else torch.float32
            motion = momentum * d.to(wide) - float(opt.info.step) * p.grad.to(wide)
            tolerance = 1e-12 if dtype == torch.float64 else 2e-2
            expected = (theta.to(wide) + motion).to(dtype)
            torch.testing.assert_close(p.detach(), expected, rtol=tolerance, atol=tolerance)


def test_mixed_float32_and_float64_parameters():
    """Scalars are then float64; each tensor is updated in its own format."""
    a = torch.tensor([1.0, 2.0], dtype=torch.float32, requires_grad=True)
    b = torch.tensor([3.0], dtype=torch.float64, requires_grad=True)
    opt = SHBPolyak([a, b], momentum=0.5, max_step=0.1, steps_per_epoch=None)
    for _ in range(3):
        opt.zero_grad()
        loss = ((a.double() - 4.0) ** 2).sum() + ((b - 1.0) ** 2).sum()
        loss.backward()
        opt.step(loss=loss)
    assert opt.info.step.dtype == torch.float64
    assert (a.dtype, b.dtype) == (torch.float32, torch.float64)
    for param, start, target in ((a, 1.0, 4.0), (b, 3.0, 1.0)):
        x, d = start, 0.0
        for _ in range(3):  # every step is at the cap of 0.1
            d = 0.5 * d - 0.1 * 2.0 * (x - target)
            x += d
        # Two sums in each of the three steps.
        assert param[0].item() == pytest.approx(x, rel=rounding.of_a_sum(6, param.dtype))


@every_optimizer
def test_deepcopy_and_pickle_go_on_alike(case):
    net, batches = make_net(), make_batches()
    opt = case.make(net.parameters())
    for batch in batches[:5]:
        take_step(opt, net, batch, case)
    clones = [copy.deepcopy((net, opt)), pickle.loads(pickle.dumps((net, opt)))]
    info = opt.info.numbers()
    for batch in batches[5:]:
        take_step(opt, net, batch, case)
    for net_copy, opt_copy in clones:
        assert opt_copy.info.numbers() == info
        for batch in batches[5:]:
            take_step(opt_copy, net_copy, batch, case)
        assert torch.equal(flat(net_copy), flat(net))


def test_deepcopy_keeps_the_buffers_guarded():
    net, batches = make_net(norm=True), make_batches()
    opt = SHBArmijo(net.parameters(), buffers=net.buffers())
    net, opt = copy.deepcopy((net, opt))
    opt.step(lambda: loss_of(net, batches[0]))
    assert opt.info.trials >= 1
    assert int(net[1].num_batches_tracked) == 1


@every_optimizer
def test_repr_and_defaults_are_torchs(case):
    opt = case.make(make_net().parameters())
    assert "lr" in repr(opt)
    assert opt.defaults["lr"] == opt.param_groups[0]["lr"]
    assert opt.info is None
