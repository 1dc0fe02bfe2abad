"""What torch's optimizers take, these take, too; and a common slip is told with its remedy."""

import pytest
import torch

from heavystep import SHB, SHBArmijo, SHBPolyak
from tests.helpers.cases import every_row
from tests.helpers.training import flat, loss_of, make_batches, make_net


def test_a_fixed_step_needs_no_loss_of_a_closure():
    nets = [make_net(), make_net()]
    opts = [SHB(net.parameters(), lr=0.1) for net in nets]
    for batch in make_batches(3):
        for net, opt, returns in zip(nets, opts, (True, False), strict=True):

            def closure():
                opt.zero_grad()
                loss = loss_of(net, batch)
                loss.backward()
                return loss if returns else None

            assert (opt.step(closure) is None) != returns
    assert torch.equal(flat(nets[0]), flat(nets[1]))
    assert opts[1].info.loss is None
    with pytest.raises(TypeError, match="the closure must end with 'return loss'"):
        SHBPolyak(nets[0].parameters()).step(lambda: None)


@every_row
def test_a_group_may_be_one_parameter_with_one_element(case):
    for theta in (torch.ones(()), torch.ones(1), torch.ones(1, 1)):
        theta.requires_grad_()
        opt = case.make([{"params": theta}])
        assert opt.param_groups[0]["params"] == [theta]


def test_every_group_may_have_its_own_learning_rate():
    first, *rest = make_net().parameters()
    opt = SHB([{"params": [first], "lr": 0.5}, {"params": iter(rest), "lr": torch.tensor([0.25])}])
    assert [float(group["lr"]) for group in opt.param_groups] == [0.5, 0.25]
    for groups in ([first], [{"params": [first], "lr": 0.1}, {"params": rest}]):
        with pytest.raises(TypeError, match=r"^SHB needs lr: the step gamma itself"):
            SHB(iter(groups))


@pytest.mark.parametrize("make", [SHBPolyak, SHBArmijo, lambda params: SHB(params, lr=0.1)])
def test_a_loss_that_was_used_up_is_told(make):
    net = make_net()
    opt, before = make(net.parameters()), flat(net).clone()
    loss = loss_of(net, make_batches(1)[0])
    loss.backward()
    with pytest.raises(
        RuntimeError, match=r"backward\(\) was called before: call step\(loss=loss\)"
    ):
        opt.step(lambda: loss)
    assert torch.equal(flat(net), before)
