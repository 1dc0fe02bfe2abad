"""What a refused batch must not change it does not change by a bit, be it the sign of a zero."""

import pytest
import torch

from tests.helpers.cases import every_row
from tests.helpers.training import loss_of, make_batches, make_net, take_step


def bits(net):
    return torch.cat([p.detach().reshape(-1) for p in net.parameters()]).view(torch.int32)


@every_row
@pytest.mark.parametrize("options", [{}, {"weight_decay": 0.1}], ids=str)
def test_a_refused_batch_leaves_the_sign_of_zero(case, options):
    net, (good, (x, y)) = make_net(), make_batches(2)
    opt = case.make(net.parameters(), **options)
    take_step(opt, net, good, case)
    with torch.no_grad():
        for param in net.parameters():
            param.view(-1)[:2] = torch.tensor([-0.0, 0.0])
    before = bits(net)
    take_step(opt, net, (x * torch.nan, y), case)
    assert not opt.info.accepted
    assert torch.equal(bits(net), before)


@every_row
@pytest.mark.parametrize("rate", [torch.nan, torch.inf, -torch.inf, -0.1])
def test_a_learning_rate_out_of_range_moves_nothing(case, rate):
    """On a device nobody reads it, so that a batch is refused instead of an argument."""
    net, batches = make_net(), make_batches(3)
    lr = torch.tensor(0.1)
    opt = case.make(net.parameters(), lr=lr)
    take_step(opt, net, batches[0], case)
    before = bits(net)
    memory = [float(opt.param_groups[0][name]) for name in case.method.rule.memory]
    lr.fill_(rate)
    take_step(opt, net, batches[1], case)
    assert not opt.info.accepted
    assert torch.equal(bits(net), before)
    assert memory == [float(opt.param_groups[0][name]) for name in case.method.rule.memory]
    lr.fill_(0.1)
    take_step(opt, net, batches[2], case)
    assert opt.info.accepted
    assert torch.isfinite(loss_of(net, batches[2]))
