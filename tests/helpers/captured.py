"""A training step as a user writes it, and as a CapturedStep takes it."""

import torch

from heavystep import CapturedStep
from heavystep.optimizers import searches
from tests.helpers.training import loss_of, make_batches, make_net


def plain_step(opt, net, batch):
    """What a user writes."""
    if searches(opt):
        return opt.step(lambda: loss_of(net, batch))
    opt.zero_grad()
    loss = loss_of(net, batch)
    loss.backward()
    opt.step(**({} if type(opt) is torch.optim.SGD else {"loss": loss}))
    return loss.detach()


class Run:
    """A network, its optimizer and a batch that stays in place."""

    def __init__(self, make, device, dropout=0.0, dtype=torch.float64):
        self.net = make_net(norm=True, dropout=dropout, dtype=dtype).to(device)
        self.opt = make(self.net)
        x, y = make_batches(1, dtype=dtype)[0]
        self.batch = (x.to(device), y.to(device))

    def captured(self, **options):
        return CapturedStep(self.opt, lambda: loss_of(self.net, self.batch), **options)

    def load(self, batch):
        for place, value in zip(self.batch, batch, strict=True):
            place.copy_(value)

    def numbers(self):
        return (float(self.opt.info.step), int(self.opt.info.trials)) if self.has_info else ()

    @property
    def has_info(self):
        return hasattr(self.opt, "info")


def both_runs(make, device, dropout=0.0, count=14):
    """The user's loop and the captured step, from the same seed."""
    pairs = []
    plain, other = (Run(make, device, dropout) for _ in range(2))
    step = other.captured()
    states = [torch.random.get_rng_state(), torch.random.get_rng_state()]
    for run in (0, 1):
        torch.manual_seed(5)
        results = []
        for batch in make_batches(count, dtype=torch.float64):
            if run == 0:
                plain.load(batch)
                loss = float(plain_step(plain.opt, plain.net, plain.batch))
            else:
                other.load(batch)
                loss = float(step())
            results.append((loss, *(plain, other)[run].numbers()))
        states[run] = torch.random.get_rng_state()
        pairs.append(results)
    assert torch.equal(*states)
    return plain, other, pairs
