"""torch.compile of the step gives the eager step, in one graph and without recompiling."""

import pytest
import torch
import torch._dynamo.testing

from heavystep import SHB, HeavyStep, SHBPolyak
from tests.helpers import rounding
from tests.helpers.cases import KINDS
from tests.helpers.training import (
    SUMMANDS,
    assert_equal_but_for_rounding,
    flat,
    loss_of,
    make_batches,
    make_net,
)

MAKERS = {
    "SHB": lambda p: SHB(p, lr=0.1, weight_decay=0.1),
    "SHBPolyak": lambda p: SHBPolyak(p, weight_decay=0.1),
    "HeavyStep": lambda p: HeavyStep(p, weight_decay=0.1),
    "another kind": [case for case in KINDS if not case.needs_closure][-1].make,
}


def run(net, opt, batches, step):
    for k, batch in enumerate(batches):
        opt.zero_grad()
        loss = loss_of(net, batch)
        if k == 4:
            loss = loss * float("nan")
        loss.backward()
        step(loss)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # the compiler warns about its own work
@pytest.mark.parametrize("handed_over", [False, True])
@pytest.mark.parametrize("name", MAKERS)
def test_compiled_step_is_the_eager_step(name, handed_over):
    batches, nets = make_batches(8), [make_net(), make_net()]
    opts = [MAKERS[name](net.parameters()) for net in nets]
    torch._dynamo.reset()
    counts = torch._dynamo.testing.CompileCounterWithBackend("inductor")

    @torch.compile(backend=counts)
    def compiled(**loss):
        opts[1].step(**loss)

    def step(loss):
        if handed_over:
            opts[1].hand_over(loss)
        compiled(**({} if handed_over else {"loss": loss}))

    run(nets[0], opts[0], batches, lambda loss: opts[0].step(loss=loss))
    run(nets[1], opts[1], batches, step)
    assert_equal_but_for_rounding(*nets, steps=len(batches))
    # The last step is a quotient of sums at points that are apart by the rounding of the others.
    apart = rounding.of_a_run(len(batches), SUMMANDS, flat(nets[0]))
    assert float(opts[1].info.step) == pytest.approx(float(opts[0].info.step), rel=apart)
    assert counts.frame_count <= 3  # the first step, without state, and the later ones
