"""An optimizer speaks up when its run goes wrong, once, and says nothing of a healthy run."""

import copy
import math
import pickle
import re
import warnings
from dataclasses import dataclass, field
from functools import partial

import pytest
import torch
from torch import nn

from heavystep import SHB, SPS, CapturedStep, HeavyStep, SHBArmijo, SHBPolyak
from heavystep.optim.diagnostics import Watch
from heavystep.optimizers import searches
from tests.helpers.training import (
    DEVICES,
    equal_states,
    flat,
    loss_of,
    make_batches,
    make_net,
    snapshot,
    state_of,
)
from tests.optim.test_no_sync import no_synchronisation, on_gpu

BATCHES = make_batches(12)


@dataclass
class Trouble:
    """A run that goes wrong, and the words for it."""

    make: object
    words: str
    steps: int = 220
    loss: object = lambda net, batch, k: loss_of(net, batch)
    before_step: object = lambda net: None
    net: dict = field(default_factory=dict)


def negative(net, batch, k):
    return loss_of(net, batch) - 5.0


def mostly_nan(net, batch, k):
    return loss_of(net, batch) * (math.nan if k % 4 else 1.0)


def tiny(net, batch, k):
    return 1e-30 * loss_of(net, batch)


def huge(net, batch, k):
    return 1e25 * loss_of(net, batch)


def growing(net, batch, k):
    """Along it a step of 0.3 makes every parameter 1.4 times as large."""
    return 4.0 * sum((p**2).sum() for p in net.parameters())


def clip(net):
    nn.utils.clip_grad_norm_(net.parameters(), 0.01)


TROUBLES = {
    "below the bound, paper": Trouble(
        lambda p: SHBPolyak(p, scaling="practical"),
        r"below its lower_bound \(.* < 0\): all steps are 0 .* Give a lower bound",
        loss=negative,
    ),
    "below a bound that is not 0": Trouble(
        lambda p: SHBPolyak(p, lower_bound=3.0),
        r"below its lower_bound \(.* < 3\): all steps are 0",
    ),
    "below the bound, estimated": Trouble(
        HeavyStep,
        r"below its lower_bound .*: one is estimated instead. Give lower_bound=None",
        loss=negative,
    ),
    "below the bound, search": Trouble(
        lambda p: SHBArmijo(p, scaling="practical", lower_bound=0.0),
        r"all steps are 0 and nothing",
        loss=negative,
    ),
    "refused": Trouble(SHBPolyak, r"of 25 recent batches had .* NaN or infinite", loss=mostly_nan),
    "refused in a search": Trouble(SHBArmijo, r"batches had .* NaN or infinite", loss=mostly_nan),
    "squares overflow": Trouble(
        SHBPolyak, r"25 of 25 .* finite loss and .* squared norm is beyond .* small", loss=huge
    ),
    "squares vanish": Trouble(
        SHBPolyak, r"is 0 at every batch .* \(.*e-3.\) is not 0: .* by a large number", loss=tiny
    ),
    "squares vanish in a search": Trouble(
        SHBArmijo, r"squared norm of the gradient is 0 at every batch", loss=tiny
    ),
    "at max_step": Trouble(
        lambda p: SHBPolyak(p, scaling="plain", max_step=1e-3),
        r"25 of 25 recent steps are max_step \(0.001\).* learning rate in disguise: raise",
    ),
    "at max_step, which may be left out": Trouble(
        lambda p: HeavyStep(p, max_step=1e-6), r"in disguise: raise max_step, or leave it out"
    ),
    "at max_step in a search": Trouble(
        lambda p: SHBArmijo(p, scaling="theory", max_step=1e-3), r"learning rate in disguise: raise"
    ),
    "at max_step of another method": Trouble(
        lambda p: SPS(p, max_step=1e-3), r"a learning rate in disguise: raise max_step"
    ),
    "exploded": Trouble(
        lambda p: SHB(p, lr=0.3, momentum=0.0),
        r"after 25 steps and was .* at first: .* too long. Begin anew and lower lr",
        steps=60,
        loss=growing,
    ),
    "clipped": Trouble(
        lambda p: SHBPolyak(p, lr=0.1, c=10.0, max_step=1e6),
        r"norm 0.01 at .* \(max_grad_norm\) and not the gradient. Leave",
        before_step=clip,
    ),
    **{
        f"clipped, {metric}": Trouble(
            partial(HeavyStep, diagonal=metric), r"norm 0.01 at .* Leave", before_step=clip
        )
        for metric in ("element", "tensor", None)
    },
}
every_trouble = pytest.mark.parametrize("name", TROUBLES)


def train(trouble, net, opt, steps, batches=BATCHES):
    for k in range(steps):
        batch = batches[k % len(batches)]

        def closure(k=k, batch=batch):
            return trouble.loss(net, batch, k)

        if searches(opt):
            opt.step(closure)
            continue
        opt.zero_grad()
        loss = closure()
        loss.backward()
        trouble.before_step(net)
        opt.step(loss=loss)


def told(trouble, net, opt, **options):
    """What the optimizer says in a run."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        train(trouble, net, opt, trouble.steps, **options)
    return said


@every_trouble
def test_trouble_is_told_once_and_at_the_users_line(name):
    trouble = TROUBLES[name]
    net = make_net(**trouble.net)
    said = told(trouble, net, trouble.make(net.parameters()))
    assert len(said) == 1, [str(each.message) for each in said]
    assert said[0].category is RuntimeWarning
    assert said[0].filename == __file__
    assert "\n" not in str(said[0].message)
    assert re.search(trouble.words, str(said[0].message))


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if i else ()) for i, name in enumerate(TROUBLES)],
)
def test_watching_changes_nothing(name, monkeypatch):
    trouble, runs = TROUBLES[name], []
    for watched in (True, False):
        if not watched:
            monkeypatch.setattr(Watch, "see", lambda *arguments: None)
        net = make_net(**trouble.net)
        opt = trouble.make(net.parameters())
        told(trouble, net, opt)
        runs.append([state_of(opt), dict(snapshot(net))])
    assert equal_states(*runs)


def test_a_copy_begins_to_watch_anew_and_goes_on_alike():
    trouble = TROUBLES["below the bound, paper"]
    net = make_net()
    opt = trouble.make(net.parameters())
    assert len(told(trouble, net, opt)) == 1
    clones = [copy.deepcopy((net, opt)), pickle.loads(pickle.dumps((net, opt)))]
    assert told(trouble, net, opt) == []
    for net_copy, opt_copy in clones:
        assert len(told(trouble, net_copy, opt_copy)) == 1
        assert torch.equal(flat(net_copy), flat(net))


def test_parameters_may_change_their_format():
    trouble, net = TROUBLES["at max_step"], make_net()
    opt = trouble.make(net.parameters())
    train(trouble, net, opt, 30)
    net.double()
    with pytest.warns(RuntimeWarning, match=trouble.words):
        train(trouble, net, opt, 250, make_batches(4, dtype=torch.float64))


@on_gpu
@pytest.mark.parametrize("name", ["below the bound, paper", "refused", "at max_step", "clipped"])
def test_no_synchronisation_to_find_out(name):
    trouble, net = TROUBLES[name], make_net().cuda()
    opt, said = trouble.make(net.parameters()), []
    batches = [(x.cuda(), y.cuda()) for x, y in BATCHES]
    for k in range(330):
        opt.zero_grad()
        loss = trouble.loss(net, batches[k % 12], k)
        loss.backward()
        trouble.before_step(net)
        with no_synchronisation(), warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always", RuntimeWarning)
            opt.step(loss=loss)
        said += [str(each.message) for each in heard if each.category is RuntimeWarning]
    assert len(said) == 1, said


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["below the bound, paper", "at max_step in a search"])
def test_a_captured_step_speaks_too(name, device):
    trouble, net = TROUBLES[name], make_net().to(device)
    x, y = (part.to(device) for part in BATCHES[0])
    opt = trouble.make(net.parameters())
    step = CapturedStep(opt, lambda: trouble.loss(net, (x, y), 0))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for batch in BATCHES * 30:
            x.copy_(batch[0]), y.copy_(batch[1])
            step()
    (only,) = said
    assert re.search(trouble.words, str(only.message))


def test_no_word_on_squares_that_no_rule_reads():
    net, steps = make_net(), TROUBLES["squares vanish"]
    before = flat(net).clone()
    assert told(steps, net, SHB(net.parameters(), lr=1e28)) == []
    assert not torch.equal(flat(net), before)
