"""hand_over: the loss goes the way of its gradient, until a step without arguments."""

import copy
import math
import pickle
import warnings

import pytest
import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

from heavystep import SHBArmijo, SHBPolyak
from tests.helpers.by_hand import assert_below_caps, by_hand
from tests.helpers.by_hand import without_closure as below_caps
from tests.helpers.cases import every_optimizer, without_closure
from tests.helpers.training import Run, flat, loss_of, make_batches, make_net


def accumulate(opt, net, parts, loss_first=True):
    """Gradients and losses of micro-batches, each with its part of the mean."""
    for part in parts:
        loss = loss_of(net, part) / len(parts)
        if loss_first:
            opt.hand_over(loss)
        loss.backward()
        if not loss_first:
            opt.hand_over(loss)
        loss.detach().zero_()  # what was handed over stays as it was


def accumulate_last(opt, net, parts):
    accumulate(opt, net, parts, loss_first=False)


def closure_of(opt, net, batch, share, zero, hand_over=True):
    """As trainers build it: the first micro-batch zeroes the gradients, each hands its loss over."""

    def closure():
        loss = loss_of(net, batch) * share
        if zero:
            opt.zero_grad()
        if hand_over:
            opt.hand_over(loss)
        loss.backward()
        return loss.detach()

    return closure


def closures(opt, net, parts):
    """All but the last are called by the trainer, the last one by the step."""
    each = [closure_of(opt, net, part, 1 / len(parts), part is parts[0]) for part in parts]
    for closure in each[:-1]:
        closure()
    return each[-1]


@without_closure
@pytest.mark.parametrize("micro_batches", [1, 3])
@pytest.mark.parametrize("way", [accumulate, accumulate_last, closures])
def test_losses_add_up_as_gradients_do(case, micro_batches, way):
    batches = make_batches(6, dtype=torch.float64)
    literal, run = (Run(case.make, {"dtype": torch.float64}) for _ in range(2))
    for k in range(0, 6, micro_batches):
        parts = batches[k : k + micro_batches]
        literal.opt.zero_grad()
        loss = sum(loss_of(literal.net, part) for part in parts) / len(parts)
        loss.backward()
        literal.opt.step(loss=loss)
        run.opt.zero_grad()
        told = run.opt.step(way(run.opt, run.net, parts))
        assert float(run.opt.info.loss) == pytest.approx(loss.item(), rel=1e-14)
        assert way is closures or told.item() == run.opt.info.loss
    torch.testing.assert_close(literal.theta, run.theta, rtol=0.0, atol=1e-12)


def started(count=1):
    """A run to which the first batch was handed over, and all batches."""
    run, batches = Run(SHBPolyak), make_batches(count)
    accumulate(run.opt, run.net, batches[:1])
    return run.net, run.opt, batches


def twice(net, opt, batches):
    opt.step()
    opt.step()


def without_gradients(net, opt, batches):
    """The model's zero_grad() tells the optimizer nothing."""
    net.zero_grad()
    accumulate(opt, net, batches[1:])


def closure_that_does_not(zero):
    """Neither the sum nor what it returns would be the loss of the gradients."""

    def misuse(net, opt, batches):
        opt.step(closure_of(net, net, batches[1], 1.0, zero, hand_over=False))

    return misuse


NOT_THAT = "not the one of which the closure took the gradient"
MISUSES = {
    "used twice": (twice, r"needs the loss: .* hand_over\(loss\) before"),
    "no gradients": (without_gradients, r"gradients are gone: .* the optimizer's zero_grad"),
    "two sources": (lambda n, o, b: o.step(loss=1.0), "loss= or what was handed over, not both"),
    "a vector": (lambda n, o, b: o.hand_over(torch.ones(3)), "must be one number, got shape"),
    "a closure": (closure_that_does_not(False), NOT_THAT),
    "a closure that zeroes": (closure_that_does_not(True), NOT_THAT),
}


@pytest.mark.parametrize("name", MISUSES)
def test_a_loss_of_other_gradients_is_refused(name):
    net, opt, batches = started(2)
    before, (misuse, message) = flat(net), MISUSES[name]
    with pytest.raises(ValueError, match=message):
        misuse(net, opt, batches)
    assert torch.equal(flat(net), before) == (misuse is not twice)
    opt.zero_grad()
    accumulate(opt, net, batches[1:])
    opt.step()
    assert opt.info.accepted


@pytest.mark.parametrize("how", ["zero_grad", "zero_grad in place", "closure"])
def test_losses_of_a_step_that_was_skipped_are_dropped(how):
    net, opt, (_, batch) = started(2)
    if how == "closure":  # that leaves backward() to the optimizer
        opt.step(lambda: loss_of(net, batch))
    else:
        opt.zero_grad(set_to_none=how == "zero_grad")
        accumulate(opt, net, [batch])
        opt.step()
    assert torch.equal(flat(net), Run(SHBPolyak).train([batch]).theta)
    with pytest.raises(ValueError, match="needs the loss"):
        opt.step()


@without_closure
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_one_bad_micro_batch_refuses_the_whole(case, bad):
    batches = make_batches(3)
    run = Run(case.make).train(batches[:1])
    before = run.theta
    run.opt.zero_grad()
    accumulate(run.opt, run.net, batches)
    run.opt.hand_over(bad)
    run.opt.step()
    assert not run.opt.info.accepted
    assert torch.equal(run.theta, before)


def test_half_precision_losses_add_up_in_float32():
    net = make_net(dtype=torch.bfloat16)
    opt = SHBPolyak(net.parameters())
    net[0].weight.grad = torch.ones_like(net[0].weight)
    for _ in range(300):  # in bfloat16 the sum would stop at 256
        opt.hand_over(torch.tensor(1.0, dtype=torch.bfloat16))
    assert opt.step().item() == 300.0


def test_a_closure_may_do_nothing_after_a_hand_over():
    """Lightning's manual optimization calls step() with one that returns None."""
    _, opt, _ = started()
    loss = opt.step(lambda: None)
    assert opt.info.loss == loss.item()


@every_optimizer
@pytest.mark.parametrize("in_place", [True, False])
def test_a_loss_of_the_last_part_alone_is_noticed(case, in_place):
    first, last = make_batches(2)
    net = make_net()
    opt = case.make(net.parameters())
    loss_of(net, first).backward()
    closure = closure_of(opt, net, last, 0.5, zero=False, hand_over=False)
    if case.needs_closure:
        before = flat(net)
        with pytest.raises(ValueError, match=r"added to gradients .* Lightning"):
            opt.step(closure)
        assert torch.equal(flat(net), before)
    elif case.adaptive:
        with pytest.warns(RuntimeWarning, match=r"added to gradients .* hand_over\(\)") as caught:
            opt.step(closure)
        assert caught[0].filename == __file__
    else:
        opt.step(closure)

    def zeroes():
        opt.zero_grad(set_to_none=not in_place)
        loss = loss_of(net, last)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        return loss

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        opt.step(zeroes)


def test_a_search_adds_to_gradients_that_were_zeroed_in_place():
    (batch,), runs = make_batches(1), [Run(SHBArmijo), Run(SHBArmijo)]
    loss_of(runs[0].net, batch).backward()
    runs[0].net.zero_grad(set_to_none=False)
    for run in runs:
        run.opt.step(closure_of(run.opt, run.net, batch, 1.0, zero=False, hand_over=False))
    assert torch.equal(runs[0].theta, runs[1].theta)


@without_closure
def test_a_step_of_length_zero_counts_what_was_handed_over(case):
    """Schedules with a warm-up begin there; only a checkpoint asks for it without a loss."""
    run, (batch,) = Run(case.make, lr=0.0), make_batches(1)
    before = run.theta
    accumulate(run.opt, run.net, [batch])
    run.opt.step()
    assert float(run.opt.info.loss) == pytest.approx(loss_of(run.net, batch).item(), rel=1e-6)
    assert torch.equal(run.theta, before)


def test_a_checkpoint_does_not_hold_losses():
    net, opt, _ = started()
    opt.step()
    opt.zero_grad()
    clean = opt.state_dict()["param_groups"]
    accumulate(opt, net, make_batches(1))
    assert opt.state_dict()["param_groups"] == clean
    for copied in (copy.deepcopy(opt), pickle.loads(pickle.dumps(opt))):
        with pytest.raises(ValueError, match="needs the loss"):
            copied.step()
    assert opt.step() is not None
    opt.zero_grad()
    get_optimizer_state_dict(net, opt)


@below_caps
@pytest.mark.parametrize("handed_over", [True, False])
def test_a_step_that_a_scaler_skips_is_as_if_its_batch_had_not_been_there(case, handed_over):
    """The loops of the documentation with a GradScaler, where some gradients overflow."""
    batches, plain, run, broken = make_batches(9), Run(case.make), Run(case.make), (0, 4, 5)
    by_hand(plain.net, plain.opt, [batch for k, batch in enumerate(batches) if k not in broken])
    assert_below_caps(plain.opt)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=1)
    for k, batch in enumerate(batches):
        loss = loss_of(run.net, batch)
        if handed_over:
            run.opt.hand_over(loss)
        scaler.scale(loss).backward()
        if k in broken:
            run.net[0].weight.grad[0, 0] = math.inf
        if not handed_over:
            scaler.unscale_(run.opt)
        scaler.step(run.opt, **({} if handed_over else {"loss": loss}))
        scaler.update()
        run.opt.zero_grad()
    assert torch.equal(run.theta, plain.theta)  # the scale is a power of 2
