"""A state that another optimizer saved is refused, and the optimizer stays what it was."""

import copy
import math

import pytest
import torch

from heavystep import create
from tests.helpers.cases import every_row
from tests.helpers.training import equal_states, loss_of, make_batches, make_net


def state_after_a_step(opt, net):
    def closure():
        opt.zero_grad()
        loss = loss_of(net, make_batches(1)[0])
        loss.backward()
        return loss

    opt.step(closure)
    return opt.state_dict()


def refuses(opt, state, match):
    before = copy.deepcopy(opt.state_dict())
    with pytest.raises(ValueError, match=match):
        opt.load_state_dict(state)
    assert equal_states(opt.state_dict(), before)


@every_row
@pytest.mark.parametrize("other", [torch.optim.AdamW, torch.optim.SGD, torch.optim.LBFGS])
def test_states_of_torchs_optimizers_are_refused(case, other):
    net = make_net()
    state = state_after_a_step(other(net.parameters()), net)
    opt = case.make(net.parameters())
    refuses(opt, state, rf"not one of {case.method.name} .*its groups lack ")


OTHERS = [
    ("SHBArmijo", "SHBPolyak",
     "its groups lack 'decrease_factor', 'example_loss', 'loss_eps', 'max_trials'"),
    ("SHBPolyak", "SHBArmijo",
     "its groups have 'decrease_factor', 'example_loss', 'loss_eps', 'max_trials'"),
    ("HeavyStep", "SHBPolyak", "its groups lack"),
    ("SHBPolyak", "HeavyStep", "its groups have"),
    ("MoMo", "MoMoAdam", "a parameter has 'average_square'"),
    ("MoMoAdam", "IAMAdam", "its groups lack"),
    ("NGNM", "NGNMD", "a parameter has"),
    ("SPS", "MomSPS", "its groups lack"),
    ("SLS", "MSL", "its groups have"),
    ("SFPolyak", "ScheduleFreePlus", "a parameter has"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "other", "differs"), OTHERS)
def test_states_of_other_methods_are_refused(name, other, differs):
    net = make_net()
    state = state_after_a_step(create(other, net.parameters()), net)
    refuses(create(name, net.parameters()), state, f"the state is not one of {name} .*{differs}")


BAD_ENTRIES = [
    ({"c": -1.0}, "not one of S.* c must be > 0 and finite, got -1.0"),
    ({"last_step": "high"}, "last_step .*must be a real number .*, got 'high'"),
    ({"last_step": torch.zeros(2)}, "last_step .*must be a real number"),
    ({"last_step": math.nan}, "last_step must be > 0"),
    ({"last_step": 0.0}, "last_step must be > 0"),  # a step that was taken, or infinity before it
    ({"lr": torch.ones(3)}, "lr .*must be a real number"),
    ({"momentum": torch.zeros(2)}, "momentum .*must be a real number"),
]


@pytest.mark.parametrize(("entries", "message"), BAD_ENTRIES)
@pytest.mark.parametrize("name", ["SHBPolyak", "SPS"])  # one chooses what the other fixes
def test_bad_entries_are_refused(name, entries, message):
    opt = create(name, make_net().parameters())
    state = copy.deepcopy(opt.state_dict())
    state["param_groups"][0].update(entries)
    refuses(opt, state, message)
    state = {**opt.state_dict(), "state": {0: {"displacement": 0.5}}}
    refuses(opt, state, "displacement must be a tensor of numbers, got 0.5")


PLACES = [("param_groups", 0, name) for name in ("age", "deviation", "squares", "step")]
PLACES += [("state", 0, name) for name in ("lead", "average_square", "square_weight")]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place[-1])
def test_numbers_out_of_range_are_refused(place, value):
    net = make_net()
    opt = create("HeavyStep", net.parameters())
    state = copy.deepcopy(state_after_a_step(opt, net))
    kind, i, name = place
    kept = state[kind][i]
    kept[name] = torch.full_like(kept[name], value) if kind == "state" else value
    if (name, value) == ("lead", -1.0):
        opt.load_state_dict(state)
    else:
        refuses(opt, state, rf"not one of HeavyStep \(heavystep [\d.]+\), .*{name}.* ")


def test_names_of_schedulers_and_users_are_no_reason():
    net = make_net()
    opt = create("SHBPolyak", [{"params": net.parameters(), "note": "mine"}])
    torch.optim.lr_scheduler.OneCycleLR(opt, 1.0, total_steps=5, cycle_momentum=False)
    state = opt.state_dict()
    fresh = create("SHBPolyak", net.parameters())
    fresh.load_state_dict(state)
    assert fresh.param_groups[0]["note"] == "mine"
