"""``heavystep.attach``: a module's loss is found, or refused; the rest is in test_frameworks.py."""

import copy
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import heavystep
from heavystep import HeavyStep, SHBArmijo, SHBPolyak
from tests.helpers.by_hand import by_hand
from tests.helpers.training import flat, loss_of, make_batches, make_net

BATCHES = make_batches(8)


class Returning(nn.Module):
    """A model that returns its loss in one of the usual ways."""

    def __init__(self, how=lambda loss: loss):
        super().__init__()
        self.net, self.how = make_net(), how

    def forward(self, batch):
        return self.how(loss_of(self.net, batch))


WAYS = {
    "alone": (lambda loss: loss, lambda out: out),
    "after logits": (lambda loss: (torch.ones(3), loss), lambda out: out[1]),
    "in a dict": (lambda loss: {"loss": loss, "logits": loss + 1}, lambda out: out["loss"]),
    "attribute": (lambda loss: SimpleNamespace(loss=loss), lambda out: out.loss),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("cls", [HeavyStep, SHBPolyak])
@pytest.mark.parametrize("in_place", [False, True])
def test_a_loop_that_is_not_the_users(way, cls, in_place):
    """Micro-batches, whose losses are divided as scripts do."""
    how, loss_in = WAYS[way]
    model, net = Returning(how), make_net()
    by_hand(net, cls(net.parameters()), BATCHES, micro_batches=2)
    opt = heavystep.attach(model, cls(model.parameters()))
    for k, batch in enumerate(BATCHES):
        loss = loss_in(model(batch))
        (loss.div_(2) if in_place else loss / 2).backward()
        if k % 2:
            opt.step()
            opt.zero_grad()
            with torch.no_grad():
                model(batch)  # an evaluation hands nothing over
            model(batch)  # and neither does what is not trained on
    torch.testing.assert_close(flat(model.net), flat(net), rtol=0.0, atol=1e-6)


def test_the_models_zero_grad_drops_the_loss_of_a_skipped_step():
    """As frameworks do: the optimizer is not told."""
    model = Returning()
    opt = heavystep.attach(model, SHBPolyak(model.parameters()))
    model(BATCHES[0]).backward()
    model.zero_grad()
    loss = model(BATCHES[1])
    loss.backward()
    opt.step()
    assert opt.info.loss == loss.item()


def test_copies_are_not_attached(tmp_path):
    model = Returning()
    opt = heavystep.attach(model)
    other = copy.deepcopy(model)
    other(BATCHES[0]).backward()
    with pytest.raises(ValueError, match=r"needs the loss: .*heavystep\.attach\(model\)"):
        opt.step()
    criterion = nn.MSELoss()
    heavystep.attach(criterion, opt)
    torch.save(criterion, tmp_path / "whole")  # a module is saved as ever


def train_on(how):
    model = Returning(how)
    opt = heavystep.attach(model)
    model(BATCHES[0])["a"].backward()
    opt.step()


def attach_twice():
    model = make_net()
    heavystep.attach(model)
    heavystep.attach(model)


PARAMETERS = [nn.Parameter(torch.ones(1))]
REFUSED = {
    "two losses": (lambda: train_on(lambda loss: (loss, 2 * loss)), "2 numbers that could be the"),
    "no loss": (lambda: train_on(lambda loss: {"a": loss}), "needs the loss"),
    "a search": (
        lambda: heavystep.attach(make_net(), SHBArmijo(PARAMETERS)),
        r"SHBArmijo needs step\(closure\) and cannot be attached",
    ),
    "torch's": (
        lambda: heavystep.attach(make_net(), torch.optim.SGD(PARAMETERS, 0.1)),
        "attach is for optimizers of heavystep, got SGD",
    ),
    "a function": (lambda: heavystep.attach(loss_of), "attach needs a torch.nn.Module, got func"),
    "twice": (attach_twice, "attached already"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_it_cannot_see_is_refused(case):
    train, message = REFUSED[case]
    with pytest.raises((TypeError, ValueError), match=message):
        train()


class Writer:
    def __init__(self):
        self.rows = {}

    def add_scalar(self, name, value, k):
        self.rows[name, k] = value


class Run:
    def log(self, values, step):
        self.rows = {(name, step): value for name, value in values.items()}


@pytest.mark.parametrize("logger", [Writer, Run])
def test_a_logger_gets_the_numbers_in_one_line(logger):
    net, found = make_net(), logger()
    opt = HeavyStep(net.parameters())
    heavystep.log_step(found, opt, 0)  # nothing is known yet
    opt.step(lambda: loss_of(net, BATCHES[0]))
    heavystep.log_step(found, opt, 7)
    assert found.rows["heavystep/step", 7] == opt.param_groups[0]["step"] > 0
    assert found.rows["heavystep/loss", 7] == opt.info.loss
    assert all(type(value) is float for value in found.rows.values())
