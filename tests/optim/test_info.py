"""``info`` says which cap held the step; an optimizer prints in four lines."""

import pytest

from heavystep import SPS, HeavyStep, SHBArmijo, SHBPolyak
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
        assert opt.info.max_step == opt.param_groups[0].get("max_step")
    assert expected in caps[1:]


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
