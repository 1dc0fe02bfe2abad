"""The trainer is the loop that anybody would write; it stops, goes on and gives up as promised."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from heavystep import StepInfo
from heavystep.lab.cost import usual_step
from heavystep.lab.training.images import PADDING, DeviceImages, colours, epoch_plan
from heavystep.lab.training.networks import NETWORKS, Block
from heavystep.lab.training.run import load_checkpoint, optimizer_of, save_checkpoint
from heavystep.lab.training.trainer import BAD_STEPS, DivergedError, Meter, Trainer
from heavystep.optimizers import searches
from tests.helpers import rounding
from tests.helpers.image_training import (
    BATCH,
    CPU,
    METHODS,
    STEPS,
    SUMMANDS,
    TEST,
    TRAIN,
    Net,
    literal_batch,
    trainer,
)
from tests.helpers.training import DEVICES

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
every_method = pytest.mark.parametrize("name", METHODS)


def numbers(row):
    """Everything but the time."""
    return row[:-1]


def literal_epochs(name, epochs, seed=3):
    """The paper's protocol as a plain loop with the optimizers that users import."""
    torch.manual_seed(seed)
    net = Net()
    opt = optimizer_of(METHODS[name], net, STEPS, CPU)
    scale, rows = colours(TRAIN.images), []
    for epoch in range(1, epochs + 1):
        plan, losses, infos = epoch_plan(len(TRAIN.labels), seed, epoch), [], []
        for k in range(STEPS):
            part = plan[:, k * BATCH : (k + 1) * BATCH]
            x = torch.from_numpy(literal_batch(TRAIN.images, part, scale))
            y = torch.from_numpy(TRAIN.labels[part[0]])
            if searches(opt):
                opt.step(lambda: cross_entropy(net(x), y))
            else:
                opt.zero_grad()
                loss = cross_entropy(net(x), y)
                loss.backward()
                opt.step(loss=loss)
            infos.append(opt.info.numbers())
            losses.append(infos[-1]["loss"])
        net.eval()
        middle = np.array([[i, PADDING, PADDING, 0] for i in range(len(TEST.labels))]).T
        with torch.no_grad():
            logits = net(torch.from_numpy(literal_batch(TEST.images, middle, scale)))
        net.train()
        right = (logits.argmax(dim=1).numpy() == TEST.labels).mean()
        test_loss = float(cross_entropy(logits, torch.from_numpy(TEST.labels)))
        means = [np.mean([info[key] for info in infos]) for key in ("step", "capped", "trials")]
        rows.append((epoch, np.mean(losses), test_loss, right, *means, 0))
    return rows, net


@every_method
def test_is_the_literal_loop(name):
    run = trainer(name)
    found = [run.epoch() for _ in range(3)]  # first, since both draw from torch's streams
    rows, net = literal_epochs(name, 3)
    parameters = torch.cat([value.flatten() for value in net.parameters()])
    apart = rounding.of_a_run(3 * STEPS, SUMMANDS, parameters)
    for row, expected in zip(found, rows, strict=True):
        assert numbers(row) == pytest.approx(expected, rel=apart)
        assert row.seconds > 0.0
    for one, other in zip(
        net.state_dict().values(), run.network.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=apart, atol=apart)


@every_method
@pytest.mark.parametrize("at", [0, 5, 2 * STEPS - 1])
def test_goes_on_as_if_it_had_never_stopped(name, at, tmp_path):
    whole = trainer(name)
    expected = [numbers(whole.epoch()) for _ in range(4)]
    part, left = trainer(name), at

    def stopped():
        nonlocal left
        left -= 1
        return left < 0

    while (row := part.epoch(stopped)) is not None:
        assert numbers(row) == expected[row.epoch - 1]
    save_checkpoint(tmp_path / "run.pt", "{}", part.state_dict())
    torch.manual_seed(99)
    rest = trainer(name, seed=3, network=Net)
    torch.manual_seed(99)  # as another process would have it
    rest.load_state_dict(load_checkpoint(tmp_path / "run.pt", "{}"))
    while len(rest.history) < 4:
        rest.epoch()
    assert [numbers(row) for row in rest.history] == expected
    for one, other in zip(
        whole.network.state_dict().values(), rest.network.state_dict().values(), strict=True
    ):
        assert torch.equal(one, other)


def test_an_evaluation_leaves_no_trace():
    run = trainer("SHB-PS")
    run.epoch()
    before = copy.deepcopy(run.network.state_dict())
    assert run.evaluate() == run.evaluate()
    assert run.network.training
    assert all(map(torch.equal, before.values(), run.network.state_dict().values()))


def break_down(run, first, last):
    """Make the losses of some steps NaN."""
    real = run.loss

    def loss():
        value = real()
        taken = run._done + STEPS * len(run.history)
        return value * torch.nan if first <= taken < last else value

    run.step._step._closure = loss


@pytest.mark.parametrize("name", ["SHB-PS", "SHB-ALS", "SHB 0.01"])
def test_gives_up_after_ten_bad_steps_in_a_row(name):
    run = trainer(name)
    break_down(run, 5, 5 + BAD_STEPS - 1)
    rows = [run.epoch() for _ in range(4)]
    assert [row.refused for row in rows] == [0, 3, 4, 2]
    assert np.isfinite([rows[1].loss, rows[3].loss, rows[3].test_loss]).all()
    run = trainer(name)
    break_down(run, 5, 5 + BAD_STEPS)
    before = [run.epoch() for _ in range(3)]
    parameters = [value.detach().clone() for value in run.network.parameters()]
    with pytest.raises(DivergedError, match=r"not finite for 10 steps in a row, in epoch 4"):
        run.epoch()
    assert len(run.history) == len(before)
    # The last of the ten is followed by a good step, before anybody looks.
    assert all(torch.isfinite(value).all() for value in run.network.parameters())
    assert not all(map(torch.equal, run.network.parameters(), parameters))


@pytest.mark.parametrize("batch_size", [0, 71])
def test_batch_sizes_are_checked(batch_size):
    with pytest.raises(ValueError, match=rf"batch_size must be in 1\.\.70.*got {batch_size}"):
        Trainer(Net(), lambda n, s: None, TRAIN, TEST, batch_size=batch_size, seed=0, device=CPU)


@pytest.mark.gpu
@on_gpu
@every_method
def test_replayed_graphs_are_the_plain_loop_on_a_gpu(name):
    runs = [trainer(name, "cuda", network=lambda: NETWORKS["small"](10)) for _ in range(2)]
    runs[1].step = lambda: (
        runs[1].prepare(),
        usual_step(runs[1].optimizer, runs[1].loss),
        runs[1].report(),
    )
    for epoch in range(3):
        rows = [run.epoch() for run in runs]
        assert rows[0].loss == pytest.approx(rows[1].loss, rel=0.02)
        assert rows[0].step == pytest.approx(rows[1].step, rel=0.05)
        assert rows[0].refused == rows[1].refused == 0, epoch


@pytest.mark.parametrize("name", ["SHB-PS", "SHB-ALS"])
def test_a_compiled_network_trains_and_the_network_itself_is_evaluated(name, monkeypatch):
    used = []

    def compiled(network, **options):
        used.append(options)
        return lambda images: used.append(network.training) or network(images)

    monkeypatch.setattr(torch, "compile", compiled)
    plain, other = (trainer(name, compiled=wanted) for wanted in (False, True))
    assert (plain.compiled, other.compiled) == (False, True)
    torch.manual_seed(5)
    expected = [numbers(plain.epoch()) for _ in range(2)]
    torch.manual_seed(5)
    assert [numbers(other.epoch()) for _ in range(2)] == expected
    assert used[0] == {"dynamic": False}
    assert len(used) - 1 >= 2 * STEPS
    assert all(used[1:])
    assert list(other.network.state_dict()) == list(plain.network.state_dict())


def test_plans_are_permutations_with_every_crop_and_flip():
    plan = epoch_plan(5000, seed=1, epoch=2)
    assert sorted(plan[0]) == list(range(5000))
    assert {*plan[1]} == {*plan[2]} == set(range(2 * PADDING + 1))
    assert {*plan[3]} == {0, 1}
    assert 0.45 < plan[3].mean() < 0.55
    assert np.array_equal(plan, epoch_plan(5000, 1, 2))
    for other in (epoch_plan(5000, *of) for of in ((1, 3), (2, 2), (2, 1))):
        assert all((mine != theirs).any() for mine, theirs in zip(plan, other, strict=True))


@pytest.mark.parametrize("device", DEVICES)
def test_batches_are_crops_of_the_right_images(device):
    scale = colours(TRAIN.images)
    images = DeviceImages(TRAIN.images, TRAIN.labels, scale, BATCH, torch.device(device))
    # A difference and a quotient, of numbers up to the brightest pixel in deviations.
    apart = rounding.of_a_sum(1) * 255.0 / min(scale.deviation)
    plan = epoch_plan(len(TRAIN.labels), 0, 1)
    images.begin(plan)
    assert images.batches == STEPS
    for k in range(STEPS):
        images.load(k)
        images.prepare()
        part = plan[:, k * BATCH : (k + 1) * BATCH]
        expected = literal_batch(TRAIN.images, part, scale)
        np.testing.assert_allclose(images.inputs.cpu(), expected, rtol=0.0, atol=apart)
        assert images.targets.tolist() == TRAIN.labels[part[0]].tolist()


def outcome(loss, accepted, device):
    """Of a step, as the optimizers report it from the device or from the host."""
    step, number = (0.5 if accepted else 0.0), torch.tensor if device else lambda value: value
    return StepInfo(
        number(step), number(step), number(loss), None, 3, number(accepted), number(False)
    )


@pytest.mark.parametrize("device", [True, False])
def test_meter_tells_refused_from_bad(device):
    meter, nan = Meter(CPU), float("nan")
    steps = [(1.0, True), (nan, False), (nan, False), (9.0, False), (nan, False), (5.0, True)]
    streaks = [0, 1, 2, 2, 2, 2]
    for (loss, accepted), longest in zip(steps, streaks, strict=True):
        meter.add(outcome(loss, accepted, device))
        assert meter.longest_streak() == longest
        assert meter.in_a_streak() == np.isnan(loss)
    assert meter.means() == (3.0, 0.5, 0.0, 3.0, 4)
    for _ in range(3):
        meter.add(outcome(2.0, False, device))  # a search that fails has a finite loss
    assert meter.longest_streak() == 2


def test_resnet18_is_the_usual_one_for_small_images():
    net = NETWORKS["resnet18"](10)
    assert sum(p.numel() for p in net.parameters()) == 11_173_962
    assert sum(isinstance(m, nn.Conv2d) for m in net.modules()) == 20
    assert sum(isinstance(m, nn.BatchNorm2d) for m in net.modules()) == 20
    shapes = []
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_hook(lambda m, i, out: shapes.append(tuple(out.shape[1:])))
    assert net(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
    assert shapes[0] == (64, 32, 32)
    assert shapes[-1][1:] == (4, 4)


@pytest.mark.parametrize(("inputs", "stride"), [(6, 1), (4, 1), (6, 2)])
def test_a_block_is_its_formula(inputs, stride):
    torch.manual_seed(1)
    block = Block(inputs, 6, stride).double().eval()
    x = torch.randn(2, inputs, 8, 8, dtype=torch.float64)

    def layer(part, x, stride=1):
        weight = part[0].weight
        y = nn.functional.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)
        return y / (1.0 + 1e-5) ** 0.5  # as BatchNorm begins

    inner = layer(block.first, x, stride).clamp(min=0.0)
    same = inputs == 6 and stride == 1
    outer = layer(block.second, inner) + (x if same else layer(block.shortcut, x, stride))
    torch.testing.assert_close(block(x), outer.clamp(min=0.0), rtol=1e-12, atol=1e-12)
