"""A learning rate of 0, and Diminishing, which drives lr, momentum and max_step."""

import copy

import pytest
import torch

from heavystep import SHB, Diminishing, SHBPolyak
from tests.helpers.cases import OPTIMIZERS, ROWS, over
from tests.helpers.training import Run, flat, last_momentum, make_batches, make_net, take_step

DIMINISHING = [case for case in OPTIMIZERS if case.takes("max_step") and case.takes("momentum")]


@over([case for case in ROWS if case.heavy_ball and case.has_momentum and not case.steers])
def test_no_learning_rate_takes_no_gradient_step_and_heavy_ball_goes_on(case):
    """As the README says of schedulers that end at 0."""
    net, batches = make_net(), make_batches(3)
    opt = case.make(net.parameters())
    before = flat(net).clone()
    take_step(opt, net, batches[0], case)
    first = flat(net).clone()
    opt.param_groups[0]["lr"] = 0.0
    take_step(opt, net, batches[1], case)
    assert opt.info.accepted
    assert not torch.equal(flat(net), first)
    coasting = first + last_momentum(opt) * (first - before)
    torch.testing.assert_close(flat(net), coasting, rtol=0.0, atol=1e-6)


@over([case for case in ROWS if case.sees_gradient_only and not case.needs_closure])
def test_what_a_rule_remembers_does_not_depend_on_lr(case):
    """A warm-up from 0 must not shrink a cap for good."""
    memories = []
    for lr in (0.0, 0.1, 2.0):
        theta = torch.tensor([3.0, 1.0], requires_grad=True)
        opt = case.make([theta], lr=lr)
        for k in range(4):
            theta.grad = torch.tensor([0.3, -1.0 / (k + 1)])
            opt.step(loss=0.5 + 0.1 * k)
        memories.append([float(opt.param_groups[0][name]) for name in case.method.rule.memory])
        memories[-1].append(float(opt.info.base_step))
    assert memories[0] == memories[1] == memories[2]


@over(DIMINISHING)
def test_diminishing_values_and_resume(case):
    options, batches = {"max_step": 0.2, "lr": 2.0, **case.taken(scaling="plain")}, make_batches(10)
    run, other = (Run(case.make, {"seed": seed}, **options) for seed in (0, 9))
    schedule, resumed = (Diminishing(each.opt, horizon=3.0) for each in (run, other))
    group, own = run.opt.param_groups[0], case.option("momentum").default
    for k, batch in enumerate(batches):
        assert group["lr"] == pytest.approx(2.0 * 0.5 * (1 + k / 3) ** -0.4, rel=1e-14)
        assert group["momentum"] == pytest.approx(own * (1 + k / 3) ** -1.1, rel=1e-14)
        assert group["max_step"] == pytest.approx(0.2 * (1 + k / 3) ** -0.3, rel=1e-14)
        if k == 6:
            resumed.load_state_dict(copy.deepcopy(schedule.state_dict()))
            other.load(run.saved)
        for each, driver in [(run, schedule), (other, resumed)][: 1 + (k >= 6)]:
            each.step(batch)
            driver.step()
    assert torch.equal(run.theta, other.theta)
    other = Run(case.make, {"seed": 9}, **options)
    other.load(run.saved)
    Diminishing(other.opt, horizon=3.0, last_epoch=schedule.last_epoch - 1)  # which takes a step
    assert other.opt.param_groups[0] | {"params": None} == group | {"params": None}


BAD_SCHEDULES = {
    "beta not summable": ({"beta_power": 1.0}, r"item \(i\).*beta_power > 1, got 1"),
    "max_step stays": ({"max_step_power": 0.0, "eta_power": 0.7}, r"item \(ii\).*max_step_power > 0"),
    "noise not summable": ({"eta_power": 0.35}, r"item \(iii\).*2 eta_power \+ max_step_power > 1, got 1$"),
    "beta0": ({"beta0": 1.0}, r"beta0 must be in \[0, 1\), got 1.0"),
    "no number": ({"eta_power": "fast"}, r"eta_power must be a real number \(finite\), got 'fast'"),
    "horizon": ({"horizon": -1.0}, r"horizon must be > 0 and finite, got -1.0"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_SCHEDULES)
def test_schedules_outside_the_assumption_are_refused(name):
    options, message = BAD_SCHEDULES[name]
    opt = SHBPolyak(make_net().parameters(), scaling="plain")
    with pytest.raises((TypeError, ValueError), match=message):
        Diminishing(opt, **options)
    assert opt.param_groups[0]["lr"] == 1.0
    assert "initial_max_step" not in opt.param_groups[0]


def test_diminishing_needs_a_cap_to_diminish():
    for wrong, name in ((SHB(make_net().parameters(), lr=0.1), "SHB"), ("opt", "str")):
        message = rf"must have a max_step \(gamma_max\) to diminish, got {name}: use SHBPolyak"
        with pytest.raises(TypeError, match=message):
            Diminishing(wrong)
