"""Parameter groups, missing gradients, frozen and unsupported parameters, state, copies."""

import copy
import pickle

import pytest
import torch

from heavystep import SHBArmijo
from tests.helpers.cases import OPTIMIZERS, every_optimizer, over
from tests.helpers.training import (
    Run,
    assert_equal_but_for_rounding,
    decayed_by,
    flat,
    loss_of,
    make_batches,
    make_net,
    take_step,
)


@every_optimizer
def test_groups_make_no_difference_when_they_agree(case):
    """All groups are searched together: splitting the parameters changes nothing."""
    batches = make_batches(6)
    whole = Run(case.make).train(batches)
    parts = Run(lambda p: case.make([{"params": [next(p)]}, {"params": p}])).train(batches)
    assert_equal_but_for_rounding(whole.net, parts.net, steps=len(batches))


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
    unused = torch.nn.Parameter(torch.ones(5), requires_grad=not frozen)
    unused.grad = torch.ones(5) if frozen else None  # of the time before
    alone = Run(case.make).train(make_batches(4))
    other = Run(lambda p: case.make([{"params": []}, {"params": [*p, unused]}]))
    assert torch.equal(other.train(make_batches(4)).theta, alone.theta)
    assert torch.equal(unused, torch.ones(5))


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


@every_optimizer
def test_deepcopy_and_pickle_go_on_alike(case):
    batches = make_batches(6)
    run = Run(case.make).train(batches[:3])
    clones, info = [copy.deepcopy(run), pickle.loads(pickle.dumps(run))], run.opt.info.numbers()
    run.train(batches[3:])
    for clone in clones:
        assert clone.opt.info.numbers() == info
        assert torch.equal(clone.train(batches[3:]).theta, run.theta)


def test_deepcopy_keeps_the_buffers_guarded():
    net = make_net(norm=True)
    net, opt = copy.deepcopy((net, SHBArmijo(net.parameters(), buffers=net.buffers())))
    opt.step(lambda: loss_of(net, make_batches(1)[0]))
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
