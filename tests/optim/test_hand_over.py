"""hand_over: the loss goes the way of its gradient, until a step without arguments."""

import copy
import math
import pickle
import warnings

import pytest
import torch
import torch._dynamo.testing
from torch import nn
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

from heavystep import SHBArmijo, SHBPolyak
from tests.helpers.by_hand import assert_below_caps, by_hand
from tests.helpers.by_hand import without_closure as below_caps
from tests.helpers.cases import every_optimizer, without_closure
from tests.helpers.training import (
    assert_equal_but_for_rounding,
    flat,
    loss_of,
    make_batches,
    make_net,
    take_step,
)


def accumulate(opt, net, parts, loss_first=True):
    """Gradients and losses of micro-batches, each with its part of the mean."""
    for part in parts:
        loss = loss_of(net, part) / len(parts)
        if loss_first:
            opt.hand_over(loss)
        loss.backward()
        if not loss_first:
            opt.hand_over(loss)


def mean_step(opt, net, parts, case, **kwargs):
    """The literal loop: one backward of the mean loss."""
    opt.zero_grad()
    loss = sum(loss_of(net, part) for part in parts) / len(parts)
    loss.backward()
    return opt.step(loss=loss, **kwargs)


@without_closure
@pytest.mark.parametrize(("micro_batches", "loss_first"), [(1, True), (3, True), (3, False)])
def test_losses_add_up_as_gradients_do(case, micro_batches, loss_first):
    batches = make_batches(6, dtype=torch.float64)
    nets = [make_net(dtype=torch.float64) for _ in range(2)]
    opts = [case.make(net.parameters()) for net in nets]
    for k in range(0, 6, micro_batches):
        parts = batches[k : k + micro_batches]
        expected = mean_step(opts[0], nets[0], parts, case)
        opts[1].zero_grad()
        accumulate(opts[1], nets[1], parts, loss_first)
        assert opts[1].step().item() == pytest.approx(expected.item(), rel=1e-14)
        assert float(opts[1].info.loss) == pytest.approx(expected.item(), rel=1e-14)
    torch.testing.assert_close(flat(nets[0]), flat(nets[1]), rtol=0.0, atol=1e-12)


def test_a_sum_is_used_once():
    net = make_net()
    opt = SHBPolyak(net.parameters())
    accumulate(opt, net, make_batches(2))
    opt.step()
    with pytest.raises(ValueError, match=r"needs the loss: .* hand_over\(loss\) before"):
        opt.step()


@pytest.mark.parametrize("set_to_none", [True, False])
def test_zero_grad_drops_the_losses_of_a_step_that_was_skipped(set_to_none):
    skipped, batch = make_batches(2)
    nets = [make_net(), make_net()]
    opts = [SHBPolyak(net.parameters()) for net in nets]
    accumulate(opts[1], nets[1], [skipped])
    for opt, net in zip(opts, nets, strict=True):
        opt.zero_grad(set_to_none)
        accumulate(opt, net, [batch])
        opt.step()
    assert torch.equal(flat(nets[0]), flat(nets[1]))


def test_losses_without_gradients_are_refused():
    """The model's zero_grad() tells the optimizer nothing."""
    net, batches = make_net(), make_batches(2)
    opt = SHBPolyak(net.parameters())
    accumulate(opt, net, batches[:1])
    net.zero_grad()
    with pytest.raises(ValueError, match=r"its gradients are gone: .* the optimizer's zero_grad"):
        accumulate(opt, net, batches[1:])
    opt.zero_grad()
    accumulate(opt, net, batches[1:])
    opt.step()
    assert opt.info.accepted


def test_a_loss_from_two_sources_is_refused():
    net = make_net()
    opt = SHBPolyak(net.parameters())
    accumulate(opt, net, make_batches(1))
    before = flat(net)
    with pytest.raises(ValueError, match="loss= or what was handed over, not both"):
        opt.step(loss=1.0)
    assert torch.equal(flat(net), before)


def test_what_is_no_loss_is_refused():
    opt = SHBPolyak(make_net().parameters())
    with pytest.raises(ValueError, match="loss that is handed over must be one number, got shape"):
        opt.hand_over(torch.ones(3))


@without_closure
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_one_bad_micro_batch_refuses_the_whole(case, bad):
    net, batches = make_net(), make_batches(3)
    opt = case.make(net.parameters())
    take_step(opt, net, batches[0], case)
    before = flat(net)
    opt.zero_grad()
    accumulate(opt, net, batches)
    opt.hand_over(bad)
    opt.step()
    assert not opt.info.accepted
    assert torch.equal(flat(net), before)


def test_half_precision_losses_add_up_in_float32():
    net = make_net(dtype=torch.bfloat16)
    opt = SHBPolyak(net.parameters())
    accumulate(opt, net, make_batches(1, dtype=torch.bfloat16))
    opt.zero_grad()
    net[0].weight.grad = torch.ones_like(net[0].weight)
    for _ in range(300):  # in bfloat16 the sum would stop at 256
        opt.hand_over(torch.tensor(1.0, dtype=torch.bfloat16))
    assert opt.step().item() == 300.0


def test_a_loss_may_change_in_place_afterwards():
    net = make_net()
    opt = SHBPolyak(net.parameters())
    net[0].weight.grad = torch.ones_like(net[0].weight)
    loss = torch.tensor(2.0)
    opt.hand_over(loss)
    loss *= 1024.0
    assert opt.step().item() == 2.0


def trainers_closure(opt, net, batch, share, zero, hand_over=True):
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


@without_closure
def test_a_closure_may_hand_over_what_it_adds(case):
    batches = make_batches(6, dtype=torch.float64)
    nets = [make_net(dtype=torch.float64) for _ in range(2)]
    opts = [case.make(net.parameters()) for net in nets]
    for parts in (batches[:3], batches[3:]):
        mean_step(opts[0], nets[0], parts, case)
        closures = [
            trainers_closure(opts[1], nets[1], part, 1 / 3, zero=k == 0)
            for k, part in enumerate(parts)
        ]
        closures[0]()
        closures[1]()
        opts[1].step(closures[2])
    torch.testing.assert_close(flat(nets[0]), flat(nets[1]), rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("zero", [True, False])
def test_a_closure_must_hand_over_too_if_others_did(zero):
    """Neither the sum nor what it returns would be the loss of the gradients."""
    first, last = make_batches(2)
    net = make_net()
    opt = SHBPolyak(net.parameters())
    accumulate(opt, net, [first])
    before = flat(net)

    def closure():
        if zero:
            net.zero_grad()
        loss = loss_of(net, last)
        loss.backward()
        return loss

    with pytest.raises(ValueError, match=r"not the one of which the closure took the gradient"):
        opt.step(closure)
    assert torch.equal(flat(net), before)


def test_a_closure_may_do_nothing_after_a_hand_over():
    """Lightning's manual optimization calls step() with one that returns None."""
    net, batch = make_net(), make_batches(1)[0]
    opt = SHBPolyak(net.parameters())
    accumulate(opt, net, [batch])
    loss = opt.step(lambda: None)
    assert opt.info.loss == loss.item()


def test_a_closure_that_leaves_backward_to_the_optimizer_starts_afresh():
    stale, batch = make_batches(2)
    nets = [make_net(), make_net()]
    opts = [SHBPolyak(net.parameters()) for net in nets]
    accumulate(opts[1], nets[1], [stale])
    for opt, net in zip(opts, nets, strict=True):
        opt.step(lambda net=net: loss_of(net, batch))
    assert torch.equal(flat(nets[0]), flat(nets[1]))
    with pytest.raises(ValueError, match="needs the loss"):
        opts[1].step()


@every_optimizer
@pytest.mark.parametrize("in_place", [True, False])
def test_a_loss_of_the_last_part_alone_is_noticed(case, in_place):
    first, last = make_batches(2)
    net = make_net()
    opt = case.make(net.parameters())
    loss_of(net, first).backward()
    closure = trainers_closure(opt, net, last, 0.5, zero=False, hand_over=False)
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
    batch, nets = make_batches(1)[0], [make_net(), make_net()]
    for net, zeroed in zip(nets, (True, False), strict=True):
        opt = SHBArmijo(net.parameters())
        if zeroed:
            loss_of(net, batch).backward()
            net.zero_grad(set_to_none=False)
        opt.step(trainers_closure(opt, net, batch, 1.0, zero=False, hand_over=False))
    assert torch.equal(flat(nets[0]), flat(nets[1]))


@without_closure
def test_a_step_of_length_zero_counts_what_was_handed_over(case):
    """Schedules with a warm-up begin there; only a checkpoint asks for it without a loss."""
    net, batch = make_net(), make_batches(1)[0]
    opt = case.make(net.parameters(), lr=0.0)
    before = flat(net)
    accumulate(opt, net, [batch])
    opt.step()
    assert float(opt.info.loss) == pytest.approx(loss_of(net, batch).item())
    assert torch.equal(flat(net), before)


def test_a_checkpoint_does_not_hold_losses():
    net = make_net()
    opt = SHBPolyak(net.parameters())
    accumulate(opt, net, make_batches(1))
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
def test_a_skipped_step_is_as_if_its_batch_had_not_been_there(case):
    """The loop of the documentation with a GradScaler, where some gradients overflow."""
    batches, nets, broken = make_batches(9), [make_net(), make_net()], (0, 4, 5)
    expected, opt = (case.make(net.parameters()) for net in nets)
    by_hand(nets[0], expected, [batch for k, batch in enumerate(batches) if k not in broken])
    assert_below_caps(expected)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=1)
    for k, batch in enumerate(batches):
        loss = loss_of(nets[1], batch)
        opt.hand_over(loss)
        scaler.scale(loss).backward()
        if k in broken:
            nets[1][0].weight.grad[0, 0] = math.inf
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
    assert torch.equal(flat(nets[1]), flat(nets[0]))  # the scale is a power of 2


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # the compiler warns about its own work
def test_a_compiled_step_finds_what_was_handed_over():
    batches, nets = make_batches(8), [make_net(), make_net()]
    opts = [SHBPolyak(net.parameters()) for net in nets]
    torch._dynamo.reset()
    counts = torch._dynamo.testing.CompileCounterWithBackend("inductor")

    @torch.compile(backend=counts)
    def compiled():
        opts[1].step()

    for batch in batches:
        for opt, net in zip(opts, nets, strict=True):
            opt.zero_grad()
            accumulate(opt, net, [batch])
        opts[0].step()
        compiled()
    assert_equal_but_for_rounding(*nets, steps=len(batches))
    assert counts.frame_count <= 3  # the first step, without state, and the later ones
