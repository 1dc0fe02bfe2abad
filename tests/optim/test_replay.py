"""Several evaluations that leave the traces of one: random numbers, buffers, autocast."""

import random

import numpy as np
import pytest
import torch
from torch import nn

from heavystep import SHBArmijo, SHBPolyak
from heavystep.optimizers import SLS
from tests.helpers.cases import ROWS, over
from tests.helpers.training import loss_of, make_batches, make_net

every_search = over([case for case in ROWS if case.needs_closure])
styles = pytest.mark.parametrize("backward", [False, True], ids=["closure", "with backward"])


def closure_for(opt, evaluate, backward):
    def closure():
        opt.zero_grad()
        loss = evaluate()
        if backward:
            loss.backward()
        return loss

    return closure


class Masked(nn.Module):
    """A bowl, and a dropout mask that it writes down."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([2.0, -1.0]))
        self.masks = []

    def forward(self):
        self.masks.append(nn.functional.dropout(torch.ones(64)).tolist())
        return 30.0 * ((self.weight - 5.0) ** 2).sum()


@every_search
@styles
def test_every_evaluation_draws_what_one_forward_draws(case, backward):
    """And the streams are left where one forward leaves them."""
    net = Masked()
    opt = case.make(net.parameters(), **case.taken(max_step=100.0))
    others = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    for seed in range(3):
        net.masks.clear()
        torch.manual_seed(seed)
        net()
        expected = torch.get_rng_state()
        torch.manual_seed(seed)
        opt.step(closure_for(opt, net, backward))
        assert torch.equal(torch.get_rng_state(), expected)
        assert len(net.masks) >= 3
        assert all(mask == net.masks[0] for mask in net.masks)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == others  # noqa: NPY002


@every_search
@styles
@pytest.mark.parametrize("as_function", [True, False])
def test_batchnorm_sees_each_batch_once(case, backward, as_function):
    net, batches = make_net(norm=True), make_batches(4)
    buffers = net.buffers if as_function else net.buffers()
    opt = case.make(net.parameters(), buffers=buffers, **case.taken(max_step=100.0))
    trials = 0
    for count, batch in enumerate(batches, start=1):
        twin = make_net(norm=True)
        twin.load_state_dict(net.state_dict())
        loss_of(twin, batch)
        opt.step(closure_for(opt, lambda: loss_of(net, batch), backward))
        trials += opt.info.trials
        assert all(torch.equal(a, b) for a, b in zip(net.buffers(), twin.buffers(), strict=True))
        assert int(net[1].num_batches_tracked) == count
    assert trials >= len(batches)


def test_trials_start_from_the_buffers_of_the_first_evaluation():
    """The loss depends on a buffer which every forward changes."""
    theta, calls = torch.tensor([2.0, -1.0], requires_grad=True), torch.zeros(())
    opt = SHBArmijo([theta], buffers=[calls])

    def closure():
        return ((theta - 5.0) ** 2).sum() + 10.0 * float(calls.add_(1))

    for count in range(1, 4):
        opt.step(closure)
        assert opt.info.accepted
        assert float(calls) == count


def test_buffers_must_be_tensors():
    net = make_net(norm=True)
    with pytest.raises(TypeError, match=r"got Sequential: pass model\.buffers\(\)"):
        SHBArmijo(net.parameters(), buffers=net)
    with pytest.raises(TypeError, match=r"buffers must hold tensors, got '0"):
        SHBArmijo(net.parameters(), buffers=dict(net.named_parameters()))


def train_in_bfloat16(where, steps=500, **options):
    """Final loss of a long full-batch run with an autocast around the step or in the closure."""
    x, y = (torch.cat(parts) for parts in zip(*make_batches(8), strict=True))
    net = make_net().bfloat16() if where == "parameters" else make_net()
    opt = SHBArmijo(net.parameters(), scaling="practical", c=0.5, steps_per_epoch=8, **options)

    def closure():
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=where == "inside"):
            logits = net(x.to(net[0].weight.dtype))
            return nn.functional.cross_entropy(logits.float(), y)

    for _ in range(steps):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=where == "outside"):
            loss = opt.step(closure)
        assert opt.info.accepted
    return float(loss)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* recent steps are max_step")
def test_the_search_does_not_stall_on_the_rounding_of_bfloat16():
    """A float32 loss of bfloat16 work is only as good as bfloat16: a tolerance of float32 ulps
    accepts no step that matters, and the step shrinks for good."""
    exact = train_in_bfloat16("nowhere")
    assert train_in_bfloat16("outside") < 2 * exact
    assert train_in_bfloat16("inside", loss_eps=2**-8) < 2 * exact
    assert train_in_bfloat16("parameters") < 20 * exact
    assert train_in_bfloat16("inside", loss_eps=1e-7) > 5 * exact


@pytest.mark.filterwarnings("ignore:line search failed")
@pytest.mark.parametrize(("dtype", "given", "accepted"), [
    (torch.float32, {"loss_eps": 2**-10, "example_loss": 0.0}, False),
    (torch.float32, {"loss_eps": 2**-10, "example_loss": 1.0}, True),
    (torch.float32, {"loss_eps": 2**-10, "example_loss": 5e-4}, False),
    (torch.float32, {}, False),
    (torch.bfloat16, {}, True),  # the coarsest format counts, here that of the parameters
])  # fmt: skip
@pytest.mark.parametrize("loss", [1e-4, -1e-4])
def test_a_mean_of_few_examples_is_rounded_by_more(loss, dtype, given, accepted):
    """Every trial is 1% above: more than 4 * 2^-10 of 1e-4, less than that times the root of 1e4,
    and more than it times the root of 5."""
    theta, calls = torch.ones(3, requires_grad=True, dtype=dtype), []

    def closure():
        calls.append(None)
        rounded = loss if len(calls) == 1 else loss + 0.01 * abs(loss)
        return rounded + 1e-9 * (theta.sum() - theta.detach().sum()).double()

    opt = SLS([theta], max_trials=5, **given)
    opt.step(closure)
    assert opt.info.accepted is accepted
    assert opt.info.trials == (1 if accepted else 5)


@pytest.mark.parametrize("outside", [False, True], ids=["inside", "outside"])
@styles
def test_autocast_around_or_inside_the_closure(outside, backward):
    """An autocast around step() caches casts of the weights, stale as soon as a trial moves them."""
    net, batches = make_net(), make_batches(20)
    opt = SHBArmijo(net.parameters(), max_step=10.0, steps_per_epoch=500)
    for batch in batches:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=outside):
            inner = closure_for(opt, lambda: loss_of(net, batch), backward)

            def closure():
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    return inner()

            opt.step(closure)
            assert opt.info.accepted
    before = sum(loss_of(make_net(), b).item() for b in batches)
    after = sum(loss_of(net, b).item() for b in batches)
    assert after < 0.8 * before


@pytest.mark.parametrize("cls", [SHBPolyak, SHBArmijo])
def test_autocast_around_the_whole_loop(cls):
    """One autocast around many steps: each closure must see the parameters as they are now."""
    theta = torch.tensor([[4.0, -2.0]], requires_grad=True)
    opt = cls([theta], momentum=0.0, scaling="practical")
    losses = []
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for _ in range(6):
            loss = opt.step(
                lambda: nn.functional.linear(torch.ones(1, 2), theta).float().square().sum()
            )
            losses.append(float(loss))
    assert losses[-1] < 0.1 * losses[0]
