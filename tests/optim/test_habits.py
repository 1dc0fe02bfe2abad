"""What people bring with them is told once, with the remedy, and a healthy run is told nothing."""

import re
import warnings
from functools import partial

import pytest
from torch.optim import lr_scheduler

from heavystep import SHB, HeavyStep, SHBArmijo, SHBPolyak
from tests.helpers.training import loss_of, make_batches, make_net

BATCHES = make_batches(12)
ADAPTIVE = [HeavyStep, SHBPolyak, SHBArmijo]


def told(make, steps=60, scheduler=None, write=None, zero=True, scale=1.0):
    """What is said in a run, with a filter of Python that hides nothing."""
    net = make_net()
    opt = make(net.parameters())
    schedule = None if scheduler is None else scheduler(opt)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for k in range(steps):
            if write is not None:
                opt.param_groups[0]["lr"] = write(k)
            if opt.method.rule.searches:
                opt.step(lambda k=k: loss_of(net, BATCHES[k % 12]))
            else:
                if zero or k == 0:
                    opt.zero_grad()
                loss = loss_of(net, BATCHES[k % 12])
                loss.backward()
                opt.step(loss=scale * loss)
            if schedule is not None:
                schedule.step()
    return [str(each.message) for each in said if each.category is RuntimeWarning]


def warm_up_then_cosine(peak):
    """The schedule that scripts write into the groups themselves."""
    return lambda k: peak * (k + 1) / 21 if k < 20 else peak * (1 - (k - 20) / 100)


SMALL = {
    "argument": {"make": lambda cls: lambda p: cls(p, lr=1e-3)},
    "position": {"make": lambda cls: lambda p: cls(p, 1e-3)},
    "groups": {"make": lambda cls: lambda p: cls([{"params": list(p), "lr": 3e-4}], lr=3e-4)},
    "one cycle": {"scheduler": partial(lr_scheduler.OneCycleLR, max_lr=1e-2, total_steps=100)},
    "cosine": {
        "make": lambda cls: lambda p: cls(p, lr=1e-3),
        "scheduler": partial(lr_scheduler.CosineAnnealingLR, T_max=100),
    },
    "warm-up": {
        "make": lambda cls: lambda p: cls(p, lr=1e-3),
        "scheduler": partial(lr_scheduler.LambdaLR, lr_lambda=lambda k: min(1.0, (k + 1) / 50)),
    },
    "script": {"write": warm_up_then_cosine(1e-3)},
    "constant of a script": {"write": lambda k: 1e-3},
}
HEALTHY = {
    "nothing": {},
    "a tenth": {"make": lambda cls: lambda p: cls(p, lr=0.1)},
    "one cycle": {"scheduler": partial(lr_scheduler.OneCycleLR, max_lr=1.0, total_steps=100)},
    "cosine": {"scheduler": partial(lr_scheduler.CosineAnnealingLR, T_max=60)},
    "warm-up": {
        "scheduler": partial(lr_scheduler.LambdaLR, lr_lambda=lambda k: min(1.0, k / 1000))
    },
    "warm-up from nearly 0": {"scheduler": partial(lr_scheduler.LinearLR, start_factor=1e-3)},
    "script": {"write": warm_up_then_cosine(1.0)},
    "a long warm-up of a script": {"write": lambda k: (k + 1) / 1000},
}


def run(cls, case):
    return told(
        case.get("make", lambda cls: cls)(cls), **{k: v for k, v in case.items() if k != "make"}
    )


@pytest.mark.parametrize("cls", ADAPTIVE)
@pytest.mark.parametrize("case", SMALL)
def test_a_learning_rate_out_of_habit_is_told_once(cls, case):
    (text,) = (text for text in run(cls, SMALL[case]) if text.startswith("lr (eta)"))
    assert "Leave it out" in text


@pytest.mark.parametrize("cls", ADAPTIVE)
@pytest.mark.parametrize("case", HEALTHY)
def test_a_multiplier_is_not_mistaken_for_a_learning_rate(cls, case):
    assert not [text for text in run(cls, HEALTHY[case]) if text.startswith("lr (eta)")]


def test_a_step_that_the_user_chooses_may_be_small():
    assert told(lambda p: SHB(p, lr=1e-3)) == []


def test_a_run_that_is_resumed_near_its_end_is_not_told():
    net = make_net()
    opt = HeavyStep(net.parameters())
    opt.step(lambda: loss_of(net, BATCHES[0]))
    state = opt.state_dict()

    def resumed(params):
        opt = HeavyStep(params)
        opt.load_state_dict(state)
        return opt

    assert told(resumed, write=lambda k: 0.05 * 0.9**k) == []


EXPLODED = {
    "multiplier": (
        partial(HeavyStep, lr=100.0),
        1.0,
        "lower lr, which is 100 and multiplies every",
    ),
    "of the paper": (partial(SHBPolyak, lr=100.0), 1.0, "lower lr, which is 100 and multiplies"),
    "of the paper, at its cap": (
        partial(SHBPolyak, lr=10.0),
        1.0,
        "lower lr, which is 10 and multiplies",
    ),
    "scaled": (partial(SHBPolyak, max_step=1e6), 2.0**16, "hand the loss over as it is, not mult"),
    "to infinity": (partial(HeavyStep, lr=1e9), 1.0, "lower lr, which is 1e\\+09 and multiplies"),
    "scaled, to infinity": (partial(SHBPolyak, c=1e-30, max_step=1e30), 2.0**16, "hand the loss"),
}


@pytest.mark.parametrize("case", EXPLODED)
def test_an_explosion_is_put_down_to_what_is_likely(case):
    make, scale, words = EXPLODED[case]
    found = told(make, scale=scale, steps=250)
    assert len(found) == 1, found
    assert re.search(words, found[0]), found


@pytest.mark.parametrize("cls", [HeavyStep, SHBPolyak])
def test_a_forgotten_zero_grad_is_told_once(cls):
    assert [text for text in told(cls, zero=False) if "zero_grad() before backward()" in text]
    assert len([text for text in told(cls, zero=False) if "add up" in text]) == 1


@pytest.mark.parametrize("to_none", [True, False])
@pytest.mark.parametrize("who", ["optimizer", "model"])
def test_gradients_that_are_zeroed_do_not_add_up(to_none, who):
    net = make_net()
    opt = HeavyStep(net.parameters())
    for k in range(12):
        (opt if who == "optimizer" else net).zero_grad(set_to_none=to_none)
        loss = loss_of(net, BATCHES[k])
        loss.backward()
        opt.step(loss=loss)


DECAYS = {
    "paper, AdamW's": (partial(SHBPolyak, weight_decay=0.1), True),
    "paper": (partial(SHBPolyak, weight_decay=5e-4), False),
    "default, too much": (partial(HeavyStep, weight_decay=5.0), True),
    "default": (partial(HeavyStep, weight_decay=0.1), False),
}


@pytest.mark.parametrize("case", DECAYS)
def test_decay_that_eats_the_step_is_told(case):
    make, eaten = DECAYS[case]
    assert bool([t for t in told(make, steps=220) if t.startswith("weight_decay")]) == eaten


def test_once_is_once_whatever_the_filter():
    failing = partial(SHBArmijo, max_trials=1, max_step=1e6)
    for make in (failing, partial(failing, lower_bound=0.0)):
        assert sum(text.startswith("line search failed") for text in told(make)) == 1
    net = make_net().requires_grad_(False)
    opt = HeavyStep(net.parameters())
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(5):
            opt.step(loss=1.0)
    assert len(said) == 1


def test_an_optimizer_prints_in_four_lines():
    net = make_net()
    first, *others = net.parameters()
    groups = [{"params": [first], "weight_decay": 0.1}, {"params": others, "lr": 0.5}]
    opt = HeavyStep(groups, diagonal="tensor")
    begun = "HeavyStep\n  options: lr=1.0 / 0.5, diagonal='tensor', weight_decay=0.1 / 0.0\n"
    assert str(opt) == f"{begun}  parameters: 163 in 2 group(s)\n  last step: none yet"
    opt.step(lambda: loss_of(net, BATCHES[0]))
    assert str(opt).endswith(f"\n  last step: {opt.param_groups[0]['step']:g}")
    assert opt.param_groups[0]["step"] == opt.info.step > 0.0
