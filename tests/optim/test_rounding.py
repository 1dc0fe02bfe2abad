"""bfloat16 parameters and state, rounded at random: as good as float32 in half its memory."""

import copy

import pytest
import torch
from torch import nn

from heavystep import HeavyStep
from heavystep.optim.update import round_at_random
from tests.helpers.training import (
    DEVICES,
    Run,
    equal_states,
    flat,
    loss_of,
    make_batches,
    make_net,
    same,
    snapshot,
)

METRICS = ["element", "tensor", None]


def test_a_number_goes_to_its_neighbours_and_is_right_on_average():
    generator = torch.Generator().manual_seed(0)
    for number in (1.001, -1.001, 3e-5, 0.0, -0.0, 1e30):
        rounded = round_at_random(torch.full((100_000,), number), generator)
        below, above = rounded.float().min().item(), rounded.float().max().item()
        assert below <= number <= above
        assert rounded.unique().numel() <= 2
        assert rounded.double().mean().item() == pytest.approx(number, rel=1e-4)
    exact = torch.randn(1000).to(torch.bfloat16)
    assert torch.equal(round_at_random(exact.float(), generator), exact)


def test_moves_that_are_smaller_than_a_digit_count():
    far = {}
    for rounding in (False, True):
        theta = nn.Parameter(torch.ones(10_000, dtype=torch.bfloat16))
        opt = HeavyStep([theta], momentum=0.0, max_step=1e-4, stochastic_rounding=rounding)
        for _ in range(50):
            theta.grad = torch.ones_like(theta)
            opt.step(loss=1e6)
        far[rounding] = 1.0 - theta.double().mean().item()
    assert far[False] == 0.0
    assert far[True] == pytest.approx(50 * 1e-4, rel=0.05)


def train(net, steps=400, **options):
    """The mean of the last losses; batches in the format of the network."""
    opt, dtype = HeavyStep(net.parameters(), **options), next(net.parameters()).dtype
    losses = []
    for x, y in make_batches(steps, size=64):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x.to(dtype)).float(), y)
        loss.backward()
        opt.step(loss=loss)
        losses.append(loss.item())
    return sum(losses[-100:]) / 100, opt


def memory(opt):
    return sum(value.nbytes for state in opt.state.values() for value in state.values())


@pytest.mark.parametrize("metric", METRICS)
def test_the_loss_is_that_of_float32_and_memory_that_of_sgd(metric):
    wide, _ = train(make_net(), diagonal=metric)
    net = make_net(dtype=torch.bfloat16)
    narrow, opt = train(net, diagonal=metric, stochastic_rounding=True)
    assert narrow == pytest.approx(wide, rel=0.01)
    size = sum(p.nbytes for p in net.parameters())
    scalars = {"element": 4, "tensor": 8, None: 0}[metric] * len(list(net.parameters()))
    assert memory(opt) == size * (2 if metric == "element" else 1) + scalars


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("metric", METRICS)
def test_a_run_goes_on_to_the_bit_and_draws_no_number_of_the_user(metric, device):
    def begun(seed):
        net = {"dtype": torch.bfloat16, "seed": seed}
        run = Run(HeavyStep, net, diagonal=metric, stochastic_rounding=True)
        run.net.to(device)
        return run

    batches = [[x.to(device) for x in batch] for batch in make_batches(8, dtype=torch.bfloat16)]
    run, other, stream = begun(0), begun(5), torch.get_rng_state()
    other.load(run.train(batches[:4]).saved)
    assert torch.equal(torch.get_rng_state(), stream)
    assert equal_states(other.opt.state_dict(), run.opt.state_dict())
    assert torch.equal(run.train(batches[4:]).theta, other.train(batches[4:]).theta)
    assert equal_states(other.opt.state_dict(), run.opt.state_dict())


def test_a_refused_batch_changes_nothing_and_float32_is_left_alone():
    net = make_net(dtype=torch.bfloat16)
    net[0].float()
    batch = make_batches(1)[0]

    def loss():
        x = net[1](net[0](batch[0])).to(torch.bfloat16)
        return nn.functional.cross_entropy(net[2](x).float(), batch[1])

    opt = HeavyStep(net.parameters(), stochastic_rounding=True)
    opt.step(loss)
    before, state = snapshot(net), copy.deepcopy(opt.state_dict())
    opt.step(lambda: loss() * float("nan"))
    assert same(before, snapshot(net))
    assert equal_states(opt.state_dict(), state)
    formats = {p.dtype: opt.state[p]["lead"].dtype for p in net.parameters()}
    assert formats == {dtype: dtype for dtype in (torch.float32, torch.bfloat16)}


def test_a_device_decides_alike(monkeypatch):
    """Its refusals are masks, and leave all bits as they were."""
    runs = []
    for near in (True, False):
        for place in ("measure", "optimizer", "update"):
            name = f"heavystep.optim.{place}.reads_for_free"
            monkeypatch.setattr(name, lambda device, near=near: near)
        net = make_net(dtype=torch.bfloat16)
        opt = HeavyStep(net.parameters(), stochastic_rounding=True)
        for k, batch in enumerate(make_batches(6, dtype=torch.bfloat16)):
            before = flat(net)
            opt.step(lambda k=k, batch=batch: loss_of(net, batch) * (float("nan") if k == 3 else 1))
            assert torch.equal(before, flat(net)) == (k == 3)
        runs.append(flat(net).float())
    torch.testing.assert_close(*runs, rtol=0.02, atol=0.02)


def test_groups_are_rounded_by_random_numbers_of_their_own():
    first, second = (nn.Parameter(torch.ones(1000, dtype=torch.bfloat16)) for _ in range(2))
    groups = [{"params": [first]}, {"params": [second]}]
    opt = HeavyStep(groups, diagonal=None, stochastic_rounding=True)
    first.grad = second.grad = torch.linspace(0.0, 1.0, 1000).bfloat16()
    opt.step(loss=1.0)
    assert (first != second).sum() > 10


def test_what_cannot_draw_anew_is_refused():
    theta = nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
    opt = HeavyStep([theta], stochastic_rounding=True)
    theta.grad = torch.ones_like(theta)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.compiler, "is_compiling", lambda: True)
        with pytest.raises(ValueError, match="stochastic_rounding draws new numbers"):
            opt.step(loss=torch.tensor(1.0))
