"""A bad batch in the middle of a run: visible, harmless and forgotten."""

import math

import pytest
import torch

from heavystep import SHBArmijo
from tests.helpers.cases import OPTIMIZERS, every_optimizer, over
from tests.helpers.training import (
    equal_states,
    expected_motion,
    flat,
    kept_of,
    loss_of,
    make_batches,
    make_net,
    state_of,
    take_step,
)


def poison(net, batch, kind):
    """A loss for a batch that went wrong."""
    loss = loss_of(net, batch)
    if kind == "NaN loss":
        return loss * math.nan
    if kind == "infinite loss":
        return loss + math.inf
    if kind == "loss of minus infinity":
        return loss - math.inf
    if kind == "NaN gradient":
        weight = net[0].weight
        return loss + (weight * 0.0).sum() / (weight.detach()[0, 0] * 0.0) * 0.0
    return loss  # "infinite gradient": set by a hook on one parameter


BAD = ["NaN loss", "infinite loss", "loss of minus infinity", "NaN gradient", "infinite gradient"]


@every_optimizer
@pytest.mark.parametrize("decay", ["decoupled", "objective"])
@pytest.mark.parametrize("kind", BAD)
def test_a_bad_batch_is_as_if_it_had_not_been(case, kind, decay):
    batches, nets = make_batches(4), [make_net(), make_net()]
    opts = [case.make(net.parameters(), decay=decay, weight_decay=0.1) for net in nets]
    for k, batch in enumerate(batches):
        for opt, net in zip(opts, nets, strict=True):
            take_step(opt, net, batch, case)
        if k in (0, 2):
            before, kept = flat(nets[1]).clone(), state_of(opts[1])
            handle = nets[1][2].weight.register_hook(
                lambda g: g + math.inf if kind == "infinite gradient" else g
            )
            opts[1].step(lambda: poison(nets[1], batch, kind))
            handle.remove()
            assert not opts[1].info.accepted
            assert float(opts[1].info.step) == 0.0
            assert torch.equal(flat(nets[1]), before)
            assert equal_states(opts[1].state_dict(), kept)
    assert torch.equal(flat(nets[0]), flat(nets[1]))
    assert opts[1].info.accepted


@over([case for case in OPTIMIZERS if case.needs_closure])
def test_a_refused_batch_leaves_the_batchnorm_statistics_alone(case):
    """Otherwise one NaN input would spoil every later evaluation."""
    net, (x, y) = make_net(norm=True), make_batches(1)[0]
    opt = case.make(net.parameters(), buffers=net.buffers())
    opt.step(lambda: loss_of(net, (x, y)))
    before = [b.clone() for b in net.buffers()]
    stream = torch.get_rng_state()
    opt.step(lambda: loss_of(net, (x * math.nan, y)))
    assert not opt.info.accepted
    assert all(torch.equal(a, b) for a, b in zip(before, net.buffers(), strict=True))
    assert torch.equal(torch.get_rng_state(), stream)
    opt.step(lambda: loss_of(net, (x, y)))
    assert opt.info.accepted


@every_optimizer
def test_a_bad_first_batch_does_not_spoil_the_first_step(case):
    nets, batch = [make_net(), make_net()], make_batches(1)[0]
    opts = [case.make(net.parameters()) for net in nets]
    opts[1].step(lambda: loss_of(nets[1], batch) * math.nan)
    for opt, net in zip(opts, nets, strict=True):
        take_step(opt, net, batch, case)
    assert torch.equal(flat(nets[0]), flat(nets[1]))
    assert equal_states(*(opt.state_dict() for opt in opts))


def test_a_failed_search_is_as_if_the_batch_had_not_been():
    batches, nets = make_batches(6), [make_net(), make_net()]
    opts = [SHBArmijo(net.parameters(), max_trials=5) for net in nets]
    for k, batch in enumerate(batches):
        for opt, net in zip(opts, nets, strict=True):
            opt.step(lambda net=net: loss_of(net, batch))
        if k == 2:
            losses = iter([1.0, *[9.0] * 5])

            def hopeless():
                loss = loss_of(nets[1], batch)
                return loss - loss.detach() + next(losses)

            with pytest.warns(RuntimeWarning, match="line search failed"):
                opts[1].step(hopeless)
            assert opts[1].info.trials == 5
            assert not opts[1].info.accepted
            assert opts[1].info.step == 0.0
    assert torch.equal(flat(nets[0]), flat(nets[1]))


BOUND = "give a lower_bound .* cannot succeed"


@pytest.mark.parametrize(("options", "advice"), [
    ({}, f"{BOUND}, lower max_step, raise max_trials"),
    ({"lower_bound": 0.0}, "lower max_step, raise max_trials"),
])  # fmt: skip
def test_a_failed_search_advises_what_is_not_done_yet(options, advice):
    theta = torch.ones(2, requires_grad=True)
    opt, losses = SHBArmijo([theta], max_trials=3, **options), iter([1.0, 9.0, 9.0, 9.0])
    with pytest.warns(RuntimeWarning, match=f"If this goes on, {advice}$"):
        opt.step(lambda: bowl(theta) - bowl(theta).detach() + next(losses))
    assert not opt.info.accepted


def bowl(theta):
    return (torch.tensor([1.0, 0.3]) * (theta - 3.0) ** 2).sum()


def stepped(case, **options):
    """A parameter on its way, with its optimizer."""
    theta = torch.tensor([1.0, 0.5], requires_grad=True)
    opt = case.make([theta], **case.taken(**options))
    for _ in range(3):
        opt.step(lambda: bowl(theta))
    return theta, opt


def assert_moves_as_its_form_says(opt, case, theta, closure):
    before, buffer = theta.detach().clone(), kept_of(opt, case, theta)
    opt.step(closure)
    assert opt.info.accepted
    assert math.isfinite(opt.info.step)
    assert opt.info.step >= 0.0
    if not case.diagonal:
        motion, _ = expected_motion(opt, case, buffer, theta.grad)
        torch.testing.assert_close(theta.detach(), before + motion)
    assert torch.isfinite(theta).all()


every_adaptive = over([case for case in OPTIMIZERS if case.adaptive])


@every_adaptive
def test_zero_gradient_takes_momentum_on_and_the_reset_recovers(case):
    theta, opt = stepped(case, steps_per_epoch=4)
    assert_moves_as_its_form_says(opt, case, theta, lambda: (theta * 0.0).sum() + 2.0)
    assert float(opt.info.grad_sqnorm) == 0.0
    if case.sees_gradient_only:
        assert float(opt.info.step) == 0.0
    group = opt.param_groups[0]
    last = float(group.get("last_step", math.inf))
    opt.step(lambda: bowl(theta))
    # A cap still grows from the last real step: zero has not been absorbed.
    assert 0 < float(opt.info.base_step) <= 1.0001 * group.get("growth", 1.0) ** (1 / 4) * last


@over([case for case in OPTIMIZERS if case.bounded])
def test_loss_below_its_bound_takes_no_gradient_step(case):
    theta, opt = stepped(case, lower_bound=0.0)
    for value in (0.0, -100.0):  # exactly at the bound, and below it
        closure = lambda: bowl(theta) - bowl(theta).detach() + value  # noqa: E731
        assert_moves_as_its_form_says(opt, case, theta, closure)
        if case.method.theory:
            assert float(opt.info.step) == 0.0
    for _ in range(40):  # an average of losses may need some to forget the bad one
        opt.step(lambda: bowl(theta))
        if float(opt.info.step) > 0.0:
            return
    pytest.fail("no step is taken any more")


@every_optimizer
def test_zero_loss_and_zero_gradient_is_not_nan(case):
    """Interpolation: 0 / 0 in the Polyak ratio."""
    theta = torch.tensor([2.0], requires_grad=True)
    opt = case.make([theta])
    for _ in range(3):
        opt.step(lambda: ((theta - 2.0) ** 2).sum())
        assert opt.info.accepted
    assert float(theta.detach()) == 2.0
    assert not any(math.isnan(opt.param_groups[0][name]) for name in case.method.rule.memory)
    opt.step(lambda: ((theta - 3.0) ** 2).sum())
    assert 2.0 < float(theta.detach()) < 100.0


@every_optimizer
def test_a_gradient_whose_square_overflows_is_refused(case):
    """It is finite itself, and divided by a diagonal of its own it would be 0."""
    net, batches = make_net(), make_batches(4)
    opt = case.make(net.parameters())
    for batch in batches[:2]:
        take_step(opt, net, batch, case)
    before, state = flat(net), state_of(opt)
    opt.zero_grad()
    opt.step(lambda: 1e25 * loss_of(net, batches[2]))
    if case.adaptive:
        assert not opt.info.accepted
        assert torch.equal(flat(net), before)
        assert equal_states(state_of(opt), state)
    take_step(opt, net, batches[3], case)
    assert opt.info.accepted
    assert torch.isfinite(flat(net)).all()
