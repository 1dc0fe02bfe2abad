"""The average is that of a literal loop over the iterates, and training does not notice it."""

import pytest
import torch
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

import heavystep
from heavystep import Average, CapturedStep
from tests.helpers.averaged import lent, literal, train, vector
from tests.helpers.cases import every_kind
from tests.helpers.training import DEVICES, loss_of, make_batches, make_net
from tests.optim.test_no_sync import NoHostRead

MAKERS = {
    "SHB": lambda params: heavystep.SHB(params, lr=0.05),
    "SHBPolyak": heavystep.SHBPolyak,
    "SHBArmijo": lambda params: heavystep.SHBArmijo(params, c=0.5),
    "SGD": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9),
    "AdamW": lambda params: torch.optim.AdamW(params, lr=0.01),
    "LBFGS": lambda params: torch.optim.LBFGS(params, lr=0.1, max_iter=3),
}
every_maker = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
REFUSING = {name: MAKERS[name] for name in ("SHBPolyak", "SHBArmijo")}
every_refusing = pytest.mark.parametrize("make", REFUSING.values(), ids=REFUSING)
FLOAT64 = torch.float64


@every_maker
@pytest.mark.parametrize("power", [0.0, 1.0, 8.0])
def test_average_of_the_iterates(make, power):
    net = make_net(dtype=FLOAT64)
    opt = make(net.parameters())
    average = Average(opt, power=power)
    iterates = train(net, opt, make_batches(9, dtype=FLOAT64))
    assert int(average.count) == 9
    torch.testing.assert_close(lent(average, net), literal(iterates, power), rtol=1e-12, atol=1e-14)
    assert not torch.allclose(lent(average, net), iterates[-1], rtol=1e-3)


def test_the_default_is_power_8():
    net = make_net(dtype=FLOAT64)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    average = Average(opt)
    iterates = train(net, opt, make_batches(5, dtype=FLOAT64))
    torch.testing.assert_close(lent(average, net), literal(iterates, 8), rtol=1e-12, atol=1e-14)


@every_kind
def test_training_goes_on_as_without_it(case):
    """To the bit, with every kind of method, although the model has the average now and then."""
    batches, ends = make_batches(6), []
    for averaged in (False, True):
        net = make_net()
        opt = case.make(net.parameters())
        if averaged:
            average = Average(opt)
            for batch in batches:
                train(net, opt, [batch])
                lent(average, net)
        else:
            train(net, opt, batches)
        ends.append(vector(net.parameters()))
    assert torch.equal(*ends)


@every_refusing
def test_a_refused_batch_does_not_count(make):
    batches = make_batches(7, dtype=FLOAT64)
    bad = (batches[0][0] * torch.nan, batches[0][1])
    nets, ends = [make_net(dtype=FLOAT64) for _ in range(2)], []
    for net, some in zip(nets, (batches, [bad, *batches[:3], bad, bad, *batches[3:]]), strict=True):
        opt = make(net.parameters())
        average = Average(opt)
        train(net, opt, some)
        assert int(average.count) == 7
        ends.append(lent(average, net))
    torch.testing.assert_close(*ends, rtol=1e-14, atol=1e-16)


def test_nothing_is_read_on_the_host():
    net, batches = make_net(), make_batches(4)
    opt = heavystep.SHBPolyak(net.parameters())
    average = Average(opt)
    for batch in batches:
        loss = loss_of(net, batch)
        loss.backward()
        with NoHostRead():
            opt.step(loss=loss)
        opt.zero_grad()
    with NoHostRead(), average.in_place():
        pass
    assert int(average.count) == 4


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_averaged_in_float32(dtype):
    """Long enough for an average in half precision to stand still, though iterates move."""
    weight = torch.nn.Parameter(torch.zeros(3, dtype=dtype))
    model = torch.nn.ParameterList([weight])
    opt = torch.optim.SGD([weight], lr=1.0)
    average, iterates = Average(opt), []
    for k in range(2000):
        weight.grad = torch.full_like(weight, -(2**-8) if k % 2 else 0.0)
        opt.step()
        iterates.append(weight.detach().clone())
    kept = average.state_dict()["averages"][0]
    assert kept.dtype == torch.float32
    torch.testing.assert_close(kept.double(), literal(iterates, 8.0), rtol=1e-5, atol=0)
    assert torch.equal(lent(average, model), kept.to(dtype))
    assert torch.equal(weight.detach(), iterates[-1])


def test_a_step_that_asks_for_state_does_not_count():
    """torch.distributed.checkpoint takes one, with zeros for gradients and a learning rate of 0."""
    for make in (MAKERS["SGD"], MAKERS["AdamW"], MAKERS["SHBPolyak"]):
        net = make_net(dtype=FLOAT64)
        opt = make(net.parameters())
        average = Average(opt)
        get_optimizer_state_dict(net, opt)
        assert int(average.count) == 0
        iterates = train(net, opt, make_batches(3, dtype=FLOAT64))
        torch.testing.assert_close(lent(average, net), literal(iterates, 8), rtol=1e-12, atol=1e-14)


def test_parameters_set_before_the_first_step():
    """Whatever they were when the average was made: not even NaN stays."""
    net = make_net(dtype=FLOAT64)
    with torch.no_grad():
        for param in net.parameters():
            param.fill_(torch.nan)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    average = Average(opt)
    net.load_state_dict(make_net(dtype=FLOAT64).state_dict())
    assert torch.equal(lent(average, net), vector(net.parameters()))
    iterates = train(net, opt, make_batches(3, dtype=FLOAT64))
    torch.testing.assert_close(lent(average, net), literal(iterates, 8), rtol=1e-12, atol=1e-14)


def test_groups_frozen_thawed_and_added_parameters():
    """A parameter that joins counts as if it had stood where it is after its first step."""
    one, frozen, late = (torch.nn.Parameter(torch.full((2,), v).double()) for v in (1.0, 2.0, 3.0))
    frozen.requires_grad_(False)
    opt = torch.optim.SGD([{"params": [one], "lr": 0.1}, {"params": [frozen], "lr": 0.5}], lr=1.0)
    average, model = Average(opt, power=1.0), torch.nn.ParameterList([one, frozen, late])
    iterates = []

    def step(count):
        for _ in range(count):
            opt.zero_grad()
            (one.square() + frozen.square() + late.square()).sum().backward()
            opt.step()
            iterates.append(vector(model))

    step(3)
    assert set(average.state_dict()["averages"]) == {0}
    assert lent(average, model)[2:].tolist() == [2.0, 2.0, 3.0, 3.0]
    frozen.requires_grad_(True)
    opt.add_param_group({"params": [late], "lr": 0.2})
    step(4)
    for k in range(3):  # where they are after their first step
        iterates[k][2:] = iterates[3][2:]
    torch.testing.assert_close(lent(average, model), literal(iterates, 1), rtol=1e-12, atol=1e-14)
    one.requires_grad_(False)
    step(2)
    torch.testing.assert_close(lent(average, model), literal(iterates, 1), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("make", "bad"),
    [(MAKERS["SGD"], None), *((make, 6) for make in REFUSING.values())],
    ids=["SGD", *REFUSING],
)
def test_captured_steps_update_it_by_hand(make, bad, device):
    net = make_net(dtype=FLOAT64).to(device)
    opt = make(net.parameters())
    batches = [(x.to(device), y.to(device)) for x, y in make_batches(9, dtype=FLOAT64)]
    x, y = (part.clone() for part in batches[0])
    average = Average(opt, automatic=False)
    step = CapturedStep(opt, lambda: loss_of(net, (x, y)), report=average.update)
    iterates = []
    for k, batch in enumerate(batches):
        x.copy_(batch[0] * (torch.nan if k == bad else 1.0))
        y.copy_(batch[1])
        step()
        if k != bad:
            iterates.append(vector(net.parameters()))
    assert int(average.count) == len(iterates)
    torch.testing.assert_close(lent(average, net), literal(iterates, 8), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("make", [MAKERS["SHBPolyak"], MAKERS["SHBArmijo"]])
def test_captured_steps_say_what_to_do(make):
    net, batch = make_net(), make_batches(1)[0]
    opt = make(net.parameters())
    average = Average(opt)
    step = CapturedStep(opt, lambda: loss_of(net, batch))
    with pytest.raises(ValueError, match=r"automatic=False\) has none and is updated by report="):
        step()
    average.detach()
    step()
    assert int(average.count) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"power": -1.0}, "power must be >= 0 and finite, got -1.0"),
        ({"power": torch.inf}, "power must be >= 0 and finite, got inf"),
        ({"automatic": "yes"}, "automatic must be one of False, True, got 'yes'"),
    ],
)
def test_bad_arguments(arguments, message):
    opt = torch.optim.SGD(make_net().parameters(), lr=0.1)
    with pytest.raises(ValueError, match=message):
        Average(opt, **arguments)
    assert not opt._optimizer_step_post_hooks
    with pytest.raises(TypeError, match="optimizer must be one of torch's kind, got Sequential"):
        Average(make_net())


def test_a_step_that_a_scaler_skips_does_not_count():
    net = make_net()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    average, scaler = Average(opt), torch.amp.GradScaler("cpu")
    for k, batch in enumerate(make_batches(3)):
        opt.zero_grad()
        scaler.scale(loss_of(net, batch) * (torch.inf if k == 1 else 1.0)).backward()
        scaler.step(opt)
        scaler.update()
    assert int(average.count) == 2


def test_the_average_leaves_the_noise_behind():
    """Heavy ball on squares around targets that differ by batch: iterates never come to rest."""
    curvature = torch.tensor([1.0, 0.3, 0.1], dtype=FLOAT64)
    targets = torch.randn(3000, 3, dtype=FLOAT64, generator=torch.Generator().manual_seed(0))
    best = targets.mean(dim=0)
    theta = torch.nn.Parameter(torch.full((3,), 4.0, dtype=FLOAT64))
    opt = heavystep.SHB([theta], lr=0.05)
    average, gaps = Average(opt), []
    for target in targets:
        opt.step(lambda: (curvature * (theta - target).square()).sum() / 2)
        gaps.append((curvature * (theta.detach() - best).square()).sum().item())
    with average.in_place():
        gap = (curvature * (theta.detach() - best).square()).sum().item()
    assert gap < 0.1 * sum(gaps[-1000:]) / 1000


def test_no_step_is_counted_twice():
    """An average that follows by itself refuses to be told, until it no longer follows."""
    net = make_net()
    opt = heavystep.SHBPolyak(net.parameters())
    average, batch = Average(opt), make_batches(1)[0]
    opt.step(lambda: loss_of(net, batch))
    with pytest.raises(
        ValueError, match=r"update\(\) would count a step twice: .* automatic=False"
    ):
        average.update()
    assert int(average.count) == 1
    average.detach()
    opt.step(lambda: loss_of(net, batch))
    average.update()
    assert int(average.count) == 2
