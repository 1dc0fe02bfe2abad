"""A model has the average for a block, and afterwards everything is as it was, to the bit."""

import copy

import pytest
import torch
from torch import nn

import heavystep
from heavystep import Average
from tests.helpers.averaged import lent, literal, train, vector
from tests.helpers.training import loss_of, make_batches, make_net, same, snapshot


def trained(steps=4, norm=False, dtype=torch.float32, dropout=0.0):
    """A network, its optimizer, the average, and the iterates."""
    net = make_net(norm=norm, dtype=dtype, dropout=dropout)
    opt = heavystep.SHBPolyak(net.parameters())
    average = Average(opt)
    return net, opt, average, train(net, opt, make_batches(steps, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_parameters_come_back(dtype):
    net, opt, average, iterates = trained(dtype=dtype)
    grads = [p.grad.clone() for p in net.parameters()]
    places = [p.data_ptr() for p in net.parameters()]
    with average.in_place():
        assert not torch.equal(vector(net.parameters()), iterates[-1])
        assert [p.data_ptr() for p in net.parameters()] == places
        loss_of(net, make_batches(1, dtype=dtype)[0])
    assert torch.equal(vector(net.parameters()), iterates[-1])
    assert all(torch.equal(p.grad, g) for p, g in zip(net.parameters(), grads, strict=True))
    assert not opt._optimizer_step_pre_hooks.keys() - {h.id for h in average._handles}


def test_parameters_come_back_after_an_exception():
    net, opt, average, _ = trained(norm=True)
    before = snapshot(net)

    def validate():
        average.update_bn([batch[0] for batch in make_batches(2)], net)
        with torch.no_grad():
            for param in net.parameters():
                param.fill_(torch.nan)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), average.in_place():
        validate()
    assert same(net.state_dict(), before)
    train(net, opt, make_batches(1))
    assert int(average.count) == 5


def test_the_averaged_model_can_be_saved():
    net, _, average, iterates = trained(dtype=torch.float64)
    with average.in_place():
        saved = snapshot(net)
    other = make_net(seed=3, dtype=torch.float64)
    other.load_state_dict(saved)
    expected = literal(iterates, 8.0)
    torch.testing.assert_close(vector(other.parameters()), expected, rtol=1e-12, atol=1e-14)


def test_what_is_refused_within():
    net, opt, average, iterates = trained()
    state = copy.deepcopy(average.state_dict())
    batch = make_batches(1)[0]
    with average.in_place():
        with pytest.raises(ValueError, match=r"step\(\) within in_place\(\): the model has the av"):
            opt.step(lambda: loss_of(net, batch))
        with pytest.raises(ValueError, match=r"update\(\) within in_place\(\)"):
            average.update()
        with pytest.raises(ValueError, match=r"load_state_dict\(\) within in_place\(\)"):
            average.load_state_dict(state)
        nested = average.in_place()
        with pytest.raises(ValueError, match=r"in_place\(\) within in_place\(\)"), nested:
            pass
    assert torch.equal(vector(net.parameters()), iterates[-1])
    assert int(average.count) == 4
    opt.step(lambda: loss_of(net, batch))
    assert int(average.count) == 5


def test_steps_are_refused_within_however_the_average_is_updated():
    net = make_net()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    average = Average(opt, automatic=False)
    with average.in_place(), pytest.raises(ValueError, match=r"step\(\) within in_place\(\)"):
        opt.step()
    opt.step()
    assert not opt._optimizer_step_pre_hooks


def test_two_averages_of_one_run():
    net = make_net(dtype=torch.float64)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    short, long = Average(opt, power=8.0), Average(opt, power=0.0)
    iterates = train(net, opt, make_batches(6, dtype=torch.float64))
    with long.in_place():
        found = lent(short, net)
        torch.testing.assert_close(found, literal(iterates, 8.0), rtol=1e-12, atol=1e-14)
        found = vector(net.parameters())
        torch.testing.assert_close(found, literal(iterates, 0.0), rtol=1e-12, atol=1e-14)
    assert torch.equal(vector(net.parameters()), iterates[-1])


def test_casts_of_other_parameters_are_forgotten():
    """Autocast keeps casts of parameters for as long as it lasts."""
    net, _, average, _ = trained()
    x = make_batches(1)[0][0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        own = net(x)
        with average.in_place():
            averaged = net(x)
        again = net(x)
    with average.in_place(), torch.autocast("cpu", dtype=torch.bfloat16):
        expected = net(x)
    assert torch.equal(own, again)
    assert torch.equal(averaged, expected)
    assert not torch.equal(own, averaged)


def statistics(net, inputs):
    """Mean and variance before BatchNorm: the mean over batches of those of each, as torch's."""
    with torch.no_grad():
        hidden = [net[0](x) for x in inputs]
    means, variances = [h.mean(dim=0) for h in hidden], [h.var(dim=0) for h in hidden]
    return torch.stack(means).mean(dim=0), torch.stack(variances).mean(dim=0)


@pytest.mark.parametrize("training", [True, False])
def test_statistics_of_the_average_for_the_block(training):
    net, _, average, _ = trained(norm=True, dtype=torch.float64)
    net.train(training)
    net[1].eval()  # a layer in a mode of its own
    inputs = [x for x, _ in make_batches(3, dtype=torch.float64)]
    before, modes = snapshot(net), [module.training for module in net.modules()]
    norm: nn.BatchNorm1d = net[1]
    places = [buffer.data_ptr() for buffer in net.buffers()]
    with average.in_place():
        for loader in (inputs, [(x, None) for x in inputs]):  # the second time changes nothing
            average.update_bn(loader, net)
            mean, variance = statistics(net, inputs)
            torch.testing.assert_close(norm.running_mean, mean)
            torch.testing.assert_close(norm.running_var, variance)
            assert int(norm.num_batches_tracked) == 3
            assert [module.training for module in net.modules()] == modes
            assert norm.momentum == 0.1
    assert same(net.state_dict(), before)
    assert [buffer.data_ptr() for buffer in net.buffers()] == places
    assert int(norm.num_batches_tracked) == 4


def test_a_loader_that_fails():
    net, _, average, _ = trained(norm=True)
    net.eval()
    before = snapshot(net)

    def loader():
        yield make_batches(1)[0][0]
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"), average.in_place():
        average.update_bn(loader(), net)
    assert same(net.state_dict(), before)
    assert not any(module.training for module in net.modules())
    assert net[1].momentum == 0.1


def test_a_buffer_that_a_forward_replaces():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(6)
            self.register_buffer("seen", torch.zeros(()))
            self.register_buffer("nothing", None)

        def forward(self, x):
            self.seen = self.seen + len(x)
            return self.norm(x)

    net = Counting()
    own = net.seen
    average = Average(torch.optim.SGD(net.parameters(), lr=0.1))
    with average.in_place():
        average.update_bn([x for x, _ in make_batches(2)], net)
        assert net.seen == 32
    assert net.seen is own
    assert net.seen == 0


def test_statistics_belong_into_the_block():
    net, _, average, _ = trained(norm=True)
    before = snapshot(net)
    with pytest.raises(ValueError, match=r"update_bn\(\) belongs into the block of in_place\(\)"):
        average.update_bn([], net)
    assert same(net.state_dict(), before)
