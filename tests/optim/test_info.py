"""``info`` says which cap held the step; an optimizer prints in four lines."""

import pytest
import torch

from heavystep import SPS, HeavyStep, SHBArmijo, SHBPolyak, StepInfo
from tests.helpers.training import loss_of, make_batches, make_net

CAPS = {
    "max_step": (lambda p: SHBPolyak(p, scaling="plain", max_step=1e-3), "max_step"),
    "max_step of a search": (lambda p: SHBArmijo(p, scaling="theory", max_step=1e-3), "max_step"),
    "smooth reset": (lambda p: SPS(p, max_step=1e6, steps_per_epoch=1e6), "growth"),
    "none": (lambda p: SHBPolyak(p, scaling="plain", max_step=1e6), None),
}


@pytest.mark.parametrize("name", CAPS)
def test_cap_that_held(name):
    make, expected = CAPS[name]
    net = make_net()
    opt = make(net.parameters())
    caps = []
    for batch in make_batches(4):
        opt.step(lambda batch=batch: loss_of(net, batch))
        caps.append(opt.info.cap)
        assert opt.info.numbers()["cap"] == caps[-1]
        assert bool(opt.info.capped) == (caps[-1] is not None)
    assert expected in caps[1:]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"capped": True, "base_step": 0.5, "max_step": 0.5}, "max_step"),
        ({"capped": True, "base_step": 0.4, "max_step": 0.5}, "growth"),
        ({"capped": True, "base_step": 0.4, "max_step": None}, "growth"),
        ({"capped": False, "base_step": 0.5, "max_step": 0.5}, None),
        (
            {"capped": torch.tensor(True), "base_step": torch.tensor(0.1), "max_step": 0.1},
            "max_step",
        ),
    ],
)
def test_cap_from_fields(fields, expected):
    others = {"step": 0.0, "loss": 1.0, "grad_sqnorm": 1.0, "trials": 0, "accepted": True}
    assert StepInfo(**others, **fields).cap == expected


def test_bound_and_largest_step_are_told():
    net, batch = make_net(), make_batches(1)[0]
    opt = SHBPolyak(net.parameters(), max_step=0.5)
    opt.step(lambda: loss_of(net, batch), lower_bound=0.25)
    assert (opt.info.lower_bound, opt.info.max_step) == (0.25, 0.5)
    opt = SHBArmijo(net.parameters())
    opt.step(lambda: loss_of(net, batch))
    assert (opt.info.lower_bound, opt.info.max_step) == (None, 1.0)


def test_an_optimizer_prints_in_four_lines():
    net = make_net()
    first, *others = net.parameters()
    groups = [{"params": [first], "weight_decay": 0.1}, {"params": others, "lr": 0.5}]
    opt = HeavyStep(groups, diagonal="tensor")
    begun = "HeavyStep\n  options: lr=1.0 / 0.5, diagonal='tensor', weight_decay=0.1 / 0.0\n"
    assert str(opt) == f"{begun}  parameters: 163 in 2 group(s)\n  last step: none yet"
    opt.step(lambda: loss_of(net, make_batches(1)[0]))
    assert str(opt).endswith(f"\n  last step: {opt.param_groups[0]['step']:g}")
    assert opt.param_groups[0]["step"] == opt.info.step > 0.0
