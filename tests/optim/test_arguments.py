"""Bad arguments get one line with argument, symbol, range and value."""

import inspect
import re

import numpy as np
import pytest
import torch

from heavystep import SHB, SPS, HeavyStep, SHBArmijo, SHBPolyak
from heavystep.methods import MOMENTUM
from heavystep.optim.options import MAY_DIFFER
from heavystep.rules import Integers
from heavystep.validation import Interval, label
from tests.helpers.cases import (
    OPTIMIZERS,
    another,
    every_optimizer,
    every_row,
    out_of_range,
    over,
)
from tests.helpers.training import flat, loss_of, make_batches, make_net


@every_row
def test_every_option_is_an_argument_and_checked(case):
    taken = set(inspect.signature(case.cls).parameters)
    for option in case.method.options:
        name, allowed = option.name, option.allowed
        assert name in taken
        if not isinstance(allowed, Interval | Integers):
            with pytest.raises(ValueError, match=f"^{name} must be one of .*, got 'none'$"):
                case.make(make_net().parameters(), **{name: "none"})
            continue
        is_range = re.escape(str(allowed)) if isinstance(allowed, Interval) else ">= .*"
        for value in out_of_range(allowed):
            if case.means_none(name, value):
                continue
            text = rf"^{name}( \(\w+\))? must be {is_range}, got {re.escape(repr(value))}$"
            with pytest.raises(ValueError, match=text):
                case.make(make_net().parameters(), **{name: value})
        for value in ("much", [0.1], torch.ones(2), True, 1j):
            with pytest.raises((TypeError, ValueError), match=f"^{name}.* must be "):
                case.make(make_net().parameters(), **{name: value})


PARAMS = list(make_net().parameters())
BAD_CALLS = {
    "no bound": (lambda: SHBPolyak(PARAMS, lower_bound=None), r"lower_bound \(f_star\) must be a real number .*got None"),
    "torch's name": (lambda: HeavyStep(PARAMS, betas=(0.9, 0.99)), "HeavyStep has no option 'betas': here it is called momentum"),
    "a fixed option": (lambda: SPS(PARAMS, scaling="theory"), "SPS has no option 'scaling': it is always 'plain' there"),
    "the paper's name": (lambda: SHBPolyak(PARAMS, beta=0.5), "SHBPolyak has no option 'beta': here it is called momentum"),
    "no such option": (lambda: SHBArmijo(PARAMS, nesterov=True), "SHBArmijo has no option 'nesterov': it has lr, momentum, c, "),
    "a model": (lambda: HeavyStep(make_net()), r".*got a Sequential: give model\.parameters\(\)"),
    "nothing": (lambda: HeavyStep([]), ".*empty parameter list"),
    "no lr": (lambda: SHB(iter([{"params": PARAMS[:1], "lr": 0.1}, {"params": PARAMS[1:]}])), "SHB needs lr: the step gamma itself"),
    "a bad group": (lambda: HeavyStep([{"params": PARAMS, "lr": -1}]), r"lr \(eta\) must be >= 0 and finite, got -1$"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_CALLS)
def test_a_bad_call_is_told_what_to_do(name):
    make, message = BAD_CALLS[name]
    with pytest.raises((TypeError, ValueError), match=f"^{message}"):
        make()


def test_every_group_may_have_its_own_learning_rate():
    first, rest = (
        {"params": PARAMS[:1], "lr": 0.5},
        {"params": PARAMS[1:], "lr": torch.tensor([0.25])},
    )
    assert [float(group["lr"]) for group in SHB([first, rest]).param_groups] == [0.5, 0.25]


@every_optimizer
def test_groups_that_disagree(case):
    first, *rest = make_net().parameters()
    agreed = case.make([first]).param_groups[0]
    for option in (*case.method.options, case.option("decay")):
        if option is None or option.name in MAY_DIFFER:
            continue
        name, value = option.name, another(option, agreed[option.name])
        message = f"^{re.escape(label(name))} must be the same in all parameter groups, got .*{re.escape(repr(value))}"
        with pytest.raises(ValueError, match=message):
            case.make([{"params": [first]}, {"params": rest, name: value}])
        opt = case.make([first])
        with pytest.raises(ValueError, match=message):
            opt.add_param_group({"params": rest, name: value})
        assert len(opt.param_groups) == 1  # the refused group has not been added


@pytest.mark.parametrize(("name", "value"), [("decay", "objective"), ("c", 1.0)])
def test_a_group_has_no_option_of_another_method(name, value):
    """Names of schedulers and users are theirs."""
    first, *rest = make_net().parameters()
    opt = HeavyStep([{"params": [first], "name": "first", "initial_lr": 1.0}])
    with pytest.raises(ValueError, match=f"HeavyStep has no option '{name}'"):
        opt.add_param_group({"params": rest, name: value})
    opt.load_state_dict(opt.state_dict())


@every_optimizer
def test_values_that_a_scheduler_drives_out_of_range_are_refused_at_the_step(case):
    net = make_net()
    opt = case.make(net.parameters())
    opt.step(lambda: loss_of(net, make_batches(1)[0]))
    before = flat(net)
    for name, value in (("momentum", 1.2), ("lr", -1.0), ("weight_decay", -0.1)):
        good = opt.param_groups[0][name]
        opt.param_groups[0][name] = value
        with pytest.raises(ValueError, match=rf"^{name}.* must be .*, got {value}$"):
            opt.step(lambda: pytest.fail("the closure was called all the same"))
        opt.param_groups[0][name] = good
    assert torch.equal(flat(net), before)


@every_optimizer
def test_numpy_numbers_become_pythons(case):
    """A checkpoint with numpy's numbers in it would not load with weights_only=True."""
    opt = case.make(make_net().parameters(), lr=np.float64(0.1), weight_decay=np.float32(0.5))
    group = opt.param_groups[0]
    assert type(group["lr"]) is float
    assert type(group["weight_decay"]) is float
    opt.add_param_group({"params": make_net().parameters(), "lr": np.float64(0.2)})
    assert type(opt.param_groups[1]["lr"]) is float


def test_the_metric_stays_what_it_was():
    net, batch = make_net(), make_batches(1)[0]
    opt = HeavyStep(net.parameters())
    opt.step(lambda: loss_of(net, batch))
    for metric in ("tensor", None):
        opt.param_groups[0]["diagonal"] = metric
        with pytest.raises(ValueError, match="diagonal must stay what it was when training began"):
            opt.step(lambda: loss_of(net, batch))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_the_first_trial_fits_the_format_of_the_parameters(dtype):
    """Torch refuses to multiply a tensor by a number that its format cannot hold."""
    theta = torch.tensor([1.0, -0.5], dtype=dtype, requires_grad=True)
    opt = SHBArmijo(
        [theta], max_step=1e300, momentum=0.0, scaling="plain", decrease_factor=1e-3,
    )  # fmt: skip
    opt.step(lambda: theta.square().sum())
    grid = [torch.finfo(dtype).max * 1e-3**k for k in range(20)]
    assert opt.info.accepted
    assert opt.info.step == pytest.approx(next(t for t in grid if t <= 0.9), rel=1e-9)


@every_optimizer
def test_only_lr_may_be_a_tensor(case):
    """Options are looked at when they change, and a tensor changes in place."""
    net = make_net()
    opt = case.make(net.parameters(), weight_decay=torch.tensor([0.25]))
    assert type(opt.param_groups[0]["weight_decay"]) is float
    assert opt.param_groups[0]["weight_decay"] == 0.25
    opt.param_groups[0]["weight_decay"] = torch.tensor(0.5)
    with pytest.raises(TypeError, match=r"weight_decay must be a plain number.*only lr may be"):
        opt.step(lambda: loss_of(net, make_batches(1)[0]))
    opt.param_groups[0]["weight_decay"] = np.zeros(3)
    with pytest.raises(TypeError, match="weight_decay must be a real number"):
        opt.step(lambda: loss_of(net, make_batches(1)[0]))


@over([case for case in OPTIMIZERS if case.method.fixed])
def test_what_a_method_fixes_stays(case):
    net = make_net()
    options = {option.name: option for option in (MOMENTUM, *case.method.rule.options)}
    for name, value in case.method.fixed.items():
        other = another(options[name], value)
        refusal = pytest.raises(
            ValueError, match=f"^{re.escape(label(name))} must be {value!r} for .*, got {other!r}$"
        )
        with refusal:
            case.make([{"params": list(net.parameters()), name: other}])
        opt = case.make(net.parameters())
        opt.param_groups[0][name] = other
        with refusal:
            opt.step(lambda: loss_of(net, make_batches(1)[0]))
