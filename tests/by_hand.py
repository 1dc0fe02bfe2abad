"""The literal loop that every framework must equal."""

from contextlib import nullcontext

from torch import nn

from training import loss_of


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
