"""A bad batch in the middle of a run: visible, harmless and forgotten."""

import math

import pytest
import torch

from heavystep import SHB, SHBArmijo, SHBPolyak
from tests.helpers.cases import OPTIMIZERS
from tests.helpers.training import flat, loss_of, make_batches, make_net, take_step

def poison(net, batch, kind):
    """A loss for a batch that went wrong."""
    loss = loss_of(net, batch)
    if kind == "NaN loss":
        return loss * math.nan
    if kind == "infinite loss":
        return loss + math.inf
    if kind == "NaN gradient":
        weight = net[0].weight
        return loss + (weight * 0.0).sum() / (weight.detach()[0, 0] * 0.0) * 0.0
    return loss  # "infinite gradient": set by a hook on one parameter


@every_optimizer
@pytest.mark.parametrize("foreach", [True, False])
@pytest.mark.parametrize("decay", ["decoupled", "objective"])
@pytest.mark.parametrize("kind", ["NaN loss", "infinite loss", "NaN gradient", "infinite gradient"])
def test_a_bad_batch_is_as_if_it_had_not_been(case, kind, decay, foreach):
    batches, nets = make_batches(8), [make_net(), make_net()]
    options = {"foreach": foreach, "decay": decay, "weight_decay": 0.1}
    opts = [case.make(net.parameters(), **options) for net in nets]
    for k, batch in enumerate(batches):
        for opt, net in zip(opts, nets, strict=True):
            take_step(opt, net, batch, case)
        if k in (0, 3):
            before = flat(nets[1]).clone()
            handle = nets[1][2].weight.register_hook(
                lambda g: g + math.inf if kind == "infinite gradient" else g
            )
            opts[1].step(lambda: poison(nets[1], batch, kind))
            handle.remove()
            assert not opts[1].info.accepted
            assert float(opts[1].info.step) == 0.0
            assert torch.equal(flat(nets[1]), before)
    assert torch.equal(flat(nets[0]), flat(nets[1]))
    assert opts[1].info.accepted


def test_a_refused_batch_leaves_the_batchnorm_statistics_alone():
    """Otherwise one NaN input would spoil every later evaluation."""
    net, (x, y) = make_net(norm=True), make_batches(1)[0]
    opt = SHBArmijo(net.parameters(), buffers=net.buffers())
    opt.step(lambda: loss_of(net, (x, y)))
    before = [b.clone() for b in net.buffers()]
    stream = torch.get_rng_state()
    opt.step(lambda: loss_of(net, (x * math.nan, y)))
    assert not opt.info.accepted
    assert all(torch.equal(a, b) for a, b in zip(before, net.buffers(), strict=True))
    assert torch.equal(torch.get_rng_state(), stream)
    opt.step(lambda: loss_of(net, (x, y)))
    assert opt.info.accepted


def test_nan_gradient_poison_really_is_one():
    net, batch = make_net(), make_batches(1)[0]
    loss = poison(net, batch, "NaN gradient")
    loss.backward()
    assert not torch.isfinite(net[0].weight.grad).all()


def test_a_bad_first_batch_does_not_spoil_the_first_step():
    for case in OPTIMIZERS:
        nets, batch = [make_net(), make_net()], make_batches(1)[0]
        opts = [case.make(net.parameters()) for net in nets]
        opts[1].step(lambda: loss_of(nets[1], batch) * math.nan)
        for opt, net in zip(opts, nets, strict=True):
            take_step(opt, net, batch, case)
        assert torch.equal(flat(nets[0]), flat(nets[1])), case.id


def test_a_failed_search_is_as_if_the_batch_had_not_been():
    batches, nets = make_batches(6), [make_net(), make_net()]
    opts = [SHBArmijo(net.parameters(), max_trials=5) for net in nets]
    for k, batch in enumerate(batches):
        for opt, net in zip(opts, nets, strict=True):
            opt.step(lambda net=net: loss_of(net, batch))
        if k == 2:
            rising = iter([1.0, *[9.0] * 5])

            def hopeless():
                loss = loss_of(nets[1], batch)
                return (
                    loss * 0.0
                    + next(rising)
                    + 0.1 * nets[1][0].weight.sum() * 0.0
                    + (loss - loss.detach())
                )

            with pytest.warns(RuntimeWarning, match="line search failed after 5 trials"):
                opts[1].step(hopeless)
            assert opts[1].info.trials == 5
            assert not opts[1].info.accepted
            assert opts[1].info.step == 0.0
    assert torch.equal(flat(nets[0]), flat(nets[1]))


def test_a_search_survives_a_trial_that_overflows():
    """A huge first trial gives an infinite or NaN loss; the search goes on below it."""
    theta = torch.tensor([0.5], requires_grad=True)
    opt = SHBArmijo([theta], max_step=1e5, decrease_factor=0.5, steps_per_epoch=None)
    opt.step(lambda: torch.exp(theta.square()).sum() - 1.0)
    assert opt.info.accepted
    assert opt.info.trials > 1
    assert 0 < opt.info.step < 1.0


def heavy_ball_only(theta, displacement, momentum=0.9):
    return theta + momentum * displacement


@pytest.mark.parametrize("case", [c for c in OPTIMIZERS if c.adaptive], ids=lambda c: c.id)
def test_zero_gradient_takes_momentum_on_and_the_reset_recovers(case):
    a = torch.tensor([1.0, 0.5], requires_grad=True)
    opt = case.make([a], steps_per_epoch=4)

    def loss():
        return (torch.tensor([1.0, 0.3]) * (a - 3.0) ** 2).sum()

    for _ in range(3):
        opt.step(loss)
    before, step = a.detach().clone(), float(opt.info.base_step)
    displacement = opt.state[a].get("displacement", torch.zeros(2)).clone()
    opt.step(lambda: (a * 0.0).sum() + 2.0)
    assert opt.info.accepted
    assert float(opt.info.step) == 0.0
    assert float(opt.info.grad_sqnorm) == 0.0
    torch.testing.assert_close(a.detach(), heavy_ball_only(before, displacement))
    opt.step(loss)
    # The cap still grows from the last real step: zero has not been absorbed.
    growth = opt.param_groups[0]["growth"] ** (1 / 4)
    assert 0 < float(opt.info.base_step) <= 1.0001 * min(growth * step, 1.0)


@pytest.mark.parametrize("case", [c for c in OPTIMIZERS if c.adaptive], ids=lambda c: c.id)
def test_loss_below_its_bound_takes_no_gradient_step(case):
    a = torch.tensor([1.0, 0.5], requires_grad=True)
    opt = case.make([a], lower_bound=0.0)

    def loss():
        return (torch.tensor([1.0, 0.3]) * (a - 3.0) ** 2).sum()

    for _ in range(3):
        opt.step(loss)
    for value in (-100.0, 0.0):  # below the bound, and exactly at it
        before = a.detach().clone()
        displacement = opt.state[a].get("displacement", torch.zeros(2)).clone()
        opt.step(lambda: loss() - loss().detach() + value)
        assert opt.info.accepted
        assert float(opt.info.step) == 0.0
        torch.testing.assert_close(a.detach(), heavy_ball_only(before, displacement))
    opt.step(loss)
    assert float(opt.info.step) > 0


def test_zero_loss_and_zero_gradient_is_not_nan():
    """Interpolation: 0 / 0 in the Polyak ratio."""
    theta = torch.tensor([2.0], requires_grad=True)
    opt = SHBPolyak([theta])
    for _ in range(3):
        opt.step(lambda: ((theta - 2.0) ** 2).sum())
    assert float(theta.detach()) == 2.0
    assert float(opt.param_groups[0]["last_step"]) == math.inf


def test_shb_refuses_a_non_finite_gradient_without_any_loss():
    theta = torch.tensor([1.0], requires_grad=True)
    opt = SHB([theta], lr=0.1)
    theta.grad = torch.tensor([math.inf])
    opt.step()
    assert float(theta.detach()) == 1.0
    assert not opt.info.accepted
    theta.grad = torch.tensor([1.0])
    opt.step()
    assert float(theta.detach()) == pytest.approx(0.9)


def test_info_names_what_happened():
    theta = torch.tensor([3.0], requires_grad=True)
    opt = SHBPolyak([theta], max_step=0.125, steps_per_epoch=None, c=1.0)
    opt.step(lambda: ((theta - 1.0) ** 2).sum())
    info = opt.info.numbers()
    assert info == {
        "step": 0.125, "base_step": 0.125, "loss": 4.0, "grad_sqnorm": 16.0, "trials": 0,
        "accepted": True, "capped": True,
    }  # fmt: skip
    opt.param_groups[0]["lr"] = 0.5
    opt.param_groups[0]["max_step"] = 50.0
    opt.step(lambda: 100.0 * ((theta - 1.0) ** 2).sum())
    assert not opt.info.capped
    assert float(opt.info.step) == pytest.approx(0.5 * float(opt.info.base_step))
