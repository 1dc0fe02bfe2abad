"""Torch's schedulers do to every method what they do to torch's own optimizers.

Torch's own tests of schedulers do not come with torch. Most of them hold the numbers that a scheduler
writes against known ones: those here are held against those for SGD.
"""

import warnings

import pytest
import torch

from tests.helpers.cases import KINDS, over
from tests.optim.test_schedulers import SCHEDULERS

STEPS = 8


def sequence(opt, make):
    """Learning rate and momentum that a scheduler gives, step by step."""
    scheduler, found = make(opt), []
    for k in range(STEPS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the optimizer itself takes no steps here
            plateau = isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau)
            scheduler.step(1.0 + k) if plateau else scheduler.step()
        group = opt.param_groups[0]
        found.append((float(group["lr"]), group["momentum"]))
    return found, scheduler.state_dict().keys()


@over(KINDS)
@pytest.mark.parametrize("name", SCHEDULERS)
@pytest.mark.parametrize("lr", [0.5, torch.tensor(0.5)], ids=["number", "tensor"])
def test_a_scheduler_gives_the_numbers_that_it_gives_to_sgd(case, name, lr):
    params = [torch.nn.Parameter(torch.ones(2))]
    momentum = {"momentum": 0.9} if case.takes("momentum") else {}
    ours = case.make(params, lr=lr.clone() if torch.is_tensor(lr) else lr, **momentum)
    theirs = torch.optim.SGD(params, lr=0.5, momentum=ours.param_groups[0]["momentum"])
    found, expected = (sequence(opt, SCHEDULERS[name]) for opt in (ours, theirs))
    assert found[1] == expected[1]
    rounding = torch.finfo(torch.float32).eps * STEPS if torch.is_tensor(lr) else 1e-15 * STEPS
    for (rate, beta), (rate_of_sgd, beta_of_sgd) in zip(found[0], expected[0], strict=True):
        assert rate == pytest.approx(rate_of_sgd, rel=rounding)
        assert beta == beta_of_sgd


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
