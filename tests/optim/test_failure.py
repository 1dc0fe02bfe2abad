"""A bad batch in the middle of a run: visible, harmless and forgotten."""

import math
from contextlib import nullcontext

import pytest
import torch

from heavystep import SHBArmijo
from tests.helpers.cases import OPTIMIZERS, every_optimizer, every_row, over
from tests.helpers.training import (
    Run,
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
from tests.optim.test_no_sync import NoHostRead


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
    plain, run = (Run(case.make, decay=decay, weight_decay=0.1) for _ in range(2))
    for k, batch in enumerate(make_batches(4)):
        for each in (plain, run):
            with torch.no_grad():  # even the sign of a zero is kept
                each.net[0].bias[:2] = torch.tensor([-0.0, 0.0])
        if k in (0, 2):
            before, kept = bits(run.net), state_of(run.opt)
            handle = run.net[2].weight.register_hook(
                lambda g: g + math.inf if kind == "infinite gradient" else g
            )
            run.opt.step(lambda: poison(run.net, batch, kind))
            handle.remove()
            assert not run.opt.info.accepted
            assert float(run.opt.info.step) == 0.0
            assert torch.equal(bits(run.net), before)
            assert k == 0 or equal_states(run.opt.state_dict(), kept)
        assert torch.equal(plain.train([batch]).theta, run.train([batch]).theta)
    assert run.opt.info.accepted
    assert equal_states(run.opt.state_dict(), plain.opt.state_dict())


def bits(net):
    return flat(net).view(torch.int32)


@every_row
@pytest.mark.parametrize("rate", [torch.nan, torch.inf, -torch.inf, -0.1])
@pytest.mark.parametrize("far", [False, True])
def test_a_learning_rate_out_of_range_moves_nothing(case, rate, far):
    """On a device nobody reads it, so that a batch is refused instead of an argument."""
    lr, batches = torch.tensor(0.1), make_batches(3)
    run = Run(case.make, lr=lr)
    for batch, each in zip(batches, (0.1, rate, 0.1), strict=True):
        before, kept = bits(run.net), state_of(run.opt)
        lr.fill_(each)
        run.opt.zero_grad()
        with NoHostRead() if far and not case.needs_closure else nullcontext():
            take_step(run.opt, run.net, batch, case)
        assert run.opt.info.accepted == (each == 0.1)
        if each != 0.1:
            lr.fill_(0.1)
            assert torch.equal(bits(run.net), before)
            assert equal_states(run.opt.state_dict(), kept)
    assert torch.isfinite(run.theta).all()


@over([case for case in OPTIMIZERS if case.needs_closure])
def test_a_refused_batch_leaves_the_batchnorm_statistics_alone(case):
    """Otherwise one NaN input would spoil every later evaluation."""
    net, (x, y) = make_net(norm=True), make_batches(1)[0]
    opt = case.make(net.parameters(), buffers=net.buffers())
    opt.step(lambda: loss_of(net, (x, y)))
    before, stream = [b.clone() for b in net.buffers()], torch.get_rng_state()
    opt.step(lambda: loss_of(net, (x * math.nan, y)))
    assert not opt.info.accepted
    assert all(map(torch.equal, before, net.buffers()))
    assert torch.equal(torch.get_rng_state(), stream)


def test_a_failed_search_is_as_if_the_batch_had_not_been():
    batches, losses = make_batches(6), iter([1.0, *[9.0] * 5])
    plain, run = (Run(SHBArmijo, max_trials=5).train(batches[:3]) for _ in range(2))
    with pytest.warns(RuntimeWarning, match="line search failed"):
        run.step(batches[2], lambda loss: loss - loss.detach() + next(losses))
    assert (run.opt.info.trials, run.opt.info.accepted, run.opt.info.step) == (5, False, 0.0)
    assert torch.equal(plain.train(batches[3:]).theta, run.train(batches[3:]).theta)


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


VANISHED = {
    "zero gradient": lambda theta: (theta * 0.0).sum() + 2.0,
    "loss at its bound": lambda theta: bowl(theta) - bowl(theta).detach(),
    "loss below its bound": lambda theta: bowl(theta) - bowl(theta).detach() - 100.0,
}


@over([case for case in OPTIMIZERS if case.adaptive])
@pytest.mark.parametrize("what", VANISHED)
def test_a_step_without_length_takes_momentum_on(case, what):
    """What comes after it is in ``test_peer_defects.py``."""
    theta = torch.tensor([1.0, 0.5], requires_grad=True)
    opt = case.make([theta], **case.taken(lower_bound=0.0))
    for _ in range(3):
        opt.step(lambda: bowl(theta))
    before, buffer = theta.detach().clone(), kept_of(opt, case, theta)
    opt.step(lambda: VANISHED[what](theta))
    assert opt.info.accepted
    assert 0.0 <= opt.info.step < math.inf
    if not case.diagonal:
        motion, _ = expected_motion(opt, case, buffer, theta.grad)
        torch.testing.assert_close(theta.detach(), before + motion)
    assert torch.isfinite(theta).all()
    bounded = case.bounded and case.method.theory
    if case.sees_gradient_only if what == "zero gradient" else bounded:
        assert float(opt.info.step) == 0.0


@every_optimizer
def test_a_gradient_whose_square_overflows_is_refused(case):
    """It is finite itself, and divided by a diagonal of its own it would be 0."""
    *batches, overflowing, last = make_batches(4)
    run = Run(case.make).train(batches)
    before, state = run.theta, state_of(run.opt)
    run.step(overflowing, lambda loss: 1e25 * loss)
    if case.adaptive:
        assert not run.opt.info.accepted
        assert torch.equal(run.theta, before)
        assert equal_states(state_of(run.opt), state)
    run.step(last)
    assert run.opt.info.accepted
    assert torch.isfinite(run.theta).all()
