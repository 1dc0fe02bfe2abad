"""Torch's table of what an optimizer is tested for, with every method of ours as a row.

The table, its flags, its schedulers and its list of errors come with torch
(``torch.testing._internal.common_optimizers``); the tests themselves do not. Those here have the
names of torch's and ask what the names say. Not taken over: tests of flags that ours have not (foreach,
fused, capturable, maximize, differentiable), of complex parameters and of several devices, which are
refused, and of GPUs.
"""

import copy
import io
import pickle
from unittest import mock

import pytest
import torch
from torch.nn import Parameter

from tests.helpers.cases import KINDS, ROWS
from tests.helpers.training import decayed_by, equal_states

# Torch's own suite forbids setting flags of cuDNN from the import on, for the whole process; tests
# of training that run after this one set them.
with mock.patch.object(torch.backends, "disable_global_flags"):
    tables = pytest.importorskip("torch.testing._internal.common_optimizers")


def info_of(case):
    return tables.OptimizerInfo(
        case.cls,
        optim_inputs_func=lambda device, dtype=None: inputs_of(case),
        optim_error_inputs_func=tables.get_error_inputs_for_all_optims,
        supported_impls=(),
        supports_complex=False,
        supports_multiple_devices=False,
        step_requires_closure=case.needs_closure,
    )


def inputs_of(case):
    """Arguments for the constructor: what torch varies of its own; a small lr, as in its table."""
    options = [{}, {"weight_decay": 0.1}, {"weight_decay": 0.1, "decay": "objective"}]
    options += [{"lr": 0.05}]
    given = [{**case.kwargs, "lr": 0.02, **case.taken(**each)} for each in options]
    return [tables.OptimizerInput(None, each, str(each)) for each in given]


INFOS = {case.id: info_of(case) for case in ROWS}
QUICK = {case.id for case in KINDS}
every_info = pytest.mark.parametrize(
    "row", [pytest.param(row, marks=[] if row in QUICK else pytest.mark.slow) for row in INFOS]
)
"""One row of each kind, and all of them where there is time."""
every_input = pytest.mark.parametrize("place", range(4))


def problem(seed=0, dtype=torch.float32, contiguous=True):
    """A weight, a bias, and the loss that torch's own tests go down: sum of squares of W x + b."""
    rng = torch.Generator().manual_seed(seed)
    shape = (4, 5) if contiguous else (4, 5, 2)
    weight = torch.randn(shape, generator=rng, dtype=dtype)
    weight = Parameter(weight if contiguous else weight[..., 0])
    bias = Parameter(torch.randn(4, generator=rng, dtype=dtype))
    x = torch.randn(5, generator=rng, dtype=dtype)
    return [weight, bias], lambda: (weight.mv(x) + bias).square().sum()


def step(opt, loss):
    def closure():
        opt.zero_grad()
        value = loss()
        value.backward()
        return value

    return opt.step(closure)


def made(row, place=0, params=None, **options):
    info = INFOS[row]
    given = info.optim_inputs_func(device="cpu")[place].kwargs
    return info.optim_cls(params, **{**given, **options})


def run(opt, loss, steps=5):
    return [float(step(opt, loss)) for _ in range(steps)]


@every_info
def test_errors(row):
    info = INFOS[row]
    required = info.optim_inputs_func(device="cpu")[0].kwargs
    for error in info.optim_error_inputs_func("cpu", torch.float32):
        given = error.optimizer_error_input
        params = [Parameter(torch.ones(1))] if given.params is None else given.params
        make = lambda: info.optim_cls(params, **{**required, **given.kwargs})  # noqa: E731
        if error.error_type is UserWarning:
            with pytest.warns(UserWarning, match=error.error_regex):
                make()
        else:
            with pytest.raises(error.error_type, match=error.error_regex):
                make()


@every_info
@every_input
@pytest.mark.parametrize("contiguous", [True, False])
def test_forloop_goes_right_direction(row, place, contiguous):
    params, loss = problem(contiguous=contiguous)
    opt = made(row, place, params)
    losses = run(opt, loss, 20)
    assert losses[-1] < losses[0]


@every_info
@pytest.mark.parametrize("place", range(2))
def test_param_group_with_lrscheduler_goes_right_direction(row, place):
    info = INFOS[row]
    for make in info.scheduler_inputs[0]:
        (weight, bias), loss = problem()
        groups = [{"params": [weight]}, {"params": [bias], "weight_decay": 0.01}]
        opt = made(row, place, groups)
        scheduler, losses = make(opt), []
        for _ in range(20):
            losses.append(float(step(opt, loss)))
            plateau = isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau)
            scheduler.step(losses[-1]) if plateau else scheduler.step()
        assert losses[-1] < losses[0]


@every_info
def test_tensor_lr(row):
    ends = []
    for lr in (0.05, torch.tensor(0.05, dtype=torch.float64), torch.tensor([0.05]).double()):
        params, loss = problem(dtype=torch.float64)
        run(made(row, 0, params, lr=lr), loss)
        ends.append(params[0].detach())
    torch.testing.assert_close(ends[1], ends[0], rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(ends[2], ends[1], rtol=1e-7, atol=1e-9)  # 0.05 in float32


@every_info
@pytest.mark.parametrize("place", [0, 1])
def test_param_groups_lr(row, place):
    """A group whose own lr is 0 stays, the other moves; both lr are kept."""
    (weight, bias), loss = problem()
    opt = made(row, place, [{"params": [weight], "lr": 0.0}, {"params": [bias]}])
    before = weight.detach().clone(), bias.detach().clone()
    run(opt, loss, 3)
    assert torch.equal(weight, before[0])
    assert not torch.equal(bias, before[1])


@every_info
def test_param_groups_weight_decay(row):
    """The decay of a group is that of its own parameters: they are multiplied, the others are not."""
    ends = []
    for decay in (0.0, 0.5):
        (weight, bias), loss = problem(dtype=torch.float64)
        start = bias.detach().clone()
        opt = made(row, 0, [{"params": [weight]}, {"params": [bias], "weight_decay": decay}])
        step(opt, loss)
        ends.append((weight.detach(), bias.detach()))
    assert torch.equal(ends[1][0], ends[0][0])
    lost = (1.0 - decayed_by(opt, 0.5)) * start
    assert lost.abs().min() > 0
    torch.testing.assert_close(ends[0][1] - ends[1][1], lost, rtol=1e-6, atol=0)


@every_info
def test_step_is_noop_when_params_have_no_grad(row):
    params, _ = problem()
    before = copy.deepcopy(params)
    opt = made(row, 0, params)
    with pytest.warns(RuntimeWarning, match="no parameter has a gradient"):
        opt.step(lambda: torch.tensor(1.0))
    assert all(map(torch.equal, params, before))


@every_info
def test_step_is_noop_for_zero_grads(row):
    params, _ = problem()
    before = copy.deepcopy(params)
    opt = made(row, 0, params)

    def closure():
        for param in params:
            param.grad = torch.zeros_like(param)
        return torch.tensor(1.0)

    opt.step(closure)
    assert all(map(torch.equal, params, before))


@every_info
@every_input
def test_state_dict_deterministic(row, place):
    """Loading it again, into another optimizer or the same, changes nothing of it."""
    params, loss = problem()
    opt = made(row, place, params)
    run(opt, loss, 3)
    saved = copy.deepcopy(opt.state_dict())
    for other in (made(row, place, copy.deepcopy(params)), opt, pickle.loads(pickle.dumps(opt))):
        other.load_state_dict(copy.deepcopy(saved))
        again = other.state_dict()
        assert equal_states(again, saved)
        assert [set(g) for g in again["param_groups"]] == [set(g) for g in saved["param_groups"]]


@every_info
@every_input
def test_save_load_equality_with_weights_only(row, place):
    params, loss = problem()
    opt = made(row, place, params)
    run(opt, loss, 3)
    file = io.BytesIO()
    torch.save(opt.state_dict(), file)
    file.seek(0)
    assert equal_states(torch.load(file, weights_only=True), opt.state_dict())


@every_info
def test_can_load_from_to_named_state_dict(row):
    params, loss = problem()
    named = [("weight", params[0]), ("bias", params[1])]
    opt = made(row, 0, named)
    run(opt, loss, 2)
    assert opt.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]
    for given in (params, named):
        fresh = made(row, 0, copy.deepcopy(given))
        fresh.load_state_dict(copy.deepcopy(opt.state_dict()))
        assert equal_states(fresh.state_dict()["state"], opt.state_dict()["state"])


@every_info
def test_deepcopy_copies_all_public_attrs(row):
    params, loss = problem()
    opt = made(row, 0, params)
    run(opt, loss, 2)
    copied = copy.deepcopy(opt)
    public = {name for name in vars(opt) if not name.startswith("_")}
    assert public == {name for name in vars(copied) if not name.startswith("_")}
    assert equal_states(copied.state_dict(), opt.state_dict())


@every_info
def test_step_all_hooks(row):
    params, loss = problem()
    opt, told = made(row, 0, params), []
    handles = [
        opt.register_step_pre_hook(lambda *_: told.append("before")),
        opt.register_step_post_hook(lambda *_: told.append("after")),
    ]
    step(opt, loss)
    for handle in handles:
        handle.remove()
    step(opt, loss)
    assert told == ["before", "after"]


@every_info
def test_load_state_dict_hooks(row):
    params, loss = problem()
    opt, told = made(row, 0, params), []
    step(opt, loss)
    opt.register_state_dict_pre_hook(lambda o: told.append("saving"))
    opt.register_state_dict_post_hook(lambda o, s: told.append("saved"))
    opt.register_load_state_dict_pre_hook(lambda o, s: told.append("loading"))
    opt.register_load_state_dict_post_hook(lambda o: told.append("loaded"))
    opt.load_state_dict(opt.state_dict())
    assert told == ["saving", "saved", "loading", "loaded"]


@every_info
def test_optimizer_can_be_printed(row):
    opt = made(row, 0, problem()[0])
    assert type(opt).__name__ in repr(opt)
    assert "lr" in repr(opt)


@every_info
def test_non_empty_state(row):
    """What is kept for a parameter is tensors, and enough of them for its momentum."""
    params, loss = problem()
    opt = made(row, 0, params)
    run(opt, loss, 2)
    assert bool(opt.state) == opt.method.keeps_buffer or opt.method.diagonal is not None
    for kept in opt.state.values():
        assert all(isinstance(value, torch.Tensor) for value in kept.values())


@every_info
@every_input
def test_grads_are_never_inplaced_into(row, place):
    params, loss = problem()
    opt = made(row, place, params)
    loss().backward()
    before = [(p.grad, p.grad.clone(), p.grad._version) for p in params]
    if INFOS[row].step_requires_closure:
        value = loss().item()
        opt.step(lambda: value if torch.is_grad_enabled() else loss())
    else:
        opt.step(loss=loss().item())
    for param, (grad, value, version) in zip(params, before, strict=True):
        assert param.grad is grad
        assert torch.equal(grad, value)
        assert grad._version == version
