"""The literal loop that every framework must equal, and optimizers that show if it does not."""

from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import torch
from torch import nn

from heavystep import SHBArmijo, SHBPolyak
from tests.helpers.cases import KINDS, over
from tests.helpers.training import loss_of

BELOW_CAPS = {"c": 5.0, "max_step": 1e4, "lower_bound": 0.02, "steps_per_epoch": None}
"""For the Polyak step; at a cap it would be the same whatever the loss and the norm."""

polyak = partial(SHBPolyak, momentum=0.8, **BELOW_CAPS)
armijo = SHBArmijo


def _smaller(case):
    """Without a divisor, a learning rate keeps steps as small."""
    return {} if case.takes("c") else {"lr": 0.02}


SEARCHES = [case for case in KINDS if case.needs_closure]
OTHERS = [
    replace(case, kwargs=case.kwargs | case.taken(**BELOW_CAPS) | _smaller(case))
    for case in KINDS
    if not case.needs_closure
]
every_optimizer, without_closure = over(OTHERS + SEARCHES), over(OTHERS)


def assert_below_caps(opt):
    """The last step was not refused, not 0 and not at a cap, where losses do not matter."""
    assert opt.info.accepted
    assert opt.info.step > 0.0
    assert not opt.info.capped


def bf16():
    return torch.autocast("cpu", torch.bfloat16, cache_enabled=False)


def fp16():
    return torch.autocast("cpu", torch.float16, cache_enabled=False)


def by_hand(
    net, opt, batches, *, closure=False, micro_batches=1, divisor=None, clip=None,
    context=nullcontext, scaler=None,
):  # fmt: skip
    """One pass over the batches, ``micro_batches`` of them a step."""
    for begin in range(0, len(batches), micro_batches):
        parts = batches[begin : begin + micro_batches]

        def evaluate():
            opt.zero_grad()
            with context():
                loss = sum(loss_of(net, part) for part in parts) / (divisor or len(parts))
            loss.backward() if scaler is None else scaler.scale(loss).backward()
            if scaler is not None:
                scaler.unscale_(opt)
            if clip is not None:
                nn.utils.clip_grad_norm_(net.parameters(), clip)
            return loss

        if closure:
            opt.step(evaluate)
        elif scaler is None:
            opt.step(loss=evaluate())
        else:
            scaler.step(opt, loss=evaluate())
            scaler.update()
