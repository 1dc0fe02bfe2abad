"""Torch's schedulers do to every method what they do to torch's own optimizers.

Torch's own tests of schedulers do not come with torch. Most of them hold the numbers that a scheduler
writes against known ones: those here are held against those for SGD.
"""

import inspect
import warnings

import pytest
import torch
from torch.optim import lr_scheduler

from tests.helpers import rounding
from tests.helpers.cases import KINDS, over
from tests.helpers.training import make_batches, make_net, take_step

STEPS = 8
SCHEDULERS = {
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, lambda k: 1 / (k + 1)),
    "MultiplicativeLR": lambda o: lr_scheduler.MultiplicativeLR(o, lambda k: 0.9),
    "StepLR": lambda o: lr_scheduler.StepLR(o, 2),
    "MultiStepLR": lambda o: lr_scheduler.MultiStepLR(o, [1, 3]),
    "ConstantLR": lambda o: lr_scheduler.ConstantLR(o, 0.5, 3),
    "LinearLR": lambda o: lr_scheduler.LinearLR(o, 0.1),
    "ExponentialLR": lambda o: lr_scheduler.ExponentialLR(o, 0.9),
    "PolynomialLR": lambda o: lr_scheduler.PolynomialLR(o, 4),
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, 4),
    "CosineAnnealingWarmRestarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 3),
    "CyclicLR": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, step_size_up=2),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=20),
    "SequentialLR": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.ConstantLR(o, 0.1, 2), lr_scheduler.ExponentialLR(o, 0.5)], [2]
    ),
    "ChainedScheduler": lambda o: lr_scheduler.ChainedScheduler([lr_scheduler.ExponentialLR(o, 0.9)]),
    "ReduceLROnPlateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=0),
}  # fmt: skip


def test_no_torch_scheduler_is_forgotten():
    public = {
        name
        for name, value in vars(lr_scheduler).items()
        if inspect.isclass(value)
        and issubclass(value, lr_scheduler.LRScheduler)
        and not name.startswith("_")
    }
    assert public - {"LRScheduler"} <= set(SCHEDULERS)


def named(opt, *names):
    return [float(opt.param_groups[0][name]) for name in names]


@over(KINDS)
@pytest.mark.parametrize("name", SCHEDULERS)
@pytest.mark.parametrize("lr", [0.5, torch.tensor(0.5)], ids=["number", "tensor"])
def test_a_scheduler_does_to_a_method_what_it_does_to_sgd(case, name, lr):
    net, (batch,), rates = make_net(), make_batches(1), set()
    ours = case.make(net.parameters(), lr=lr.clone() if torch.is_tensor(lr) else lr)
    fixed = ours.param_groups[0]["momentum"]
    theirs = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.5, momentum=fixed or 0.9)
    schedulers = [SCHEDULERS[name](opt) for opt in (ours, theirs)]
    assert schedulers[0].state_dict().keys() == schedulers[1].state_dict().keys()
    if not case.takes("momentum") and ours.param_groups[0]["momentum"] != fixed:
        with pytest.raises(ValueError, match=r"^momentum \(beta\) must be 0.0 for \w+, .* got 0.9"):
            take_step(ours, net, batch, case)
        return
    plateau = isinstance(schedulers[0], lr_scheduler.ReduceLROnPlateau)
    for k in range(STEPS):
        expected = named(theirs, "lr", "momentum") if fixed else named(theirs, "lr")
        # A rate in float32 is rounded at each step.
        assert named(ours, "lr", "momentum")[: len(expected)] == pytest.approx(
            expected,
            rel=STEPS * torch.finfo(torch.float32 if torch.is_tensor(lr) else torch.float64).eps,
        )
        take_step(ours, net, batch, case)
        theirs.step()
        step, base = float(ours.info.step), float(ours.info.base_step)
        assert step == pytest.approx(expected[0] * base, rel=rounding.of_a_sum(1))
        rates.add(expected[0])
        for scheduler in schedulers:
            scheduler.step(*((1.0 + k,) if plateau else ()))
    assert len(rates) > 1


@over(KINDS)
def test_old_pattern_warning_and_new_pattern_no_warning(case):
    for begins_with_scheduler in (True, False):
        param = torch.nn.Parameter(torch.ones(2))
        opt = case.make([param])
        scheduler = torch.optim.lr_scheduler.StepLR(opt, step_size=3)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            if begins_with_scheduler:
                scheduler.step()
            opt.step(lambda param=param: param.square().sum())
            scheduler.step()
        told = [str(each.message) for each in said]
        assert len(told) == begins_with_scheduler, told
        assert all("how-to-adjust-learning-rate" in text for text in told)
