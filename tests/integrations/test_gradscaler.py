"""GradScaler with hand_over: scaling is invisible, skipped steps leave nothing behind."""

import math

import pytest
import torch

from heavystep import SHBArmijo, SHBPolyak
from tests.helpers.by_hand import assert_below_caps, by_hand, without_closure
from tests.helpers.training import flat, loss_of, make_batches, make_net

ALWAYS_GROWING = {"device": "cpu", "init_scale": 2.0**10, "growth_interval": 1}


def train(net, opt, scaler, batches, micro_batches=1, broken=()):
    """The loop of the documentation; gradients of the broken batches overflow."""
    for begin in range(0, len(batches), micro_batches):
        for part in batches[begin : begin + micro_batches]:
            loss = loss_of(net, part) / micro_batches
            opt.hand_over(loss)
            scaler.scale(loss).backward()
        if begin in broken:
            net[0].weight.grad[0, 0] = math.inf
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()


@without_closure
@pytest.mark.parametrize("micro_batches", [1, 3])
def test_scaling_is_invisible(case, micro_batches):
    batches = make_batches(9, dtype=torch.float64)
    nets = [make_net(dtype=torch.float64) for _ in range(2)]
    opt = case.make(nets[0].parameters())
    by_hand(nets[0], opt, batches, micro_batches=micro_batches)
    scaler = torch.amp.GradScaler(**ALWAYS_GROWING)
    train(nets[1], case.make(nets[1].parameters()), scaler, batches, micro_batches)
    torch.testing.assert_close(flat(nets[1]), flat(nets[0]), rtol=0.0, atol=1e-12)
    assert scaler.get_scale() == 2.0 ** (10 + 9 // micro_batches)
    assert_below_caps(opt)


@without_closure
def test_a_skipped_step_is_as_if_its_batch_had_not_been_there(case):
    batches, nets = make_batches(9), [make_net(), make_net()]
    kept = [batch for k, batch in enumerate(batches) if k not in (0, 4, 5)]
    opt = case.make(nets[0].parameters())
    by_hand(nets[0], opt, kept)
    scaler = torch.amp.GradScaler(**ALWAYS_GROWING)
    train(nets[1], case.make(nets[1].parameters()), scaler, batches, broken=(0, 4, 5))
    assert torch.equal(flat(nets[1]), flat(nets[0]))  # the scale is a power of 2
    assert_below_caps(opt)


def test_the_models_zero_grad_after_a_skipped_step_is_noticed():
    net, batches = make_net(), make_batches(2)
    opt, scaler = SHBPolyak(net.parameters()), torch.amp.GradScaler(**ALWAYS_GROWING)
    opt.zero_grad = net.zero_grad
    with pytest.raises(ValueError, match="its gradients are gone"):
        train(net, opt, scaler, batches, broken=(0,))


def test_a_loss_from_nowhere_is_an_error():
    net, batch = make_net(), make_batches(1)[0]
    opt, scaler = SHBPolyak(net.parameters()), torch.amp.GradScaler(**ALWAYS_GROWING)
    scaler.scale(loss_of(net, batch)).backward()
    with pytest.raises(ValueError, match=r"needs the loss: call step\(loss=loss\)"):
        scaler.step(opt)


def test_line_searches_say_what_they_need():
    net, batch = make_net(), make_batches(1)[0]
    opt, scaler = SHBArmijo(net.parameters()), torch.amp.GradScaler(**ALWAYS_GROWING)
    scaler.scale(loss_of(net, batch)).backward()
    with pytest.raises(TypeError, match=r"needs step\(closure\); SHBPolyak works with"):
        scaler.step(opt)
