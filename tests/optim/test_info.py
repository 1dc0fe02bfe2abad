"""``info`` says which cap held the step; an optimizer prints in four lines."""

import pytest

from heavystep import SPS, SHBArmijo, SHBPolyak, create
from tests.helpers.training import loss_of, make_batches, make_net

CAPS = {
    "max_step": (lambda p: SHBPolyak(p, scaling="plain", max_step=1e-3), "max_step"),
    "max_step of a search": (lambda p: SHBArmijo(p, scaling="theory", max_step=1e-3), "max_step"),
    "smooth reset": (lambda p: SPS(p, max_step=1e6, steps_per_epoch=1e6), "growth"),
    "damped": (lambda p: create("MomSPS", p, max_step=1e-3), "max_step"),
    "damped, of an average": (lambda p: create("IAM", p, max_step=1e-3), "max_step"),
    "no cap": (lambda p: create("SPSSafe", p, safeguard=1e6), None),
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
        assert opt.info.max_step is None or opt.info.base_step <= 1.0001 * opt.info.max_step
    assert expected in caps[1:]
