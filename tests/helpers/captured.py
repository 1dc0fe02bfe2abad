"""A training step as a user writes it, and as a CapturedStep takes it, side by side."""

import pytest
import torch

from heavystep import CapturedStep
from heavystep.optimizers import searches
from tests.helpers.training import flat, loss_of, make_batches, make_net


class Run:
    """A network, its optimizer and a batch that stays in place."""

    def __init__(self, make, device, dropout=0.0, dtype=torch.float64, loss=None):
        self.net = make_net(norm=True, dropout=dropout, dtype=dtype).to(device)
        self.opt = make(self.net)
        x, y = make_batches(1, dtype=dtype)[0]
        self.batch = (x.to(device), y.to(device))
        self.loss = lambda: loss_of(self.net, self.batch) if loss is None else loss(self)

    def captured(self, **options):
        return CapturedStep(self.opt, self.loss, **options)

    def load(self, batch):
        for place, value in zip(self.batch, batch, strict=True):
            place.copy_(value)

    def plain_step(self):
        """What a user writes."""
        if searches(self.opt):
            return self.opt.step(self.loss)
        self.opt.zero_grad()
        loss = self.loss()
        loss.backward()
        self.opt.step(**({} if type(self.opt) is torch.optim.SGD else {"loss": loss}))
        return loss.detach()

    def numbers(self):
        info = getattr(self.opt, "info", None)
        return () if info is None else (float(info.step), int(info.trials))


def side_by_side(
    make, device, dropout=0.0, count=14, before=lambda run, k: None, prepare=None, loss=None,
    **options,
):  # fmt: skip
    """Both kinds of steps do the same; the numbers of each step.

    ``before`` is done to each run before its step k, and ``prepare`` by the step itself.
    """
    plain, other = (Run(make, device, dropout, loss=loss) for _ in range(2))
    if prepare is not None:
        options["prepare"] = lambda: prepare(other)
    step, numbers = other.captured(**options), []
    for k, batch in enumerate(make_batches(count, dtype=torch.float64)):
        for run in (plain, other):
            run.load(batch)
            before(run, k)
        torch.manual_seed(k)
        if prepare is not None:
            prepare(plain)
        numbers.append((float(plain.plain_step()), *plain.numbers()))
        after = torch.get_rng_state()
        torch.manual_seed(k)
        found = (float(step()), *other.numbers())
        assert torch.equal(torch.get_rng_state(), after)
        assert found == pytest.approx(numbers[-1], rel=1e-9, nan_ok=True)
        torch.testing.assert_close(flat(plain.net), flat(other.net), rtol=1e-9, atol=1e-12)
        for one, another in zip(plain.net.buffers(), other.net.buffers(), strict=True):
            torch.testing.assert_close(one, another, rtol=1e-9, atol=1e-12)
    return numbers
