"""Gradients and displacements of another shape than their parameter are refused, and named."""

import copy
import re

import pytest
import torch
from torch import distributed
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore

from heavystep import SHB, HeavyStep, SHBPolyak
from tests.helpers.cases import OPTIMIZERS, case_of, over
from tests.helpers.training import make_batches, take_step

with_state = over([case for case in OPTIMIZERS if case.vectors])


def stepped(case, theta):
    """An optimizer that has a state of this parameter."""
    opt = case.make([torch.ones(2, requires_grad=True), theta])
    step(opt, case, theta)
    return opt


def step(opt, case, theta):
    opt.zero_grad()
    loss = (theta**2).sum()
    if case.needs_closure:
        opt.step(lambda: (theta**2).sum())
    else:
        loss.backward()
        opt.step(loss=loss)


def refused(what, shape, got, index=1, group=0):
    what = "|".join([what] if isinstance(what, str) else sorted(what))
    text = f" of parameter {index} in group {group} must have its shape {shape}, got {got}"
    return pytest.raises(ValueError, match=f"the ({what}){re.escape(text)}")


@with_state
@pytest.mark.parametrize(
    ("size", "dtype"), [(1, torch.float32), (3, torch.bfloat16), (10**6, torch.bfloat16)]
)
def test_a_state_of_another_model_is_refused_on_load(case, size, dtype):
    others = stepped(case, torch.ones(4, dtype=dtype, requires_grad=True)).state_dict()
    theta = torch.ones(size, dtype=dtype, requires_grad=True)
    opt = stepped(case, theta)
    opt.param_groups[0]["weight_decay"] = 0.25
    before = copy.deepcopy(opt.state_dict())
    for name in case.vectors:  # and nothing else is wrong
        kept = {**before["state"][1], name: others["state"][1][name]}
        saved = {**others, "state": {1: kept}}
        with refused(name, (size,), (4,)):
            opt.load_state_dict(saved)
        after = opt.state_dict()
        assert str(after) == str(before)
        assert torch.equal(after["state"][1][name], before["state"][1][name])
    step(opt, case, theta)
    assert opt.info.accepted


def test_the_refusal_says_which_parameter():
    def make(width):
        net = torch.nn.Sequential(torch.nn.Linear(6, width), torch.nn.Linear(width, 3))
        groups = [{"params": list(layer.named_parameters())} for layer in net]
        return net, SHBPolyak(groups)

    net, opt = make(4)
    take_step(opt, net, make_batches(1)[0], case_of("SHBPolyak"))
    saved = opt.state_dict()
    for key in (0, 1):  # of the first layer
        del saved["state"][key]
    _, other = make(5)
    text = "displacement of parameter 0 in group 1 (weight) must have its shape (3, 5), got (3, 4)"
    with pytest.raises(ValueError, match=re.escape(text)):
        other.load_state_dict(saved)
    assert not other.state


@with_state
@pytest.mark.parametrize("shape", [(1,), (2, 2), (10**6,)])
def test_a_parameter_exchanged_in_the_middle_is_refused_at_the_step(case, shape):
    theta = torch.ones(4, requires_grad=True)
    opt = stepped(case, theta)
    for name in case.vectors:
        before = copy.deepcopy(opt.state_dict())
        theta.data = torch.ones(shape)
        whole = dict(opt.state[theta])
        opt.state[theta].update(dict.fromkeys(case.vectors - {name}, torch.ones(shape)))
        with refused(name, shape, (4,)):
            step(opt, case, theta)
        opt.state[theta] = whole
        assert (theta == 1.0).all()
        assert str(opt.state_dict()) == str(before)
        theta.data = torch.ones(4)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("decay", ["decoupled", "objective"])
def test_a_gradient_from_before_the_exchange_is_refused(momentum, decay):
    first, theta = torch.ones(3, requires_grad=True), torch.ones(4, requires_grad=True)
    opt = SHB([first, theta], 0.1, momentum, 0.1, decay=decay)
    first.grad, theta.grad = torch.ones(3), torch.ones(4)
    theta.data = torch.ones(10**6)
    with refused("gradient", (10**6,), (4,)):
        opt.step()
    assert (first == 1.0).all()
    assert (theta == 1.0).all()
    assert not opt.state


@pytest.fixture
def mesh():
    distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    try:
        yield distributed.device_mesh.init_device_mesh("cpu", (2,))
    finally:
        distributed.destroy_process_group()


@pytest.mark.parametrize("original", [False, True])
def test_flattened_parameters_are_refused(mesh, original):
    device = torch.device("cpu")
    model = FullyShardedDataParallel(
        torch.nn.Linear(4, 4), use_orig_params=original, device_id=device
    )
    with pytest.raises(ValueError, match=r"HeavyStep cannot see .* use fully_shard \(FSDP 2\)"):
        HeavyStep(model.parameters())


def sharded(mesh, shape):
    theta = DTensor.from_local(torch.ones(shape), mesh, [Shard(0)])
    theta.requires_grad_()
    return theta


WRONG = {
    "(8,)": lambda mesh: torch.ones(8),
    "(8,), here (8,)": lambda mesh: DTensor.from_local(torch.ones(8), mesh, [Replicate()]),
    "(4,)": lambda mesh: torch.ones(4),
    "(6,), here (3,)": lambda mesh: sharded(mesh, 3).detach(),  # a part of another tensor
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_a_process_holds_of_a_tensor_counts(mesh, wrong):
    theta = sharded(mesh, 4)
    opt = SHB([theta], 0.1)
    theta.grad = sharded(mesh, 4).detach()
    opt.step()
    saved, bad = opt.state_dict(), WRONG[wrong](mesh)
    saved["state"] = {0: {"displacement": bad}}
    before = opt.state[theta]["displacement"].to_local().clone()
    with refused("displacement", "(8,), here (4,)", wrong, index=0):
        opt.load_state_dict(saved)
    assert torch.equal(opt.state[theta]["displacement"].to_local(), before)
    opt.state[theta]["displacement"] = bad
    with refused("displacement", "(8,), here (4,)", wrong, index=0):
        opt.step()
