"""GradScaler: gradients are unscaled in between, the loss is handed over unscaled."""

import math

import pytest
import torch

from tests.helpers.cases import OPTIMIZERS, over, without_closure
from tests.helpers.training import flat, loss_of, make_batches, make_net

# A GradScaler looks for growth in its own step counter; a short run needs no growth.
SCALE = {"device": "cpu", "init_scale": 2.0**10}


@without_closure
def test_grad_scaler_gives_the_unscaled_run(case):
    batches, nets = make_batches(5), [make_net(), make_net()]
    plain, scaled = (case.make(net.parameters()) for net in nets)
    scaler = torch.amp.GradScaler(**SCALE)
    for batch in batches:
        plain.zero_grad()
        loss = loss_of(nets[0], batch)
        loss.backward()
        plain.step(loss=loss)

        scaled.zero_grad()
        loss = loss_of(nets[1], batch)
        scaler.scale(loss).backward()
        scaler.unscale_(scaled)
        scaler.step(scaled, loss=loss)
        scaler.update()
    assert torch.equal(flat(nets[0]), flat(nets[1]))  # the scale is a power of 2


@over([case for case in OPTIMIZERS if case.needs_closure])
def test_a_search_under_a_scaler_says_what_it_needs(case):
    net, batch = make_net(), make_batches(1)[0]
    opt, scaler = case.make(net.parameters()), torch.amp.GradScaler(**SCALE)
    loss = loss_of(net, batch)
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    with pytest.raises(TypeError, match=r"needs step\(closure\)"):
        scaler.step(opt, loss=loss)


@without_closure
def test_grad_scaler_skips_a_batch_that_overflows(case):
    net, batches = make_net(), make_batches(4)
    opt, scaler = case.make(net.parameters()), torch.amp.GradScaler(**SCALE)
    for k, batch in enumerate(batches):
        opt.zero_grad()
        loss = loss_of(net, batch)
        scaler.scale(loss).backward()
        if k == 2:
            net[0].weight.grad.fill_(math.inf)
        before = flat(net)
        scaler.unscale_(opt)
        scaler.step(opt, loss=loss)
        scaler.update()
        assert torch.equal(flat(net), before) == (k == 2)
