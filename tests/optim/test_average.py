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
from tests.helpers.averaged import lent, literal, train, vector
from tests.helpers.cases import every_kind
from tests.helpers.training import (
    DEVICES,
    equal_states,
    loss_of,
    make_batches,
    make_net,
    same,
    snapshot,
)
from tests.optim.test_no_sync import NoHostRead
from tests.optim.test_state import through_a_file

MAKERS = {
    "SHB": lambda params: heavystep.SHB(params, lr=0.05),
    "SHBPolyak": heavystep.SHBPolyak,
    "SHBArmijo": lambda params: heavystep.SHBArmijo(params, c=0.5),
    "SGD": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9),
    "AdamW": lambda params: torch.optim.AdamW(params, lr=0.01),
    "LBFGS": lambda params: torch.optim.LBFGS(params, lr=0.1, max_iter=3),
}
every_maker = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
REFUSING = {name: MAKERS[name] for name in ("SHBPolyak", "SHBArmijo")}
every_refusing = pytest.mark.parametrize("make", REFUSING.values(), ids=REFUSING)
FLOAT64 = torch.float64


@every_maker
@pytest.mark.parametrize("power", [0.0, 1.0, None])
def test_average_of_the_iterates(make, power):
    net = make_net(dtype=FLOAT64)
    opt = make(net.parameters())
    average = Average(opt, **({} if power is None else {"power": power}))
    power = 8.0 if power is None else power  # the default
    iterates = train(net, opt, make_batches(9, dtype=FLOAT64))
    assert int(average.count) == 9
    torch.testing.assert_close(lent(average, net), literal(iterates, power), rtol=1e-12, atol=1e-14)
    assert not torch.allclose(lent(average, net), iterates[-1], rtol=1e-3)


@every_kind
def test_training_goes_on_as_without_it(case):
    """To the bit, with every kind of method, although the model has the average now and then."""
    batches, ends = make_batches(6), []
    for averaged in (False, True):
        net = make_net()
        opt = case.make(net.parameters())
        if averaged:
            average = Average(opt)
            for batch in batches:
                train(net, opt, [batch])
                lent(average, net)
        else:
            train(net, opt, batches)
        ends.append(vector(net.parameters()))
    assert torch.equal(*ends)


@every_refusing
def test_a_refused_batch_does_not_count(make):
    batches = make_batches(7, dtype=FLOAT64)
    bad = (batches[0][0] * torch.nan, batches[0][1])
    nets, ends = [make_net(dtype=FLOAT64) for _ in range(2)], []
    for net, some in zip(nets, (batches, [bad, *batches[:3], bad, bad, *batches[3:]]), strict=True):
        opt = make(net.parameters())
        average = Average(opt)
        train(net, opt, some)
        assert int(average.count) == 7
        ends.append(lent(average, net))
    torch.testing.assert_close(*ends, rtol=1e-14, atol=1e-16)


def test_nothing_is_read_on_the_host():
    net, batches = make_net(), make_batches(4)
    opt = heavystep.SHBPolyak(net.parameters())
    average = Average(opt)
    for batch in batches:
        loss = loss_of(net, batch)
        loss.backward()
        with NoHostRead():
            opt.step(loss=loss)
        opt.zero_grad()
    with NoHostRead(), average.in_place():
        pass
    assert int(average.count) == 4


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_averaged_in_float32(dtype):
    """Long enough for an average in half precision to stand still, though iterates move."""
    weight = nn.Parameter(torch.zeros(3, dtype=dtype))
    model = nn.ParameterList([weight])
    opt = torch.optim.SGD([weight], lr=1.0)
    average, iterates = Average(opt), []
    for k in range(2000):
        weight.grad = torch.full_like(weight, -(2**-8) if k % 2 else 0.0)
        opt.step()
        iterates.append(weight.detach().clone())
    kept = average.state_dict()["averages"][0]
    assert kept.dtype == torch.float32
    torch.testing.assert_close(kept.double(), literal(iterates, 8.0), rtol=1e-5, atol=0)
    assert torch.equal(lent(average, model), kept.to(dtype))
    assert torch.equal(weight.detach(), iterates[-1])


def test_a_step_that_asks_for_state_does_not_count():
    """torch.distributed.checkpoint takes one, with zeros for gradients and a learning rate of 0."""
    for make in (MAKERS["SGD"], MAKERS["AdamW"], MAKERS["SHBPolyak"]):
        net = make_net(dtype=FLOAT64)
        opt = make(net.parameters())
        average = Average(opt)
        get_optimizer_state_dict(net, opt)
        assert int(average.count) == 0
        iterates = train(net, opt, make_batches(3, dtype=FLOAT64))
        torch.testing.assert_close(lent(average, net), literal(iterates, 8), rtol=1e-12, atol=1e-14)


def test_parameters_set_before_the_first_step():
    """Whatever they were when the average was made: not even NaN stays."""
    net = make_net(dtype=FLOAT64)
    with torch.no_grad():
        for param in net.parameters():
            param.fill_(torch.nan)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    average = Average(opt)
    net.load_state_dict(make_net(dtype=FLOAT64).state_dict())
    assert torch.equal(lent(average, net), vector(net.parameters()))
    iterates = train(net, opt, make_batches(3, dtype=FLOAT64))
    torch.testing.assert_close(lent(average, net), literal(iterates, 8), rtol=1e-12, atol=1e-14)


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
            iterates.append(vector(model))

    step(3)
    assert set(average.state_dict()["averages"]) == {0}
    assert lent(average, model)[2:].tolist() == [2.0, 2.0, 3.0, 3.0]
    frozen.requires_grad_(True)
    opt.add_param_group({"params": [late], "lr": 0.2})
    step(4)
    for k in range(3):  # where they are after their first step
        iterates[k][2:] = iterates[3][2:]
    torch.testing.assert_close(lent(average, model), literal(iterates, 1), rtol=1e-12, atol=1e-14)
    one.requires_grad_(False)
    step(2)
    torch.testing.assert_close(lent(average, model), literal(iterates, 1), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("make", "bad"),
    [(MAKERS["SGD"], None), *((make, 6) for make in REFUSING.values())],
    ids=["SGD", *REFUSING],
)
def test_captured_steps_update_it_by_hand(make, bad, device):
    net = make_net(dtype=FLOAT64).to(device)
    opt = make(net.parameters())
    batches = [(x.to(device), y.to(device)) for x, y in make_batches(9, dtype=FLOAT64)]
    x, y = (part.clone() for part in batches[0])
    average = Average(opt, automatic=False)
    step = CapturedStep(opt, lambda: loss_of(net, (x, y)), report=average.update)
    iterates = []
    for k, batch in enumerate(batches):
        x.copy_(batch[0] * (torch.nan if k == bad else 1.0))
        y.copy_(batch[1])
        step()
        if k != bad:
            iterates.append(vector(net.parameters()))
    assert int(average.count) == len(iterates)
    torch.testing.assert_close(lent(average, net), literal(iterates, 8), rtol=1e-12, atol=1e-14)


def test_bad_arguments():
    opt = torch.optim.SGD(make_net().parameters(), lr=0.1)
    with pytest.raises(ValueError, match="power must be >= 0 and finite"):
        Average(opt, power=-1.0)
    with pytest.raises(ValueError, match="automatic must be one of False, True, got 'yes'"):
        Average(opt, automatic="yes")
    with pytest.raises(TypeError, match="optimizer must be one of torch's kind, got Sequential"):
        Average(make_net())
    assert not opt._optimizer_step_post_hooks


def test_a_step_that_a_scaler_skips_does_not_count():
    net = make_net()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    average, scaler = Average(opt), torch.amp.GradScaler("cpu")
    for k, batch in enumerate(make_batches(3)):
        opt.zero_grad()
        scaler.scale(loss_of(net, batch) * (torch.inf if k == 1 else 1.0)).backward()
        scaler.step(opt)
        scaler.update()
    assert int(average.count) == 2


def test_no_step_is_counted_twice():
    """An average that follows by itself refuses to be told, until it no longer follows."""
    net = make_net()
    opt = heavystep.SHBPolyak(net.parameters())
    average, batch = Average(opt), make_batches(1)[0]
    opt.step(lambda: loss_of(net, batch))
    with pytest.raises(
        ValueError, match=r"update\(\) would count a step twice: .* automatic=False"
    ):
        average.update()
    assert int(average.count) == 1
    average.detach()
    opt.step(lambda: loss_of(net, batch))
    average.update()
    assert int(average.count) == 2


# -- The model at its average


def trained(steps=4, norm=False, dtype=torch.float32, dropout=0.0):
    """A network, its optimizer, the average, and the iterates."""
    net = make_net(norm=norm, dtype=dtype, dropout=dropout)
    opt = heavystep.SHBPolyak(net.parameters())
    average = Average(opt)
    return net, opt, average, train(net, opt, make_batches(steps, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_parameters_come_back(dtype):
    net, opt, average, iterates = trained(dtype=dtype)
    grads = [p.grad.clone() for p in net.parameters()]
    places = [p.data_ptr() for p in net.parameters()]
    with average.in_place():
        assert not torch.equal(vector(net.parameters()), iterates[-1])
        assert [p.data_ptr() for p in net.parameters()] == places
        loss_of(net, make_batches(1, dtype=dtype)[0])
    assert torch.equal(vector(net.parameters()), iterates[-1])
    assert all(torch.equal(p.grad, g) for p, g in zip(net.parameters(), grads, strict=True))
    assert not opt._optimizer_step_pre_hooks.keys() - {h.id for h in average._handles}


def test_everything_comes_back_after_an_exception():
    """In the block, or in the loader of the statistics."""
    net, opt, average, _ = trained(norm=True)
    net.eval()
    before = snapshot(net)

    def loader():
        yield make_batches(1)[0][0]
        with torch.no_grad():
            for param in net.parameters():
                param.fill_(torch.nan)
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"), average.in_place():
        average.update_bn(loader(), net)
    assert same(net.state_dict(), before)
    assert not any(module.training for module in net.modules())
    assert net[1].momentum == 0.1
    net.train()
    train(net, opt, make_batches(1))
    assert int(average.count) == 5


def test_what_is_refused_within_the_block_and_outside():
    net, opt, average, iterates = trained(norm=True)
    state, before, batch = copy.deepcopy(average.state_dict()), snapshot(net), make_batches(1)[0]
    with pytest.raises(ValueError, match=r"update_bn\(\) belongs into the block of in_place\(\)"):
        average.update_bn([], net)
    for method, call in {
        "step": lambda: opt.step(lambda: loss_of(net, batch)),
        "update": average.update,
        "load_state_dict": lambda: average.load_state_dict(state),
        "in_place": average.in_place().__enter__,
    }.items():
        with (
            average.in_place(),
            pytest.raises(ValueError, match=rf"{method}\(\) within in_place\(\)"),
        ):
            call()
    assert torch.equal(vector(net.parameters()), iterates[-1])
    assert same(net.state_dict(), before)
    assert int(average.count) == 4
    opt.step(lambda: loss_of(net, batch))
    assert int(average.count) == 5


def test_casts_of_other_parameters_are_forgotten():
    """Autocast keeps casts of parameters for as long as it lasts."""
    net, _, average, _ = trained()
    x = make_batches(1)[0][0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        own = net(x)
        with average.in_place():
            averaged = net(x)
        again = net(x)
    with average.in_place(), torch.autocast("cpu", dtype=torch.bfloat16):
        expected = net(x)
    assert torch.equal(own, again)
    assert torch.equal(averaged, expected)
    assert not torch.equal(own, averaged)


def statistics(net, inputs):
    """Mean and variance before BatchNorm: the mean over batches of those of each, as torch's."""
    with torch.no_grad():
        hidden = [net[0](x) for x in inputs]
    means, variances = [h.mean(dim=0) for h in hidden], [h.var(dim=0) for h in hidden]
    return torch.stack(means).mean(dim=0), torch.stack(variances).mean(dim=0)


@pytest.mark.parametrize("training", [True, False])
def test_statistics_of_the_average_for_the_block(training):
    net, _, average, _ = trained(norm=True, dtype=torch.float64)
    net.train(training)
    net[1].eval()  # a layer in a mode of its own
    inputs = [x for x, _ in make_batches(3, dtype=torch.float64)]
    before, modes = snapshot(net), [module.training for module in net.modules()]
    norm: nn.BatchNorm1d = net[1]
    places = [buffer.data_ptr() for buffer in net.buffers()]
    with average.in_place():
        for loader in (inputs, [(x, None) for x in inputs]):  # the second time changes nothing
            average.update_bn(loader, net)
            mean, variance = statistics(net, inputs)
            torch.testing.assert_close(norm.running_mean, mean)
            torch.testing.assert_close(norm.running_var, variance)
            assert int(norm.num_batches_tracked) == 3
            assert [module.training for module in net.modules()] == modes
            assert norm.momentum == 0.1
    assert same(net.state_dict(), before)
    assert [buffer.data_ptr() for buffer in net.buffers()] == places
    assert int(norm.num_batches_tracked) == 4


def test_a_buffer_that_a_forward_replaces():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(6)
            self.register_buffer("seen", torch.zeros(()))
            self.register_buffer("nothing", None)

        def forward(self, x):
            self.seen = self.seen + len(x)
            return self.norm(x)

    net = Counting()
    own = net.seen
    average = Average(torch.optim.SGD(net.parameters(), lr=0.1))
    with average.in_place():
        average.update_bn([x for x, _ in make_batches(2)], net)
        assert net.seen == 32
    assert net.seen is own
    assert net.seen == 0


# -- Saved and loaded


def make(seed=0, dtype=torch.float32, power=8.0):
    net = make_net(seed=seed, dtype=dtype)
    opt = heavystep.SHBPolyak(net.parameters())
    return net, opt, Average(opt, power=power)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("at", [0, 1, 4])
def test_resume_is_exact(dtype, at):
    batches = make_batches(6, dtype=dtype)
    net, opt, average = make(dtype=dtype, power=3.0)
    train(net, opt, batches[:at])
    saved = through_a_file(
        {"net": net.state_dict(), "opt": opt.state_dict(), "average": average.state_dict()}
    )
    train(net, opt, batches[at:])

    other, fresh, resumed = make(seed=5, dtype=dtype, power=1.0)
    other.load_state_dict(saved["net"])
    fresh.load_state_dict(saved["opt"])
    resumed.load_state_dict(saved["average"])
    train(other, fresh, batches[at:])
    assert equal_states(resumed.state_dict(), average.state_dict())
    assert torch.equal(lent(resumed, other), lent(average, net))
    assert torch.equal(vector(other.parameters()), vector(net.parameters()))


def test_a_load_is_a_copy_into_the_same_memory():
    net, opt, average = make()
    train(net, opt, make_batches(2))
    saved = copy.deepcopy(average.state_dict())
    places = [kept.data_ptr() for kept in average.state_dict()["averages"].values()]
    train(net, opt, make_batches(2))
    kept = copy.deepcopy(saved)
    average.load_state_dict(saved)
    assert [v.data_ptr() for v in average.state_dict()["averages"].values()] == places
    train(net, opt, make_batches(1))
    assert equal_states(saved, kept)


def test_parameters_that_the_saved_run_did_not_train():
    """A frozen parameter has no average; trained after the load, it joins as one that is added."""
    net, opt, average = make(dtype=torch.float64)
    net[0].requires_grad_(False)
    average = Average(opt)
    iterates = train(net, opt, make_batches(3, dtype=torch.float64))
    state = average.state_dict()
    assert set(state["averages"]) == {2, 3}

    net[0].requires_grad_(True)
    resumed = Average(opt)
    resumed.load_state_dict(state)
    count = net[0].weight.numel() + net[0].bias.numel()
    assert torch.equal(lent(resumed, net)[:count], iterates[-1][:count])
    iterates += train(net, opt, make_batches(2, dtype=torch.float64))
    for k in range(3):
        iterates[k][:count] = iterates[3][:count]
    torch.testing.assert_close(lent(resumed, net), literal(iterates, 8), rtol=1e-12, atol=1e-14)


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
    ({"averages": {0: None}}, "average 0 must be a tensor as its parameter is, got None"),
    ({"averages": {0: torch.ones(16, 6) * 1j}}, "average 0 must be a tensor as its parameter"),
    ({"averages": {0: torch.ones(2, 2)}}, r"average 0 must have the shape .*\(16, 6\), got \(2, 2"),
    ({"averages": {4: torch.ones(3)}, "count": torch.tensor(7)}, "got average 4 of 4 parameters"),
]


@pytest.mark.parametrize(("change", "message"), WRONG_STATES)
def test_a_value_out_of_range_is_refused_and_nothing_is_changed(change, message):
    net, opt, average = make()
    train(net, opt, make_batches(2))
    before = copy.deepcopy(average.state_dict())
    partly = change is not None and change.keys() <= before.keys()
    with pytest.raises((TypeError, ValueError), match=message):
        average.load_state_dict({**copy.deepcopy(before), **change} if partly else change)
    assert equal_states(average.state_dict(), before)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda all_: pickle.loads(pickle.dumps(all_))])
def test_a_copy_follows_the_copy_of_its_optimizer(copied):
    batches = make_batches(6)
    net, opt, average = make()
    train(net, opt, batches[:3])
    other, its, follower = copied((net, opt, average))
    train(net, opt, batches[3:])
    assert int(follower.count) == 3
    train(other, its, batches[3:])
    assert torch.equal(lent(follower, other), lent(average, net))
    assert equal_states(follower.state_dict(), average.state_dict())
    with average.in_place(), pytest.raises(ValueError, match="cannot be copied within in_place"):
        copied(average)
