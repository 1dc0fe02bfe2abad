"""What goes wrong in a run is told once, with the remedy; a healthy run is told nothing."""

import copy
import math
import pickle
import re
import warnings
from dataclasses import dataclass
from functools import partial

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from heavystep import SHB, CapturedStep, HeavyStep, SHBArmijo, SHBPolyak, create
from heavystep.optim.diagnostics import Watch
from heavystep.optimizers import searches
from tests.helpers.training import (
    DEVICES,
    equal_states,
    flat,
    loss_of,
    make_batches,
    make_net,
    on_gpu,
    snapshot,
    state_of,
)
from tests.optim.test_no_sync import no_synchronisation

BATCHES = make_batches(12)
ADAPTIVE = pytest.mark.parametrize("cls", [HeavyStep, SHBPolyak, SHBArmijo])


@dataclass
class Run:
    """A run that may go wrong, and the words for it."""

    make: object
    words: str = ""
    steps: int = 220
    loss: object = lambda net, batch, k: loss_of(net, batch)
    scale: float = 1.0
    """Of the loss that the optimizer is given."""
    clip: bool = False
    zero: bool = True
    scheduler: object = None
    write: object = None
    """The learning rate of each step, if a script writes it."""


def below(net, batch, k):
    return loss_of(net, batch) - 5.0


def scaled(factor):
    """A loss times this, or times a function of the step."""
    return lambda net, batch, k: loss_of(net, batch) * (factor(k) if callable(factor) else factor)


MOSTLY_NAN = scaled(lambda k: math.nan if k % 4 else 1.0)
TROUBLES = {
    "below the bound": Run(
        SHBPolyak, r"below its lower_bound \(.* < 0\): all steps are 0 .* Give a lower bound", loss=below),
    "below a bound above 0": Run(
        partial(SHBPolyak, lower_bound=50.0), r"below its lower_bound \(.* < 50\): all steps are 0"),
    "below the bound, estimated": Run(
        HeavyStep, r"below its lower_bound .*: one is estimated instead. Give lower_bound=None", loss=below),
    "below the bound, search": Run(
        partial(SHBArmijo, lower_bound=0.0), r"all steps are 0 and nothing", loss=below),
    "refused": Run(SHBPolyak, r"of 25 recent batches had .* NaN or infinite", loss=MOSTLY_NAN),
    "refused, with a period": Run(
        SHBPolyak, "NaN or infinite", loss=scaled(lambda k: math.nan if k >= 30 and k % 8 != 7 else 1.0)),
    "squares overflow": Run(
        SHBPolyak, r"25 of 25 .* finite loss and .* squared norm is beyond .* small", loss=scaled(1e25)),
    "squares vanish": Run(
        SHBPolyak, r"is 0 at every batch .* \(.*e-3.\) is not 0: .* by a large number", loss=scaled(1e-30)),
    "squares vanish in a search": Run(
        SHBArmijo, r"squared norm of the gradient is 0 at every batch", loss=scaled(1e-30)),
    "at max_step": Run(
        partial(SHBPolyak, scaling="plain", max_step=1e-3),
        r"25 of 25 recent steps are max_step \(0.001\).* learning rate in disguise: raise"),
    "at max_step, damped": Run(
        partial(create, "MomSPS", max_step=1), r"max_step \(1\).* learning rate in disguise: raise",
        loss=scaled(1e-3)),
    "at max_step, which may be left out": Run(
        partial(HeavyStep, max_step=1e-6), r"in disguise: raise max_step, or leave it out"),
    "at max_step in a search": Run(
        partial(SHBArmijo, scaling="theory", max_step=1e-3), r"learning rate in disguise: raise"),
    "exploded": Run(  # a step of 0.3 makes every parameter 1.4 times as large
        partial(SHB, lr=0.3, momentum=0.0),
        r"after 25 steps and was .* at first: .* too long. Begin anew and lower lr", steps=60,
        loss=lambda net, batch, k: 4.0 * sum((p**2).sum() for p in net.parameters())),
    "clipped": Run(
        partial(SHBPolyak, lr=0.1, c=10.0, max_step=1e6),
        r"norm 0.01 at .* \(max_grad_norm\) and not the gradient. Leave", clip=True),
    **{f"clipped, {metric}": Run(partial(HeavyStep, diagonal=metric), r"norm 0.01 at .* Leave", clip=True)
       for metric in ("element", "tensor", None)},
    "too long by lr": Run(partial(HeavyStep, lr=100.0), "lower lr, which is 100 and multiplies"),
    "too long, at the cap": Run(partial(SHBPolyak, lr=10.0), "lower lr, which is 10 and mult"),
    "to infinity": Run(partial(HeavyStep, lr=1e9), r"lower lr, which is 1e\+09 and multiplies"),
    "scaled": Run(partial(SHBPolyak, max_step=1e6), "hand the loss over as it is", scale=2.0**16),
    "AdamW's decay": Run(partial(SHBPolyak, weight_decay=0.1), "^weight_decay .* lower it"),
    "decay that explodes": Run(
        partial(SHBPolyak, weight_decay=10.0),
        r"too long. Begin anew and lower weight_decay \(10\)",
        steps=60,
    ),
    "decay": Run(partial(HeavyStep, weight_decay=5.0), "^weight_decay .* lower it"),
}  # fmt: skip


def train(run, net, opt, steps, batches=BATCHES):
    schedule = None if run.scheduler is None else run.scheduler(opt)
    for k in range(steps):
        batch = batches[k % len(batches)]
        if run.write is not None:
            opt.param_groups[0]["lr"] = run.write(k)
        if searches(opt):
            opt.step(lambda k=k, batch=batch: run.loss(net, batch, k))
        else:
            if run.zero or k == 0:
                opt.zero_grad()
            loss = run.loss(net, batch, k)
            loss.backward()
            if run.clip:
                nn.utils.clip_grad_norm_(net.parameters(), 0.01)
            opt.step(loss=run.scale * loss)
        if schedule is not None:
            schedule.step()


def said_in(run, net=None, opt=None):
    """What the optimizer says in a run, with a filter of Python that hides nothing."""
    net = make_net() if net is None else net
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        train(run, net, run.make(net.parameters()) if opt is None else opt, run.steps)
    return [each for each in said if each.category is RuntimeWarning]


@pytest.mark.parametrize("name", TROUBLES)
def test_trouble_is_told_once_and_at_the_users_line(name):
    said = said_in(TROUBLES[name])
    assert len(said) == 1, [str(each.message) for each in said]
    assert said[0].filename == __file__
    assert "\n" not in str(said[0].message)
    assert re.search(TROUBLES[name].words, str(said[0].message))


@pytest.mark.parametrize("name", ["below the bound", "refused", "clipped, element"])
def test_watching_changes_nothing(name, monkeypatch):
    trouble, runs = TROUBLES[name], []
    for watched in (True, False):
        if not watched:
            monkeypatch.setattr(Watch, "see", lambda *arguments: None)
        net = make_net()
        opt = trouble.make(net.parameters())
        said_in(trouble, net, opt)
        runs.append([state_of(opt), dict(snapshot(net))])
    assert equal_states(*runs)


def test_a_copy_begins_to_watch_anew_and_goes_on_alike():
    trouble = TROUBLES["below the bound"]
    net = make_net()
    opt = trouble.make(net.parameters())
    assert len(said_in(trouble, net, opt)) == 1
    clones = [copy.deepcopy((net, opt)), pickle.loads(pickle.dumps((net, opt)))]
    assert said_in(trouble, net, opt) == []
    for net_copy, opt_copy in clones:
        assert len(said_in(trouble, net_copy, opt_copy)) == 1
        assert torch.equal(flat(net_copy), flat(net))


def test_parameters_may_change_their_format():
    trouble, net = TROUBLES["at max_step"], make_net()
    opt = trouble.make(net.parameters())
    train(trouble, net, opt, 30)
    net.double()
    with pytest.warns(RuntimeWarning, match=trouble.words):
        train(trouble, net, opt, 250, make_batches(4, dtype=torch.float64))


@on_gpu
@pytest.mark.parametrize("name", ["below the bound", "refused", "at max_step", "clipped"])
def test_no_synchronisation_to_find_out(name):
    trouble, net = TROUBLES[name], make_net().cuda()
    opt, said = trouble.make(net.parameters()), []
    batches = [(x.cuda(), y.cuda()) for x, y in BATCHES]
    for k in range(330):
        opt.zero_grad()
        loss = trouble.loss(net, batches[k % 12], k)
        loss.backward()
        if trouble.clip:
            nn.utils.clip_grad_norm_(net.parameters(), 0.01)
        with no_synchronisation(), warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always", RuntimeWarning)
            opt.step(loss=loss)
        said += [str(each.message) for each in heard if each.category is RuntimeWarning]
    assert len(said) == 1, said


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["below the bound", "at max_step in a search"])
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


# -- Learning rates out of habit


def warm_up_then_cosine(peak):
    """The schedule that scripts write into the groups themselves."""
    return lambda k: peak * (k + 1) / 21 if k < 20 else peak * (1 - (k - 20) / 100)


SMALL = {
    "argument": {"lr": 1e-3},
    "one cycle": {"scheduler": partial(lr_scheduler.OneCycleLR, max_lr=1e-2, total_steps=100)},
    "cosine": {"lr": 1e-3, "scheduler": partial(lr_scheduler.CosineAnnealingLR, T_max=100)},
    "warm-up": {
        "lr": 1e-3,
        "scheduler": partial(lr_scheduler.LambdaLR, lr_lambda=lambda k: min(1.0, (k + 1) / 50)),
    },
    "script": {"write": warm_up_then_cosine(1e-3)},
    "constant of a script": {"write": lambda k: 1e-3},
}
HEALTHY = {
    "nothing": {},
    "a tenth": {"lr": 0.1},
    "one cycle": {"scheduler": partial(lr_scheduler.OneCycleLR, max_lr=1.0, total_steps=100)},
    "cosine": {"scheduler": partial(lr_scheduler.CosineAnnealingLR, T_max=60)},
    "warm-up from 0": {
        "scheduler": partial(lr_scheduler.LambdaLR, lr_lambda=lambda k: min(1.0, k / 1000))
    },
    "script": {"write": warm_up_then_cosine(1.0)},
    "a long warm-up of a script": {"write": lambda k: (k + 1) / 1000},
}


def texts(make, steps=60, **run):
    return [str(each.message) for each in said_in(Run(make, steps=steps, **run))]


def habits(cls, lr=1.0, **run):
    return [text for text in texts(partial(cls, lr=lr), **run) if text.startswith("lr (eta)")]


@ADAPTIVE
@pytest.mark.parametrize("case", SMALL)
def test_a_learning_rate_out_of_habit_is_told_once(cls, case):
    (text,) = habits(cls, **SMALL[case])
    assert "Leave it out" in text


@ADAPTIVE
@pytest.mark.parametrize("case", HEALTHY)
def test_a_multiplier_is_not_mistaken_for_a_learning_rate(cls, case):
    assert not habits(cls, **HEALTHY[case])


def test_a_healthy_run_is_told_nothing():
    for_a_while = scaled(lambda k: math.nan if 170 <= k < 200 else 1.0)  # not most of the run
    assert texts(lambda p: SHB(p, lr=1e-3)) == []  # the user chose it
    assert texts(partial(HeavyStep, weight_decay=0.1), steps=220) == []
    assert texts(HeavyStep, steps=220, loss=for_a_while) == []
    decayed = texts(partial(SHBPolyak, weight_decay=5e-4), steps=220)
    assert not [text for text in decayed if text.startswith("weight_decay")]


def test_a_run_that_is_resumed_near_its_end_is_not_told():
    net = make_net()
    opt = HeavyStep(net.parameters())
    opt.step(lambda: loss_of(net, BATCHES[0]))
    state = opt.state_dict()

    def resumed(params):
        opt = HeavyStep(params)
        opt.load_state_dict(state)
        return opt

    assert texts(resumed, write=lambda k: 0.05 * 0.9**k) == []


@pytest.mark.parametrize("cls", [HeavyStep, SHBPolyak])
def test_a_forgotten_zero_grad_is_told_once(cls):
    (text,) = (text for text in texts(cls, zero=False) if "add up" in text)
    assert "zero_grad() before backward()" in text


def test_once_is_once_whatever_the_filter():
    failing = partial(SHBArmijo, max_trials=1, max_step=1e6)
    for make in (failing, partial(failing, lower_bound=0.0)):
        assert sum(text.startswith("line search failed") for text in texts(make)) == 1
    net = make_net().requires_grad_(False)
    opt = HeavyStep(net.parameters())
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(5):
            opt.step(loss=1.0)
    assert len(said) == 1
