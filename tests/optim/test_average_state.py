"""An average that is saved and loaded goes on as if nothing had happened, to the bit."""

import copy
import math
import pickle

import pytest
import torch

import heavystep
from heavystep import Average
from tests.helpers.averaged import lent, literal, train, vector
from tests.helpers.training import equal_states, make_batches, make_net
from tests.optim.test_state import through_a_file


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


def test_an_average_of_a_parameter_that_is_frozen_now():
    net, opt, average = make(dtype=torch.float64)
    train(net, opt, make_batches(3, dtype=torch.float64))
    net[0].requires_grad_(False)
    resumed = Average(opt)
    resumed.load_state_dict(average.state_dict())
    assert torch.equal(lent(resumed, net), lent(average, net))


@pytest.mark.parametrize("state", [{"state": {}, "param_groups": []}, {"averages": {}}, None, []])
def test_the_state_of_something_else_is_refused(state):
    _, _, average = make()
    before = copy.deepcopy(average.state_dict())
    with pytest.raises(
        ValueError, match="state_dict must be that of an Average, with averages, co"
    ):
        average.load_state_dict(state)
    assert equal_states(average.state_dict(), before)


def test_a_model_of_another_shape_is_refused():
    _, _, average = make()
    before = copy.deepcopy(average.state_dict())
    state = copy.deepcopy(before)
    state["averages"][0] = torch.zeros(2, 2)
    with pytest.raises(
        ValueError, match=r"average 0 must have the shape .*\(16, 6\), got \(2, 2\)"
    ):
        average.load_state_dict(state)
    state = {**copy.deepcopy(before), "count": torch.tensor(7)}
    state["averages"][4] = torch.zeros(3)
    with pytest.raises(ValueError, match=r"got average 4 of 4 parameters"):
        average.load_state_dict(state)
    assert equal_states(average.state_dict(), before)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"power": -1.0}, "power must be >= 0 and finite, got -1.0"),
        ({"power": math.nan}, "power must be >= 0 and finite, got nan"),
        ({"power": "8"}, "power must be a real number"),
        ({"count": torch.tensor(-5)}, "count must be >= 0, got -5"),
        ({"count": torch.tensor(2.7)}, "count must be an int >= 0, got 2.7"),
        ({"count": torch.tensor([1, 2])}, "count must be an int >= 0"),
        ({"count": None}, "count must be an int >= 0, got None"),
        ({"averages": [torch.ones(3)]}, "averages must be tensors by places of parameters"),
        ({"averages": {-1: torch.full((3,), 7.0)}}, "place of an average must be >= 0, got -1"),
        ({"averages": {"0": torch.ones(16, 6)}}, "place of an average must be an int"),
        ({"averages": {0: None}}, "average 0 must be a tensor as its parameter is, got None"),
        ({"averages": {0: torch.ones(16, 6) * 1j}}, "average 0 must be a tensor as its parameter"),
    ],
)
def test_a_value_out_of_range_is_refused_and_nothing_is_changed(change, message):
    net, opt, average = make()
    train(net, opt, make_batches(2))
    before = copy.deepcopy(average.state_dict())
    with pytest.raises((TypeError, ValueError), match=message):
        average.load_state_dict({**copy.deepcopy(before), **change})
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


def test_a_copy_that_is_updated_by_hand_stays_so():
    net = make_net()
    opt = heavystep.SHBPolyak(net.parameters())
    other, its, follower = copy.deepcopy((net, opt, Average(opt, automatic=False)))
    train(other, its, make_batches(2))
    assert int(follower.count) == 0
    follower.update()
    assert int(follower.count) == 1
