"""Parameter groups, missing gradients, frozen and unsupported parameters, state, copies."""

import copy
import pickle

import pytest
import torch

from heavystep import SHBArmijo, SHBPolyak
from tests.helpers.cases import OPTIMIZERS, every_optimizer, over
from tests.helpers.training import (
    assert_equal_but_for_rounding,
    decayed_by,
    expected_motion,
    flat,
    loss_of,
    make_batches,
    make_net,
    same,
    snapshot,
    take_step,
)


@every_optimizer
def test_groups_make_no_difference_when_they_agree(case):
    """All groups are searched together: splitting the parameters changes nothing."""
    batches = make_batches(6)
    nets = [make_net(), make_net()]
    first, *rest = nets[1].parameters()
    opts = [case.make(nets[0].parameters()), case.make([{"params": [first]}, {"params": rest}])]
    for batch in batches:
        for opt, net in zip(opts, nets, strict=True):
            take_step(opt, net, batch, case)
    assert_equal_but_for_rounding(*nets, steps=len(batches))


@every_optimizer
def test_lr_and_weight_decay_differ_by_group(case):
    batch = make_batches(1, dtype=torch.float64)[0]
    whole, net = (make_net(dtype=torch.float64) for _ in range(2))
    take_step(case.make(whole.parameters(), lr=1.0), whole, batch, case)
    first, second, *_ = params = list(net.parameters())
    groups = [
        {"params": [first], "lr": 0.02},
        {"params": [second], "lr": 0.005, "weight_decay": 0.3},
        {"params": params[2:], "lr": 0.0},
    ]
    opt = case.make(groups)
    old = [p.detach().clone() for p in params]
    motion = [p.detach() - before for p, before in zip(whole.parameters(), old, strict=True)]
    assert all(m.abs().max() > 0.0 for m in motion)
    take_step(opt, net, batch, case)
    base = float(opt.info.base_step)
    assert float(opt.info.step) == pytest.approx(0.02 * base)
    torch.testing.assert_close(first.detach(), old[0] + 0.02 * motion[0])
    decayed = decayed_by(opt, 0.3, lr=0.005) * old[1]
    torch.testing.assert_close(second.detach(), decayed + 0.005 * motion[1])
    for p, before in zip(params[2:], old[2:], strict=True):
        assert torch.equal(p, before)


@every_optimizer
@pytest.mark.parametrize("frozen", [False, True])
def test_parameters_without_gradient_stay_and_do_not_disturb(case, frozen):
    batches, nets = make_batches(4), [make_net(), make_net()]
    unused = torch.nn.Parameter(torch.ones(5), requires_grad=not frozen)
    unused.grad = torch.ones(5) if frozen else None  # of the time before
    groups = [{"params": []}, {"params": [*nets[1].parameters(), unused]}]
    opts = [case.make(nets[0].parameters()), case.make(groups)]
    for batch in batches:
        for opt, net in zip(opts, nets, strict=True):
            take_step(opt, net, batch, case)
    assert torch.equal(unused, torch.ones(5))
    assert torch.equal(flat(nets[0]), flat(nets[1]))


@every_optimizer
def test_a_batch_without_any_gradient_warns_and_changes_nothing(case):
    net = make_net()
    before = snapshot(net)
    for opt in (case.make(net.parameters()), case.make([{"params": []}])):
        with pytest.warns(RuntimeWarning, match="no parameter has a gradient.*was backward"):
            opt.step(lambda: 1.5)
    assert same(before, net.state_dict())


@every_optimizer
def test_sparse_gradients_are_those_of_a_dense_embedding(case):
    """Rows that come twice, with parameters beside the embedding; gradients stay sparse."""
    found = []
    for sparse in (False, True):
        torch.manual_seed(0)
        embedding, head = torch.nn.Embedding(5, 3, sparse=sparse), torch.nn.Linear(3, 1)
        opt = case.make([*embedding.parameters(), *head.parameters()])
        for k in range(6):
            rows = torch.tensor([k % 5, 3, 3])
            opt.step(lambda rows=rows: head(embedding(rows)).square().sum())
            assert embedding.weight.grad.is_sparse == sparse
        found.append(flat(embedding))
    torch.testing.assert_close(*found, rtol=0.0, atol=1e-6)


@every_optimizer
def test_parameters_of_no_kind_are_refused(case):
    with pytest.raises(TypeError, match="real floating-point parameters, got complex"):
        case.make([torch.zeros(3, dtype=torch.complex64, requires_grad=True)])
    with pytest.raises(TypeError, match=r"real floating-point parameters, got torch\.int64"):
        case.make([torch.zeros(3, dtype=torch.int64)])
    with pytest.raises(ValueError, match="all parameters must be on one device, got cpu and meta"):
        case.make([torch.zeros(3), torch.zeros(3, device="meta")])


@over([case for case in OPTIMIZERS if case.takes("momentum") and not case.diagonal])
def test_momentum_may_rise_from_zero_reach_it_and_come_back(case):
    """Schedulers that cycle the momentum: its buffer is kept all the while."""
    net, batches = make_net(), make_batches(7)
    opt = case.make(net.parameters(), weight_decay=0.1)
    params = list(net.parameters())
    previous = [torch.zeros_like(p) for p in params]
    for batch, momentum in zip(batches, (0.0, 0.9, 0.9, 0.0, 0.0, 0.9, 0.5), strict=True):
        opt.param_groups[0]["momentum"] = momentum
        before = [p.detach().clone() for p in params]
        take_step(opt, net, batch, case)
        # Where momentum averages, decay moves all three points, and so their distances.
        kept = decayed_by(opt, 0.1) if case.method.form.averages else 1.0
        moves = [
            expected_motion(opt, case, kept * b, p.grad)
            for p, b in zip(params, previous, strict=True)
        ]
        for p, theta, (motion, _) in zip(params, before, moves, strict=True):
            torch.testing.assert_close(p.detach(), decayed_by(opt, 0.1) * theta + motion)
        previous = [buffer for _, buffer in moves]


@every_optimizer
def test_deepcopy_and_pickle_go_on_alike(case):
    net, batches = make_net(), make_batches(6)
    opt = case.make(net.parameters())
    for batch in batches[:3]:
        take_step(opt, net, batch, case)
    clones = [copy.deepcopy((net, opt)), pickle.loads(pickle.dumps((net, opt)))]
    info = opt.info.numbers()
    for batch in batches[3:]:
        take_step(opt, net, batch, case)
    for net_copy, opt_copy in clones:
        assert opt_copy.info.numbers() == info
        for batch in batches[3:]:
            take_step(opt_copy, net_copy, batch, case)
        assert torch.equal(flat(net_copy), flat(net))


def test_deepcopy_keeps_the_buffers_guarded():
    net, batches = make_net(norm=True), make_batches()
    opt = SHBArmijo(net.parameters(), buffers=net.buffers())
    net, opt = copy.deepcopy((net, opt))
    opt.step(lambda: loss_of(net, batches[0]))
    assert opt.info.trials >= 1
    assert int(net[1].num_batches_tracked) == 1


@over([case for case in OPTIMIZERS if "direction_position" in case.method.rule.reads])
def test_a_gradient_that_is_missing_for_a_while_is_zero(case):
    """What is remembered of all parameters together must not miss some of them."""
    ends = []
    for missing in (None, 0.0):
        a, b = (
            torch.tensor([x, -1.0], dtype=torch.float64, requires_grad=True) for x in (3.0, 2.0)
        )
        opt = case.make([a, b], max_step=1e9)
        for k in range(12):
            opt.zero_grad()
            parts = ((a - 1.0) ** 2).sum(), ((b - 2.5) ** 2).sum()
            loss = parts[k % 2] if k else sum(parts)  # all have one at first
            loss.backward()
            for p in (a, b):
                if p.grad is None and missing is not None:
                    p.grad = torch.full_like(p, missing)
            opt.step(loss=loss)
        ends.append(torch.cat([a, b]).detach())
    torch.testing.assert_close(*ends, rtol=1e-12, atol=1e-12)


def test_objective_decay_differs_by_group():
    a, b = (torch.tensor([2.0], dtype=torch.float64, requires_grad=True) for _ in range(2))
    opt = SHBPolyak([{"params": [a], "weight_decay": 0.3}, {"params": [b], "weight_decay": 1.5}],
                    decay="objective", momentum=0.0, max_step=10.0, c=2.0, scaling="plain")  # fmt: skip
    opt.step(lambda: ((a - 1.0) ** 2 + (b - 1.0) ** 2).sum())
    loss = 2.0 + 0.15 * 4.0 + 0.75 * 4.0
    ga, gb = 2.0 + 0.3 * 2.0, 2.0 + 1.5 * 2.0
    step = 0.5 * loss / (ga**2 + gb**2)
    assert float(opt.info.loss) == pytest.approx(loss, rel=1e-14)
    assert float(opt.info.step) == pytest.approx(step, rel=1e-14)
    assert (a.item(), b.item()) == pytest.approx((2.0 - step * ga, 2.0 - step * gb), rel=1e-14)
