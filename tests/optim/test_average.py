"""The average is that of a literal loop over the iterates; training does not notice it."""

import copy
import math
import pickle

import pytest
import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

import heavystep
from heavystep import Average, CapturedStep
from tests.helpers.averaged import Averaged, literal
from tests.helpers.cases import every_kind
from tests.helpers.training import (
    DEVICES,
    equal_states,
    flat,
    loss_of,
    make_batches,
    make_net,
    same,
    snapshot,
    through_a_file,
)
from tests.optim.test_no_sync import NoHostRead

MAKERS = {
    "SHB": lambda params: heavystep.SHB(params, lr=0.05),
    "SHBPolyak": heavystep.SHBPolyak,
    "SHBArmijo": lambda params: heavystep.SHBArmijo(params, c=0.5),
    "SGD": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9),
    "AdamW": lambda params: torch.optim.AdamW(params, lr=0.01),
    "LBFGS": lambda params: torch.optim.LBFGS(params, lr=0.1, max_iter=3),
}
REFUSING = ("SHBPolyak", "SHBArmijo")


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("power", [0.0, 1.0, None])
def test_average_of_the_iterates(name, power):
    run = Averaged(MAKERS[name], options={} if power is None else {"power": power}).train(9)
    assert run.count == 9
    run.check(8.0 if power is None else power)
    assert not torch.allclose(run.lent, run.theta, rtol=1e-3)


@every_kind
def test_training_goes_on_as_without_it(case):
    """To the bit, with every kind of method, although the model has the average now and then."""
    run, alone = Averaged(case.make, torch.float32), Averaged(case.make, torch.float32)
    alone.average.detach()
    for batch in make_batches(6):
        places = [p.data_ptr() for p in run.train([batch]).net.parameters()]
        with run.average.in_place():
            assert [p.data_ptr() for p in run.net.parameters()] == places
        alone.train([batch])
    assert torch.equal(run.theta, alone.theta)
    assert (run.count, alone.count) == (6, 0)


@pytest.mark.parametrize("name", REFUSING)
def test_a_refused_batch_does_not_count(name):
    batches = make_batches(7, dtype=torch.float64)
    bad = (batches[0][0] * torch.nan, batches[0][1])
    runs = [Averaged(MAKERS[name]) for _ in range(2)]
    runs[0].train(batches)
    runs[1].train([bad, *batches[:3], bad, bad, *batches[3:]])
    assert runs[0].count == runs[1].count == 7
    torch.testing.assert_close(runs[0].lent, runs[1].lent, rtol=1e-14, atol=1e-16)


def test_nothing_is_read_on_the_host():
    run = Averaged()
    loss_of(run.net, make_batches(1, dtype=torch.float64)[0]).backward()
    for loss in (1.0, 1.0, torch.nan):  # the last is refused
        with NoHostRead():
            run.opt.step(loss=torch.tensor(loss).double())
            with run.average.in_place():
                pass
        run.iterates += [run.theta] if loss == 1.0 else []
    assert run.count == 2
    run.check()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_averaged_in_float32(dtype):
    """Long enough for an average in half precision to stand still, though iterates move."""
    weight = nn.Parameter(torch.zeros(3, dtype=dtype))
    opt = torch.optim.SGD([weight], lr=1.0)
    average, iterates = Average(opt), []
    for k in range(2000):
        weight.grad = torch.full_like(weight, -(2**-8) if k % 2 else 0.0)
        opt.step()
        iterates.append(weight.detach().clone())
    kept = average.state_dict()["averages"][0]
    assert kept.dtype == torch.float32
    torch.testing.assert_close(kept.double(), literal(iterates, 8.0), rtol=1e-5, atol=0)
    with average.in_place():
        assert torch.equal(weight.detach(), kept.to(dtype))
    assert torch.equal(weight.detach(), iterates[-1])


@pytest.mark.parametrize("name", ["SGD", "AdamW", "SHBPolyak"])
def test_a_step_that_asks_for_state_does_not_count(name):
    """torch.distributed.checkpoint takes one, with zeros for gradients and a learning rate of 0."""
    run = Averaged(MAKERS[name])
    get_optimizer_state_dict(run.net, run.opt)
    assert run.count == 0
    run.train(3).check()


def test_parameters_set_before_the_first_step():
    """Whatever they were when the average was made: not even NaN stays."""
    run = Averaged(MAKERS["SGD"])
    run.average.detach()
    good = snapshot(run.net)
    run.net.load_state_dict({name: value * torch.nan for name, value in good.items()})
    run.average = Average(run.opt)
    run.net.load_state_dict(good)
    assert torch.equal(run.lent, run.theta)
    run.train(3).check()


def test_groups_frozen_thawed_and_added_parameters():
    """A parameter that joins counts as if it had stood where it is after its first step."""
    one, frozen, late = (nn.Parameter(torch.full((2,), v).double()) for v in (1.0, 2.0, 3.0))
    frozen.requires_grad_(False)
    opt = torch.optim.SGD([{"params": [one], "lr": 0.1}, {"params": [frozen], "lr": 0.5}], lr=1.0)
    average, model = Average(opt, power=1.0), nn.ParameterList([one, frozen, late])
    iterates = []

    def step(count):
        for _ in range(count):
            opt.zero_grad()
            (one.square() + frozen.square() + late.square()).sum().backward()
            opt.step()
            iterates.append(flat(model))

    def lent():
        with average.in_place():
            return flat(model)

    step(3)
    assert set(average.state_dict()["averages"]) == {0}
    assert lent()[2:].tolist() == [2.0, 2.0, 3.0, 3.0]
    frozen.requires_grad_(True)
    opt.add_param_group({"params": [late], "lr": 0.2})
    step(4)
    for k in range(3):  # where they are after their first step
        iterates[k][2:] = iterates[3][2:]
    torch.testing.assert_close(lent(), literal(iterates, 1), rtol=1e-12, atol=1e-14)
    one.requires_grad_(False)
    step(2)
    torch.testing.assert_close(lent(), literal(iterates, 1), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("name", "bad"), [("SGD", None), *((name, 6) for name in REFUSING)])
def test_captured_steps_update_it_by_hand(name, bad, device):
    run = Averaged(MAKERS[name], options={"automatic": False}, device=device)
    x, y = (part.to(device) for part in make_batches(1, dtype=torch.float64)[0])
    step = CapturedStep(run.opt, lambda: loss_of(run.net, (x, y)), report=run.average.update)
    for k, batch in enumerate(make_batches(9, dtype=torch.float64)):
        x.copy_(batch[0] * (torch.nan if k == bad else 1.0))
        y.copy_(batch[1])
        step()
        if k != bad:
            run.iterates.append(run.theta)
    assert run.count == len(run.iterates)
    run.check()


@pytest.mark.parametrize(("options", "message"), [
    ({"power": -1.0}, "power must be >= 0 and finite"),
    ({"automatic": "yes"}, "automatic must be one of False, True, got 'yes'"),
    ({"optimizer": make_net()}, "optimizer must be one of torch's kind, got Sequential"),
])  # fmt: skip
def test_bad_arguments(options, message):
    opt = torch.optim.SGD(make_net().parameters(), lr=0.1)
    with pytest.raises((TypeError, ValueError), match=message):
        Average(**{"optimizer": opt, **options})
    assert not opt._optimizer_step_post_hooks


def test_no_step_is_counted_twice():
    """An average that follows by itself refuses to be told, until it no longer follows."""
    run = Averaged().train(1)
    with pytest.raises(
        ValueError, match=r"update\(\) would count a step twice: .* automatic=False"
    ):
        run.average.update()
    assert run.count == 1
    run.average.detach()
    run.train(1).average.update()
    assert run.count == 2


# -- The model at its average


def test_everything_comes_back_after_an_exception():
    """In the block, or in the loader of the statistics."""
    run = Averaged(norm=True).train(4)
    run.net.eval()
    before = snapshot(run.net)

    def loader():
        yield make_batches(1, dtype=torch.float64)[0][0]
        with torch.no_grad():
            for param in run.net.parameters():
                param.fill_(torch.nan)
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"), run.average.in_place():
        run.average.update_bn(loader(), run.net)
    assert same(run.net.state_dict(), before)
    assert not any(module.training for module in run.net.modules())
    assert run.net[1].momentum == 0.1
    run.net.train()
    assert run.train(1).count == 5


def test_what_is_refused_within_the_block_and_outside():
    run = Averaged(norm=True).train(4)
    average, state, before = run.average, copy.deepcopy(run.state), snapshot(run.net)
    with pytest.raises(ValueError, match=r"update_bn\(\) belongs into the block of in_place\(\)"):
        average.update_bn([], run.net)
    for method, call in {
        "step": lambda: run.train(1),
        "update": average.update,
        "load_state_dict": lambda: average.load_state_dict(state),
        "in_place": average.in_place().__enter__,
    }.items():
        words = rf"{method}\(\) within in_place\(\)"
        with average.in_place(), pytest.raises(ValueError, match=words):
            call()
    assert same(run.net.state_dict(), before)
    assert not run.opt._optimizer_step_pre_hooks.keys() - {h.id for h in average._handles}
    assert run.train(1).count == 5


def test_casts_of_other_parameters_are_forgotten():
    """Autocast keeps casts of parameters for as long as it lasts."""
    run, x = Averaged(dtype=torch.float32).train(4), make_batches(1)[0][0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        own = run.net(x)
        with run.average.in_place():
            averaged = run.net(x)
        again = run.net(x)
    with run.average.in_place(), torch.autocast("cpu", dtype=torch.bfloat16):
        expected = run.net(x)
    assert torch.equal(own, again)
    assert torch.equal(averaged, expected)
    assert not torch.equal(own, averaged)


@pytest.mark.parametrize("training", [True, False])
def test_statistics_of_the_average_for_the_block(training):
    run = Averaged(norm=True).train(4)
    net, norm = run.net, run.net[1]
    net.train(training)
    norm.eval()  # a layer in a mode of its own
    inputs = [x for x, _ in make_batches(3, dtype=torch.float64)]
    before, modes = snapshot(net), [module.training for module in net.modules()]
    places = [buffer.data_ptr() for buffer in net.buffers()]
    with run.average.in_place():
        for loader in (inputs, [(x, None) for x in inputs]):  # the second time changes nothing
            run.average.update_bn(loader, net)
            with torch.no_grad():  # the mean over batches of those of each, as torch's
                hidden = torch.stack([net[0](x) for x in inputs])
            torch.testing.assert_close(norm.running_mean, hidden.mean(dim=(0, 1)))
            torch.testing.assert_close(norm.running_var, hidden.var(dim=1).mean(dim=0))
            assert int(norm.num_batches_tracked) == 3
            assert [module.training for module in net.modules()] == modes
            assert norm.momentum == 0.1
    assert same(net.state_dict(), before)
    assert [buffer.data_ptr() for buffer in net.buffers()] == places
    assert int(norm.num_batches_tracked) == 4


# -- Saved and loaded


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("at", [0, 1, 4])
def test_resume_is_exact(dtype, at):
    batches = make_batches(6, dtype=dtype)
    run = Averaged(dtype=dtype, options={"power": 3.0}).train(batches[:at])
    parts = ("net", "opt", "average")
    saved = through_a_file({part: getattr(run, part).state_dict() for part in parts})
    run.train(batches[at:])
    resumed = Averaged(dtype=dtype, options={"power": 1.0}, seed=5)
    for part in parts:
        getattr(resumed, part).load_state_dict(saved[part])
    before = copy.deepcopy(saved["average"])
    resumed.train(batches[at:])
    assert equal_states(saved["average"], before)  # a load copies
    assert equal_states(resumed.state, run.state)
    assert torch.equal(resumed.lent, run.lent)
    assert torch.equal(resumed.theta, run.theta)


def test_parameters_that_the_saved_run_did_not_train():
    """A frozen parameter has no average; trained after the load, it joins as one that is added."""
    run = Averaged()
    run.average.detach()
    run.net[0].requires_grad_(False)
    run.average = Average(run.opt)
    state = run.train(3).state
    assert set(state["averages"]) == {2, 3}
    run.net[0].requires_grad_(True)
    run.average.detach()
    run.average = Average(run.opt)
    run.average.load_state_dict(state)
    count = sum(param.numel() for param in run.net[0].parameters())
    assert torch.equal(run.lent[:count], run.theta[:count])
    run.train(2)
    for k in range(3):
        run.iterates[k][:count] = run.iterates[3][:count]
    run.check()


WRONG_STATES = [
    (None, "state_dict must be that of an Average, with averages, count, power, got None"),
    ({"state": {}, "param_groups": []}, "state_dict must be that of an Average, .* got .'param_gr"),
    ({"power": math.nan}, "power must be >= 0 and finite, got nan"),
    ({"power": "8"}, "power must be a real number"),
    ({"count": torch.tensor(-5)}, "count must be >= 0, got -5"),
    ({"count": torch.tensor(2.7)}, "count must be an int >= 0, got 2.7"),
    ({"count": torch.tensor([1, 2])}, "count must be an int >= 0"),
    ({"averages": [torch.ones(3)]}, "averages must be tensors by places of parameters"),
    ({"averages": {-1: torch.full((3,), 7.0)}}, "place of an average must be >= 0, got -1"),
    ({"averages": {"0": torch.ones(16, 6)}}, "place of an average must be an int"),
    ({"averages": {0: None}}, "average 0 must be a tensor, got None"),
    ({"averages": {0: torch.ones(16, 6) * 1j}}, "average 0 must be real .*, got complex"),
    ({"averages": {0: torch.ones(2, 2)}}, r"average 0 must be .*\(16, 6\) .*, got .*\(2, 2"),
    ({"averages": {4: torch.ones(3)}, "count": torch.tensor(7)}, "got average 4 of 4 parameters"),
]


@pytest.mark.parametrize(("change", "message"), WRONG_STATES)
def test_a_value_out_of_range_is_refused_and_nothing_is_changed(change, message):
    run = Averaged().train(2)
    before = copy.deepcopy(run.state)
    partly = change is not None and change.keys() <= before.keys()
    with pytest.raises((TypeError, ValueError), match=message):
        run.average.load_state_dict({**copy.deepcopy(before), **change} if partly else change)
    assert equal_states(run.state, before)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda run: pickle.loads(pickle.dumps(run))])
def test_a_copy_follows_the_copy_of_its_optimizer(copied):
    batches, run = make_batches(6, dtype=torch.float64), Averaged().train(3)
    other = copied(run)
    run.train(batches[3:])
    assert other.count == 3
    other.train(batches[3:])
    assert torch.equal(other.lent, run.lent)
    assert equal_states(other.state, run.state)
    words = r"a copy within in_place\(\)"
    with run.average.in_place(), pytest.raises(ValueError, match=words):
        copied(run.average)
