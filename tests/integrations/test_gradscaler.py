"""GradScaler with hand_over: skipped steps leave nothing behind; see also test_frameworks.py."""

import math
from contextlib import nullcontext

import pytest
import torch

from heavystep import SHBArmijo, SHBPolyak
from tests.helpers.by_hand import assert_below_caps, by_hand, without_closure
from tests.helpers.training import flat, loss_of, make_batches, make_net
from tests.integrations.frameworks import loop


def growing():
    return torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=1)


@without_closure
@pytest.mark.parametrize("micro_batches", [1, 3])
def test_scaling_is_invisible(case, micro_batches):
    batches = make_batches(9, dtype=torch.float64)
    nets, scaler = [make_net(dtype=torch.float64) for _ in range(2)], growing()
    opt = case.make(nets[0].parameters())
    by_hand(nets[0], opt, batches, micro_batches=micro_batches)
    loop(nets[1], case.make, batches, micro_batches, scaler=scaler, context=nullcontext)
    torch.testing.assert_close(flat(nets[1]), flat(nets[0]), rtol=0.0, atol=1e-12)
    assert scaler.get_scale() == 2.0 ** (10 + 9 // micro_batches)
    assert_below_caps(opt)


def train(net, opt, batches, broken):
    """The loop of the documentation; gradients of the broken batches overflow."""
    scaler = growing()
    for k, batch in enumerate(batches):
        loss = loss_of(net, batch)
        opt.hand_over(loss)
        scaler.scale(loss).backward()
        if k in broken:
            net[0].weight.grad[0, 0] = math.inf
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()


@without_closure
def test_a_skipped_step_is_as_if_its_batch_had_not_been_there(case):
    batches, nets = make_batches(9), [make_net(), make_net()]
    kept = [batch for k, batch in enumerate(batches) if k not in (0, 4, 5)]
    opt = case.make(nets[0].parameters())
    by_hand(nets[0], opt, kept)
    train(nets[1], case.make(nets[1].parameters()), batches, broken=(0, 4, 5))
    assert torch.equal(flat(nets[1]), flat(nets[0]))  # the scale is a power of 2
    assert_below_caps(opt)


def test_the_models_zero_grad_after_a_skipped_step_is_noticed():
    net = make_net()
    opt = SHBPolyak(net.parameters())
    opt.zero_grad = net.zero_grad
    with pytest.raises(ValueError, match="its gradients are gone"):
        train(net, opt, make_batches(2), broken=(0,))


@pytest.mark.parametrize(
    ("cls", "error", "message"),
    [
        (SHBPolyak, ValueError, r"needs the loss: call step\(loss=loss\)"),
        (SHBArmijo, TypeError, r"needs step\(closure\); SHBPolyak works with"),
    ],
)
def test_a_loss_from_nowhere_is_an_error(cls, error, message):
    net, scaler = make_net(), growing()
    opt = cls(net.parameters())
    scaler.scale(loss_of(net, make_batches(1)[0])).backward()
    with pytest.raises(error, match=message):
        scaler.step(opt)
