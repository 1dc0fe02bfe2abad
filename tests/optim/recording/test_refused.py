"""What is no one run of one method is refused, and says why."""

import pytest
import torch

from heavystep import SHB, HeavyStep, SHBArmijo, SHBPolyak
from heavystep.optim import Recorder
from tests.helpers.recorded import quadratic, run, start


def two_groups(cls=SHBPolyak, scaling="practical", **second):
    return cls([{"params": [start()]}, {"params": [start()], **second}], scaling=scaling)


BAD_OPTIMIZERS = {
    "fixed step": (lambda: SHB([start()], lr=0.1), {}, TypeError, r"chooses its step \(SHBPolyak, SHBArmijo, SPS, SLS or another\), got SHB$"),
    "foreign": (lambda: torch.optim.SGD([start()], lr=0.1), {}, TypeError, "got SGD$"),
    "no optimizer": (lambda: [start()], {}, TypeError, "got list$"),
    "lr by group": (lambda: two_groups(lr=0.5), {}, ValueError, r"lr \(eta\) must be the same in all parameter groups, got 1.0, 0.5$"),
    "tensor lr by group": (lambda: two_groups(lr=torch.tensor(0.5)), {}, ValueError, r"lr \(eta\) must be the same"),
    "decoupled decay": (lambda: SHBPolyak([start()], scaling="plain", weight_decay=0.1), {"iterates": True}, ValueError, r"iterates=True needs weight_decay 0 or decay='objective', got 0.1"),
    "averages": (lambda: HeavyStep([start()]), {"iterates": True}, ValueError, r"iterates=True is for heavy ball, and HeavyStep has the momentum form 'averaged heavy ball'$"),
    "decay of one group": (lambda: two_groups(SHBArmijo, weight_decay=0.1), {"iterates": True}, ValueError, "needs weight_decay 0"),
    "iterates": (lambda: SHBPolyak([start()]), {"iterates": "yes"}, ValueError, "iterates must be one of False, True, got 'yes'"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_OPTIMIZERS)
def test_what_cannot_be_recorded_is_refused(name):
    make, options, error, message = BAD_OPTIMIZERS[name]
    opt = make()
    with pytest.raises(error, match=message) as caught:
        Recorder(opt, **options)
    assert "\n" not in str(caught.value)
    assert not getattr(opt, "_optimizer_step_post_hooks", None)  # nothing stays attached


def set_option(name, value):
    def change(opt, thetas):
        for group in opt.param_groups:
            group[name] = value

    return change


def other_lr(opt, thetas):
    opt.param_groups[1]["lr"] = 0.5


def move(opt, thetas):
    with torch.no_grad():
        thetas[0][0] += 1e-9


def forget_momentum(opt, thetas):
    fresh = two_groups(type(opt), opt.param_groups[0]["scaling"])
    opt.load_state_dict(fresh.state_dict())


def lose_gradient(opt, thetas):
    thetas[1].requires_grad_(False)


def add_group(opt, thetas):
    thetas.append(start())
    opt.add_param_group({"params": thetas[-1:]})


CHANGES = {
    "c": (SHBPolyak, False, set_option("c", 0.75), r"step 3 cannot be recorded: c changed during the run, from 1.0 to 0.75$"),
    "scaling": (SHBPolyak, False, set_option("scaling", "plain"), "scaling changed during the run, from 'practical' to 'plain'$"),
    "omega": (SHBArmijo, False, set_option("decrease_factor", 0.5), r"decrease_factor \(omega\) changed during the run, from 0.9 to 0.5$"),
    "lr of a group": (SHBPolyak, False, other_lr, r"step 3 .*lr \(eta\) must be the same"),
    "parameters": (SHBPolyak, True, move, r"step 3 cannot be recorded: something else than step\(\) had changed"),
    "displacements": (SHBPolyak, True, forget_momentum, "step 3 is no heavy-ball step"),
    "gradients": (SHBArmijo, True, lose_gradient, "step 3 is no heavy-ball step"),
    "weight decay": (SHBPolyak, True, set_option("weight_decay", 1e-6), "step 3 is no heavy-ball step"),
    "groups": (SHBPolyak, True, add_group, r"step 3 cannot be recorded: something else than step\(\) had changed"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_method_during_the_run_is_found(name):
    cls, iterates, change, message = CHANGES[name]
    opt = two_groups(cls)
    thetas = [param for group in opt.param_groups for param in group["params"]]
    recorder = Recorder(opt, iterates=iterates)
    for k in range(6):
        if k == 3:
            assert recorder.record().steps == 3
            change(opt, thetas)
        opt.step(lambda: sum(quadratic(theta, k) for theta in thetas))
    with pytest.raises(ValueError, match=message) as caught:
        recorder.record()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("momentum", "begins"), [(0.5, False), (0.0, True)])
def test_iterates_that_begin_in_the_middle_need_no_momentum(momentum, begins):
    theta = start()
    opt = SHBPolyak([theta], momentum=momentum, scaling="practical")
    run(opt, theta, 2)
    recorder = Recorder(opt, iterates=True)
    run(opt, theta, 2, first=2)
    if begins:
        assert recorder.record().steps == 2
    else:
        with pytest.raises(
            ValueError, match=r"step 0 is no heavy-ball step .*attach before the first"
        ):
            recorder.record()


def test_nothing_recorded():
    with pytest.raises(ValueError, match=r"^nothing recorded"):
        Recorder(SHBPolyak([start()])).record()
