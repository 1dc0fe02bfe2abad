"""torch.compile of the step gives the eager step, in one graph and without recompiling."""

import pytest
import torch
import torch._dynamo.testing

from heavystep import SHB, SHBPolyak
from tests.helpers.training import flat, loss_of, make_batches, make_net

MAKERS = {
    "SHB": lambda p: SHB(p, lr=0.1, weight_decay=0.1),
    "SHBPolyak": lambda p: SHBPolyak(p, steps_per_epoch=5, weight_decay=0.1),
}


def run(net, opt, batches, step):
    for k, batch in enumerate(batches):
        opt.zero_grad()
        loss = loss_of(net, batch)
        if k == 4:
            loss = loss * float("nan")
        loss.backward()
        step(loss)
    return flat(net)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # the compiler warns about its own work
@pytest.mark.parametrize("name", MAKERS)
def test_compiled_step_is_the_eager_step(name):
    batches, nets = make_batches(8), [make_net(), make_net()]
    opts = [MAKERS[name](net.parameters()) for net in nets]
    torch._dynamo.reset()
    counts = torch._dynamo.testing.CompileCounterWithBackend("inductor")

    @torch.compile(backend=counts)
    def compiled(loss):
        opts[1].step(loss=loss)

    eager = run(nets[0], opts[0], batches, lambda loss: opts[0].step(loss=loss))
    fused = run(nets[1], opts[1], batches, compiled)
    torch.testing.assert_close(eager, fused, rtol=1e-5, atol=1e-6)
    assert float(opts[1].info.step) == pytest.approx(float(opts[0].info.step), rel=1e-5)
    assert counts.frame_count <= 3  # the first step, without state, and the later ones
